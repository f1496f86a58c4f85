"""Contract between the research loop and an executor: what to measure, and the stream of results.

`Executor.measure` takes a `Job`, which only has values, and returns a stream of events. The consumer commits each
ended cell before it asks for the next event. A failure of the code is data (`CellResult.failure`), not an exception;
only a broken executor raises (`ExecutorError`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

from pydantic import Field

from labwright.record.errors import SandboxError as SandboxError
from labwright.record.errors import SubmissionRefused as SubmissionRefused
from labwright.record.errors import UsageError
from labwright.record.run_folder import ResultFolder
from labwright.record.schema.data_plan import HyperparameterSetting, Measurement, ResourceNeeds
from labwright.record.schema.nodes import Cell, CellOutcomeLine, ExecutionResult, TrainingCounts
from labwright.record.schema.paper import Figure

# Errors of the sandbox itself; failures of experiment code are results, not exceptions. `SubmissionRefused` and its
# subclass `BadFile` (`record.untrusted_files`) become the failure of the attempt.


class ExecutorError(SandboxError):
    """The executor could not run a job (no kernel starts, no disk space). To be fixed by the user."""


class ClusterDown(ExecutorError):
    """The cluster that ran experiments became unavailable. To be fixed by its operator; the run can then be resumed."""


class WorkerLost(ExecutorError):
    """A worker on another machine was lost with the cell that it ran. The cell is restarted elsewhere."""


class ClusterError(SandboxError, UsageError):
    """A cluster cannot be used as configured. To be fixed by the user."""


class DatasetError(SandboxError, UsageError):
    """A dataset is not available. To be fixed by the requester."""


class IsolationError(SandboxError, UsageError):
    """Code cannot be isolated on this machine, but the settings require it. To be fixed by the user."""


class GpuError(SandboxError, UsageError):
    """A requested GPU is not available. To be fixed by the user."""


class PretrainedError(SandboxError, UsageError):
    """A pretrained model is not available. To be fixed by the requester."""


class PackageError(SandboxError, UsageError):
    """A package cannot be installed. To be fixed by the requester."""


class RepositoryError(SandboxError, UsageError):
    """A user's repository cannot be imported or run as requested. To be fixed by the requester."""


MEASUREMENTS = "measurements.jsonl"
CHECKPOINTS, ARTIFACTS = "checkpoints", "artifacts"
"""Names in the folder of a cell."""


# --- the request ------------------------------------------------------------------------------------------------------


class ArtifactFile(NamedTuple):
    """A recorded artifact: the folder of the cell that saved it, and its sha256."""

    folder: Path
    sha256: str


@dataclass(frozen=True)
class CellTask:
    """Facts about one cell for the executor."""

    key: str = ""
    """Key under which its exchanges with language models are stored."""
    setting: HyperparameterSetting = field(default_factory=HyperparameterSetting)
    """Hyperparameters, available to the code as `cell.setting`."""
    needs: ResourceNeeds = field(default_factory=ResourceNeeds)
    expected_seconds: float | None = None
    """Known duration. An arm on a dataset with a known duration needs no pilot."""
    known: ExecutionResult | None = None
    """Result of an earlier execution, measured or failed, which counts; the cell is not run again."""
    folder: Path | None = None
    """Folder of an earlier execution: of the known one, or of one that was interrupted, with checkpoints."""


@dataclass(frozen=True)
class Job:
    """A request to measure: a program that is run once per cell, or a plain script, which is one cell.

    `folder` is an empty or new folder to work in. `source` maps file names, possibly with folders, to text that is
    written before the run.
    """

    name: str
    folder: Path
    source: dict[str, str]
    entry: str = "experiment.py"
    kind: Literal["experiment", "plot", "score"] = "experiment"
    seed: int = 0
    """Seed of a plain script; cells have their own."""
    timeout: float = 3600.0
    """Compute seconds of all cells together, independent of the number of slots. At its limit a cell is interrupted,
    then its process group is killed."""
    cells: Mapping[Cell, CellTask] = field(default_factory=dict[Cell, CellTask])
    """Cells to measure, in order of importance; empty: the whole script is one cell (`with_script_cell`). Cells run in
    kernels that only see their dataset, each in its own process (docs/sandbox.md)."""
    datasets: tuple[str, ...] = ()
    """Names that `lab.data` accepts in a plain script; their views must have been materialised (`sandbox.datasets`)."""
    inputs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict[str, tuple[Path, ...]])
    """Place in the folder of a cell, such as `inputs/n0001` -> recorded folders whose files are copied there."""
    artifacts: Mapping[str, Mapping[str, ArtifactFile]] = field(default_factory=dict[str, dict[str, ArtifactFile]])
    """Node -> its artifacts, by path below artifacts/; those that occur in the source are copied for `lab.artifact`."""
    live_output: Path | None = None
    """File, not writable by the code, with the beginning of its output while it runs; removed afterwards."""
    alone: bool = False
    """Whether no other job of the executor may run at the same time, so that this job has the machine's memory to
    itself."""
    arms: tuple[str, ...] = ()
    """All arms of the study. A cell does not see the file `arms/<arm>.py` of another arm (`record.source_tree`).
    Empty: the arms of `cells`."""
    subjects: tuple[str, ...] = ()
    """Language models that the code may query."""
    may_skip_cells: bool = True
    """Whether expected durations may cause cells to be left out and tighten their limits. If False, cells are only
    left out once `timeout` is used up."""
    quiet_seconds: float | None = None
    """Cells that print, log and submit nothing for longer are stopped as `hopeless`; None: never."""

    def with_script_cell(self) -> Mapping[Cell, CellTask]:
        """Return the cells; for a plain script, its one cell."""
        return self.cells or {Cell(dataset="", arm="", seed=self.seed): CellTask()}


