"""Geometry of charts with axes: lines, steps and dots. `plots.html.jinja` renders it as SVG.

A chart is `CHART_WIDTH` x `CHART_HEIGHT` pixels inside its axes. Hues distinguish lines; after `HUE_COUNT` lines they
repeat with another dash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from math import floor, log10
from statistics import fmean, quantiles
from typing import Final, Generic, NamedTuple, TypeVar

from labwright.inspector.render import STATUS_SYMBOLS
from labwright.inspector.run_files import read_curve_points
from labwright.inspector.tree import NodeRow, RunTree, StageRows
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.claims.estimates import Claim
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.hypotheses import EffectDecision
from labwright.record.schema.nodes import SEARCH_KINDS, NodeKind, NodeStatus

CHART_WIDTH, CHART_HEIGHT = 320.0, 130.0
HUE_COUNT = 8
MAX_CHARTS, MAX_LINES, MAX_POINTS = 24, 24, 400
MAX_MAGNITUDE: Final = 1e300
"""Larger values are clipped to this magnitude, so differences stay finite."""
MIN_MAGNITUDE: Final = 1e-300
"""Smaller differences cannot be drawn: their parts would be zero."""
_TICK_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
Points = Sequence[tuple[float, float]]


class Axis(NamedTuple):
    """An axis: name, values at its ends, length in pixels, and ticks with labels."""

    name: str
    low: float
    high: float
    length: float
    ticks: tuple[tuple[float, str], ...]

    def to_pixels(self, value: float) -> float:
        """Convert a value to pixels from the start of the axis."""
        return round(self.length * (value - self.low) / ((self.high - self.low) or 1.0), 1)


def build_axis(
    name: str,
    values: Iterable[float],
    length: float = CHART_WIDTH,
    *,
    ticks: int = 5,
    whole: bool = False,
    tight: bool = False,
) -> Axis:
    """Build an axis over all values with about `ticks` ticks, at integers if `whole`. It ends at a tick unless
    `tight`."""
    found = [min(max(value, -MAX_MAGNITUDE), MAX_MAGNITUDE) for value in values] or [0.0, 1.0]
    low, high = min(found), max(found)
    size = max(abs(low), abs(high))
    if high - low <= max(1e-12 * size, MIN_MAGNITUDE):
        margin = size / 10 if size > 1e9 * MIN_MAGNITUDE else 0.1
        low, high = low - margin, high + margin
    rough = max((high - low) / ticks, 1.0 if whole else 0.0)
    unit = 10.0 ** floor(log10(rough))
    step = next(one for one in (unit * factor for factor in _TICK_STEPS) if one >= rough * 0.999)
    first, last = floor(low / step + 1e-9), -floor(-high / step + 1e-9)
    marks = [step * n for n in range(first, max(last, first + 1) + 1)]
    marks = [one for one in marks if low <= one <= high] if tight else marks
    bare = Axis(name, *((low, high) if tight else (marks[0], marks[-1])), length, ())
    return bare._replace(
        ticks=tuple((bare.to_pixels(one), f"{one:.10g}" if abs(one) < 1e6 else f"{one:.3g}") for one in marks)
    )


class ChartLine(NamedTuple):
    """A line of a chart: label, SVG points, last value, hue and dash."""

    label: str
    points: str
    last: float
    hue: int
    dash: int


class Chart(NamedTuple):
    """Lines on one pair of axes. `left_out` counts lines that are not drawn."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[ChartLine, ...]
    left_out: int


