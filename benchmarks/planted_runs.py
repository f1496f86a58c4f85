"""Run planted programs in plain subprocesses with `lab`, on data of scikit-learn, as in a real run.

Each is run once as it is, with permuted labels, and with replaced rows; then the facts of the run and the probes are
evaluated as in `stages`. Nothing is sandboxed, since the checks are measured, not the sandbox.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.planted import Program
from labwright.record.python_syntax import collect_reads
from labwright.record.schema.data_plan import DataPlan, Measurement, MetricSpec
from labwright.record.schema.nodes import Cell, HonestyFinding
from labwright.review.honesty.code_reading import find_equal_arms
from labwright.review.honesty.label_probe import (
    MAX_PERMUTATIONS,
    ROW_PROBE_SCRIPT,
    ProbeResult,
    build_probe_script,
    find_arms_ignoring_labels,
    judge_label_permutation,
    judge_row_replacement,
)
from labwright.sandbox.datasets import SALT_FILE, materialise
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.job import SandboxError
from labwright.sandbox.results import measure_attempt
from labwright.sandbox.scoring import SubmittedPredictions, compute_constants, read_final_predictions

KERNEL = KERNEL_SIDE
DATASETS = ("digits", "wine", "iris", "breast_cancer", "diabetes")


@dataclass
class PlantedExecution:
    """Output of one execution of a program, over all its cells."""

    error: str = ""
    measurements: tuple[Measurement, ...] = ()
    predicted: tuple[SubmittedPredictions, ...] = ()


@dataclass(frozen=True)
class PlantedFacts:
    """Findings from executions of a program: facts of the run and probes."""

    findings: tuple[HonestyFinding, ...]
    measurements: tuple[Measurement, ...] = ()
    error: str = ""
    seconds: float = 0.0


class PlantedRunner:
    """Runs programs in its own folder; close it after use."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory()
        self._root = Path(self._place.name)
        self._views, self._labels = self._root / "views", self._root / "labels"
        self._labels.mkdir()
        (self._labels / SALT_FILE).touch()  # rows of sorted data have one order in every run of the benchmark
        for name in DATASETS:
            materialise(name, views=self._views, labels=self._labels, seed=1)
        (self._root / "none.json").write_text(
            json.dumps(
                {
                    "seed": 0,
                    "deadline": 0,
                    "device": "cpu",
                    "mode": "experiment",
                    "folder": str(self._root),
                    "entry": "",
                    "datasets": {},
                }
            )
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(KERNEL),
            "LAB_JOB": str(self._root / "none.json"),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(self._root),
        }
        self._worker = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("planted_worker.py"))],
            text=True,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._count = 0

    def __enter__(self) -> PlantedRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.kill()
        self._worker.wait()
        self._place.cleanup()

    def chance_levels(self, metric: MetricSpec) -> dict[str, float]:
        return compute_constants(self._labels, [metric]).get(metric.name, {})

    def execute(
        self, files: Mapping[str, str], *, entry: str = "experiment.py", seed: int = 0, cells: Sequence[Cell] = ()
    ) -> PlantedExecution:
        """Execute a program, or its cells in turn."""
        whole = PlantedExecution()
        for cell in cells or (None,):
            one = self._execute_one(files, entry, seed, cell)
            whole.error = whole.error or one.error
            whole.measurements += one.measurements
            whole.predicted += one.predicted
        return whole

    def _execute_one(self, files: Mapping[str, str], entry: str, seed: int, cell: Cell | None) -> PlantedExecution:
        self._count += 1
        folder = self._root / f"run{self._count}"
        for name in ("submissions", "arrays", "artifacts", "checkpoints"):
            (folder / name).mkdir(parents=True)
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        job = {
            "seed": seed,
            "deadline": time.monotonic() + 60,
            "device": "cpu",
            "mode": "experiment",
            "limit": 60,
            "folder": str(folder),
            "entry": entry,
            "cache": str(folder / "cache"),
            "tree": str(self._count),
            "datasets": {name: str(self._views / f"{name}.npz") for name in DATASETS},
            "cell": cell and {**cell.model_dump(include={"dataset", "arm", "level", "seed"})},
        }
        path = folder.with_suffix(".json")
        path.write_text(json.dumps(job))
        assert self._worker.stdin is not None and self._worker.stdout is not None
        self._worker.stdin.write(json.dumps({"job": str(path), "folder": str(folder)}) + "\n")
        self._worker.stdin.flush()
        reply: dict[str, Any] = json.loads(self._worker.stdout.readline())
        found = PlantedExecution(error=reply["error"])
        try:
            found.measurements = measure_attempt(folder, self._labels, seed=seed).measurements
            found.predicted = read_final_predictions(folder, self._labels)
        except SandboxError as error:
            found.error = found.error or str(error)
        return found


