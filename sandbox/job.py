"""Contract between the research loop and an executor: jobs to run and their outcomes.

An executor runs a `Job` and returns a `JobOutcome`. A failure of the code is data (`JobOutcome.failure`), not an
exception; only a broken executor raises (`ExecutorError`). `Slots` determine which job runs now and which runs next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from labwright.record.schema.cell import Cell, CellOutcomeLine, TrainingCounts
from labwright.record.schema.data_plan import Measurement, ResourceNeeds
from labwright.record.schema.figures import Figure
from labwright.record.schema.nodes import Failure
from labwright.record.schema.tuning import HyperparameterSetting


class TooLate(Exception):
    """Raised when a queued job is skipped because the time limit has passed."""


MEASUREMENTS = "measurements.jsonl"
CHECKPOINTS, ARTIFACTS = "checkpoints", "artifacts"
"""Names in a job's folder."""

Curve = tuple[str, str, str, str]
"""Identifies a curve: (dataset, condition, name, split)."""


class LoggedPoint(NamedTuple):
    """One point of a curve as logged by running code; names are unchecked, and the value may be non-finite."""

    curve: Curve
    step: int
    value: float


@dataclass(frozen=True)
class ExecutionProgress:
    """Snapshot of running code."""

    seconds: float
    """Wall clock seconds since the code started."""
    quiet_seconds: float
    """Seconds since the last output, log or submission of the code; accurate to one polling interval."""
    points: tuple[LoggedPoint, ...] = ()
    """Values logged with a step until now, in order; limited to the first `sandbox.monitor.MAX_POINTS`."""
    ended: bool = False
    """Whether the code has ended by itself, so this final snapshot has all values that it logged."""


ProgressWatch = Callable[[ExecutionProgress], str | None]
"""Return why running code should be stopped, in one sentence, or None to let it continue. May read files: it is called
outside the event loop's thread if the executor reads files for it, and never concurrently."""


@dataclass(frozen=True)
class AttemptArtifacts:
    """The artifacts of an attempt: its folder, and the recorded sha256 of each file under artifacts/."""

    folder: Path
    files: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """The files and folders that `lab.artifact` finds."""
        return sorted({file.partition("/")[0] for file in self.files})


@dataclass(frozen=True)
class ExecutionResult:
    """Result of one execution of a cell or a whole job; files are in its folder."""

    seconds: float
    """Wall clock of the code alone."""
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = ()
    """Final validation values, computed on the host if predictions were submitted."""
    self_reported: tuple[Measurement, ...] = ()
    """Final values for train and dev that the code itself reported."""
    arrays: dict[str, str] = field(default_factory=dict[str, str])
    """File under arrays/ -> sha256; for a cell, names end in `__<cell.place_name>`."""
    sealed: dict[str, str] = field(default_factory=dict[str, str])
    """Test predictions, unscored: file -> sha256."""
    artifacts: dict[str, str] = field(default_factory=dict[str, str])
    """File under artifacts/ -> sha256."""
    curves_sha256: str | None = None
    """sha256 of measurements.jsonl, which holds every value with a step."""
    stdout_tail: str = ""
    peak_host_bytes: int | None = None
    """Peak resident memory of the kernel and its child processes (see `sandbox.monitor`); None if not measured."""
    peak_gpu_bytes: int | None = None
    """Peak memory on leased GPUs, summed over them; None without a GPU, or if the driver does not report it."""
    resumed: bool = False
    """Whether a checkpoint of an earlier attempt was available, so that `seconds` covers only the rest."""
    asked: dict[str, int] = field(default_factory=dict[str, int])
    """Language model -> number of questions answered, including replayed answers."""
    exchanges_sha256: str | None = None
    """sha256 of exchanges.jsonl, which lists the questions; None if there were none, and for a job of cells."""


@dataclass(frozen=True)
class CellOutcome(ExecutionResult):
    """Result of one execution of a cell: a `CellRun` (record.schema.nodes) without its id and key.

    A cell that reaches its memory limit is executed twice; each execution has its own outcome.
    """

    cell: Cell = field(kw_only=True)
    training: TrainingCounts | None = None
    """None if nothing was counted, or if the cell resumed from a checkpoint and only the rest was counted."""


OnCellEnded = Callable[[Cell, CellOutcome, Path], Awaitable[Path]]
"""Called after each execution of a cell with its sealed folder, which no code can write to any more. Moves the folder
to its final location, commits it, and returns the location. Never called concurrently."""


async def keep_in_place(cell: Cell, outcome: CellOutcome, folder: Path) -> Path:
    """An `OnCellEnded` that does not move the folder."""
    return folder


