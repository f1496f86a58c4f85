"""Score the headlines of players against the fresh samples, and compare two players."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from pydantic import Field
from scipy.stats import binomtest  # pyrefly: ignore

from labwright.evals.intervals import Proportion, compute_proportion
from labwright.evals.replication.players import PlayedAnswer, PlayerName
from labwright.evals.replication.questions import ComparedMethod, FreshEffect, KnownTruth, Outcome, QuestionKind
from labwright.models.client import ModelClient
from labwright.models.roles.claim_reader import (
    CLAIM_READER,
    ClaimReaderInputs,
    ClaimVocabulary,
    PrintedParagraph,
    PrintedSentence,
    VocabularyName,
)
from labwright.record.schema import FrozenModel
from labwright.record.schema.claims import ReadClaim, ReadSentence
from labwright.record.table import Table


class ScoredAnswer(FrozenModel):
    """One player's headline and what the fresh samples say."""

    answer: PlayedAnswer
    kind: QuestionKind
    headline: Outcome
    effect: FreshEffect

    @property
    def is_claim(self) -> bool:
        return self.headline != "open"

    @property
    def is_false(self) -> bool:
        """Whether the claim does not replicate. Where the fresh samples do not decide, no claim is false."""
        return self.is_claim and self.effect.outcome != "open" and self.headline != self.effect.outcome

    @property
    def is_right(self) -> bool:
        return self.is_claim and self.headline == self.effect.outcome


class PlayerScore(FrozenModel):
    """The counts of one player on questions of one kind, or on all (`kind` is empty)."""

    player: PlayerName
    kind: str = ""
    claims: Proportion = Field(description="questions with a claim")
    replicated: Proportion = Field(description="claims that the fresh samples have")
    false: Proportion = Field(description="questions with a claim that they contradict")
    right: Proportion = Field(description="questions that were rightly decided")
    calls: float = Field(description="mean model calls a question")
    tokens: float = Field(description="mean input and output tokens a question")
    hours: float = Field(description="mean hours a question")


class PlayerComparison(FrozenModel):
    """McNemar's exact test of two players on the same questions. Source: McNemar 1947; the exact form is a sign test of
    the discordant pairs."""

    what: str
    first: PlayerName
    second: PlayerName
    only_first: int
    only_second: int
    p: float


class ReplicationResults(FrozenModel):
    """All answers with their scores."""

    model: str
    answers: tuple[ScoredAnswer, ...]
    scores: tuple[PlayerScore, ...]
    comparisons: tuple[PlayerComparison, ...]


def build_results(model: str, answers: Sequence[ScoredAnswer]) -> ReplicationResults:
    """Score all players, by kind of question and together, and compare each two of them."""
    players: list[PlayerName] = sorted({one.answer.player for one in answers}, reverse=True)
    kinds = ("", *sorted({one.kind for one in answers}))
    marks: dict[str, Callable[[ScoredAnswer], bool]] = {
        "false claims": lambda one: one.is_false,
        "rightly decided": lambda one: one.is_right,
    }
    return ReplicationResults(
        model=model,
        answers=tuple(answers),
        scores=tuple(
            _score(player, kind, found)
            for player in players
            for kind in kinds
            if (found := [one for one in answers if one.answer.player == player and kind in ("", one.kind)])
        ),
        comparisons=tuple(
            _compare(what, first, second, {(one.answer.player, one.answer.question): mark(one) for one in answers})
            for first, second in combinations(players, 2)
            for what, mark in marks.items()
        ),
    )


def _score(player: PlayerName, kind: str, found: Sequence[ScoredAnswer]) -> PlayerScore:
    claims, n = [one for one in found if one.is_claim], len(found)
    usages = [one.answer.usage for one in found]
    return PlayerScore(
        player=player,
        kind=kind,
        claims=compute_proportion(len(claims), n),
        replicated=compute_proportion(sum(one.is_right for one in claims), len(claims)),
        false=compute_proportion(sum(one.is_false for one in found), n),
        right=compute_proportion(sum(one.is_right for one in found), n),
        calls=round(sum(one.calls for one in usages) / n, 1),
        tokens=round(sum(one.tokens for one in usages) / n),
        hours=round(sum(one.answer.seconds for one in found) / n / 3600, 3),
    )


def _compare(
    what: str, first: PlayerName, second: PlayerName, marked: Mapping[tuple[PlayerName, str], bool]
) -> PlayerComparison:
    pairs = [
        (mark, marked[second, name])
        for (player, name), mark in marked.items()
        if player == first and (second, name) in marked
    ]
    only_first, only_second = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    return PlayerComparison(
        what=what,
        first=first,
        second=second,
        only_first=only_first,
        only_second=only_second,
        p=round(compute_sign_test(only_first, only_second), 4),
    )


def compute_sign_test(first: int, second: int) -> float:
    """Return the two-sided p of the exact sign test."""
    found: Any = binomtest(first, first + second) if first + second else None
    return 1.0 if found is None else float(found.pvalue)


