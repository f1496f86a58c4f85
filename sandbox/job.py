"""What is run in a kernel, and what came of it: the contract between the research loop and an executor.

An executor runs a `Job` and returns an `Outcome`. Code that fails is data (`Outcome.failure`), not an exception;
only a broken executor raises (`ExecutorError`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from record.nouns import Failure, Figure, Measurement
from sandbox.errors import SandboxError


class ExecutorError(SandboxError):
    """The executor itself could not run a job (no kernel starts, no disk). Who acts: the person who runs us."""


@dataclass(frozen=True)
class Job:
    """One execution: a script in a folder of its own.

    `folder` is an empty or new folder that the code may write to; `source` maps file names to text that is put into
    it first; `inputs` maps a name to a folder of recorded arrays copied to `folder/inputs/<name>/`.
    """

    name: str
    folder: Path
    source: dict[str, str]
    entry: str = "experiment.py"
    mode: Literal["experiment", "plot"] = "experiment"
    seed: int = 0
    timeout: float = 3600.0
    """Seconds of wall clock for the code; then interrupt, then the kernel's whole process group is killed."""
    datasets: tuple[str, ...] = ()
    """Names that `lab.data` accepts; their views must have been materialised (`sandbox.datasets`)."""
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])


@dataclass(frozen=True)
class Outcome:
    """What an execution left behind. Paths are under the job's folder.

    `measurements` are final validation values, scored on the host where predictions were submitted. Every value with
    a step is in `folder/measurements.jsonl`. `sealed` are test predictions, unscored (file -> sha256).
    """

    seconds: float
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = ()
    arrays: dict[str, str] = field(default_factory=dict[str, str])
    sealed: dict[str, str] = field(default_factory=dict[str, str])
    curves_sha256: str | None = None
    figures: tuple[Figure, ...] = ()
    stdout_tail: str = ""


class Executor(Protocol):
    """Runs jobs, at most `places` at a time; further calls wait their turn."""

    places: int

    async def run(self, job: Job) -> Outcome:
        """Run one job to its end. Cancelling the task kills the kernel. Raises `ExecutorError`."""
        ...

    async def close(self) -> None:
        """Kill what still runs; idempotent."""
        ...
