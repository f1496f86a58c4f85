"""Numbers of a paper against its result files: each is found, derivable, ambiguous or unsupported.

A number is looked up among the results whose labels share most words with its place, and the chance of a match is
counted among these (see `matching`). One that would be matched as easily by chance is ambiguous, and so is every number
of one digit, found or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from labwright.review.foreign.matching import LIKELY, Operand, chance_of, matches, nearest_step, statistics
from labwright.review.foreign.passages import Claim
from labwright.review.foreign.results import Series, words_of

Class = Literal["found", "derivable", "ambiguous", "unsupported"]
CLASSES: tuple[Class, ...] = ("found", "derivable", "ambiguous", "unsupported")


@dataclass(frozen=True)
class Place:
    """Where a value stands: a result file, its line or key, and what it is called there."""

    file: str
    line: str
    key: str = ""


@dataclass(frozen=True)
class Verdict:
    """What stands behind a number. `written`: it was found in a report in prose only; `places`: "
    "where it may be from."""

    claim: Claim
    kind: Class
    evidence: str = ""
    chance: float = 0.0
    value: float | None = None
    written: bool = False
    places: tuple[Place, ...] = ()


class _Index:
    """The values of all series in one row, and which series each belongs to."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.series = series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.sizes = [len(one.values) for one in series]
        self.owner = [one for one in series for _ in one.values]
        self.offset = [at for one in series for at in range(len(one.values))]

    def look_up(self, claim: Claim) -> Verdict | None:
        """The place that the number is most likely from, and the chance that any number would have one there."""
        matched = matches(self.flat, claim.number)
        if not matched:
            return None
        words = words_of(claim.context)
        shared = np.repeat([len(words & one.words) for one in self.series], self.sizes)
        most = max(int(shared[at]) for at in matched)
        chance = chance_of(self.flat[shared >= most] if most >= 2 else self.flat, claim.number)
        unwritten = [at for at in matched if not self.owner[at].written]
        measured = [at for at in unwritten if shared[at] >= max(2, most - 1)]
        at = max(measured or matched, key=lambda at: int(shared[at]))
        one, value = self.owner[at], float(self.flat[at])
        line = one.places[self.offset[at]]
        place = f"{one.file}, {line}" if line else f"{one.file}: {one.key}"
        near = [one for one in matched if shared[one] >= min(2, most)]
        places = dict.fromkeys(
            Place(self.owner[one].file, self.owner[one].places[self.offset[one]], self.owner[one].key)
            for one in near[:200]
        )
        return Verdict(
            claim,
            "ambiguous" if chance > LIKELY else "found",
            f"{place} ({value:.6g})",
            chance,
            value,
            written=not unwritten,
            places=tuple(places),
        )


def classify(claims: Sequence[Claim], series: Sequence[Series], groups: Sequence[Series] = ()) -> tuple[Verdict, ...]:
    """A verdict for each number, in order; `groups` are series of parts of others (see `groups`)."""
    index, aggregates = _Index(series), _Index(list(statistics([*series, *groups])))
    first = [_looked_up(claim, index, aggregates) for claim in claims]
    matched = [one for one in first if one is not None and one.value is not None]
    sure = [Operand(one.claim, one.value or 0.0) for one in matched if one.kind != "ambiguous"]
    unsure = [Operand(one.claim, one.value or 0.0) for one in matched]
    return tuple(_settled(claim, found, sure, unsure) for claim, found in zip(claims, first, strict=True))


def _looked_up(claim: Claim, index: _Index, aggregates: _Index) -> Verdict | None:
    """Found among the results, or else among their means and deviations; ambiguous where either is."""
    found = index.look_up(claim)
    if found is None or found.kind != "found":
        aggregate = aggregates.look_up(claim)
        if aggregate is not None and aggregate.kind == "found":
            return replace(aggregate, kind="derivable", written=False)
        return found or aggregate
    return found


def _settled(claim: Claim, found: Verdict | None, sure: Sequence[Operand], unsure: Sequence[Operand]) -> Verdict:
    """What was looked up, or else one step from numbers that were; from ambiguous ones it is ambiguous."""
    if found is not None and found.kind != "ambiguous":
        return found
    step = nearest_step(claim, sure)
    if step is not None and step.chance <= LIKELY:
        return Verdict(claim, "derivable", step.formula, step.chance)
    if found is not None:
        return found
    step = step or nearest_step(claim, unsure)
    if step is not None:
        return Verdict(claim, "ambiguous", step.formula, step.chance)
    if claim.number.digits == 1:
        return Verdict(claim, "ambiguous", "one digit", 1 / 9)
    return Verdict(claim, "unsupported")
