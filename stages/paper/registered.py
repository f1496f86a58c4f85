"""What was registered and what came of it, as TeX by the program: a line of page one, a table, a part of the appendix.

Page one has the hash of the plan, the search's objective with its reason, and whether prior work was read. The table
`hypotheses` of the main text has effect, interval, smallest effect, n and verdict of each; the appendix
(`registered.tex.jinja`) says how each was to be decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from labwright.record.claims.clauses import lost_seeds
from labwright.record.claims.decisions import decisions
from labwright.record.claims.printing import decimals_of
from labwright.record.estimands import described, metric_of
from labwright.record.fold.state import RunState
from labwright.record.nouns.hypotheses import Decision, PartDecided
from labwright.record.printed import number
from labwright.stages.paper.latex import recorded, rendered, row
from labwright.stages.paper.sources import Table

HASH = 12
"""Digits of the plan's hash that are printed."""
UNREAD = "Prior work unread: no full text of a related paper was at hand before the plan was made."


def page_one(state: RunState) -> str:
    """The block of page one; empty without a plan."""
    plan = state.data_plan
    if plan is None:
        return ""
    reason = f": {plan.objective_reason.rstrip('.')}" if plan.objective_reason else ""
    unread = f" {UNREAD}" if state.prior_work is None or state.prior_work.unread else ""
    return recorded(
        f"Data plan {state.plan_hash[:HASH]}, made before any code was written. Objective of the search: "
        f"{plan.objective}{reason}.{unread}"
    )


def table_of(state: RunState) -> tuple[Table, ...]:
    """The table `hypotheses`; none where nothing was registered."""
    found = decisions(state)
    if not found:
        return ()
    rows = "\n".join(line for one in found for line in _rows(one))
    previews = (
        " A preview confirms nothing."
        if any(one.hypothesis.confirmatory and not one.confirmed for one in found)
        else ""
    )
    return (
        Table(
            "hypotheses",
            (
                "\\begin{tabular}{@{}L{0.46\\linewidth}lrrl@{}}\n\\toprule\n"
                f"{row(('Registered hypothesis', 'Effect [interval]', 'Smallest', '$n$', 'Verdict'))}\n"
                f"\\midrule\n{rows}\n"
                "\\bottomrule\n\\end{tabular}"
            ),
            "What was registered before any code was written, and what came of it: the effect, which the "
            "hypothesis says "
            "is above zero, its interval, the smallest effect of interest, and $n$ units (seeds, or datasets). "
            "Intervals "
            f"are corrected (Holm) over the confirmatory hypotheses.{previews}",
        ),
    )


def _rows(one: Decision) -> Sequence[str]:
    """A row for each effect with its own verdict; the statement, and the verdict on all of them, stand in the first."""
    kind = "" if one.confirmed else " (preview)" if one.hypothesis.confirmatory else " (exploratory)"
    named = rf"\emph{{{recorded(one.hypothesis.id)}}}: {recorded(one.hypothesis.statement)}"
    return [
        row(
            (
                named if first else "",
                _estimate(part),
                recorded(f"{part.effect.smallest:g}"),
                recorded(len(part.values)),
                recorded(f"{part.verdict}{_whole(one) if first else ''}{kind if first else ''}"),
            )
        )
        for part, first in zip(one.parts, (True, *[False] * len(one.parts)), strict=False)
    ]


def _whole(one: Decision) -> str:
    return f"; together {one.verdict}" if len(one.parts) > 1 else ""


def _estimate(part: PartDecided) -> str:
    if part.mean is None:
        return "--"
    digits = decimals_of(part)
    ends = (
        ""
        if part.low is None or part.high is None
        else (rf" [\rec{{{number(part.low, digits)}}}, \rec{{{number(part.high, digits)}}}]")
    )
    return rf"\rec{{{number(part.mean, digits)}}}{ends}"


def in_full(state: RunState) -> str:
    """The part of the appendix; empty where nothing was registered."""
    plan, found = state.data_plan, decisions(state)
    if plan is None or not found:
        return ""
    return rendered(
        "registered.tex.jinja",
        {
            "found": found,
            "described": partial(described, plan=plan),
            "estimate": _estimate,
            "lost": lost_seeds,
            "metric": partial(metric_of, plan=plan),
        },
    )
