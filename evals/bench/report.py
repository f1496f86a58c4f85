"""Build the experiment report that is judged: plan, stages, measured values and comparisons, from the record.

No model writes it, and it has nothing of the paper, so the experiments are judged independently of their
presentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from labwright.record.claims.differences import ClaimDifference, compute_differences
from labwright.record.claims.estimates import Claim, compute_paper_claims, find_ablation_nodes, find_winner
from labwright.record.reducers.run_state import RunState

MAX_LINES = 60
"""Maximum lines of values, and of comparisons; the rest is counted."""


def format_experiment_report(state: RunState) -> str:
    """Return the report as Markdown."""
    assert state.started is not None
    claims = compute_paper_claims(state)
    primary = state.search.data_plan.primary_metric.name if state.search.data_plan else ""
    compared = sorted(compute_differences(state, claims), key=lambda one: one.name != primary)
    claims = sorted(claims, key=lambda one: one.name != primary)
    parts = [
        (f"# Experiments: {state.started.idea.title}", [state.started.idea.short_hypothesis]),
        ("## Plan", _format_plan(state)),
        ("## Stages", _format_stages(state)),
        ("## Reported program", _format_winner(state)),
        ("## Measured values (mean over seeds, 95 % interval)", _cut_lines([_format_value(one) for one in claims])),
        (
            "## Comparisons (paired by seed, corrected for one another)",
            _cut_lines([_format_difference(one) for one in compared]),
        ),
        ("## Ablations", [f"- {node.varies}" for node in find_ablation_nodes(state)] or ["None."]),
        ("## Failures", _format_failed(state)),
    ]
    return "\n\n".join(f"{title}\n\n{chr(10).join(lines)}" for title, lines in parts) + "\n"


def _format_plan(state: RunState) -> list[str]:
    plan = state.search.data_plan
    if plan is None:
        return ["There is no plan."]
    better = "higher" if plan.primary_metric.higher_is_better else "lower"
    return [
        plan.task,
        "",
        *(f"- arm `{arm.name}` ({arm.role})" for arm in plan.arms),
        f"- datasets: {', '.join(one.name for one in state.search.datasets)}",
        f"- primary metric: {plan.primary_metric.name} ({better} is better)",
        *(f"- not tested: {one}" for one in plan.untested),
    ]


def _format_stages(state: RunState) -> list[str]:
    found: list[str] = []
    for name, stage in state.search.stages.items():
        summary = stage.summary
        found += [
            f"### {name}",
            "",
            *((summary.tried, summary.found, summary.supported_by_replicates) if summary else ("No report.",)),
            "",
        ]
    return found


def _format_winner(state: RunState) -> list[str]:
    best = find_winner(state)
    return ["None."] if best is None else [state.nodes[best].plan]


def _format_value(one: Claim) -> str:
    spread = "no interval" if one.low is None or one.high is None else f"{one.low:.4g} to {one.high:.4g}"
    return (
        f"- {one.name} on {one.dataset} ({one.split}), {one.condition}: {one.mean:.4g} ({spread}; n = {one.n}; "
        f"{one.grade})"
    )


def _format_difference(one: ClaimDifference) -> str:
    spread = "no interval" if one.low is None or one.high is None else f"{one.low:.4g} to {one.high:.4g}"
    return (
        f"- {one.name} on {one.dataset}, {one.condition} - {one.other}: {one.mean:+.4g} ({spread}; n = {one.n}): "
        f"{one.basis_text}"
    )


def _format_failed(state: RunState) -> list[str]:
    def lines() -> Iterator[str]:
        for node in state.nodes.values():
            if node.status in ("buggy", "pruned", "cancelled"):
                yield f"- {node.kind} in {node.stage}: {node.status} ({' '.join(node.varies.split())[:120]})"

    return _cut_lines(list(lines())) if any(lines()) else ["Nothing."]


def _cut_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], f"- ... and {more} more"] if more > 0 else lines or ["None."]
