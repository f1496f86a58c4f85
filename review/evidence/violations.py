"""Violations reported by the paper checks: one line each, with the required change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from labwright.record.result_macros import PrintedValue, ResultMacroUse
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, DatasetFacts
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.review.evidence import numbers

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
]

ALLOWED_LITERALS: tuple[str, ...] = (
    *"012",
    *(rf"95\% {kind}{s}" for kind in ("interval", "confidence interval", "Student t interval") for s in ("", "s")),
    r"95\% CI",
)
r"""The only numbers that may be typed.

A single digit is allowed only as a constant in a formula (`$1-\epsilon$`, an index, an exponent, the interval `[0,
1]`). docs/evidence.md gives the reason for each.
"""


class Violation(FrozenModel):
    """Something in a paper that is not bound to the record."""

    kind: Kind
    where: str
    """The section, 'title', 'abstract', 'caption of NAME' or a page of the PDF."""
    excerpt: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.kind}] {self.where}: {self.excerpt!r}: {self.fix}"


@dataclass(frozen=True)
class Evidence:
    r"""The evidence for a draft. `results` and `setups` map a full key to its printed value.

    `names` are titles from the data plan (datasets, arms, levels); names without a letter are ignored because they
    would allow any number. `prints` has what the style of a PDF prints, with # for any number. `plan`, `texts` (of
    ablations that the plan lacks), `facts`, `replicates` (of comparisons) and `question` (the title of the idea) say
    what may be counted in words. `claims_by_table` has the claims that each table prints, `statements` the generated
    sentences and `captions` the generated captions, by figure, which are always allowed.
    """

    results: Mapping[str, PrintedValue]
    setups: Mapping[str, PrintedValue] = field(default_factory=dict[str, PrintedValue])
    cites: frozenset[str] = frozenset()
    figures: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    literals: tuple[str, ...] = ALLOWED_LITERALS
    names: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    replicates: frozenset[int] = frozenset()
    plan: DataPlan | None = None
    texts: tuple[str, ...] = ()
    question: str = ""
    facts: tuple[DatasetFacts, ...] = ()
    claims_by_table: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    statements: tuple[str, ...] = ()
    captions: Mapping[str, str] = field(default_factory=dict[str, str])
    earlier: tuple[EarlierStudy, ...] = ()
    """The records of earlier runs that prompts showed: none of their values may be printed."""

    @cached_property
    def design(self) -> str:
        """The texts that say how the study was designed."""
        return "\n".join((self.plan.model_dump_json() if self.plan is not None else "", *self.texts))

    def mask_typed(self, text: str) -> str:
        """Return the text with everything blanked that may be typed: literals, names, levels as printed, and
        percentages of the design."""
        plan = self.plan
        if plan is not None and plan.levels:
            titles = [one.title or one.name for one in plan.all_levels]
            values = [f"{one.value:g}" for one in plan.all_levels if one.value is not None]
            text = numbers.mask_levels(text, titles, values, plan.factor, self.design)
        if plan is not None:  # what a hypothesis expects is no setting
            settings = plan.model_copy(update={"hypotheses": ()}).model_dump_json()
            text = numbers.mask_percentages(text, "\n".join((settings, *self.texts)), refused=self._is_earlier_value)
        printed = map(numbers.compile_printed, self.prints)
        return numbers.mask_matches(text, [*printed, *numbers.compile_phrases(self.literals, self.names)])

    def _is_earlier_value(self, percentage: str, noun: str) -> bool:
        """Return whether a percentage is the value of an earlier run rather than a choice of the design: one with
        decimals, or of a metric."""
        digits = len(percentage.partition(".")[2])
        return any(
            (digits or noun in re.findall(r"\w+", " ".join(study.metrics).replace("_", " ").casefold()))
            and any(round(100 * abs(value), digits) == float(percentage) for value in study.values)
            for study in self.earlier
        )

    def find_value(self, use: ResultMacroUse) -> PrintedValue | None:
        """Return the value that a macro prints; None if the record has no such key."""
        return {"result": self.results, "setup": self.setups}.get(use.macro, {}).get(use.key)