def combine_needs(needs: Iterable[ResourceNeeds]) -> ResourceNeeds:
    """Return the maximum of each resource: the needs of a script that measures several arms."""
    given = [one.model_dump(exclude_none=True) for one in needs]
    names = {name for one in given for name in one}
    return ResourceNeeds(**{name: max(one[name] for one in given if name in one) for name in names})


# --- the results ------------------------------------------------------------------------------------------------------


class CellResult(ExecutionResult):
    """Result of one execution of a cell. A cell that reaches its memory limit is executed twice."""

    cell: Cell
    training: TrainingCounts | None = None
    """None if nothing was counted, or if the cell resumed from a checkpoint and only the rest was counted."""
    figures: tuple[Figure, ...] = ()
    """Figures of a plot."""


class JobOutcome(ExecutionResult):
    """Result of a job, computed from those of its cells; `failure` is None if every arm was measured in some cell and
    no cell's code failed. For a plain script, the result of its one cell."""

    cells: tuple[CellOutcomeLine, ...] = ()
    """Outcome of each of `Job.cells`, in order; the caller fills in ids and nodes. Empty for a plain script."""
    figures: tuple[Figure, ...] = ()
    folders: dict[Cell, ResultFolder] = Field(default_factory=dict[Cell, ResultFolder])
    """Folder and result of the last execution of each cell, known or new."""

    @property
    def folder(self) -> Path:
        """The folder of a plain script. Raises `ExecutorError` if it was stopped before it ran."""
        for folder in self.folders.values():
            return folder.path
        raise ExecutorError("the script was not run")

    @property
    def measured_folders(self) -> list[ResultFolder]:
        """The folders of the measured cells in order; that of a plain script, even if it failed."""
        if not self.cells:
            return [*self.folders.values()]
        return [self.folders[line.cell] for line in self.cells if line.outcome in ("measured", "taken over")]


@dataclass(frozen=True)
class CellStarted:
    """A cell starts: a slot is free. A consumer for which it is too late leaves the stream here."""

    cell: Cell


@dataclass
class CellEnded:
    """An execution of a cell ended, and no code can write to its folder any more. The consumer may move the folder,
    and changes `folder` if it does. Asking for the next event means that it is final: only then may other cells read
    the folder."""

    result: CellResult
    folder: Path
    kernel_died: bool = False
    is_first_cell: bool = False
    """Whether its kernel had finished no other cell before."""


@dataclass(frozen=True)
class JobEnded:
    """The last event."""

    outcome: JobOutcome


Event = CellStarted | CellEnded | JobEnded


class ResultStream(Protocol):
    """The events of a job. Leaving its context kills all code of the job that still runs."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events, once. Raises `ExecutorError` if the executor fails."""
        ...


class Executor(Protocol):
    """Measures jobs, at most `slots` cells at a time; further ones wait in order of arrival."""

    slots: int

    @property
    def environment_fingerprint(self) -> str:
        """The conditions, besides code, data and seed, on which values depend: interpreter, packages, processor or GPU
        model, threads.

        Equal strings mean equal environments. May block briefly on first use.
        """
        ...

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """Maximum resources of one cell."""
        ...

    def measure(self, job: Job) -> ResultStream:
        """Measure a job; it begins when the context of the stream is entered."""
        ...

    async def evaluate(self, folder: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Return the values that frozen scorers compute for the sealed submissions in a folder, given as file ->
        recorded sha256.

        Must be called after the search. Raises `SubmissionRefused` if a scorer returns no values, `ExecutorError`.
        """
        ...

    async def close(self) -> None:
        """Free what the executor holds, after all streams were left. Idempotent."""
        ...


async def measure_all(executor: Executor, job: Job) -> JobOutcome:
    """Measure a job and return its outcome; the folders of its cells stay in its folder. Raises `ExecutorError`."""
    async with executor.measure(job) as stream:
        async for event in stream:
            if isinstance(event, JobEnded):
                return event.outcome
    raise ExecutorError(f"{job.name} ended without an outcome")
