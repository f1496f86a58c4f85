"""What the binder finds: one typed value a violation, which prints as one line that a writer can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from models.roles import Comparison
from record.nouns import Frozen

Kind = Literal["number", "word", "claim", "key", "command", "citation", "figure", "table", "reference", "syntax",
               "value", "compile"]

LITERALS: tuple[str, ...] = (
    "0", "1", "2",
    r"95\% interval", r"95\% intervals", r"95\% confidence interval", r"95\% confidence intervals",
    r"95\% Student t interval", r"95\% CI",
)
"""The only numbers that may be typed. A lone digit counts only inside a formula, as a constant of it (`$1-\\epsilon$`,
an index, an exponent, the interval `[0, 1]`); docs/evidence.md says why each stands here."""


class Violation(Frozen):
    """Something in a paper that is not tied to the record."""

    kind: Kind
    where: str
    """The section, 'title', 'abstract', 'caption of NAME' or a page of the PDF."""
    excerpt: str
    mend: str

    def __str__(self) -> str:
        return f"[{self.kind}] {self.where}: {self.excerpt!r}: {self.mend}"


@dataclass(frozen=True)
class Evidence:
    """All that a draft may lean on. `results` and `setups` map a full key to the TeX text that prints it.

    `names` are titles from the data plan (datasets, arms, levels); one without a letter in it is ignored, since it
    would let any number pass.
    """

    results: Mapping[str, str]
    setups: Mapping[str, str] = field(default_factory=dict[str, str])
    cites: frozenset[str] = frozenset()
    figures: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    literals: tuple[str, ...] = LITERALS
    names: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
