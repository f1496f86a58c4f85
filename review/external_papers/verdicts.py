"""Compare the numbers of a paper with its result files: found, derivable, ambiguous or unsupported.

A number is looked up among the results whose labels share most words with its context, and the probability of a chance
match is counted among these (see `number_matching`). A number that would probably match by chance is ambiguous, as is
every one-digit number, found or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from labwright.review.external_papers.number_matching import (
    MAX_MATCH_CHANCE,
    Operand,
    compute_match_chance,
    compute_statistics,
    find_derivation,
    find_matches,
    pool_series,
)
from labwright.review.external_papers.passages import ClaimedNumber
from labwright.review.external_papers.result_files import ValueSeries, label_words

VerdictClass = Literal["found", "derivable", "ambiguous", "unsupported"]
CLASSES: tuple[VerdictClass, ...] = ("found", "derivable", "ambiguous", "unsupported")


@dataclass(frozen=True)
class ValueLocation:
    """Location of a value: a result file, the line or key in it, and the name there."""

    file: str
    line: str
    key: str = ""


@dataclass(frozen=True)
class NumberVerdict:
    """Evidence that supports a number.

    `written`: it was found only in a prose report; `places`: its possible origins.
    """

    claim: ClaimedNumber
    kind: VerdictClass
    evidence: str = ""
    chance: float = 0.0
    value: float | None = None
    from_prose: bool = False
    locations: tuple[ValueLocation, ...] = ()


class _ValueIndex:
    """The values of all series in one array, and the series of each."""

    def __init__(self, series: Sequence[ValueSeries]) -> None:
        self.series = series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.sizes = [len(one.values) for one in series]
        self.owner = [one for one in series for _ in one.values]
        self.offset = [at for one in series for at in range(len(one.values))]

    def look_up(self, claim: ClaimedNumber) -> NumberVerdict | None:
        """Return the most likely origin of the number, and the probability that a random number would have one
        there.
        """
        matched = find_matches(self.flat, claim.number)
        if not matched:
            return None
        words = label_words(claim.context)
        shared = np.repeat([len(words & one.words) for one in self.series], self.sizes)
        most = max(int(shared[at]) for at in matched)
        chance = compute_match_chance(self.flat[shared >= most] if most >= 2 else self.flat, claim.number)
        unwritten = [at for at in matched if not self.owner[at].from_prose]
        measured = [at for at in unwritten if shared[at] >= max(2, most - 1)]
        at = max(measured or matched, key=lambda at: int(shared[at]))
        one, value = self.owner[at], float(self.flat[at])
        line = one.places[self.offset[at]]
        place = f"{one.file}, {line}" if line else f"{one.file}: {one.key}"
        near = [one for one in matched if shared[one] >= min(2, most)]
        places = dict.fromkeys(
            ValueLocation(self.owner[one].file, self.owner[one].places[self.offset[one]], self.owner[one].key)
            for one in near[:200]
        )
        return NumberVerdict(
            claim,
            "ambiguous" if chance > MAX_MATCH_CHANCE else "found",
            f"{place} ({value:.6g})",
            chance,
            value,
            from_prose=not unwritten,
            locations=tuple(places),
        )


def classify_claims(claims: Sequence[ClaimedNumber], series: Sequence[ValueSeries]) -> tuple[NumberVerdict, ...]:
    """Return a verdict for each number, in order."""
    index = _ValueIndex(series)
    aggregates = _ValueIndex(list(compute_statistics([*series, *pool_series(series)])))
    first = [_look_up(claim, index, aggregates) for claim in claims]
    matched = [one for one in first if one is not None and one.value is not None]
    sure = [Operand(one.claim, one.value or 0.0) for one in matched if one.kind != "ambiguous"]
    unsure = [Operand(one.claim, one.value or 0.0) for one in matched]
    return tuple(_settle(claim, found, sure, unsure) for claim, found in zip(claims, first, strict=True))


def _look_up(claim: ClaimedNumber, index: _ValueIndex, aggregates: _ValueIndex) -> NumberVerdict | None:
    """Look up a number among the results, then among their means and deviations; ambiguous if either match is."""
    found = index.look_up(claim)
    if found is None or found.kind != "found":
        aggregate = aggregates.look_up(claim)
        if aggregate is not None and aggregate.kind == "found":
            return replace(aggregate, kind="derivable", from_prose=False)
        return found or aggregate
    return found


def _settle(
    claim: ClaimedNumber, found: NumberVerdict | None, sure: Sequence[Operand], unsure: Sequence[Operand]
) -> NumberVerdict:
    """Return the lookup result, otherwise a derivation in one step; ambiguous if an operand is."""
    if found is not None and found.kind != "ambiguous":
        return found
    step = find_derivation(claim, sure)
    if step is not None and step.chance <= MAX_MATCH_CHANCE:
        return NumberVerdict(claim, "derivable", step.formula, step.chance)
    if found is not None:
        return found
    step = step or find_derivation(claim, unsure)
    if step is not None:
        return NumberVerdict(claim, "ambiguous", step.formula, step.chance)
    if claim.number.digits == 1:
        return NumberVerdict(claim, "ambiguous", "one digit", 1 / 9)
    return NumberVerdict(claim, "unsupported")
