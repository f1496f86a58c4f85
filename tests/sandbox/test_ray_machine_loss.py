"""A cluster of four machines that loses two; in a separate process, since Ray reads token and address once."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from labwright.sandbox.cluster.executor import RayExecutor
from labwright.sandbox.cluster.ray_cluster import disconnect
from tests.ray_cluster import start_cluster
from tests.sandbox.conftest import DatasetStore
from tests.sandbox.test_ray import CommittedCells, celled, settings_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.bench,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray (make setup installs it)"),
]
ALONE = "RAY_FOUR_ALONE"


@pytest.mark.skipif(ALONE not in os.environ, reason="run by the test below")
async def test_of_four_machines_two_vanish(store: DatasetStore, tmp_path: Path) -> None:
    four = start_cluster(4)
    executor = RayExecutor(
        6, store.views, labels=store.labels, settings=settings_for(four, store), cache=tmp_path / "cache"
    )

    def kill() -> None:
        for machine in four.machines[2:]:
            machine.kill()

    try:
        on_cell_ended = CommittedCells(after=4, then=kill)
        outcome = await executor.run(celled(tmp_path / "a", 16, 0.5, on_cell_ended=on_cell_ended))
        assert [one.outcome for one in outcome.cells] == ["measured"] * 16
        assert len(on_cell_ended.cells) == len({*on_cell_ended.cells}) == 16
    finally:
        await executor.close()
        disconnect()
        four.end()


@pytest.mark.skipif(ALONE in os.environ, reason="it is what runs this")
def test_four_machines_in_a_process_of_their_own() -> None:
    name = f"{__file__}::{test_of_four_machines_two_vanish.__name__}"
    words = ["-q", "-n", "0", "-m", "bench", "-p", "no:cacheprovider", name]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env=os.environ | {ALONE: "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout[-3000:]
