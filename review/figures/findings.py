"""The kinds of findings on figures, and which of them refuse a figure.

A refused figure is redrawn; a complaint is shown to the model that reviews the figure and to the author of its next
version. Figures of the search are refused if they are unreadable or misleading; figures of the paper are refused as
well if a reviewer would criticise them.
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
"""Severity of each kind for figures of the search, and of the paper. docs/paper.md shows this table."""


class LintFinding(FrozenModel):
    """A finding. Its text has two sentences: place and fault, then the fix."""

    kind: Kind
    severity: Severity
    where: str
    text: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where} {self.text}. {self.fix}"


@dataclass(frozen=True)
class FigureContext:
    """Facts about a figure's purpose that determine what it must contain."""

    subject: Subject = "node"
    seeds: int = 0
    """Number of runs that it combines; 2 for an unknown number of several runs."""
    metrics: tuple[MetricSpec, ...] = ()
    width_inches: float = 5.5
    """Maximum printed width; a smaller figure keeps its size."""

    def make_finding(self, kind: Kind, where: str, text: str, fix: str) -> LintFinding:
        """Return the finding with its severity in this context."""
        severity = SEVERITIES[kind][self.subject == "paper"]
        return LintFinding(kind=kind, severity=severity, where=where, text=text, fix=fix)

    def print_scale(self, width: float) -> float:
        """Return the scale factor in print for a figure of this width in inches; 1.0 if the width is unknown."""
        return min(1.0, self.width_inches / width) if width > 0 else 1.0


def list_refusals(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Return the findings that refuse the figure, as text."""
    return tuple(str(one) for one in findings if one.severity == "refuse")


def list_remarks(findings: Iterable[LintFinding]) -> tuple[str, ...]:
    """Return the complaints, as text."""
    return tuple(str(one) for one in findings if one.severity == "complain")


_QUANTITY = re.compile(
    r"\b(time|duration|latency|run-?time|elapsed|memory|energy|power (draw|consumption|use)|throughput|"
    r"bandwidth|rotation angle)\b",
    re.IGNORECASE,
)
"""Quantities that need a unit; counts, shares, scores, rates and losses do not."""
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
    """Return whether a string has an underscore outside math mode."""
    return "_" in ("".join(text.split("$")[::2]) if text.count("$") % 2 == 0 else text)


def lacks_unit(label: str, metrics: Iterable[MetricSpec] = ()) -> bool:
    """Return whether a label lacks a unit that the data plan or convention requires."""
    if not label.strip() or _UNIT.search(label):
        return False
    for metric in metrics:
        name = (metric.title or metric.name).replace("_", " ").casefold()
        if metric.unit and name in label.casefold():
            return metric.unit.casefold() not in label.casefold()
    return bool(_QUANTITY.search(label)) and not _NOT_A_QUANTITY.search(label)
