"""The report on a run's experiments that is judged: plan, stages, measured values and comparisons, all from its record.

No model writes it. Nothing of the paper stands in it, so that the experiments are judged apart from how they are told.
"""

from __future__ import annotations

from collections.abc import Iterator

from labwright.record.claims.differences import Difference, differences
from labwright.record.claims.means import Claim, ablations, paper_claims, winner
from labwright.record.fold.state import RunState

MOST_LINES = 60
"""Of values, and of comparisons; the rest is counted."""


def experiment_report(state: RunState) -> str:
    """The report as Markdown."""
    assert state.started is not None
    claims = paper_claims(state)
    primary = state.data_plan.primary.name if state.data_plan else ""
    compared = sorted(differences(state, claims), key=lambda one: one.name != primary)
    claims = sorted(claims, key=lambda one: one.name != primary)
    parts = [
        (f"# Experiments: {state.started.idea.title}", [state.started.idea.short_hypothesis]),
        ("## What was planned", _plan(state)),
        ("## What was done, stage by stage", _stages(state)),
        ("## The program that is reported", _winner(state)),
        ("## Measured values (mean over seeds, 95 % interval)", _cut([_value(one) for one in claims])),
        ("## Comparisons (paired by seed, corrected for one another)", _cut([_difference(one) for one in compared])),
        ("## Ablations", [f"- {node.varies}" for node in ablations(state)] or ["None was measured."]),
        ("## What failed", _failed(state)),
    ]
    return "\n\n".join(f"{title}\n\n{chr(10).join(lines)}" for title, lines in parts) + "\n"


def _plan(state: RunState) -> list[str]:
    plan = state.data_plan
    if plan is None:
        return ["There is no plan."]
    better = "higher" if plan.primary.higher_is_better else "lower"
    return [
        plan.task,
        "",
        *(f"- arm `{arm.name}` ({arm.role})" for arm in plan.arms),
        f"- datasets: {', '.join(one.name for one in state.datasets)}",
        f"- primary metric: {plan.primary.name} ({better} is better)",
        *(f"- not tested: {one}" for one in plan.untested),
    ]


def _stages(state: RunState) -> list[str]:
    found: list[str] = []
    for name, stage in state.stages.items():
        told = stage.summary
        found += [f"### {name}", "", *((told.tried, told.found, told.held) if told else ("No report.",)), ""]
    return found


def _winner(state: RunState) -> list[str]:
    best = winner(state)
    return ["None."] if best is None else [state.nodes[best].plan]


def _value(one: Claim) -> str:
    spread = "no interval" if one.low is None or one.high is None else f"{one.low:.4g} to {one.high:.4g}"
    return (
        f"- {one.name} on {one.dataset} ({one.split}), {one.condition}: {one.mean:.4g} ({spread}; n = {one.n}; "
        f"{one.grade})"
    )


def _difference(one: Difference) -> str:
    spread = "no interval" if one.low is None or one.high is None else f"{one.low:.4g} to {one.high:.4g}"
    return (
        f"- {one.name} on {one.dataset}, {one.condition} - {one.other}: {one.mean:+.4g} ({spread}; n = {one.n}): "
        f"{one.verdict}"
    )


def _failed(state: RunState) -> list[str]:
    def lines() -> Iterator[str]:
        for node in state.nodes.values():
            if node.status in ("buggy", "pruned", "cancelled"):
                yield f"- {node.kind} in {node.stage}: {node.status} ({' '.join(node.varies.split())[:120]})"

    return _cut(list(lines())) if any(lines()) else ["Nothing."]


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"- ... and {more} more"] if more > 0 else lines or ["None."]