def find_facts(runs: PlantedRunner, planted: Program, plan: DataPlan) -> PlantedFacts:
    """Return the findings from running a program on the dataset that it names, or the first one that works."""
    began, files, error = time.monotonic(), {"experiment.py": planted.source}, ""
    grid = collect_reads(planted.source) is not None
    named = [name for name in DATASETS if f'"{name}"' in planted.source]
    for dataset in (named or ["breast_cancer", "diabetes", "digits"])[: None if grid else 1]:
        cells = [Cell(dataset=dataset, arm=arm.name) for arm in plan.arms] if grid else []
        first = runs.execute(files, cells=cells)
        error = error or first.error
        if first.error:
            continue
        plan = set_primary_metric(plan, first.measurements)
        found = [*find_equal_arms(first.predicted), *_probe(runs, files, plan, cells, first)]
        return PlantedFacts(tuple(found), first.measurements, "", time.monotonic() - began)
    return PlantedFacts((), (), error, time.monotonic() - began)


def set_primary_metric(plan: DataPlan, measured: Iterable[Measurement]) -> DataPlan:
    """Put a metric first in the plan that the program's predictions have."""
    names = {one.name for one in measured}
    known = [*plan.metrics, MetricSpec(name="mse", higher_is_better=False)]
    return plan.model_copy(update={"metrics": tuple(sorted(known, key=lambda one: one.name not in names))})


def _probe(
    runs: PlantedRunner, files: Mapping[str, str], plan: DataPlan, cells: Sequence[Cell], first: PlantedExecution
) -> Iterator[HonestyFinding]:
    kept = _probe_labels(runs, files, plan, cells, first)
    if kept is not None:
        yield HonestyFinding(kind="labels", why=kept)
    rows = runs.execute({**files, "probe.py": ROW_PROBE_SCRIPT}, entry="probe.py", cells=cells)
    if not rows.error:
        seen = judge_row_replacement(first.predicted, rows.predicted, plan)
        if seen.outcome == "still":
            yield HonestyFinding(kind="rows", why=seen.why)


def _probe_labels(
    runs: PlantedRunner, files: Mapping[str, str], plan: DataPlan, cells: Sequence[Cell], first: PlantedExecution
) -> str | None:
    """Return why the labels seem not to matter; None if they do, or it cannot be decided."""
    if ".y" not in files["experiment.py"]:
        return None
    found = ProbeResult("still", "")
    for number in range(MAX_PERMUTATIONS):
        after = runs.execute({**files, "probe.py": build_probe_script(number)}, entry="probe.py", cells=cells)
        if after.error:
            return None
        if number == 0 and (arms := find_arms_ignoring_labels(first.predicted, after.predicted, plan)):
            return f"the predictions of {', '.join(arms)} are identical with permuted labels"
        found = judge_label_permutation(
            first.measurements,
            after.measurements,
            metric=plan.primary_metric,
            chance=runs.chance_levels(plan.primary_metric),
        )
        if found.outcome != "still":
            return None
    return found.why
