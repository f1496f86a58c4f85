"""Where nodes are drawn: what holds for every forest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from labwright.inspector.web.charts import assign_columns

Forest = dict[str, str | None]


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Each node below one of those that led to the node before it, or a new root."""
    found, path = Forest(), list[str]()
    for n in range(draw(st.integers(0, 40))):
        path = path[: draw(st.integers(0, len(path)))]
        found[str(n)] = path[-1] if path else None
        path.append(str(n))
    return found


@given(forests())
def test_no_two_nodes_touch_and_parents_stand_above_the_middle(forest: Forest) -> None:
    across, depth = assign_columns(forest), dict[str, int]()
    levels: dict[int, list[float]] = {}
    children: dict[str, list[float]] = {}
    for node, parent in forest.items():
        depth[node] = depth[parent] + 1 if parent is not None else 0
        levels.setdefault(depth[node], []).append(across[node])
        if parent is not None:
            children.setdefault(parent, []).append(across[node])
    for level in levels.values():
        assert all(b - a > 0.999 for a, b in pairwise(level)), "in the order of decisions, one beside the other"
    for parent, places in children.items():
        assert across[parent] == (places[0] + places[-1]) / 2
    assert min(across.values(), default=0) == 0


def test_a_subtree_looks_the_same_wherever_it_stands_and_a_long_chain_is_drawn() -> None:
    shape: Forest = {"a": None, "b": "a", "d": "b", "e": "b", "c": "a", "f": "c"}
    alone, beside = assign_columns(shape), assign_columns({"z": None, "y": "z"} | shape)
    assert {beside[node] - alone[node] for node in shape} == {1.0}
    assert assign_columns({str(n): str(n - 1) if n else None for n in range(5000)})["4999"] == 0
