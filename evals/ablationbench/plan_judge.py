"""Judges of plans: which entries match gold ablations (author), or requests in reviews (reviewer).

An author judge is blind: both sides are shuffled and named A or B at random, seeded by the question, and the order
is stored with the verdict. A reviewer judge first lists the requests in the reviews, then matches entries to them; both
are shown in an order of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from labwright.evals.ablationbench.data import BenchPaper
from labwright.evals.ablationbench.papers import PlannedAblation
from labwright.evals.ablationbench.roles import (
    ABLATION_MATCH,
    MAX_LISTED,
    MAX_REVIEWS,
    REQUEST_MATCH,
    REVIEW_REQUESTS,
    AblationMatchInputs,
    ListedAblation,
    ListedRequest,
    RequestMatchInputs,
    ReviewRequest,
    ReviewRequestsInputs,
)
from labwright.models.client import ModelClient
from labwright.models.roles.judge import ShownPaper
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema import FrozenModel
from labwright.review.judge.paper_reader import quote_is_in, squeeze


class PresentationOrder(FrozenModel):
    """How the sides were shown: ids of gold (`g1`) and of entries (`e1`), in the order of each list."""

    gold_side: str
    gold: tuple[str, ...]
    entries: tuple[str, ...]


class PlanMatch(FrozenModel):
    """A match of a gold ablation or request (`g1`, `r1`) and an entry (`e1`)."""

    gold: str
    entry: str
    why: str = ""
    quotes: tuple[str, ...] = ()
    quoted: bool = Field(default=True, description="whether the quotes were found in the cited text")


class PlanVerdict(FrozenModel):
    """One judge's verdict on a plan. `failed` means that there is no answer, which differs from no match."""

    judge: str
    state: str = "done"
    why: str = ""
    matches: tuple[PlanMatch, ...] = ()
    order: PresentationOrder | None = None
    requests: tuple[ReviewRequest, ...] = Field(default=(), description="of a reviewer judge")
    took: RoleUsage = Field(default_factory=RoleUsage)

    @property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Return positions from 0 of gold or requests, and of entries."""
        return frozenset((int(one.gold[1:]) - 1, int(one.entry[1:]) - 1) for one in self.matches)

    @property
    def matched_entries(self) -> frozenset[int]:
        return frozenset(entry for _, entry in self.pairs)


@dataclass(frozen=True)
class BlindedLists:
    """A question about two lists, and how to decode its answer."""

    inputs: AblationMatchInputs
    order: PresentationOrder


def blind_lists(paper: BenchPaper, entries: Sequence[PlannedAblation], seed: str) -> BlindedLists:
    """Shuffle both sides and give them neutral ids."""
    rng = random.Random(seed)
    gold, plan = list(range(len(paper.gold))), list(range(len(entries)))
    rng.shuffle(gold)
    rng.shuffle(plan)
    side = rng.choice("AB")
    lists = {side: [paper.gold[at] for at in gold], "BA"[side == "B"]: [entries[at] for at in plan]}
    a, b = (
        tuple(to_listed(one, f"{letter.lower()}{number}") for number, one in enumerate(lists[letter], 1))
        for letter in "AB"
    )
    order = PresentationOrder(
        gold_side=side, gold=tuple(f"g{at + 1}" for at in gold), entries=tuple(f"e{at + 1}" for at in plan)
    )
    return BlindedLists(AblationMatchInputs(title=paper.title, abstract=paper.abstract, a=a, b=b), order)


def to_listed(one: PlannedAblation, id: str) -> ListedAblation:
    """Return an entry with its id in one question."""
    return ListedAblation(
        id=id, name=one.name, ablated_part=one.ablated_part or one.name, action=one.action, replacement=one.replacement
    )


async def ask_author_matches(
    client: ModelClient, paper: BenchPaper, entries: Sequence[PlannedAblation], seed: str
) -> tuple[tuple[PlanMatch, ...], PresentationOrder | None]:
    """Return the pairs that a judge finds, and the order in which it saw the sides. Raises `ModelError`."""
    if not entries or not paper.gold:
        return (), None
    blinded = blind_lists(paper, entries[:MAX_LISTED], seed)
    order, inputs = blinded.order, blinded.inputs
    answer = await client.ask(ABLATION_MATCH, inputs)
    words = {one.id: " ".join((one.name, one.ablated_part, *one.replacement)) for one in (*inputs.a, *inputs.b)}
    found = list[PlanMatch]()
    for pair in answer.pairs:
        of_gold, of_plan = (pair.a, pair.b) if order.gold_side == "A" else (pair.b, pair.a)
        quoted = all(_is_quoted(quote, words[id]) for quote, id in ((pair.quote_a, pair.a), (pair.quote_b, pair.b)))
        found.append(
            PlanMatch(
                gold=order.gold[int(of_gold[1:]) - 1],
                entry=order.entries[int(of_plan[1:]) - 1],
                why=pair.why,
                quotes=(pair.quote_a, pair.quote_b),
                quoted=quoted,
            )
        )
    return tuple(sorted(found, key=lambda one: (int(one.gold[1:]), int(one.entry[1:])))), order


def _is_quoted(quote: str, words: str) -> bool:
    """Return whether words of an entry are quoted; they are too short for `quote_is_in`."""
    return bool(squeeze(quote)) and squeeze(quote) in squeeze(words)


async def ask_review_requests(client: ModelClient, paper: BenchPaper, seed: str) -> tuple[ReviewRequest, ...]:
    """Return the requests that a judge finds in the reviews, which it sees in an order of its own. Raises
    `ModelError`."""
    if not paper.reviews:
        return ()
    order = _shuffle(len(paper.reviews[:MAX_REVIEWS]), seed)
    reviews = tuple(paper.reviews[at] for at in order)
    inputs = ReviewRequestsInputs(title=paper.title, abstract=paper.abstract, reviews=reviews)
    answer = await client.ask(REVIEW_REQUESTS, inputs)

    def place(one: ReviewRequest) -> ReviewRequest:
        asked = (each.model_copy(update={"review": order[each.review - 1] + 1}) for each in one.asked)
        return one.model_copy(update={"asked": tuple(asked)})

    return tuple(map(place, answer.requests))


def _shuffle(count: int, seed: str) -> list[int]:
    """Return the positions from 0 in a random order, so that place decides nothing. Source: AblationBench, section
    5.3."""
    return random.Random(seed).sample(range(count), count)


async def ask_reviewer_matches(
    client: ModelClient,
    paper: BenchPaper,
    shown: ShownPaper,
    requests: Sequence[ReviewRequest],
    entries: Sequence[PlannedAblation],
    seed: str,
) -> tuple[PlanMatch, ...]:
    """Return the entries that a judge, which sees them in an order of its own, finds requested, with the requests.
    Raises `ModelError`."""
    if not entries or not requests:
        return ()
    order = _shuffle(len(entries[:MAX_LISTED]), seed)
    quotes = {f"r{number}": one for number, one in enumerate(requests[:MAX_LISTED], 1)}
    answer = await client.ask(
        REQUEST_MATCH,
        RequestMatchInputs(
            title=paper.title,
            abstract=paper.abstract,
            paper=shown,
            requests=tuple(
                ListedRequest(id=id, part=one.part, change=one.change, quotes=tuple(each.quote for each in one.asked))
                for id, one in quotes.items()
            ),
            entries=tuple(to_listed(entries[at], f"e{number}") for number, at in enumerate(order, 1)),
        ),
    )
    return tuple(
        PlanMatch(
            gold=request,
            entry=f"e{order[int(one.entry[1:]) - 1] + 1}",
            why=one.why,
            quotes=tuple(each.quote for each in quotes[request].asked),
            quoted=all(quote_is_in(each.quote, paper.reviews[each.review - 1]) for each in quotes[request].asked),
        )
        for one in sorted(answer.answers, key=lambda one: order[int(one.entry[1:]) - 1])
        for request in one.requests
    )


def requests_to_entries(requests: Sequence[ReviewRequest]) -> tuple[PlannedAblation, ...]:
    """Convert requests to a plan with exactly these entries: the upper bound for a reviewer judge."""
    return tuple(
        PlannedAblation(
            name=one.part,
            ablated_part=one.part,
            action="REPLACE" if one.change else "REMOVE",
            replacement=(one.change,) if one.change else (),
        )
        for one in requests
    )
