"""What stands behind each number of a paper: found, derivable, ambiguous or unsupported.

A number is looked up among the results whose labels share most words with its place; the chance of a match is counted
among these (see `matching`). One that would be matched as easily by chance is ambiguous, and so is every number of one
digit, found or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from review.foreign.derive import Derived, Operand, best, derived, groups, lines, states_change, statistics
from review.foreign.matching import LIKELY, Values
from review.foreign.passages import Claim
from review.foreign.results import Results, Series, words_of

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
    owner: NDArray[np.intp] = field(init=False)
    offset: NDArray[np.intp] = field(init=False)
    flat: NDArray[np.float64] = field(init=False)
    whole: Values = field(init=False)

    def __post_init__(self) -> None:
        series = self.results.series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.owner = np.array([at for at, one in enumerate(series) for _ in one.values], dtype=np.intp)
        self.offset = np.array([at for one in series for at in range(len(one.values))], dtype=np.intp)
        self.whole = Values.of(self.flat)

    def _series(self, at: int) -> Series:
        return self.results.series[int(self.owner[at])]

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
        measured = [at for at in matched if shared[self.owner[at]] >= max(2, most - 1)
                    and not self._series(at).written]
        at = max(measured or nearest, key=lambda at: int(shared[self.owner[at]]))
        one = self._series(at)
        line = one.places[int(self.offset[at])]
        place = f"{one.file}, {line}" if line else f"{one.file}: {one.key}"
        written = all(self._series(at).written for at in matched)
        kind: Class = "ambiguous" if chance > LIKELY else "found"
        return Verdict(claim, kind, f"{place} ({self.flat[at]:.6g})", chance, float(self.flat[at]), written)


def classify(claims: Sequence[Claim], results: Results) -> tuple[Verdict, ...]:
    """A verdict for each number, in order."""
    index, aggregates = _Index(results), _Index(statistics(results))
    first = [_looked_up(claim, index, aggregates) for claim in claims]
    matched = [one for one in first if one is not None and one.value is not None]
    sure = [Operand(one.claim, one.value or 0.0) for one in matched if one.kind != "ambiguous"]
    unsure = [Operand(one.claim, one.value or 0.0) for one in matched]
    return tuple(_settled(claim, found, sure, unsure) for claim, found in zip(claims, first, strict=True))


def _looked_up(claim: Claim, index: _Index, aggregates: _Index) -> Verdict | None:
    """Found among the results, or else among their means and deviations; ambiguous where either is."""
    found = index.look_up(claim)
    if found is not None and found.kind == "found":
        return found
    aggregate = aggregates.look_up(claim)
    if aggregate is not None and aggregate.kind == "found":
        return replace(aggregate, kind="derivable", written=False)
    return found


def _settled(
        claim: Claim, found: Verdict | None, sure: Sequence[Operand], unsure: Sequence[Operand]) -> Verdict:
    """What was looked up, or else one step from numbers that were; from ambiguous ones it is ambiguous."""
    if found is not None and found.kind != "ambiguous":
        return found
    step = derivation(claim, sure)
    if step is not None and step[1] <= LIKELY:
        return Verdict(claim, "derivable", step[0].formula, step[1])
    if found is not None:
        return found
    step = step or derivation(claim, unsure)
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