def build_chart(title: str, x: str, y: str, curves: Mapping[str, Points]) -> Chart:
    """Build a chart of non-empty curves by label."""
    shown = dict(islice(curves.items(), MAX_LINES))
    ats = [at for points in shown.values() for at, _ in points]
    across = build_axis(x, ats, whole=all(float(at).is_integer() for at in ats), tight=True)
    up = build_axis(y, [value for points in shown.values() for _, value in points], CHART_HEIGHT, ticks=4)
    lines = tuple(
        ChartLine(label, to_polyline(points, across, up), points[-1][1], number % HUE_COUNT, number // HUE_COUNT)
        for number, (label, points) in enumerate(shown.items())
    )
    return Chart(title, across, up, lines, len(curves) - len(shown))


def to_steps(points: Points) -> Points:
    """Return the corners of the steps between points."""
    return [points[0], *(corner for (_, value), after in pairwise(points) for corner in ((after[0], value), after))]


def to_polyline(points: Points, x: Axis, y: Axis) -> str:
    """Convert points to an SVG polyline, thinned if there are very many points; the last one is kept."""
    every = max(1, len(points) // MAX_POINTS)
    kept = [*points[::every], *([points[-1]] if (len(points) - 1) % every else [])]
    return " ".join(f"{x.to_pixels(at)},{round(y.length - y.to_pixels(value), 1)}" for at, value in kept)


def build_charts(lines: Iterable[bytes]) -> tuple[Chart, ...]:
    """Build charts of the values with a step in lines of a measurements.jsonl, one per metric, dataset and split."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for one in read_curve_points(lines):
        of = found.setdefault((f"{one.name} on {one.dataset} ({one.split})", one.name), {})
        of.setdefault(one.condition, []).append((one.step, one.value))
    return tuple(
        build_chart(title, "step", name, curves) for (title, name), curves in islice(found.items(), MAX_CHARTS)
    )


# The chart of a run: the primary metric of its nodes in order of decisions, the best value so far and the baseline.

RUN_CHART_WIDTH, RUN_CHART_HEIGHT = 960.0, 240.0
OUTLIER_FENCE = 3.0
"""Number of interquartile ranges beyond which a value is clipped to the chart's edge."""


class NodeDot(NamedTuple):
    """A node in the chart; `y` is None without a value, `is_clipped` if drawn at the edge."""

    row: NodeRow
    x: float
    y: float | None
    is_clipped: bool = False


class RunChart(NamedTuple):
    """`best` is a polyline, `baseline` its value and height in pixels; without a value there is nothing to draw."""

    title: str
    x: Axis
    y: Axis
    dots: tuple[NodeDot, ...]
    best: str
    baseline: tuple[float, float] | None
    kinds: tuple[NodeKind, ...]

    @property
    def is_empty(self) -> bool:
        return all(dot.y is None for dot in self.dots)


def build_run_chart(run: CachedRun) -> RunChart:
    """Build the chart of a run in its current state."""
    tree = run.build_tree()
    at = [(float(n), row) for n, row in enumerate(tree.rows, 1)]
    values = [row.metric for _, row in at if row.metric is not None]
    higher, base = tree.metric is None or tree.metric.higher_is_better, baseline_value(run.state, tree)
    ats = [0.0, *(x for x, _ in at)]
    x = build_axis("nodes, in order of decisions", ats, RUN_CHART_WIDTH, ticks=8, whole=True, tight=True)
    near = drop_outliers(values, higher=higher) + ([base] if base is not None else [])
    y = build_axis(tree.metric.title if tree.metric else "", near, RUN_CHART_HEIGHT)
    best = compute_best_so_far(at, higher=higher)
    return RunChart(
        f"{tree.metric.title} on {tree.metric.dataset}, validation" if tree.metric else "no metric yet",
        x,
        y,
        tuple(_place_dot(row, x.to_pixels(found), y) for found, row in at),
        to_polyline(to_steps([*best, (float(len(at)), best[-1][1])]), x, y) if best else "",
        (base, round(RUN_CHART_HEIGHT - y.to_pixels(base), 1)) if base is not None else None,
        tuple(dict.fromkeys(row.kind for _, row in at)),
    )


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
    """Return the baseline's primary metric in the currently best node, as the mean over the main dataset's validation
    split; None if it was not measured."""
    first = (row.id for row in tree.rows if row.status == "good" and row.kind in SEARCH_KINDS)
    best = tree.best or next(first, None)
    plan, node = state.search.data_plan, state.nodes.get(best or "")
    if plan is None or node is None:
        return None
    baselines = {arm.name for arm in plan.arms if arm.role == "baseline"}
    main = plan.primary_metric.name, plan.datasets[0].name, "validation"
    values = [
        one.value for one in node.measurements if (one.name, one.dataset, one.split) == main and one.arm in baselines
    ]
    return fmean(values) if values else None


# Geometry of a stage's tree and of intervals. Templates render it as SVG.

T = TypeVar("T", Claim, EffectDecision)
KIND_SHAPES: Final[Mapping[NodeKind, str]] = {
    "draft": "M0-12A12 12 0 1 1 0 12A12 12 0 1 1 0-12Z",
    "debug": "M0-14L14 0L0 14L-14 0Z",
    "improve": "M0-14L13.5 10L-13.5 10Z",
    "trial": "M-8-8H8V8H-8Z",
    "tune": "M-11-11H11V11H-11Z",
    "ablate": "M-7-12H7L14 0L7 12H-7L-14 0Z",
    "replicate": "M0-8.5A8.5 8.5 0 1 1 0 8.5A8.5 8.5 0 1 1 0-8.5Z",
    "aggregate": "M0-13L12.4-4L7.6 10.5H-7.6L-12.4-4Z",
    "rung": "M-11-4H11V4H-11Z",
}
"""SVG paths around (0, 0)."""
STATUS_MARKS: Final[Mapping[NodeStatus, str]] = {status: mark.symbol for status, mark in STATUS_SYMBOLS.items()}
"""Symbol inside a shape, so that colour is never required."""
COLUMN_WIDTH, ROW_HEIGHT, SIDE_MARGIN, TOP_MARGIN, BOTTOM_MARGIN, MIN_WIDTH = 78.0, 88.0, 40.0, 36.0, 44.0, 540.0


class PlacedNode(NamedTuple):
    """Position of a node in pixels, and of its parent if drawn in the same stage."""

    row: NodeRow
    x: float
    y: float
    parent_position: tuple[float, float] | None


class StageDrawing(NamedTuple):
    """Layout of a stage's tree."""

    width: float
    height: float
    nodes: tuple[PlacedNode, ...]


def draw_stage(stage: StageRows) -> StageDrawing:
    """Lay out the tree of a stage with its rows in order; width and height are in pixels."""
    parents = {row.id: row.parent if row.depth else None for row in stage.nodes}
    across = assign_columns(parents)
    at = {
        row.id: (round(SIDE_MARGIN + across[row.id] * COLUMN_WIDTH, 1), round(TOP_MARGIN + row.depth * ROW_HEIGHT, 1))
        for row in stage.nodes
    }
    placed = tuple(PlacedNode(row, *at[row.id], at.get(parents[row.id] or "")) for row in stage.nodes)
    return StageDrawing(
        width=max((one.x + SIDE_MARGIN for one in placed), default=0),
        height=max((one.y + BOTTOM_MARGIN for one in placed), default=0),
        nodes=placed,
    )


def assign_columns(parents: Mapping[str, str | None]) -> dict[str, float]:
    """Assign a horizontal position to each node of a forest: leaves side by side, parents centred above their children.

    `parents` lists each node before its children, and these before its next sibling; the distance between leaves is 1.
    """
    children: dict[str, list[str]] = {node: [] for node in parents}
    for node, parent in parents.items():
        if parent is not None:
            children[parent].append(node)
    leaves = (node for node, below in children.items() if not below)
    places = {node: float(x) for x, node in enumerate(leaves)}
    for node, below in reversed(children.items()):
        if below:
            places[node] = (places[below[0]] + places[below[-1]]) / 2
    return places


class IntervalBar(NamedTuple, Generic[T]):
    """A claim or effect as a bar 160 pixels wide: replicates as dots, the interval as a line (None if there is no
    interval).
    """

    claim: T
    replicate_positions: tuple[float, ...]
    mean: float
    ends: tuple[float, float] | None
    zero: float | None = None
    limit_position: float | None = None


def draw_intervals(claims: Sequence[Claim], *, zero: bool = False) -> tuple[IntervalBar[Claim], ...]:
    """Draw claims of one metric on a common scale; `zero` includes zero in the scale."""
    at = _make_scale([value for one in claims for value in (*one.values, one.low, one.high)] + [0.0] * zero)
    return tuple(_draw_bar(one, one.mean, at, at(0.0) if zero else None) for one in claims)


def draw_effect(part: EffectDecision) -> IntervalBar[EffectDecision] | None:
    """Draw an effect on its own scale; None before it was measured."""
    if part.mean is None:
        return None
    at = _make_scale([*part.values, part.low, part.high, part.mean, 0.0, part.effect.limit])
    return _draw_bar(part, part.mean, at, at(0.0), at(part.effect.limit))


def _draw_bar(
    one: T, mean: float, at: Callable[[float], float], zero: float | None, limit: float | None = None
) -> IntervalBar[T]:
    ends = (at(one.low), at(one.high)) if one.low is not None and one.high is not None else None
    return IntervalBar(one, tuple(map(at, one.values)), at(mean), ends, zero, limit)


def _make_scale(values: Sequence[float | None]) -> Callable[[float], float]:
    """Return a linear scale from values to pixels of a bar."""
    there = [value for value in values if value is not None]
    low, high = min(there, default=0.0), max(there, default=1.0)
    return lambda value: round(6 + 148 * (value - low) / ((high - low) or 1.0), 1)