def build_tables(results: ReplicationResults) -> tuple[Table, ...]:
    """Return the table of scores, of comparisons, and of all answers."""
    scores = [
        (
            one.player,
            one.kind or "all",
            one.claims,
            one.replicated,
            one.false,
            one.right,
            one.calls,
            one.tokens,
            one.hours,
        )
        for one in results.scores
    ]
    head = ("player", "questions", "claims", "replicated", "false", "right", "calls", "tokens", "hours")
    compared = [
        (one.what, one.first, one.only_first, one.second, one.only_second, one.p) for one in results.comparisons
    ]
    answers = [
        (
            one.answer.question,
            one.kind,
            one.answer.player,
            one.headline,
            one.effect.outcome,
            f"{one.effect.mean:.4g} [{one.effect.low:.4g}, {one.effect.high:.4g}]",
            one.answer.why,
        )
        for one in results.answers
    ]
    return (
        Table.of(head, scores),
        Table.of(("", "first", "only first", "second", "only second", "p (McNemar, exact)"), compared),
        Table.of(("question", "kind", "player", "headline", "fresh samples", "difference", "without answer"), answers),
    )


# The headline of a conclusion, read by the blind claim reader (`models.roles.claim_reader`), which sees no result.

MAX_SENTENCES = 40
"""Maximum number of sentences of a conclusion that are read."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n\s*\n")


async def read_headline(client: ModelClient, text: str, truth: KnownTruth) -> Outcome:
    """Return what a conclusion says about the question; open if it says nothing. Raises `ModelError`."""
    sentences = [" ".join(one.split()) for one in _SENTENCE_END.split(text.strip()) if one.split()][:MAX_SENTENCES]
    if not sentences:
        return "open"
    better = f"{'higher' if truth.higher_is_better else 'lower'} is better"
    inputs = ClaimReaderInputs(
        vocabulary=ClaimVocabulary(
            arms=(("method", _name(truth.subject)), ("baseline", _name(truth.other))),
            datasets=(VocabularyName(name="population", title=truth.dataset),),
            metrics=(VocabularyName(name=truth.metric, title=truth.metric, note=better),),
        ),
        paragraphs=(
            PrintedParagraph(
                where="conclusion",
                sentences=tuple(PrintedSentence(number=at, text=one) for at, one in enumerate(sentences, 1)),
            ),
        ),
    )
    return decide_headline((await client.ask(CLAIM_READER, inputs)).sentences, truth)


def decide_headline(sentences: Sequence[ReadSentence], truth: KnownTruth) -> Outcome:
    """Return what the first sentence that decides says about the two methods; open if none does, or if its claims,
    shown or observed, do not agree with each other and with what was denied up to there.

    What follows is about other numbers: the repository as it was shipped, or another population. Still, a difference
    that a text calls small, and no difference, are no difference. A printed size counts only if nothing else is said,
    since its sign alone is no claim.
    """
    claims = [[one for one in each.claims if one.certainty in ("shown", "observed")] for each in sentences]
    found: list[list[tuple[ReadClaim, Outcome | None]]] = [
        [(one, _decide(one, truth)) for one in each] for each in claims
    ]
    said = [[pair for pair in each if pair[1] is not None and not pair[0].denied] for each in found]
    words = [[pair for pair in each if pair[0].kind != "size"] for each in said]
    deciding = words if any(words) else said
    place = next((at for at, each in enumerate(deciding) if each), None)
    if place is None:
        return "open"
    firm: set[Outcome] = {outcome for _, outcome in deciding[place] if outcome is not None}
    is_small = any(one.amount == "small" for one, _ in deciding[place])
    if is_small and any(outcome == "no difference" for each in deciding[place:] for _, outcome in each):
        return "no difference"
    denied = {outcome for each in found[: place + 1] for one, outcome in each if one.denied}
    return firm.pop() if len(firm) == 1 and not firm & denied else "open"


def _decide(claim: ReadClaim, truth: KnownTruth) -> Outcome | None:
    """Return what a claim, denied or not, is about for subject and other; None if it is about something else."""
    names = (truth.subject.name, truth.other.name)
    pair = (claim.subject.partition("@")[0], claim.other.partition("@")[0])
    if pair not in (names, names[::-1], (names[0], ""), (names[1], "")) or claim.metric not in ("", truth.metric):
        return None
    if claim.kind == "no difference":
        return "no difference"
    if claim.kind not in ("direction", "size") or claim.direction == "none":
        return None
    sign = {"better": 1, "worse": -1, "higher": 1, "lower": -1}[claim.direction]
    sign *= -1 if claim.direction in ("higher", "lower") and not truth.higher_is_better else 1
    sign *= 1 if pair[0] == names[0] else -1
    return "better" if sign > 0 else "worse"


def _name(method: ComparedMethod) -> VocabularyName:
    return VocabularyName(name=method.name, title=method.title, note=method.description)
