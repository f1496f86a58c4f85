"""Geometry of charts with axes: lines, steps and dots. `plots.html.jinja` renders it as SVG.

A chart is `CHART_WIDTH` x `CHART_HEIGHT` pixels inside its axes. Hues distinguish arms and dashes distinguish nodes;
both repeat after `HUE_COUNT` and `DASH_COUNT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from math import floor, log10
from typing import Final, NamedTuple

from labwright.inspector.run_files import read_curve_points

CHART_WIDTH, CHART_HEIGHT = 320.0, 130.0
HUE_COUNT, DASH_COUNT = 8, 6
MAX_CHARTS, MAX_LINES, MAX_POINTS = 24, 24, 400
MAX_MAGNITUDE: Final = 1e300
"""Larger values are clipped to this magnitude, so differences stay finite."""
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
    zero: bool = False,
    whole: bool = False,
    tight: bool = False,
) -> Axis:
    """Build an axis over all values with about `ticks` ticks, at integers if `whole`. It ends at a tick unless
    `tight`."""
    found = [min(max(value, -MAX_MAGNITUDE), MAX_MAGNITUDE) for value in values] + [0.0] * zero or [0.0, 1.0]
    low, high = min(found), max(found)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - abs(low or 1.0) / 10 * (not zero), high + abs(high or 1.0) / 10
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
    dash: int = 0


class Chart(NamedTuple):
    """Lines on one pair of axes. `left_out` counts lines that are not drawn.

    `arms` and `nodes` are the labels of hues and dashes, if there are several of both.
    """

    title: str
    x: Axis
    y: Axis
    lines: tuple[ChartLine, ...]
    left_out: int = 0
    arms: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


Curves = Mapping[tuple[str, str], Points]
"""(arm, node) -> points; the arm determines the hue, the node the dash."""


def build_chart(title: str, x: str, y: str, curves: Curves, *, zero: bool = False, steps: bool = False) -> Chart:
    """Build a chart of non-empty curves; with `steps`, a value holds until the next point."""
    shown = dict(islice(curves.items(), MAX_LINES))
    arms, nodes = ({name: n for n, name in enumerate(dict.fromkeys(key[part] for key in shown))} for part in (0, 1))
    ats = [at for points in shown.values() for at, _ in points]
    across = build_axis(x, ats, whole=all(float(at).is_integer() for at in ats), tight=True)
    values = [value for points in shown.values() for _, value in points]
    up = build_axis(
        y, values, CHART_HEIGHT, ticks=4, zero=zero, whole=zero and all(float(one).is_integer() for one in values)
    )
    return Chart(
        title,
        across,
        up,
        tuple(
            ChartLine(
                " · ".join(filter(None, (arm, node))),
                to_polyline(to_steps(points) if steps else points, across, up),
                points[-1][1],
                arms[arm] % HUE_COUNT,
                nodes[node] % DASH_COUNT,
            )
            for (arm, node), points in shown.items()
        ),
        len(curves) - len(shown),
        *((tuple(arms), tuple(nodes)) if len(arms) > 1 and len(nodes) > 1 else ()),
    )


def to_steps(points: Points) -> Points:
    """Return the corners of the steps between points."""
    return [points[0], *(corner for (_, value), after in pairwise(points) for corner in ((after[0], value), after))]


def to_polyline(points: Points, x: Axis, y: Axis) -> str:
    """Convert points to an SVG polyline, thinned if there are very many points; the last one is kept."""
    every = max(1, len(points) // MAX_POINTS)
    kept = [*points[::every], *([points[-1]] if (len(points) - 1) % every else [])]
    return " ".join(f"{x.to_pixels(at)},{round(y.length - y.to_pixels(value), 1)}" for at, value in kept)


def build_charts(lines: Mapping[str, Iterable[bytes]]) -> tuple[Chart, ...]:
    """Build charts of the values with a step in nodes' measurements.jsonl, one per metric, dataset and split."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for node, text in lines.items():
        for one in read_curve_points(text):
            of = found.setdefault((f"{one.name} on {one.dataset} ({one.split})", one.name), {})
            of.setdefault((one.condition, node), []).append((one.step, one.value))
    return tuple(
        build_chart(title, "step", name, curves) for (title, name), curves in islice(found.items(), MAX_CHARTS)
    )
