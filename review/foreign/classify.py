"""What stands behind each number of a paper: found, derivable, ambiguous or unsupported.

A number is looked up among the results whose labels share most words with its place; the chance of a match is counted
among these (see `matching`). One that would be matched as easily by chance is ambiguous, and so is every number of one
digit, found or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from review.foreign.derive import Derived, Operand, best, derived, groups, lines, states_change, statistics
from review.foreign.matching import LIKELY, Values
from review.foreign.passages import Claim
from review.foreign.results import Results, words_of

Class = Literal["found", "derivable", "ambiguous", "unsupported"]
CLASSES: tuple[Class, ...] = ("found", "derivable", "ambiguous", "unsupported")


@dataclass(frozen=True)
class Verdict:
    """What stands behind a number. `written`: it was found in a report in prose only."""

    claim: Claim
    kind: Class
    evidence: str = ""
    chance: float = 0.0
    value: float | None = None
    written: bool = False


@dataclass
class _Index:
    """The values of all series in one row, and which series each belongs to."""

    results: Results
    owner: np.ndarray = field(init=False)
    offset: np.ndarray = field(init=False)
    flat: np.ndarray = field(init=False)
    whole: Values = field(init=False)

    def __post_init__(self) -> None:
        series = self.results.series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.owner = np.array([at for at, one in enumerate(series) for _ in one.values], dtype=np.intp)
        self.offset = np.array([at for one in series for at in range(len(one.values))], dtype=np.intp)
        self.whole = Values.of(self.flat)

    def look_up(self, claim: Claim) -> Verdict | None:
        """The place that the number is most likely from, and the chance that any number would have one there."""
        matched = self.whole.matches(claim.number)
        if not matched:
            return None
        words = words_of(claim.context)
        shared = np.array([len(words & one.words) for one in self.results.series])
        most = max(int(shared[self.owner[at]]) for at in matched)
        nearest = [at for at in matched if shared[self.owner[at]] == most]
        values = Values.of(self.flat[shared[self.owner] >= most]) if most >= 2 else self.whole
        chance = values.chance(claim.number)
        measured = [at for at in nearest if not self.results.series[self.owner[at]].written]
        at = (measured or nearest)[0]
        one = self.results.series[self.owner[at]]
        place = f"{one.file}, {one.places[self.offset[at]]}" if one.places[self.offset[at]] else f"{one.file}: {one.key}"
        written = all(self.results.series[self.owner[at]].written for at in matched)
        kind = "ambiguous" if chance > LIKELY else "found"
        return Verdict(claim, kind, f"{place} ({self.flat[at]:.6g})", chance, float(self.flat[at]), written)


def classify(claims: Sequence[Claim], results: Results) -> tuple[Verdict, ...]:
    """A verdict for each number, in order."""
    index, aggregates = _Index(results), _Index(statistics(results))
    first = [index.look_up(claim) for claim in claims]
    operands = [Operand(one.claim, one.value) for one in first if one is not None and one.value is not None]
    return tuple(_settled(claim, found, aggregates, operands) for claim, found in zip(claims, first, strict=True))


def _settled(claim: Claim, found: Verdict | None, aggregates: _Index, operands: Sequence[Operand]) -> Verdict:
    if found is not None and found.kind == "found":
        return found
    aggregate = aggregates.look_up(claim) if aggregates.results.series else None
    if aggregate is not None and aggregate.kind == "found":
        return Verdict(claim, "derivable", aggregate.evidence, aggregate.chance)
    step = derivation(claim, operands)
    if step is not None and step[1] <= LIKELY:
        return Verdict(claim, "derivable", step[0].formula, step[1])
    if found is not None:
        return found
    if step is not None:
        return Verdict(claim, "ambiguous", step[0].formula, step[1])
    if claim.number.digits == 1:
        return Verdict(claim, "ambiguous", "one digit", 1 / 9)
    return Verdict(claim, "unsupported")


def derivation(claim: Claim, operands: Sequence[Operand]) -> tuple[Derived, float] | None:
    """The nearest operands that give the number in one step, with the chance of that; or None."""
    for group in groups(claim, operands):
        step, chance = best(claim.number, list(derived(claim.number, group, change=states_change(claim))))
        if step is not None:
            return step, chance
    every = [one for line in lines(claim, operands) for one in derived(claim.number, line)]
    step, chance = best(claim.number, every)
    return (step, chance) if step is not None else None
