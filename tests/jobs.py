"""Build jobs, and run them to their end, for tests of executors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from labwright.record.run_folder import ResultFolder
from labwright.record.schema.data_plan import DatasetFacts, HyperparameterSetting, ResourceNeeds
from labwright.record.schema.nodes import Cell
from labwright.sandbox.job import CellEnded, CellResult, CellStarted, CellTask, Executor, Job, JobEnded, JobOutcome
from labwright.sandbox.results import write_job_output

SCRIPT = Cell(dataset="", arm="")
"""The cell of a plain script."""
Commit = Callable[[Cell, CellResult, Path], Awaitable[Path]]


def cell_tasks(
    cells: Iterable[Cell],
    *,
    settings: Mapping[Cell, HyperparameterSetting] | None = None,
    keys: Mapping[Cell, str] | None = None,
    needs: Mapping[str, ResourceNeeds] | None = None,
    expected: Mapping[Cell, float] | None = None,
    measured: Mapping[Cell, Path] | None = None,
    known: Mapping[Cell, CellResult] | None = None,
) -> dict[Cell, CellTask]:
    """Return the cells of a job; `needs` are by arm, `measured` are folders of earlier executions."""
    measured = measured or {}
    results = {cell: CellResult(cell=cell) for cell in measured} | dict(known or {})
    return {
        cell: CellTask(
            key=(keys or {}).get(cell, ""),
            setting=(settings or {}).get(cell, {}),
            needs=(needs or {}).get(cell.arm, ResourceNeeds()),
            expected_seconds=(expected or {}).get(cell),
            known=results.get(cell),
            folder=measured.get(cell),
        )
        for cell in cells
    }


def make_facts_json(classes: int, **more: Any) -> str:
    """Return the facts of a dataset as they are stored with its labels."""
    needed: dict[str, Any] = {"name": "d", "source": "made", "features": 1, "sizes": {}, "fingerprint": "", "seed": 0}
    return DatasetFacts(classes=classes, **needed, **more).model_dump_json()


async def run_job(
    executor: Executor, job: Job, *, commit: Commit | None = None, on_start: Callable[[], None] = lambda: None
) -> JobOutcome:
    """Run a job to its end. The files of a plain script are then in the job's folder."""
    async with executor.measure(job) as stream:
        async for event in stream:
            if isinstance(event, CellStarted):
                on_start()
            elif isinstance(event, CellEnded):
                if commit is not None:
                    event.folder = await commit(event.result.cell, event.result, event.folder)
            elif isinstance(event, JobEnded):
                if event.outcome.cells:
                    tail = write_job_output(job.folder, job, event.outcome)
                    return event.outcome.model_copy(update={"stdout_tail": tail})
                return _move_script(job, event.outcome)
    raise AssertionError("the stream ended without an outcome")


def _move_script(job: Job, outcome: JobOutcome) -> JobOutcome:
    for cell, (folder, result) in outcome.folders.items():
        if cell.is_script and folder.is_dir() and job.folder.absolute() in folder.parents:
            for path in folder.iterdir():
                target = job.folder / path.name
                if target.is_dir() and not target.is_symlink():
                    shutil.rmtree(target)
                os.replace(path, target)
            return outcome.model_copy(update={"folders": {cell: ResultFolder(job.folder, result)}})
    return outcome
