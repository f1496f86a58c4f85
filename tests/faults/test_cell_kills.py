"""A study of cells in real kernels, killed at random moments: `benchmarks.durability --only cells` (fifty), `--only
tuning` (twenty amid its trials)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import cell_kills
from tests.execution_cache import VARIABLE


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")
@pytest.mark.parametrize("tuning", [False, True])
def test_a_kill_repeats_the_cells_in_flight_and_changes_nothing(
    tuning: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)  # kernels are the subject
    monkeypatch.setattr(cell_kills, "MAX_DELAY_SECONDS", 0.1)  # so that some cell is in flight
    found = cell_kills.measure_kills(tmp_path, kills=3, tuning=tuning)
    assert cell_kills.cells_are_intact(found), found
    assert found["taken_over"] > 0 and found["begun"] > found["committed"]
