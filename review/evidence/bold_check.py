"""Decide which values may be bold, and check that no other value is.

Bold means "better than the arm that it was compared with": a decided hypothesis supports it, and no arm of the same row
has a better mean. All other comparisons are exploratory and rank nothing. The sources of a paper, including tables, are
checked. Limits: the fonts of the PDF are not read, so bold text set by the document class is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from labwright.record.claims.estimates import Claim
from labwright.record.estimands import (
    CellRef,
    evaluate_estimand,
    find_effect_metric,
    is_contrast,
    list_cells_read,
    list_main_arms,
)
from labwright.record.result_macros import ClaimKey, find_macro_uses, strip_form
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.review.evidence.violations import Evidence, Violation

_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|pmb)\s*\{|\\bfseries\b|\\bf\b")


def find_printed_claims(text: str) -> frozenset[str]:
    r"""Return the keys of the claims printed with `\result` in LaTeX source, without their forms."""
    return frozenset(key.key_without_form for key in _iter_result_keys(text))


def _iter_result_keys(text: str) -> Iterator[ClaimKey]:
    for use in find_macro_uses(text):
        if use.macro == "result" and (key := ClaimKey.parse_key(use.key)) is not None:
            yield key


def find_bold_claims(
    plan: DataPlan, decisions: Sequence[HypothesisDecision], claims: Sequence[Claim]
) -> frozenset[str]:
    """Return the keys of the means that may be bold.

    A confirmed hypothesis has an effect that is the difference of two cells at the same level and dataset; its
    direction is decided, and the better cell has the best mean of all main arms in its row.
    """
    pairs = [
        (metric, *pair)
        for one in decisions
        if one.confirmed and one.hypothesis.unit != "datasets"
        for part in one.parts
        for metric in (find_effect_metric(part.effect, plan),)
        if (pair := _rank_pair(part, plan)) is not None
    ]
    found: set[str] = set()
    for metric, better, worse in pairs:
        row = [
            one
            for one in claims
            if (one.dataset, one.name, one.level) == (better.dataset, metric.name, better.level)
            and one.arm in list_main_arms(plan)
        ]
        best = max(row, key=lambda one: one.mean if metric.higher_is_better else -one.mean, default=None)
        if best is not None and best.arm == better.arm and any(one.arm == worse.arm for one in row):
            found.add(best.key)
    return frozenset(found)


def _rank_pair(part: EffectDecision, plan: DataPlan) -> tuple[CellRef, CellRef] | None:
    """Return the better and the worse cell of an effect that is their difference, if its direction is decided."""
    metric, text = find_effect_metric(part.effect, plan), part.effect.estimand
    cells = list_cells_read(text, plan, metric)
    if part.direction not in ("positive", "negative") or len(cells) != 2 or not is_contrast(text):
        return None
    first, second = cells
    if (first.dataset, first.level) != (second.dataset, second.level):
        return None
    rises = evaluate_estimand(text, plan, metric, lambda place: 2.0 if place == first else 1.0) > 0
    first_is_better = (rises == (part.direction == "positive")) == metric.higher_is_better
    return (first, second) if first_is_better else (second, first)


def check_bold(text: str, evidence: Evidence, where: str) -> Iterator[Violation]:
    """Return the values of the record that a text prints in bold although no decided hypothesis supports it."""
    known = {strip_form(key) for key in evidence.results} - evidence.bold
    for match in _BOLD.finditer(text):
        for key in _iter_result_keys(_rest_of_group(text, match.end() if match[0].endswith("{") else match.start())):
            if key.key_without_form in known:
                yield Violation(
                    kind="claim",
                    where=where,
                    excerpt=rf"\result{{{key.key}}}",
                    fix="printed in bold, but no decided hypothesis ranks it first: remove the bold",
                )


def _rest_of_group(text: str, at: int) -> str:
    """Return the text from a position to the end of its group or cell.

    pylatexenc is not used: it takes seconds to parse an appendix and does not recognise table cells.
    """
    depth = 1
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1 : k] != "\\" else 0
        if depth == 0 or (depth == 1 and (text[k] == "&" or text.startswith("\\\\", k))):
            return text[at:k]
    return text[at:]
