"""Outcomes of the contract's scripts for the executor that runs no code."""

from __future__ import annotations

import hashlib

import numpy as np

from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Failure
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.output import failure_from_timeout
from tests.sandbox.executor_contract import FAILING, LEAVING, MUTE, SLOW, SUM

_SECONDS = 0.05


def fake_outcome(job: Job) -> tuple[float, JobOutcome]:
    """Return the seconds and outcome of a job according to its script."""
    tiny = JobOutcome(
        seconds=_SECONDS,
        stdout_tail="measured\n",
        measurements=(
            Measurement(
                name="size",
                value=3.0,
                condition="baseline",
                dataset="digits",
                split="validation",
                seed=job.seed,
                grade="logged",
            ),
        ),
    )
    match job.source["experiment.py"]:
        case script if script == SLOW:
            return _fake_slow_outcome(job)
        case script if script == FAILING:
            return _SECONDS, tiny.model_copy(update={"failure": Failure(kind="other", message="ValueError: broken")})
        case script if script == MUTE:
            return _SECONDS, JobOutcome(seconds=_SECONDS, failure=Failure(kind="no measurement", message="none"))
        case script if script == SUM:
            return _SECONDS, tiny.model_copy(update={"stdout_tail": f"{_sum_input(job)}\nmeasured\n"})
        case script if script == LEAVING:
            sha256 = hashlib.sha256(b"").hexdigest()
            return _SECONDS, tiny.model_copy(update={"arrays": {"curve.npy": sha256}, "artifacts": {"net.npy": sha256}})
        case _:
            return _SECONDS, tiny


def _sum_input(job: Job) -> int:
    return int(np.load(job.inputs["inputs/n1"][0] / "x.npy").sum())


def _fake_slow_outcome(job: Job) -> tuple[float, JobOutcome]:
    if job.timeout >= 60:
        return 60.0, JobOutcome(seconds=60.0)
    late = failure_from_timeout(job.timeout, stopped=True, traceback=(), folder=job.folder)
    return job.timeout, JobOutcome(seconds=job.timeout, failure=late)
