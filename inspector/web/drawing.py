"""Geometry of what is drawn: a stage's tree, curves, intervals. Templates turn it into SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from inspector.files import curve_points
from inspector.render import STATUS
from inspector.tree import Row, StageRows
from record.claims import Claim
from record.nouns.nodes import NodeKind, NodeStatus

KIND_SHAPE: Final[Mapping[NodeKind, str]] = {
    "draft": "M0-12A12 12 0 1 1 0 12A12 12 0 1 1 0-12Z", "debug": "M0-14L14 0L0 14L-14 0Z",
    "improve": "M0-14L13.5 10L-13.5 10Z", "tune": "M-11-11H11V11H-11Z", "ablate": "M-7-12H7L14 0L7 12H-7L-14 0Z",
    "replicate": "M0-8.5A8.5 8.5 0 1 1 0 8.5A8.5 8.5 0 1 1 0-8.5Z",
    "aggregate": "M0-13L12.4-4L7.6 10.5H-7.6L-12.4-4Z"}
"""SVG paths around (0, 0)."""
MARKS: Final[Mapping[NodeStatus, str]] = {status: mark.symbol for status, mark in STATUS.items()}
"""What stands within a shape, so that a colour is never needed."""
ACROSS, DOWN, EDGE, ABOVE, BELOW, WIDE = 78.0, 88.0, 40.0, 36.0, 44.0, 540.0
CURVES, POINTS = 24, 400


class Placed(NamedTuple):
    """A node's place in pixels, and that of its parent where it is drawn in the same stage."""

    row: Row
    x: float
    y: float
    above: tuple[float, float] | None

    def at_origin(self) -> Placed:
        """The same, moved so that the node stands at (0, 0): equal wherever a subtree was moved to as a whole."""
        return Placed(self.row, 0.0, 0.0, self.above and (
            round(self.above[0] - self.x, 1), round(self.above[1] - self.y, 1)))


class Drawn(NamedTuple):
    """A stage's tree."""

    width: float
    height: float
    nodes: tuple[Placed, ...]


def drawn(stage: StageRows) -> Drawn:
    """The tree of a stage, its rows in order; width and height in pixels."""
    spots = tidy((row.id, row.parent if row.depth else None) for row in stage.nodes)
    at = {node: (round(EDGE + spot.x * ACROSS, 1), round(ABOVE + spot.y * DOWN, 1)) for node, spot in spots.items()}
    placed = tuple(Placed(row, *at[row.id], at.get(row.parent or "") if row.depth else None) for row in stage.nodes)
    return Drawn(width=max((one.x + EDGE for one in placed), default=0),
                 height=max((one.y + BELOW for one in placed), default=0), nodes=placed)


class Curve(NamedTuple):
    """A line of a chart: its label, where SVG's polyline goes, and its last value."""

    label: str
    points: str
    last: float


class Chart(NamedTuple):
    """Curves of one metric on one dataset, in a box of 320 x 130."""

    title: str
    low: float
    high: float
    first: int
    last: int
    curves: tuple[Curve, ...]
    left_out: int


