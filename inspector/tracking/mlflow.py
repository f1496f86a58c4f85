"""Export a run to MLflow: one parent run with a child run per node. The extra `mlflow` installs the package.

A folder gets a separate database (`mlflow.db`, files in `artifacts/`); an address is used as MLflow's tracking URI.
MLflow's telemetry is switched off.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from labwright.inspector.tracking.tracked_runs import TrackedRun, copy_files
from labwright.record.errors import UsageError

BATCH_SIZE = 900
"""Maximum number of metrics per request (MLflow accepts 1000)."""
MAX_PARAMS = 90


class MlflowTracker:
    """Writes a run to MLflow node by node. Every call raises `UsageError` if writing fails."""

    def __init__(self, folder: Path, run: TrackedRun, place: str, *, force: bool = False) -> None:
        """`force` replaces an earlier export of the run."""
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
        try:
            tracking, exceptions = import_module("mlflow.tracking"), import_module("mlflow.exceptions")
        except ImportError:
            raise UsageError("MLflow is not installed: pip install 'labwright[mlflow]'") from None
        self._folder, self._place = folder, place
        self._faults = (exceptions.MlflowException, OSError)
        self.address, artifacts = place, None  # the server chooses where files are stored
        if "://" not in place:
            own = Path(place).resolve()
            own.mkdir(parents=True, exist_ok=True)
            self.address, artifacts = f"sqlite:///{own / 'mlflow.db'}", (own / "artifacts").as_uri()
        with self._translating_errors():
            self._client = tracking.MlflowClient(tracking_uri=self.address)
            found = self._client.get_experiment_by_name("scientist")
            self._experiment = (
                found.experiment_id
                if found
                else self._client.create_experiment("scientist", artifact_location=artifacts)
            )
            _delete_earlier_export(self._client, self._experiment, run.id, force=force)
            self._whole = self._begin_run(run, {})

    def write_node(self, one: TrackedRun) -> None:
        with self._translating_errors():
            run = self._begin_run(one, {"mlflow.parentRunId": self._whole})
            self._write_values(run, one, 0)
            self._end_run(run, one)

    def update_run(self, run: TrackedRun, step: int) -> None:
        with self._translating_errors():
            self._write_values(self._whole, run, step)

    def close(self, run: TrackedRun) -> None:
        with self._translating_errors():
            self._end_run(self._whole, run)

    @contextmanager
    def _translating_errors(self) -> Generator[None]:
        try:
            yield
        except self._faults as error:
            raise UsageError(f"cannot write to MLflow at {self._place}: {str(error).splitlines()[0][:300]}") from None

    def _begin_run(self, one: TrackedRun, tags: dict[str, str]) -> str:
        made = self._client.create_run(
            self._experiment, start_time=round(one.started_at * 1000), tags=one.tags | tags, run_name=one.name
        )
        return made.info.run_id

    def _write_values(self, run: str, one: TrackedRun, step: int) -> None:
        of: Any = import_module("mlflow.entities")
        at = round(one.ended_at * 1000)
        params: list[Any] = [of.Param(name, text) for name, text in one.params.items() if text]
        for first in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(run, params=params[first : first + MAX_PARAMS])
        metrics: list[Any] = [
            *(of.Metric(name, value, at, step) for name, value in one.metrics.items()),
            *(of.Metric(name, value, at, step) for name, step, value in one.curves),
        ]
        for first in range(0, len(metrics), BATCH_SIZE):
            self._client.log_batch(run, metrics=metrics[first : first + BATCH_SIZE])

    def _end_run(self, run: str, one: TrackedRun) -> None:
        with tempfile.TemporaryDirectory() as place:
            copy_files(self._folder, one, Path(place))
            self._client.log_artifacts(run, place)
        self._client.set_terminated(run, "FINISHED" if one.done else "KILLED", round(one.ended_at * 1000))


def _delete_earlier_export(client: Any, experiment: str, run: str, *, force: bool) -> None:
    """Delete an earlier export of the run. Raises `UsageError` without `force`."""
    while there := client.search_runs([experiment], f"tags.`scientist.run` = '{run}'", max_results=500):
        if not force:
            raise UsageError(f"{run} is already in this MLflow: use --force to replace it")
        for one in there:
            client.delete_run(one.info.run_id)
