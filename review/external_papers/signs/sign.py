"""A sign that results were not measured as claimed: its place, quote and weight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal

Kind = Literal[
    "typed score",
    "published score",
    "drawn score",
    "formula for a curve",
    "noise on a score",
    "bonus for one method",
    "result of an error",
    "constant evaluation",
    "term without weight",
    "predictions from labels",
    "words",
    "elided log",
    "typed log",
    "round stamps",
    "time",
    "no log",
    "failed",
    "line of no program",
    "copied results",
    "small test set",
    "impossible value",
    "impossible scores",
    "constant ratio",
    "direction",
    "seeds",
    "dataset",
    "sweep",
    "people",
    "numbers of the table",
    "numbers of the text",
    "other rows",
    "other value",
    "best of the seeds",
    "significance",
    "folds",
    "hardware",
    "inconsistency",
]

FINDING = 0.5
"""Minimum weight of a sign that is a finding; signs below it are notes."""
CONCLUSIVE, CIRCUMSTANTIAL, NOTE = 0.85, 0.3, 0.1
"""Weights of signs without an honest explanation, of signs with several explanations, and of signs with little
meaning.
"""


@dataclass(frozen=True)
class Sign:
    """A sign. `where` is a file and line, `quote` its text; `weight` is between 0 and 1."""

    kind: Kind
    what: str
    where: str
    quote: str
    weight: float
    of: str = ""
    """The value that it concerns, if any."""

    @property
    def is_finding(self) -> bool:
        return self.weight >= FINDING

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f": {self.quote!r}" if self.quote else "")


def score(signs: Iterable[Sign]) -> float:
    """Return the strength of the evidence for fabrication, 0 to 1, from the strongest sign of each kind."""
    heaviest: dict[str, float] = {}
    for one in signs:
        kind = one.kind if one.weight >= CIRCUMSTANTIAL else "note"
        heaviest[kind] = max(one.weight, heaviest.get(kind, 0.0))
    return 1 - prod(1 - weight for weight in heaviest.values())