def charts(lines: Iterable[bytes]) -> tuple[Chart, ...]:
    """Charts of the values with a step in measurements.jsonl, one for each metric, dataset and split."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for one in curve_points(lines):
        title = f"{one.name} on {one.dataset} ({one.split})"
        found.setdefault(title, {}).setdefault(one.condition, []).append((one.step, one.value))
    made: list[Chart] = []
    for title, curves in islice(found.items(), CURVES):
        shown = dict(islice(curves.items(), 8))
        steps, values = zip(*(point for points in shown.values() for point in points), strict=True)
        low, high, first, last = min(values), max(values), min(steps), max(steps)
        across, up = (last - first) or 1, (high - low) or 1.0
        drawn_curves = tuple(Curve(label, " ".join(
            f"{320 * (step - first) / across:.1f},{130 - 130 * (value - low) / up:.1f}"
            for step, value in points[:: max(1, len(points) // POINTS)]), points[-1][1])
            for label, points in shown.items())
        made.append(Chart(title, low, high, first, last, drawn_curves, len(curves) - len(shown)))
    return tuple(made)


class Interval(NamedTuple):
    """A claim beside a bar of 160: replicates as dots, the interval as a line. None where there is no interval."""

    claim: Claim
    dots: tuple[float, ...]
    mean: float
    ends: tuple[float, float] | None


def intervals(claims: Sequence[Claim]) -> tuple[Interval, ...]:
    """Claims of one metric on one common scale."""
    every = [value for one in claims for value in (*one.values, one.low, one.high) if value is not None]
    low, high = min(every, default=0.0), max(every, default=1.0)

    def at(value: float) -> float:
        return round(6 + 148 * (value - low) / ((high - low) or 1.0), 1)

    return tuple(Interval(
        one, tuple(map(at, one.values)), at(one.mean),
        (at(one.low), at(one.high)) if one.low is not None and one.high is not None else None) for one in claims)


# --- where the nodes of a forest stand ------------------------------------------------------------------------------


class Spot(NamedTuple):
    """A place in units of one node: `x` from 0, the leftmost; `y` is the depth."""

    x: float
    y: int


@dataclass
class _Subtree:
    """Subtrees side by side. `outline` has by level, the deepest first, how far left and right they reach.

    `shift` is to be added to each number of the outline.
    """

    outline: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    shift: float = 0.0


def tidy(nodes: Iterable[tuple[str, str | None]]) -> dict[str, Spot]:
    """The place of every node. `nodes` are (id, parent), parents first; an unknown parent makes a root.

    Every parent stands in the middle above its children, subtrees of equal shape look the same wherever they stand,
    and siblings lie as near to each other as their outlines allow.

    Source: Reingold and Tilford, "Tidier Drawings of Trees", IEEE Transactions on Software Engineering 7 (1981):
    outlines are merged from the leaves up, and each is read only as deep as the shallower of two.
    """
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for node, parent in nodes:
        children[node] = []
        (children[parent] if parent is not None and parent in children and parent != node else roots).append(node)
    offsets, subtrees = dict[str, float](), dict[str, _Subtree]()
    for node in reversed(children):  # a child always comes after its parent
        whole, places = _beside([subtrees.pop(child) for child in children[node]])
        middle = (places[0] + places[-1]) / 2 if places else 0.0
        offsets |= {child: place - middle for child, place in zip(children[node], places, strict=True)}
        whole.shift -= middle
        whole.outline.append((-whole.shift, -whole.shift))
        subtrees[node] = whole
    forest, places = _beside([subtrees[root] for root in roots])
    least = min((left for left, _ in forest.outline), default=0.0) + forest.shift
    spots: dict[str, Spot] = {root: Spot(place - least, 0) for root, place in zip(roots, places, strict=True)}
    for node, below in children.items():
        spots |= {child: Spot(spots[node].x + offsets[child], spots[node].y + 1) for child in below}
    return {node: spots[node] for node in children}


def _beside(subtrees: list[_Subtree]) -> tuple[_Subtree, list[float]]:
    """Subtrees set side by side as one, and where each root stands."""
    if not subtrees:
        return _Subtree(), []
    whole, places = subtrees[0], [0.0]
    for one in subtrees[1:]:
        shared = min(len(whole.outline), len(one.outline))
        gap = max(1.0 + whole.outline[-level][1] + whole.shift - one.outline[-level][0] - one.shift
                  for level in range(1, shared + 1))
        one.shift += gap
        places.append(gap)
        # the outline of the deeper one is kept, so that only shared levels cost anything
        deeper = whole if len(whole.outline) >= len(one.outline) else one
        for level in range(1, shared + 1):
            left, right = whole.outline[-level][0] + whole.shift, one.outline[-level][1] + one.shift
            deeper.outline[-level] = left - deeper.shift, right - deeper.shift
        whole = deeper
    return whole, places
