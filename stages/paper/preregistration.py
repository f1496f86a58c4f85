"""Render what was registered and its outcomes as TeX: a sentence of the disclosure, a table, a part of the appendix.

The disclosure has the hash of the plan, the search objective with its reason, and whether prior work was read. The
table `hypotheses` of the main text has effect, interval, n, claim and outcome of each hypothesis; the appendix
(`registered.tex.jinja`) states the decision rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from labwright.record.claims.formatting import count_effect_decimals
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.sentences import describe_outcome, format_lost_seeds
from labwright.record.estimands import describe_estimand, find_effect_metric
from labwright.record.printed_value import format_tex_number
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.hypotheses import EffectDecision, HypothesisDecision
from labwright.stages.paper.latex import format_row, mark_recorded, render_template
from labwright.stages.paper.latex_sources import PaperTable

HASH_CHARS = 12
"""Printed digits of the plan's hash."""
NO_PRIOR_WORK_NOTE = "Prior work unread: no full text of a related paper was at hand before the plan was made."


def render_plan_note(state: RunState) -> str:
    """Return what the appendix discloses about the plan; empty without one."""
    plan = state.data_plan
    if plan is None:
        return ""
    reason = f": {plan.objective_reason.rstrip('.')}" if plan.objective_reason else ""
    unread = f" {NO_PRIOR_WORK_NOTE}" if state.prior_work is None or state.prior_work.is_unread else ""
    return mark_recorded(
        f"Data plan {state.plan_hash[:HASH_CHARS]}, made before any code was written. Objective of the search: "
        f"{plan.objective}{reason}.{unread}"
    )


def build_hypothesis_tables(state: RunState) -> tuple[PaperTable, ...]:
    """Build the table `hypotheses`; empty if nothing was registered."""
    found = decide_hypotheses(state)
    if not found:
        return ()
    rows = "\n".join(line for one in found for line in _build_rows(one))
    previews = (
        " A preview confirms nothing."
        if any(one.hypothesis.confirmatory and not one.confirmed for one in found)
        else ""
    )
    return (
        PaperTable(
            "hypotheses",
            (
                "\\begin{tabular}{@{}L{0.4\\linewidth}lrlL{0.16\\linewidth}@{}}\n\\toprule\n"
                f"{format_row(('Registered hypothesis', 'Effect [interval]', '$n$', 'Claim', 'Outcome'))}\n"
                f"\\midrule\n{rows}\n"
                "\\bottomrule\n\\end{tabular}"
            ),
            "What was registered before any code was written, and the outcome: the effect, its interval, $n$ units "
            "(seeds, or datasets), what was claimed of the effect, its direction and whether the claim is supported, "
            f"refuted or open. Intervals are corrected (Holm) over the confirmatory hypotheses.{previews}",
        ),
    )


def _build_rows(one: HypothesisDecision) -> Sequence[str]:
    """Return one row per effect; the first row has the statement and the overall verdict."""
    kind = "" if one.confirmed else " (preview)" if one.hypothesis.confirmatory else " (exploratory)"
    named = rf"\emph{{{mark_recorded(one.hypothesis.id)}}}: {mark_recorded(one.hypothesis.statement)}"
    return [
        format_row(
            (
                named if first else "",
                _format_estimate(part),
                mark_recorded(len(part.values)),
                mark_recorded(part.effect.claim_text),
                mark_recorded(
                    f"{part.direction}; claim {part.verdict}" + (f"{_format_verdict(one)}{kind}" if first else "")
                ),
            )
        )
        for part, first in zip(one.parts, (True, *[False] * len(one.parts)), strict=False)
    ]


def _format_verdict(one: HypothesisDecision) -> str:
    return f"; together {one.verdict}" if len(one.parts) > 1 else ""


def _format_estimate(part: EffectDecision) -> str:
    if part.mean is None:
        return "--"
    digits = count_effect_decimals(part)
    ends = (
        ""
        if part.low is None or part.high is None
        else (rf" [\rec{{{format_tex_number(part.low, digits)}}}, \rec{{{format_tex_number(part.high, digits)}}}]")
    )
    return rf"\rec{{{format_tex_number(part.mean, digits)}}}{ends}"


def render_in_full(state: RunState) -> str:
    """Render the part of the appendix; empty if nothing was registered."""
    plan, found = state.data_plan, decide_hypotheses(state)
    if plan is None or not found:
        return ""
    return render_template(
        "registered.tex.jinja",
        {
            "found": found,
            # code of a repository makes its own splits, perhaps by the seed
            "one_sample": not any(one.command for one in state.datasets),
            "described": partial(describe_estimand, plan=plan),
            "estimate": _format_estimate,
            "lost": format_lost_seeds,
            "outcome": describe_outcome,
            "metric": partial(find_effect_metric, plan=plan),
        },
    )