@dataclass(frozen=True)
class Job:
    """One execution: a script in its own folder, or (`cells`) a program that is run once per cell.

    `folder` is an empty or new folder that the code may write to. `source` maps file names, possibly with folders, to
    text that is written before the run. `inputs` maps names to folders of recorded arrays that are copied to
    `folder/inputs/<name>/`.
    """

    name: str
    folder: Path
    source: dict[str, str]
    entry: str = "experiment.py"
    mode: Literal["experiment", "plot", "score"] = "experiment"
    seed: int = 0
    timeout: float = 3600.0
    """Wall clock limit of the code in seconds; at the limit it is interrupted, then its process group is killed.
    For a job of cells: total compute seconds of all cells, independent of the number of slots.
    """
    datasets: tuple[str, ...] = ()
    """Names that `lab.data` accepts; their views must have been materialised (`sandbox.datasets`)."""
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])
    artifacts: dict[str, AttemptArtifacts] = field(default_factory=dict[str, AttemptArtifacts])
    """Node -> its artifacts; those that occur in the source are copied for `lab.artifact`."""
    earlier_folder: Path | None = None
    """Folder of an interrupted attempt of the same node, with checkpoints for `lab.restore`. For a job of cells:
    checkpoints are in its `cells/<cell.name>/`, unless `interrupted_folders` gives another folder."""
    watch: ProgressWatch | None = None
    """Called about every `sandbox.monitor.WATCH_SECONDS` while the code runs, and once after it has ended. If it
    returns a string, the code is stopped as at the time limit, and the string becomes the failure, of kind `hopeless`.
    For a job of cells: called for each cell separately; one hopeless cell makes the job hopeless, and cells not yet
    started are left out.
    """
    live_output: Path | None = None
    """File, not writable by the code, with the beginning of its output while it runs; removed afterwards."""
    is_too_late: Callable[[], bool] = lambda: False
    """Called when a slot is available; returns whether the time limit has passed."""
    on_start: Callable[[], None] = lambda: None
    """Called when a slot is available and the time limit has not passed."""
    alone: bool = False
    """Whether no other job of the executor may run at the same time, so that this job has the machine's memory to
    itself.
    """
    cells: tuple[Cell, ...] = ()
    """Cells to measure, in order of importance; empty for a plain script. Cells run in kernels that only see their
    dataset, each in its own process (docs/sandbox.md)."""
    needs: Mapping[str, ResourceNeeds] = field(default_factory=dict[str, ResourceNeeds])
    """Arm -> resources that its cells need. A plain script gets the maximum over all arms."""
    settings: Mapping[Cell, HyperparameterSetting] = field(default_factory=dict[Cell, HyperparameterSetting])
    """Hyperparameters of each of `cells`, available to the code as `cell.setting`."""
    rungs_by: Literal["steps", "data"] = "steps"
    """The quantity to which a cell's share below 1 refers: training steps, which the code limits (`cell.share`), or
    training examples, which `lab.data` limits (`cell.share` is then 1).
    """
    arms: tuple[str, ...] = ()
    """All arms of the study. A cell does not see the file `arms/<arm>.py` of another arm (`record.source_tree`).
    Empty: the arms of `cells`.
    """
    pilots: tuple[Cell, ...] = ()
    """The members of `cells` that are measured first. Empty: the last cell of each arm and dataset."""
    expected_seconds: Mapping[Cell, float] = field(default_factory=dict[Cell, float])
    """Known durations of cells in seconds. An arm on a dataset with a known duration needs no pilot."""
    measured_folders: Mapping[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Members of `cells` that were measured before, with their sealed folders; they are merged but not run again."""
    failed_outcomes: Mapping[Cell, CellOutcome] = field(default_factory=dict[Cell, CellOutcome])
    """Members of `cells` that were executed before and failed; they count with these outcomes and are not run again."""
    interrupted_folders: Mapping[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Folders of earlier executions of `cells` that reached a limit, with checkpoints for `lab.restore`."""
    subjects: tuple[str, ...] = ()
    """Language models that the code may query."""
    key: str = ""
    """Key under which its exchanges with language models are stored; for a job of cells, see `keys`."""
    keys: Mapping[Cell, str] = field(default_factory=dict[Cell, str])
    on_cell_ended: OnCellEnded = keep_in_place
    may_skip_cells: bool = True
    """Whether expected durations may cause cells to be left out and tighten their limits. If False, cells are only
    left out once `timeout` is used up.
    """

    def compute_max_needs(self) -> ResourceNeeds:
        """Return the maximum resources over all arms."""
        return ResourceNeeds(
            **{
                name: max(
                    (value for one in self.needs.values() if (value := getattr(one, name)) is not None), default=None
                )
                for name in ResourceNeeds.model_fields
            }
        )


@dataclass(frozen=True)
class JobOutcome(ExecutionResult):
    """Result of a job. For a job of cells, the folder holds the merged files of all measured cells, as if one
    script had written them, and `failure` is None if every arm was measured in some cell and no cell's code failed.
    """

    figures: tuple[Figure, ...] = ()
    cells: tuple[CellOutcomeLine, ...] = ()
    """Outcome of each of `Job.cells`, in order. Cells of `Job.measured_folders` are `measured`, with their
    `Job.expected_seconds`; the caller fills in ids and nodes.
    """


class Executor(Protocol):
    """Runs jobs, at most `slots` at a time; further calls wait in order of arrival."""

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

    async def run(self, job: Job) -> JobOutcome:
        """Run one job to its end. Cancelling the task kills the kernel. Raises `ExecutorError`, `TooLate`."""
        ...

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Return the values that frozen scorers compute for an attempt's sealed submissions, given as file -> recorded
        sha256.

        Must be called after the search. Raises `SubmissionRefused` if a scorer returns no values, `ExecutorError`.
        """
        ...

    async def close(self) -> None:
        """Kill all code that is still running. Idempotent."""
        ...
