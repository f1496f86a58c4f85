"""The only module of the harness that experiment code can import. Documented in REFERENCE.md in this folder."""

from __future__ import annotations

import time

from lab._data import Dataset, data
from lab._job import LabError, get_seed, measure, read_job, seed_everything
from lab._launch import launch
from lab._llm import llm
from lab._record import log, result, save
from lab._shared import shared
from lab._state import artifact, checkpoint, pretrained, restore, save_artifact
from lab._submit import submit, submit_artifact

seed: int
device: str

__all__ = [
    "Dataset",
    "LabError",
    "artifact",
    "checkpoint",
    "data",
    "device",
    "launch",
    "llm",
    "log",
    "measure",
    "pretrained",
    "restore",
    "result",
    "save",
    "save_artifact",
    "seconds_left",
    "seed",
    "seed_everything",
    "shared",
    "should_stop",
    "submit",
    "submit_artifact",
]


def seconds_left() -> float:
    """Return the seconds of wall clock until this script is interrupted; 0.0 if none are left."""
    return max(0.0, read_job().deadline - time.monotonic())


def should_stop(reserve: float | None = None) -> bool:
    """Return True if less than `reserve` seconds are left: by default a tenth of the limit, at most 60 s."""
    return seconds_left() < (min(60.0, 0.1 * read_job().limit) if reserve is None else reserve)


def __getattr__(name: str) -> object:
    if name == "seed":
        return get_seed()
    if name == "device":
        return read_job().device
    raise AttributeError(f"lab has no {name!r}; it has: {', '.join(__all__)}")
