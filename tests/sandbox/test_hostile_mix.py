"""Hostile cells run with as many honest ones, whose results do not change; nothing else changes either."""

from __future__ import annotations

import json
from typing import Any

import pytest

from labwright.sandbox.isolation import bubblewrap
from tests.sandbox.conftest import running_module
from tests.sandbox.hostile_mix import CELLS

CASES = [("required", 1, False)]
MORE = [
    ("none", 2, False),
    *(
        (isolation, seed, ordinary)
        for isolation in ("required", "none")
        for seed in (3, 4, 5)
        for ordinary in (False, True)
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isolation", "seed", "ordinary"), [*CASES, *(pytest.param(*case, marks=pytest.mark.bench) for case in MORE)]
)
def test_hostile_cells_change_nothing_around_them(isolation: str, seed: int, ordinary: bool) -> None:
    if isolation == "required" and not bubblewrap.get_probed_isolation().between_cells:
        pytest.skip(f"no walls between cells here: {bubblewrap.get_probed_isolation().reason}")
    with running_module("tests.sandbox.hostile_mix", isolation, str(seed), ordinary=ordinary) as text:
        found: dict[str, Any] = json.loads(text)
    assert len(found["alone"]) == CELLS and found["beside"] == found["alone"]
    assert found["victim_unchanged"]
    assert not found["left"]
    assert isolation == "none" or not found["orphans"]
