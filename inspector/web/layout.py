"""Where the nodes of a forest are drawn: a pure function.

Every parent stands in the middle above its children, subtrees of equal shape look the same wherever they stand, and
siblings lie as near to each other as their outlines allow.

Source: Reingold and Tilford, "Tidier Drawings of Trees", IEEE Transactions on Software Engineering 7 (1981): outlines
of subtrees are merged from the leaves up, and each outline is read only as deep as the shallower of two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Spot(NamedTuple):
    """A place in units of one node: `x` from 0, the leftmost; `y` is the depth."""

    x: float
    y: int


@dataclass
class _Subtree:
    """A subtree as seen from its root: offsets of its outline, the deepest level first, so that a root is appended."""

    left: list[float] = field(default_factory=list[float])
    right: list[float] = field(default_factory=list[float])
    shift: float = 0.0
    """What is to be added to each number of the outlines."""


def tidy(nodes: Iterable[tuple[str, str | None]]) -> dict[str, Spot]:
    """The place of every node. `nodes` are (id, parent), parents first; an unknown parent makes a root."""
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for node, parent in nodes:
        children[node] = []
        (children[parent] if parent is not None and parent in children and parent != node else roots).append(node)
    offsets = _offsets(children)
    spots: dict[str, Spot] = {}
    top, places = _beside([offsets.outlines[root] for root in roots])
    waiting = [(root, place, 0) for root, place in zip(roots, places, strict=True)]
    while waiting:
        node, x, depth = waiting.pop()
        spots[node] = Spot(x, depth)
        waiting += [(child, x + offsets.of[child], depth + 1) for child in children[node]]
    least = min(top.left, default=0.0) + top.shift
    return {node: Spot(spots[node].x - least, spots[node].y) for node in children}


@dataclass
class _Offsets:
    of: dict[str, float] = field(default_factory=dict[str, float])
    """How far a node stands right of its parent."""
    outlines: dict[str, _Subtree] = field(default_factory=dict[str, _Subtree])


def _offsets(children: dict[str, list[str]]) -> _Offsets:
    """Subtrees from the leaves up: a child always comes after its parent in `children`."""
    found = _Offsets()
    for node in reversed(children):
        inner, places = _beside([found.outlines.pop(child) for child in children[node]])
        middle = (places[0] + places[-1]) / 2 if places else 0.0
        for child, place in zip(children[node], places, strict=True):
            found.of[child] = place - middle
        inner.shift -= middle
        inner.left.append(-inner.shift)
        inner.right.append(-inner.shift)
        found.outlines[node] = inner
    return found


def _beside(subtrees: list[_Subtree]) -> tuple[_Subtree, list[float]]:
    """The outline of subtrees set side by side, and where each root stands."""
    if not subtrees:
        return _Subtree(), []
    whole, places = subtrees[0], [0.0]
    for one in subtrees[1:]:
        shared = min(len(whole.right), len(one.left))
        gap = max(1.0 + whole.right[-level] + whole.shift - one.left[-level] - one.shift
                  for level in range(1, shared + 1))
        one.shift += gap
        places.append(gap)
        whole = _merged(whole, one, shared)
    return whole, places


def _merged(a: _Subtree, b: _Subtree, shared: int) -> _Subtree:
    """The common outline: the deeper subtree's lists are kept, so that only shared levels cost anything."""
    deeper, other, side = (a, b, "right") if len(a.left) >= len(b.left) else (b, a, "left")
    if shared:
        mine: list[float] = getattr(deeper, side)
        theirs: list[float] = getattr(other, side)
        mine[-shared:] = [value + other.shift - deeper.shift for value in theirs[-shared:]]
    return deeper
