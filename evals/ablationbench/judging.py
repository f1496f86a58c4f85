"""Judges of plans: which entries match gold ablations (author), or what reviews ask for (reviewer).

An author judge is blind: both sides are shuffled and called A or B by chance, by a seed of the question's own, and the
order stands with the verdict. A reviewer judge first lists what reviews ask for, then matches entries to it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from labwright.evals.ablationbench.data import BenchPaper
from labwright.evals.ablationbench.entries import Entry
from labwright.models.client import ModelClient
from labwright.models.roles.ablations import (
    ABLATION_MATCH,
    MOST_LISTED,
    MOST_REVIEWS,
    REQUEST_MATCH,
    REVIEW_REQUESTS,
    AblationMatchInputs,
    ListedAblation,
    ListedRequest,
    RequestMatchInputs,
    ReviewRequest,
    ReviewRequestsInputs,
)
from labwright.models.roles.judge import ShownPaper
from labwright.record.nouns.frozen import Frozen
from labwright.review.judge.quotes import squeezed, stands_in


class Order(Frozen):
    """How the sides were shown: ids of gold (`g1`) and of entries (`e1`), in the order of each list."""

    gold_side: str
    gold: tuple[str, ...]
    entries: tuple[str, ...]


class Match(Frozen):
    """A pair of a gold ablation or a request (`g1`, `r1`) and an entry (`e1`)."""

    gold: str
    entry: str
    why: str = ""
    quotes: tuple[str, ...] = ()
    quoted: bool = Field(default=True, description="whether the quotes stand where they are said to")


class Verdict(Frozen):
    """What one judge says of one plan. `failed`: there is no answer, which is not the same as no match."""

    judge: str
    state: str = "done"
    why: str = ""
    matches: tuple[Match, ...] = ()
    order: Order | None = None
    requests: tuple[ReviewRequest, ...] = Field(default=(), description="of a reviewer judge")
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0

    @property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Positions from 0 of gold or requests, and of entries."""
        return frozenset((int(one.gold[1:]) - 1, int(one.entry[1:]) - 1) for one in self.matches)

    @property
    def matched(self) -> frozenset[int]:
        return frozenset(entry for _, entry in self.pairs)


@dataclass(frozen=True)
class Blind:
    """A question about two lists, and how to read its answer."""

    inputs: AblationMatchInputs
    order: Order


def blind(paper: BenchPaper, entries: Sequence[Entry], seed: str) -> Blind:
    """Both sides shuffled, under ids that do not tell them apart."""
    rng = random.Random(seed)
    gold, plan = list(range(len(paper.gold))), list(range(len(entries)))
    rng.shuffle(gold)
    rng.shuffle(plan)
    side = rng.choice("AB")
    lists = {side: [paper.gold[at] for at in gold], "BA"[side == "B"]: [entries[at] for at in plan]}
    a, b = (
        tuple(_listed(one, f"{letter.lower()}{number}") for number, one in enumerate(lists[letter], 1))
        for letter in "AB"
    )
    order = Order(gold_side=side, gold=tuple(f"g{at + 1}" for at in gold), entries=tuple(f"e{at + 1}" for at in plan))
    return Blind(AblationMatchInputs(title=paper.title, abstract=paper.abstract, a=a, b=b), order)


def _listed(one: Entry, id: str) -> ListedAblation:
    return ListedAblation(
        id=id, name=one.name, ablated_part=one.ablated_part or one.name, action=one.action, replacement=one.replacement
    )


async def author_matches(
    client: ModelClient, paper: BenchPaper, entries: Sequence[Entry], seed: str
) -> tuple[tuple[Match, ...], Order | None]:
    """The pairs that a judge finds, and the order in which it saw the sides. Raises `ModelError`."""
    if not entries or not paper.gold:
        return (), None
    asked = blind(paper, entries[:MOST_LISTED], seed)
    order, inputs = asked.order, asked.inputs
    answer = await client.ask(ABLATION_MATCH, inputs)
    words = {one.id: " ".join((one.name, one.ablated_part, *one.replacement)) for one in (*inputs.a, *inputs.b)}
    found = list[Match]()
    for pair in answer.pairs:
        of_gold, of_plan = (pair.a, pair.b) if order.gold_side == "A" else (pair.b, pair.a)
        quoted = all(_within(quote, words[id]) for quote, id in ((pair.quote_a, pair.a), (pair.quote_b, pair.b)))
        found.append(
            Match(
                gold=order.gold[int(of_gold[1:]) - 1],
                entry=order.entries[int(of_plan[1:]) - 1],
                why=pair.why,
                quotes=(pair.quote_a, pair.quote_b),
                quoted=quoted,
            )
        )
    return tuple(sorted(found, key=lambda one: (int(one.gold[1:]), int(one.entry[1:])))), order


def _within(quote: str, words: str) -> bool:
    """Whether some words of an entry are quoted; these are too short for `stands_in`."""
    return bool(squeezed(quote)) and squeezed(quote) in squeezed(words)


async def review_requests(client: ModelClient, paper: BenchPaper) -> tuple[ReviewRequest, ...]:
    """What the reviews ask for, as a judge reads them. Raises `ModelError`."""
    if not paper.reviews:
        return ()
    answer = await client.ask(
        REVIEW_REQUESTS,
        ReviewRequestsInputs(title=paper.title, abstract=paper.abstract, reviews=paper.reviews[:MOST_REVIEWS]),
    )
    return answer.requests


async def reviewer_matches(
    client: ModelClient,
    paper: BenchPaper,
    shown: ShownPaper,
    requests: Sequence[ReviewRequest],
    entries: Sequence[Entry],
) -> tuple[Match, ...]:
    """The entries that a judge finds asked for, with the requests. Raises `ModelError`."""
    if not entries or not requests:
        return ()
    quotes = {f"r{number}": one for number, one in enumerate(requests[:MOST_LISTED], 1)}
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
            entries=tuple(_listed(one, f"e{number}") for number, one in enumerate(entries[:MOST_LISTED], 1)),
        ),
    )
    return tuple(
        Match(
            gold=request,
            entry=one.entry,
            why=one.why,
            quotes=tuple(each.quote for each in quotes[request].asked),
            quoted=all(stands_in(each.quote, paper.reviews[each.review - 1]) for each in quotes[request].asked),
        )
        for one in sorted(answer.answers, key=lambda one: int(one.entry[1:]))
        for request in one.requests
    )


def as_entries(requests: Sequence[ReviewRequest]) -> tuple[Entry, ...]:
    """Requests as a plan that asks for just them: the ceiling of a reviewer judge."""
    return tuple(
        Entry(
            name=one.part,
            ablated_part=one.part,
            action="REPLACE" if one.change else "REMOVE",
            replacement=(one.change,) if one.change else (),
        )
        for one in requests
    )
