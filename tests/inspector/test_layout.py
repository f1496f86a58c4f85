"""Where nodes are drawn: what holds for every forest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inspector.web.drawing import Spot, tidy

Forest = list[tuple[str, str | None]]


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    size = draw(st.integers(0, 40))
    return [(str(n), str(draw(st.integers(0, n - 1))) if n and draw(st.booleans()) else None) for n in range(size)]


@given(forests())
def test_no_two_nodes_touch_and_parents_stand_above_the_middle(forest: Forest) -> None:
    spots = tidy(forest)
    assert list(spots) == [node for node, _ in forest]
    levels: dict[int, list[float]] = {}
    children: dict[str, list[Spot]] = {}
    for node, parent in forest:
        levels.setdefault(spots[node].y, []).append(spots[node].x)
        assert spots[node].y == (spots[parent].y + 1 if parent is not None else 0)
        if parent is not None:
            children.setdefault(parent, []).append(spots[node])
    for level in levels.values():
        assert all(b - a > 0.999 for a, b in pairwise(sorted(level)))
    for parent, found in children.items():
        assert abs(spots[parent].x - (found[0].x + found[-1].x) / 2) < 1e-9
        assert [one.x for one in found] == sorted(one.x for one in found)
    assert not spots or abs(min(spot.x for spot in spots.values())) < 1e-9


def test_a_subtree_looks_the_same_wherever_it_stands() -> None:
    shape = [("a", None), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c")]
    alone = tidy(shape)
    beside = tidy([("z", None), ("y", "z"), *shape])
    assert len({round(beside[node].x - alone[node].x, 9) for node, _ in shape}) == 1


def test_a_shallow_subtree_lies_beside_the_foot_of_a_deep_one() -> None:
    spots = tidy([("a", None), ("b", "a"), ("c", "b"), ("d", "b"), ("e", "b"), ("x", None)])
    assert spots["x"].x - spots["a"].x == 1.0


def test_an_unknown_parent_makes_a_root_and_a_long_chain_is_drawn() -> None:
    assert tidy([("a", "gone"), ("b", "b")]) == {"a": Spot(0, 0), "b": Spot(1, 0)}
    chain: Forest = [(str(n), str(n - 1) if n else None) for n in range(5000)]
    assert tidy(chain)["4999"] == Spot(0, 4999)
