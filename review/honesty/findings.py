"""Findings on a program: from its syntax, and from reported scores for which it does not have the labels.

A finding is `suspect` if an honest program has no reason to do this; otherwise it is a note or a sign
(`review.honesty.verdict`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.nodes import HonestyFinding
from labwright.record.source_tree import ENTRY_FILE
from labwright.review.honesty.figure_data_check import find_typed_figures
from labwright.review.honesty.static_checks import SourceLines, check_form
from labwright.review.honesty.static_checks.source_lines import parse_sources
from labwright.review.honesty.verdict import apply_corroboration
from labwright.review.honesty.withheld_labels import find_impossible_scores, list_withheld_metrics


def check_program(
    sources: Mapping[str, str],
    plan: DataPlan | None = None,
    *,
    facts: Iterable[DatasetFacts] | None = None,
    plots: Collection[str] = ("plots.py",),
    measurements: Sequence[Measurement] = (),
    extra_findings: Iterable[HonestyFinding] = (),
) -> tuple[HonestyFinding, ...]:
    """Return the findings on sources by path, one per kind and line; files that do not parse have none.

    `plots` names the sources that only draw. `facts` say which datasets have withheld labels, and of which kind;
    without facts, all datasets of the plan are assumed to have them. `measurements`, recorded by a run of the sources,
    are checked for scores of withheld rows. `extra_findings` come from that run, and are combined with the others.
    """
    code = {path: text for path, text in sources.items() if path.endswith(".py") and path not in plots}
    found = [*_check_code(code, plan)]
    for name in plots:
        with suppress(*_PARSE_ERRORS):
            found += [one.model_copy(update={"file": name}) for one in list(find_typed_figures(sources.get(name, "")))]
    findings = {(one.file, one.kind, one.line): one for one in reversed(found)}
    return apply_corroboration(
        (
            *reversed(findings.values()),
            *find_impossible_scores(measurements, list_withheld_metrics(plan, facts)),
            *extra_findings,
        )
    )


_PARSE_ERRORS = (SyntaxError, RecursionError)
"""Exceptions that mean that the file cannot be analysed."""


def _check_code(code: Mapping[str, str], plan: DataPlan | None) -> list[HonestyFinding]:
    trees = parse_sources(code)
    entry = next((path for path in (ENTRY_FILE, *trees) if path in trees), None)
    if entry is not None:
        with suppress(*_PARSE_ERRORS):
            return list(check_form(trees, SourceLines({entry: code[entry], **code}), plan))
    return []
