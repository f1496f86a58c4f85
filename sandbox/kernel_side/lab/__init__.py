"""The one module of the harness that experiment code can import. REFERENCE.md beside this file documents it."""

from __future__ import annotations

import time

from lab._data import Dataset, data
from lab._job import LabError, job
from lab._record import log, result, save
from lab._seeding import seed_everything
from lab._submit import submit

seed: int
device: str

__all__ = ["Dataset", "LabError", "data", "device", "log", "result", "save", "seconds_left", "seed",
           "seed_everything", "submit"]


def seconds_left() -> float:
    """Seconds of wall clock until this script is interrupted; 0.0 when they are spent."""
    return max(0.0, job().deadline - time.monotonic())


def __getattr__(name: str) -> object:
    if name == "seed":
        return job().seed
    if name == "device":
        return job().device
    raise AttributeError(f"lab has no {name!r}; it has: {', '.join(__all__)}")
