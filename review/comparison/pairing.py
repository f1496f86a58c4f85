"""Paired judging: each pair of papers is judged twice, in either order, and a verdict counts where both agree.

A verdict that follows the place and not the paper is a tie, counted as order bias. Not guaranteed: that a judge without
order bias is right, or that one who likes a style likes it in either place any less.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from models.preference import Better, PaperPreference, PreferInputs, ShownPaper
from record.nouns.frozen import Frozen
from review.judge import Paper
from review.judge.sections import fitted

CHARACTERS = 40_000
"""Of each paper that is shown, about 10,000 tokens."""

Outcome = Literal["a", "b", "tie", "order bias"]
Ask = Callable[[PreferInputs], Awaitable[PaperPreference]]


@dataclass(frozen=True)
class Entrant:
    """A paper that enters a comparison, under the name of its run."""

    name: str
    paper: ShownPaper
    removed: int = 0
    """Passages that the judge's guards took out of it."""


class Pair(Frozen):
    """Two papers, judged with `a` first and with `b` first. `outcome` is a win where both orders name one paper."""

    a: str
    b: str
    outcome: Outcome
    a_first: PaperPreference
    b_first: PaperPreference


class Tally(Frozen):
    """What became of all pairs. `followed` counts the verdicts of flipped pairs that took the first, or the second."""

    wins: dict[str, int]
    ties: int
    flipped: int = Field(description="pairs whose verdict turned with the order: order bias")
    followed: Literal["", "first", "second", "both"] = Field(description="the place that flipped verdicts took")


def shown(paper: Paper) -> ShownPaper:
    """What of a paper is shown to a judge of two."""
    cut = fitted(paper.parts, CHARACTERS)
    return ShownPaper(text=cut.text, characters=paper.characters, left_out=cut.left_out)


async def paired(a: Entrant, b: Entrant, ask: Ask) -> Pair:
    """The pair, judged in both orders. Raises what `ask` raises."""
    straight = await ask(PreferInputs(first=a.paper, second=b.paper))
    reverse = await ask(PreferInputs(first=b.paper, second=a.paper))
    return Pair(a=a.name, b=b.name, outcome=outcome(straight.better, reverse.better), a_first=straight, b_first=reverse)


def outcome(a_first: Better, b_first: Better) -> Outcome:
    """What two verdicts come to: a win where both name the same paper, order bias where both name the same place."""
    if a_first == b_first:
        return "tie" if a_first == "neither" else "order bias"
    return {("first", "second"): "a", ("second", "first"): "b"}.get((a_first, b_first), "tie")  # pyright: ignore


def tally(names: Sequence[str], pairs: Sequence[Pair]) -> Tally:
    """Wins by paper, ties, and what the order did."""
    wins = Counter(pair.a if pair.outcome == "a" else pair.b for pair in pairs if pair.outcome in ("a", "b"))
    flipped = [pair.a_first.better for pair in pairs if pair.outcome == "order bias"]
    places = sorted(set(flipped))
    followed = "" if not places else "both" if len(places) > 1 else "first" if places[0] == "first" else "second"
    return Tally(wins={name: wins[name] for name in names}, ties=sum(pair.outcome == "tie" for pair in pairs),
                 flipped=len(flipped), followed=followed)


def pairs_of(entrants: Sequence[Entrant]) -> tuple[tuple[Entrant, Entrant], ...]:
    """Every two entrants once."""
    return tuple(itertools.combinations(entrants, 2))
