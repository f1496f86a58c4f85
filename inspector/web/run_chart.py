"""The chart of a run: the primary metric of its nodes over nodes, time or cost, with the best value so far and the
baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from statistics import fmean, quantiles
from typing import Literal, NamedTuple

from labwright.inspector.timeline import Timeline
from labwright.inspector.tree import NodeRow, RunTree
from labwright.inspector.web.charts import Axis, build_axis, to_polyline, to_steps
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import SEARCH_KINDS, NodeKind

ChartAxisUnit = Literal["nodes", "hours", "cost"]
CHART_WIDTH, CHART_HEIGHT = 960.0, 240.0
OUTLIER_FENCE = 3.0
"""Number of interquartile ranges beyond which a value is clipped to the chart's edge."""


class NodeDot(NamedTuple):
    """A node in the chart; `y` is None without a value, `is_clipped` if drawn at the edge."""

    row: NodeRow
    x: float
    y: float | None
    is_clipped: bool = False


class RunChart(NamedTuple):
    """`best` is a polyline, `baseline` its value and height in pixels; `missing` says why there is no chart."""

    over: ChartAxisUnit
    title: str
    x: Axis
    y: Axis
    dots: tuple[NodeDot, ...]
    best: str
    baseline: tuple[float, float] | None
    kinds: tuple[NodeKind, ...]
    missing: str = ""


def build_run_chart(run: CachedRun, over: ChartAxisUnit) -> RunChart:
    """Build the chart of a run in its current state."""
    tree, place = run.build_tree(), _make_locator(run.timeline, over)
    rows = sorted((row for stage in tree.stages for row in stage.nodes), key=lambda row: row.decision)
    placed = [(place(n, row), row) for n, row in enumerate(rows, 1)]
    at = [(x, row) for x, row in placed if x is not None]
    values = [row.metric for _, row in at if row.metric is not None]
    higher, base = tree.metric is None or tree.metric.higher_is_better, baseline_value(run.state, tree)
    x = build_axis(
        _axis_title(over, run.timeline),
        (x for x, _ in at),
        CHART_WIDTH,
        ticks=8,
        zero=True,
        whole=over == "nodes",
        tight=True,
    )
    near = drop_outliers(values, higher=higher)
    y = build_axis(
        tree.metric.title if tree.metric else "", [*near, *([base] if base is not None else [])], CHART_HEIGHT
    )
    title = f"{tree.metric.title} on {tree.metric.dataset}, validation" if tree.metric else "no metric yet"
    free = over == "cost" and not any(x for x, _ in at)
    missing = (
        "No node has a value yet." if not values else "The cost is unknown: no model call has a price." if free else ""
    )
    best = compute_best_so_far(at, higher=higher)
    return RunChart(
        over,
        title,
        x,
        y,
        tuple(_place_dot(row, x.to_pixels(found), y) for found, row in at),
        to_polyline(to_steps([*best, (max(found for found, _ in at), best[-1][1])]), x, y) if best else "",
        (base, round(CHART_HEIGHT - y.to_pixels(base), 1)) if base is not None else None,
        tuple(dict.fromkeys(row.kind for _, row in at)),
        missing,
    )


def _make_locator(timeline: Timeline, over: ChartAxisUnit) -> Callable[[int, NodeRow], float | None]:
    """Return a function that gives a node's position on the axis; None before it was judged."""
    unit, _ = choose_time_unit(_longest_time(timeline))

    def place(number: int, row: NodeRow) -> float | None:
        moment = timeline.judged.get(row.id)
        if over == "nodes":
            return number
        return None if moment is None else moment.usd if over == "cost" else moment.seconds / unit

    return place


def _axis_title(over: ChartAxisUnit, timeline: Timeline) -> str:
    return {"nodes": "nodes, in order of decisions", "cost": "cost of model calls (USD)"}.get(
        over, f"run time ({choose_time_unit(_longest_time(timeline))[1]})"
    )


def _longest_time(timeline: Timeline) -> float:
    return max((moment.seconds for moment in timeline.judged.values()), default=0.0)


def choose_time_unit(seconds: float) -> tuple[float, str]:
    """Choose the unit of a time axis: its length in seconds, and its name."""
    return (3600.0, "hours") if seconds >= 3600 else (60.0, "minutes") if seconds >= 180 else (1.0, "seconds")


def _place_dot(row: NodeRow, x: float, y: Axis) -> NodeDot:
    if row.metric is None:
        return NodeDot(row, x, None)
    inside = min(max(row.metric, y.low), y.high)
    return NodeDot(row, x, round(y.length - y.to_pixels(inside), 1), inside != row.metric)


def drop_outliers(values: Sequence[float], *, higher: bool) -> list[float]:
    """Return the values that determine the chart's height: all except much worse outliers, which would flatten it."""
    if len(values) < 4:
        return [*values]
    first, _, third = quantiles(values, n=4, method="inclusive")
    far = OUTLIER_FENCE * (third - first)
    return [one for one in values if far == 0 or (one >= first - far if higher else one <= third + far)]


def compute_best_so_far(at: Iterable[tuple[float, NodeRow]], *, higher: bool) -> list[tuple[float, float]]:
    """Return the points of the running best value of valid search nodes."""
    found = [
        (x, row.metric)
        for x, row in sorted(at, key=lambda one: one[0])
        if row.metric is not None
        and row.kind in SEARCH_KINDS
        and row.stage != "ablation"
        and row.status == "good"
        and not row.suspect
    ]
    return [*zip((x for x, _ in found), accumulate((value for _, value in found), max if higher else min), strict=True)]


def baseline_value(state: RunState, tree: RunTree) -> float | None:
    """Return the baseline's primary metric in the currently best node; None if it was not measured."""
    rows = [row for stage in tree.stages for row in stage.nodes if row.status == "good" and row.kind in SEARCH_KINDS]
    best = (
        tree.winner
        or next((stage.best for stage in reversed(tree.stages) if stage.best), None)
        or next((row.id for row in rows), None)
    )
    return baseline_gap(state, best)[0] if best is not None else None


def baseline_gap(state: RunState, name: str) -> tuple[float | None, float | None]:
    """Return a node's baseline metric and method - baseline: means over the main dataset's validation split."""
    plan, node = state.search.data_plan, state.nodes.get(name)
    if plan is None or node is None or node.kind == "rung":
        return None, None
    roles = {arm.name: arm.role for arm in plan.arms}
    values: dict[str, list[float]] = {}
    for one in node.measurements:
        if (one.name, one.dataset, one.split) == (plan.primary_metric.name, plan.datasets[0].name, "validation"):
            values.setdefault(roles.get(one.arm, ""), []).append(one.value)
    base, method = (fmean(values[role]) if role in values else None for role in ("baseline", "method"))
    return base, method - base if base is not None and method is not None else None
