"""What this script was asked to do: the one JSON file that LAB_JOB names."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal


class LabError(Exception):
    """`lab` was used wrongly. The message says what was expected, and what came."""


@dataclass(frozen=True)
class JobFile:
    """Seed, deadline (of `time.monotonic`, which all processes of a machine share), device, views, folder."""

    seed: int
    deadline: float
    device: str
    mode: Literal["experiment", "plot", "score"]
    folder: Path
    entry: str
    datasets: dict[str, str]
    """Dataset name -> its view, an .npz file without the withheld labels."""
    limit: float = 0.0
    """Seconds of wall clock that the script was given."""
    cache: str = ""
    """A folder that the kernels of a run share."""
    processes: int = 1
    """How many processes `lab.launch` starts: one a GPU."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> what it left with `lab.save_artifact`."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> its folder."""
    scorers: list[str] = field(default_factory=list[str])
    """Datasets whose frozen scorer takes artifacts."""
    checkpoint_bytes: int = 2 * 2**30
    artifact_bytes: int = 2 * 2**30


@functools.cache
def job() -> JobFile:
    """The job of this process. Raises `LabError` outside of a kernel of ours."""
    path = os.environ.get("LAB_JOB")
    if path is None:
        raise LabError("lab works only in a kernel of the harness: run this file with `scientist exec FILE`")
    with open(path, encoding="utf-8") as file:
        fields: dict[str, Any] = json.load(file)
    return JobFile(folder=Path(fields.pop("folder")), **fields)


def experiment(function: str) -> JobFile:
    """The job, if it is an experiment. Raises `LabError` in a plotting script, which may only read arrays."""
    current = job()
    if current.mode != "experiment":
        raise LabError(f"lab.{function} belongs in experiment.py: a plotting script only reads recorded arrays")
    return current
