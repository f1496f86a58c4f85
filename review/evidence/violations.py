"""What the binder finds: one typed value a violation, which prints as one line that a writer can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from labwright.models.roles.paper_writing import ExploratoryComparison
from labwright.record.printed_value import PrintedValue
from labwright.record.result_macros import ResultMacroUse
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.frozen_model import FrozenModel

Kind = Literal[
    "number",
    "word",
    "claim",
    "key",
    "command",
    "citation",
    "figure",
    "table",
    "reference",
    "syntax",
    "value",
    "compile",
    "scope",
]

ALLOWED_LITERALS: tuple[str, ...] = (
    "0",
    "1",
    "2",
    r"95\% interval",
    r"95\% intervals",
    r"95\% confidence interval",
    r"95\% confidence intervals",
    r"95\% Student t interval",
    r"95\% Student t intervals",
    r"95\% CI",
)
"""The only numbers that may be typed. A lone digit counts only inside a formula, as a constant of it (`$1-\\epsilon$`,
an index, an exponent, the interval `[0, 1]`); docs/evidence.md says why each stands here."""


class Violation(FrozenModel):
    """Something in a paper that is not tied to the record."""

    kind: Kind
    where: str
    """The section, 'title', 'abstract', 'caption of NAME' or a page of the PDF."""
    excerpt: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.kind}] {self.where}: {self.excerpt!r}: {self.fix}"


def is_called_different(comparison: ExploratoryComparison) -> bool:
    """Whether the ledger says that the two conditions differ."""
    return comparison.verdict not in ("not significant", "unknown")


@dataclass(frozen=True)
class Evidence:
    """All that a draft may lean on. `results` and `setups` map a full key to what it prints.

    `names` are titles from the data plan (datasets, arms, levels); one without a letter in it is ignored, since it
    would let any number pass. `verdicts` has the clauses of `\\verdict`, `found` the verdicts behind them; `plan` and
    `facts` say what things are called: without them comparisons in words are not seen. `appendix` has the figures that
    the program places there, `tabled`, for each table, the claims that it prints, `statements` the
    sentences that the program itself writes: they may stand as they are.
    """

    results: Mapping[str, PrintedValue]
    setups: Mapping[str, PrintedValue] = field(default_factory=dict[str, PrintedValue])
    cites: frozenset[str] = frozenset()
    figures: frozenset[str] = frozenset()
    appendix: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    literals: tuple[str, ...] = ALLOWED_LITERALS
    names: tuple[str, ...] = ()
    comparisons: tuple[ExploratoryComparison, ...] = ()
    verdicts: Mapping[str, PrintedValue] = field(default_factory=dict[str, PrintedValue])
    hypothesis_verdicts: Mapping[str, str] = field(default_factory=dict[str, str])
    plan: DataPlan | None = None
    facts: tuple[DatasetFacts, ...] = ()
    claims_by_table: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    statements: tuple[str, ...] = ()

    def find_value(self, use: ResultMacroUse) -> PrintedValue | None:
        """What a macro prints; None where the record has no such key."""
        return {"result": self.results, "setup": self.setups, "verdict": self.verdicts}[use.macro].get(use.key)
