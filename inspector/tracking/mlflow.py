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

from inspector.tracking.logged import Logged, Record, copy_files
from record.errors import WrongUse

BATCH = 900
"""Values that are sent at a time (MLflow takes 1000)."""
PARAMS = 90


def to_mlflow(record: Record, place: str, *, force: bool = False) -> str:
    """Write a run; returns the address of the store. Raises `WrongUse`."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    try:
        tracking, exceptions = import_module("mlflow.tracking"), import_module("mlflow.exceptions")
    except ImportError:
        raise WrongUse("MLflow is not installed: pip install 'scientist[mlflow]'") from None
    address, artifacts = place, None  # files go where the server keeps them
    if "://" not in place:
        folder = Path(place).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        address, artifacts = f"sqlite:///{folder / 'mlflow.db'}", (folder / "artifacts").as_uri()
    try:
        client = tracking.MlflowClient(tracking_uri=address)
        found = client.get_experiment_by_name("scientist")
        experiment = found.experiment_id if found else client.create_experiment(
            "scientist", artifact_location=artifacts)
        _forget(client, experiment, record.run.id, force=force)
        whole = _write(client, record, experiment, record.run, {})
        for node in record.nodes:
            _write(client, record, experiment, node, {"mlflow.parentRunId": whole})
    except (exceptions.MlflowException, OSError) as error:
        raise WrongUse(f"MLflow at {place} cannot be written to: {str(error).splitlines()[0][:300]}") from None
    return address


def _forget(client: Any, experiment: str, run: str, *, force: bool) -> None:
    """Delete what an earlier export wrote of the run. Raises `WrongUse` where it may not."""
    while there := client.search_runs([experiment], f"tags.`scientist.run` = '{run}'", max_results=500):
        if not force:
            raise WrongUse(f"{run} is in this MLflow already: --force replaces it")
        for one in there:
            client.delete_run(one.info.run_id)


def _write(client: Any, record: Record, experiment: str, logged: Logged, tags: dict[str, str]) -> str:
    of: Any = import_module("mlflow.entities")
    at = round(logged.ended * 1000)
    made = client.create_run(experiment, start_time=round(logged.began * 1000), tags=logged.tags | tags,
                             run_name=logged.name)
    run: str = made.info.run_id
    params: list[Any] = [of.Param(name, text) for name, text in logged.params.items() if text]
    for first in range(0, len(params), PARAMS):
        client.log_batch(run, params=params[first: first + PARAMS])
    metrics: list[Any] = [*(of.Metric(name, value, at, 0) for name, value in logged.metrics.items()),
                          *(of.Metric(name, value, at, step) for name, step, value in logged.curves)]
    for first in range(0, len(metrics), BATCH):
        client.log_batch(run, metrics=metrics[first: first + BATCH])
    with tempfile.TemporaryDirectory() as place:
        copy_files(record, logged, Path(place))
        client.log_artifacts(run, place)
    client.set_terminated(run, "FINISHED" if logged.done else "KILLED", at)
    return run
