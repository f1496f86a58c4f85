"""What the lint can say of a figure, and which of it refuses the figure.

A finding that refuses has the figure drawn again; one that only complains is shown to whoever looks at the figure and
to the author of its next version. A figure of the search is refused for what makes it unreadable or misleading; one of
the paper also for what a reviewer of the paper would hold against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from labwright.record.schema.data_plan import MetricSpec
from labwright.record.schema.frozen_model import FrozenModel

Kind = Literal[
    "axes",
    "empty",
    "blank",
    "label",
    "legend",
    "underscore",
    "clipped",
    "overlap",
    "font",
    "colour",
    "duplicate",
    "grey",
    "unit",
    "interval",
    "covered",
    "constant",
    "scale",
    "origin",
    "crowded",
    "resolution",
    "border",
    "unseen",
]
Severity = Literal["refuse", "complain"]
Subject = Literal["node", "aggregate", "paper"]

_REFUSED_KINDS: tuple[Kind, ...] = ("axes", "empty", "blank", "label", "legend", "underscore", "clipped", "overlap")
_KINDS_REFUSED_IN_PAPERS: tuple[Kind, ...] = ("font", "colour", "duplicate")
SEVERITIES: dict[Kind, tuple[Severity, Severity]] = {
    kind: (
        "refuse" if kind in _REFUSED_KINDS else "complain",
        "refuse" if kind in (*_REFUSED_KINDS, *_KINDS_REFUSED_IN_PAPERS) else "complain",
    )
    for kind in get_args(Kind)
}
"""Kind -> severity for figures of the search, and of the paper. docs/paper.md shows this table."""


class LintFinding(FrozenModel):
    """One finding. As text it is a sentence that names the place, and one that says how to fix it."""

    kind: Kind
    severity: Severity
    where: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where} {self.text}. {self.fix}"


@dataclass(frozen=True)
class FigureContext:
    """What a figure is of, as far as it decides what must be in it."""

    subject: Subject = "node"
    seeds: int = 0
    """Runs that it draws together; 2 where it is of several, and nobody counted."""
    metrics: tuple[MetricSpec, ...] = ()
    width_inches: float = 5.5
    """At which it is printed at most; a smaller figure keeps its size."""

    def make_finding(self, kind: Kind, where: str, text: str, fix: str) -> LintFinding:
        """The finding with the severity that it has here."""
        severity = SEVERITIES[kind][self.subject == "paper"]
        return LintFinding(kind=kind, severity=severity, where=where, text=text, fix=fix)

    def print_scale(self, width: float) -> float:
        """By what a figure of this width (inches) is scaled in print; 1.0 where its width is unknown."""
        return min(1.0, self.width_inches / width) if width > 0 else 1.0


def list_refusals(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Those that refuse the figure, as text."""
    return tuple(str(one) for one in findings if one.severity == "refuse")


def list_remarks(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Those that only complain, as text."""
    return tuple(str(one) for one in findings if one.severity == "complain")


_QUANTITY = re.compile(
    r"\b(time|duration|latency|run-?time|elapsed|memory|energy|power (draw|consumption|use)|throughput|"
    r"bandwidth|rotation angle)\b",
    re.IGNORECASE,
)
"""Quantities that mean nothing without a unit; counts, shares, scores, rates and losses do."""
_NOT_A_QUANTITY = re.compile(
    r"\b(time[- ]?steps?|times|discrete time|relative|normali[sz]ed|ratio|share|fraction|factor|speed-?up|number|"
    r"memory cells?|index|time series|full[- ]time|per cent|percent|over time|memory lengths?|log(arithm)? of)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"[(\[/%$]|,\s*\w{1,6}$|\bin \w+|\b(n|u|µ|μ|m)?s\b|\b(milli|micro|nano)?(seconds?|minutes?|hours?|days?|weeks?)|"
    r"\b(ms|min|h|sec|secs|mins|hrs?|[kmgt]i?b|bytes?|joules?|k?wh?|watts?|degrees?|epochs?|steps?|iterations?|"
    r"updates?|tokens)\b",
    re.IGNORECASE,
)


def has_bare_underscore(text: str) -> bool:
    """True for an underscore outside of mathematics, where it sets an index."""
    return "_" in ("".join(text.split("$")[::2]) if text.count("$") % 2 == 0 else text)


def lacks_unit(label: str, metrics: Iterable[MetricSpec] = ()) -> bool:
    """True for the label of a quantity that has a unit, by the data plan or by custom, where it names none."""
    if not label.strip() or _UNIT.search(label):
        return False
    for metric in metrics:
        name = (metric.title or metric.name).replace("_", " ").casefold()
        if metric.unit and name in label.casefold():
            return metric.unit.casefold() not in label.casefold()
    return bool(_QUANTITY.search(label)) and not _NOT_A_QUANTITY.search(label)
