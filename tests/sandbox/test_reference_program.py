"""The program of the reference models in a kernel, on each kind of dataset, and compared with plain scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.reference_baselines import PROGRAM
from labwright.record.schema.data_plan import HyperparameterSetting
from labwright.record.schema.nodes import Cell
from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry, materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import CellResult, Job
from tests.jobs import cell_tasks, run_job
from tests.sandbox.conftest import SETTINGS

TREES: HyperparameterSetting = {
    "model": "boosted trees",
    "learning_rate": 0.1,
    "rounds": 30,
    "leaves": 7,
    "leaf_size": 5,
}
LINEAR: HyperparameterSetting = {"model": "linear", "penalty": 1.0}
SIZE = 120


def examples(name: str) -> dict[str, Any]:
    """Images whose upper half determines the class, tokens of which one does, and windows of a random walk."""
    rng = np.random.default_rng(0)
    y = np.arange(SIZE) % 2
    if name == "pictures":
        x = rng.integers(0, 120, (SIZE, 8, 8), dtype=np.uint8)
        x[y == 1, :4] += 130
        return {"x": x, "y": y}
    if name == "tokens":
        x = rng.integers(2, 300, (SIZE, 12))
        x[:, 3] = np.where(y == 1, 0, 1)
        return {"x": x, "y": y}
    walk = rng.normal(size=(SIZE, 6)).cumsum(axis=1) * 10
    return {"x": walk[:, :5].astype(np.float32), "y": walk[:, 5].astype(np.float32)}


async def values_of(
    folder: Path, cells: Mapping[Cell, HyperparameterSetting], pretrained: Mapping[str, Path] | None = None
) -> dict[Cell, dict[str, float]]:
    """Return the validation values of each cell."""
    names = tuple(dict.fromkeys(cell.dataset for cell in cells))
    for name in names:
        np.savez(folder / f"{name}.npz", allow_pickle=False, **examples(name))
    sources = build_registry([parse_spec(f"{name}={folder / name}.npz", folder) for name in names])
    for name in names:
        materialise(name, views=folder / "views", labels=folder / "labels", seed=0, sources=sources)
    executor = LocalExecutor(
        1,
        folder / "views",
        labels=folder / "labels",
        settings=SETTINGS,
        cache=folder / "cache",
        pretrained=dict(pretrained or {}),
    )
    found: dict[Cell, dict[str, float]] = {}

    async def took(cell: Cell, outcome: CellResult, place: Path) -> Path:
        assert outcome.failure is None, outcome.failure
        found[cell] = {one.name: one.value for one in outcome.measurements}
        assert outcome.sealed, "test predictions are submitted, unscored"
        return place

    try:
        await run_job(
            executor,
            Job(
                name="ladder",
                folder=folder / "job",
                source={"experiment.py": PROGRAM.read_text()},
                timeout=120.0,
                cells=cell_tasks(cells, settings=cells),
            ),
            commit=took,
        )
    finally:
        await executor.close()
    return found


def cell(dataset: str, arm: str = "off-the-shelf", trial: int = 0) -> Cell:
    return Cell(dataset=dataset, arm=arm, trial=trial)


@pytest.mark.slow
async def test_every_kind_of_dataset_has_rungs(tmp_path: Path) -> None:
    plain, parts = {"features": "plain"}, {"features": "components", "components": 8}
    found = await values_of(
        tmp_path,
        {
            cell("pictures", "trivial"): {},
            cell("pictures", trial=1): TREES | plain,
            cell("pictures", trial=2): LINEAR | parts,
            cell("tokens", trial=1): TREES,
            cell("tokens", trial=2): LINEAR,
            cell("windows", "trivial"): {},
            cell("windows", trial=1): LINEAR,
        },
    )
    trivial = found.pop(cell("pictures", "trivial"))
    assert trivial["accuracy"] == 0.5 and trivial["log_loss"] == pytest.approx(np.log(2), abs=1e-3)
    last = found.pop(cell("windows", "trivial"))
    assert 50 < last["mse"] < 200 and last["r2"] > 0.5, "the last value of the row, whose steps have variance 100"
    assert found.pop(cell("windows", trial=1))["r2"] > 0.5
    assert all(one["accuracy"] > 0.75 for one in found.values()), found
