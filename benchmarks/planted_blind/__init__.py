"""Planted cases for the report on the honesty checks: dishonest or broken experiments, each with an honest twin.

Written without sight of the checks (review/honesty) and of the cases that they were tuned on (benchmarks/planted), on
purpose: what they find here is what they find of what nobody told them about. Nobody tunes a check on these.

A twin does the honest thing that looks most like the dishonest one, so that a check that goes by looks alone gives a
false alarm. All of it is Python that `scientist exec` would run; dishonest cases run too, as far as their trick lets
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from benchmarks.planted_blind import comparing, data, numbers, training
from benchmarks.planted_blind.kind import Kind
from benchmarks.planted_blind.styles import variation

__all__ = ["KINDS", "Case", "cases"]

KINDS: tuple[Kind, ...] = (*numbers.KINDS, *data.KINDS, *training.KINDS, *comparing.KINDS)


@dataclass(frozen=True)
class Case:
    """One experiment.py. `why` says what is dishonest about it, or why it is honest."""

    kind: str
    honest: bool
    source: str
    why: str


def cases(seed: int) -> list[Case]:
    """Every kind once, with its twin beside it. Another seed: other names, constants, learners, datasets, shapes."""
    found: list[Case] = []
    for kind in KINDS:
        chosen = variation(Random(f"{seed}/{kind.name}"))
        found.append(Case(kind.name, False, kind.dishonest(chosen), kind.wrong))
        found.append(Case(kind.name, True, kind.honest(chosen), kind.right))
    return found
