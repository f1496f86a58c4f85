"""What a cell is taken over for is what it would measure: whatever its program reads is in its key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from labwright.record.schema.nodes import Cell
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE
from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.job import Job
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.nodes.node_cells import compute_cell_keys
from labwright.stages.stage_report import build_stage_view
from tests.jobs import cell_tasks, run_job
from tests.stages.test_prompt_inputs import Story

Source = dict[str, str]
ARMS = ("plain", "mixup", "no-warmup")
"""Those of the story's plan."""


LISTING = """
import hashlib, os, lab
def run(cell):
    for at, _, names in sorted(os.walk(".")):
        for name in sorted(names):
            if name.endswith((".py", ".txt", ".json")) and name != "stdout.txt":
                place = os.path.join(at, name)
                print(place, hashlib.sha256(open(place, "rb").read()).hexdigest())
    data = lab.data(cell.dataset)
    lab.submit(split="validation", predictions=[0] * len(data.validation.x))
    lab.submit(split="test", predictions=[0] * len(data.test.x))
lab.measure(run)
"""


@pytest.mark.slow
def test_in_kernels_a_cell_finds_the_files_of_its_key_and_no_others(tmp_path: Path) -> None:
    bench = Story(tmp_path / "run").bench
    materialise("digits", views=tmp_path / "views", labels=tmp_path / "labels", seed=1)
    cells = tuple(Cell(dataset="digits", arm=arm) for arm in ("plain", "no-warmup"))
    before = {
        ENTRY_FILE: LISTING,
        "common.py": "",
        "data/more.txt": "1",
        "arms/mixup.py": "",
        "arms/no_warmup.py": "",
        PLOTS_FILE: "",
    }
    after = before | {"arms/no_warmup.py": "VALUE = 1\n", "arms/mixup.py": "VALUE = 1\n", PLOTS_FILE: "# other\n"}

    async def listed() -> list[dict[Cell, str]]:
        executor = LocalExecutor(
            1,
            tmp_path / "views",
            labels=tmp_path / "labels",
            cache=tmp_path / "cache",
            settings=SandboxSettings(grace=0.5, isolation="none"),
        )
        try:
            return [await one(executor, name, source) for name, source in (("before", before), ("after", after))]
        finally:
            await executor.close()

    async def one(executor: LocalExecutor, name: str, source: Source) -> dict[Cell, str]:
        outcome = await run_job(
            executor,
            Job(name=name, folder=tmp_path / name, source=source, cells=cell_tasks(cells), arms=ARMS, timeout=120.0),
        )
        assert [line.outcome for line in outcome.cells] == ["measured"] * len(cells), outcome
        return {cell: (tmp_path / name / "cells" / cell.name / "stdout.txt").read_text() for cell in cells}

    first, second = asyncio.run(listed())
    view = build_stage_view(bench, "preliminary")
    old, new = (compute_cell_keys(cells, source, arms=ARMS, context=bench, view=view) for source in (before, after))
    plain, without = cells
    assert old[plain] == new[plain] and first[plain] == second[plain]
    assert old[without] != new[without] and first[without] != second[without]
    assert "no_warmup" in first[without] and not any(name in first[plain] for name in ("arms/", PLOTS_FILE))
    assert "common.py" in first[plain] and "data/more.txt" in first[plain]
