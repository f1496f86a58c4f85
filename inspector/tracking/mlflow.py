"""A run in MLflow: one run for the whole, with a run for each node below it. The extra `mlflow` brings the package.

A folder gets a database of its own (`mlflow.db`, files in `artifacts/`); an address is asked as MLflow does. MLflow's
own reports about its use are switched off.
"""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from inspector.tracking.logged import Logged, Record, TrackerError, copy_files

BATCH = 900
"""Values that are sent at a time (MLflow takes 1000)."""
PARAMS = 90


def to_mlflow(record: Record, place: str, *, force: bool = False) -> str:
    """Write a run; returns the address of the store. Raises `TrackerError`."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    try:
        tracking, exceptions = import_module("mlflow.tracking"), import_module("mlflow.exceptions")
    except ImportError:
        raise TrackerError("MLflow is not installed: pip install 'scientist[mlflow]'") from None
    address, artifacts = _store(place)
    try:
        client = tracking.MlflowClient(tracking_uri=address)
        _Writer(client, record, artifacts).write(force=force)
    except (exceptions.MlflowException, OSError) as error:
        raise TrackerError(f"MLflow at {place} cannot be written to: {str(error).splitlines()[0][:300]}") from None
    return address


def _store(place: str) -> tuple[str, str | None]:
    """Address of the store, and where files go; None: where the server keeps them."""
    if "://" in place:
        return place, None
    folder = Path(place).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}", (folder / "artifacts").as_uri()


class _Writer:
    def __init__(self, client: Any, record: Record, artifacts: str | None) -> None:
        self._client, self._record, self._artifacts = client, record, artifacts

    def write(self, *, force: bool) -> None:
        experiment = self._experiment("scientist")
        run = self._record.run
        there = self._client.search_runs([experiment], f"tags.`scientist.run` = '{run.id}'", max_results=1)
        if there and not force:
            raise TrackerError(f"{run.id} is in this MLflow already: --force replaces it")
        while there:
            for one in there:
                self._client.delete_run(one.info.run_id)
            there = self._client.search_runs([experiment], f"tags.`scientist.run` = '{run.id}'", max_results=500)
        whole = self._one(experiment, run, None)
        for node in self._record.nodes:
            self._one(experiment, node, whole)

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(
            name, artifact_location=self._artifacts)

    def _one(self, experiment: str, logged: Logged, parent: str | None) -> str:
        of: Any = import_module("mlflow.entities")
        at = round(logged.ended * 1000)
        tags = logged.tags | ({"mlflow.parentRunId": parent} if parent else {})
        made = self._client.create_run(experiment, start_time=round(logged.began * 1000), tags=tags,
                                       run_name=logged.name)
        run: str = made.info.run_id
        params: list[Any] = [of.Param(name, text) for name, text in logged.params.items() if text]
        for first in range(0, len(params), PARAMS):
            self._client.log_batch(run, params=params[first: first + PARAMS])
        metrics: list[Any] = [*(of.Metric(name, value, at, 0) for name, value in logged.metrics.items()),
                              *(of.Metric(one.name, one.value, at, one.step) for one in logged.curves)]
        for first in range(0, len(metrics), BATCH):
            self._client.log_batch(run, metrics=metrics[first: first + BATCH])
        self._files(run, logged)
        self._client.set_terminated(run, "FINISHED" if logged.done else "KILLED", at)
        return run

    def _files(self, run: str, logged: Logged) -> None:
        with tempfile.TemporaryDirectory() as place:
            copy_files(self._record, logged, Path(place))
            self._client.log_artifacts(run, place)
