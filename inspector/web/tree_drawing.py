"""Geometry of a stage's tree and of intervals. Templates render it as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from labwright.inspector.render import STATUS_SYMBOLS
from labwright.inspector.tree import NodeRow, StageRows
from labwright.record.claims.estimates import Claim
from labwright.record.schema.hypotheses import EffectDecision
from labwright.record.schema.nodes import NodeKind, NodeStatus

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
    return tuple(
        IntervalBar(
            one,
            tuple(map(at, one.values)),
            at(one.mean),
            (at(one.low), at(one.high)) if one.low is not None and one.high is not None else None,
            at(0.0) if zero else None,
        )
        for one in claims
    )


def draw_effect(part: EffectDecision) -> IntervalBar[EffectDecision] | None:
    """Draw an effect on its own scale; None before it was measured."""
    if part.mean is None:
        return None
    limit = part.effect.limit
    at = _make_scale([*part.values, part.low, part.high, part.mean, 0.0, limit])
    ends = (at(part.low), at(part.high)) if part.low is not None and part.high is not None else None
    return IntervalBar(part, tuple(map(at, part.values)), at(part.mean), ends, at(0.0), at(limit))


def _make_scale(values: Sequence[float | None]) -> Callable[[float], float]:
    """Return a linear scale from values to pixels of a bar."""
    there = [value for value in values if value is not None]
    low, high = min(there, default=0.0), max(there, default=1.0)
    return lambda value: round(6 + 148 * (value - low) / ((high - low) or 1.0), 1)
