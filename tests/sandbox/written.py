"""What the scripts of the contract come to, written down for the executor that runs no code."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from labwright.record.nouns.data import Measurement
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.failures import from_timeout
from labwright.sandbox.job import Job, Outcome
from tests.sandbox.contract import FAILING, LEAVING, MUTE, SLOW, SUM

_SECONDS = 0.05


def written(job: Job) -> tuple[float, Outcome]:
    """Seconds and outcome of a job, read off its script."""
    tiny = Outcome(
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
            return _slow(job)
        case script if script == FAILING:
            return _SECONDS, replace(tiny, failure=Failure(kind="other", message="ValueError: broken"))
        case script if script == MUTE:
            return _SECONDS, Outcome(seconds=_SECONDS, failure=Failure(kind="no measurement", message="none"))
        case script if script == SUM:
            return _SECONDS, replace(tiny, stdout_tail=f"{np.load(job.inputs['n1'] / 'x.npy').sum()}\nmeasured\n")
        case script if script == LEAVING:
            sha256 = hashlib.sha256(b"").hexdigest()
            return _SECONDS, replace(tiny, arrays={"curve.npy": sha256}, artifacts={"net.npy": sha256})
        case _:
            return _SECONDS, tiny


def _slow(job: Job) -> tuple[float, Outcome]:
    if job.timeout >= 60:
        return 60.0, Outcome(seconds=60.0)
    late = from_timeout(job.timeout, stopped=True, traceback=(), folder=job.folder)
    return job.timeout, Outcome(seconds=job.timeout, failure=late)
