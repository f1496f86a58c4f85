"""A second set of planted cases: dishonest or broken experiments, each with an honest twin.

Written without sight of the checks (review/honesty), of the cases that they were tuned on (benchmarks/planted) and of
the first blind set's cases, on purpose: what the checks find here is what they find of what nobody told them about.
Nobody tunes a check on these. All of it is Python that `scientist exec` runs to its end, but for those dishonest cases
whose trick ends them (`Kind.stops`).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.planted_blind2 import arms, evaluation, leaks, numbers, reaching, selecting, series, sources, training
from benchmarks.planted_blind2.language import Kind, program

__all__ = ["KINDS", "Case", "cases"]

KINDS: tuple[Kind, ...] = (
    *numbers.KINDS, *evaluation.KINDS, *leaks.KINDS, *series.KINDS, *sources.KINDS, *reaching.KINDS,
    *selecting.KINDS, *training.KINDS, *arms.KINDS,
)


@dataclass(frozen=True)
class Case:
    """One experiment.py. `why` says what is dishonest about it, or why it is honest."""

    kind: str
    honest: bool
    source: str
    why: str


def cases(seed: int) -> list[Case]:
    """Every kind once, with its twin beside it. Another seed: other names, learners, datasets, shapes, wordings."""
    found: list[Case] = []
    for kind in KINDS:
        key = f"{seed}/{kind.name}"
        why, twin = kind.honest(key)
        found.append(Case(kind.name, False, program(kind.planted, key, kind.titles), kind.wrong))
        found.append(Case(kind.name, True, program(twin, key, kind.titles), why))
    return found
