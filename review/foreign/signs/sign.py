"""A sign that results were not measured as a paper says: where it stands, its words, how much it weighs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
    "model",
    "sweep",
    "people",
    "numbers of the table",
    "script that made results",
    "other rows",
    "other value",
    "best of the seeds",
    "not in the log",
    "significance",
    "folds",
    "hardware",
]

FINDING = 0.5
"""The weight from which a sign speaks against a paper; below it is a note."""
CONCLUSIVE, CIRCUMSTANTIAL, NOTE = .85, .3, .1


@dataclass(frozen=True)
class Sign:
    """One sign. `where` is a file with its line, `quote` stands there; `weight` is between 0 and 1."""

    kind: Kind
    what: str
    where: str
    quote: str
    weight: float

    @property
    def is_finding(self) -> bool:
        return self.weight >= FINDING

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f": {self.quote!r}" if self.quote else "")


def score(signs: Iterable[Sign]) -> float:
    """How much speaks for invention, 0 to 1: what is left by no sign. Of one kind the heaviest "
    "counts, others a tenth."""
    heaviest: dict[str, float] = {}
    rest = 1.0
    for one in sorted(signs, key=lambda sign: -sign.weight):
        rest *= 1 - (one.weight if one.kind not in heaviest else one.weight / 10)
        heaviest.setdefault(one.kind, one.weight)
    return 1 - rest
