"""What is run in a kernel, and what came of it: the contract between the research loop and an executor.

An executor runs a `Job` and returns an `Outcome`. Code that fails is data (`Outcome.failure`), not an exception; only a
broken executor raises (`ExecutorError`). `Slots` decide who runs now, and who is next.
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
    """A job was not begun, since it was too late when its turn came."""


MEASUREMENTS = "measurements.jsonl"
CHECKPOINTS, ARTIFACTS = "checkpoints", "artifacts"
"""Names in the folder of a job."""

Curve = tuple[str, str, str, str]
"""What tells one curve from another: (dataset, condition, name, split)."""


class LoggedPoint(NamedTuple):
    """One point of a curve as running code logged it: its own words, and a value that may be not finite."""

    curve: Curve
    step: int
    value: float


@dataclass(frozen=True)
class ExecutionProgress:
    """What is seen of code while it runs."""

    seconds: float
    """Wall clock that the code has run."""
    quiet_seconds: float
    """Seconds since it was last seen to print, log or submit something; exact to the time between two glances."""
    points: tuple[LoggedPoint, ...] = ()
    """The values with a step that it logged so far, in its order; of very many the first (`sandbox.monitor.POINTS`)."""
    ended: bool = False
    """Whether this is the last glance, at everything that was logged by code which has ended, not by the watch."""


ProgressWatch = Callable[[ExecutionProgress], str | None]
"""Says why running code is to be ended, in one sentence, or None to let it run on. Called outside the event loop's
thread where an executor reads files for it, never twice at a time; so it may read files too."""


@dataclass(frozen=True)
class AttemptArtifacts:
    """The artifacts of an attempt: its folder, and file under artifacts/ -> sha256, as recorded."""

    folder: Path
    files: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """What `lab.artifact` finds: files and folders."""
        return sorted({file.partition("/")[0] for file in self.files})


@dataclass(frozen=True)
class ExecutionResult:
    """What one execution came to, of a cell or of a whole job; files are under its folder."""

    seconds: float
    """Wall clock of the code alone."""
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = ()
    """Final validation values, scored on the host where predictions were submitted."""
    self_reported: tuple[Measurement, ...] = ()
    """Final values that the code itself gave of train and dev."""
    arrays: dict[str, str] = field(default_factory=dict[str, str])
    """File under arrays/ -> sha256; of a cell the names end in `__<cell.place>`."""
    sealed: dict[str, str] = field(default_factory=dict[str, str])
    """Test predictions, unscored: file -> sha256."""
    artifacts: dict[str, str] = field(default_factory=dict[str, str])
    """File under artifacts/ -> sha256."""
    curves_sha256: str | None = None
    """Of measurements.jsonl, which holds every value with a step."""
    stdout_tail: str = ""
    peak_host_bytes: int | None = None
    """Most resident memory of the kernel and all that it started (see `sandbox.monitor`); None where not measured."""
    peak_gpu_bytes: int | None = None
    """Most memory on leased GPUs, summed over them; None without one, or where the driver does not tell."""
    resumed: bool = False
    """Whether a checkpoint of an earlier attempt was at hand: then `seconds` are not those of the whole."""
    asked: dict[str, int] = field(default_factory=dict[str, int])
    """Language model -> questions that it answered, those out of the record included."""
    exchanges_sha256: str | None = None
    """Of exchanges.jsonl, which names each of them; None where nobody was asked, and of a job of cells."""


@dataclass(frozen=True)
class CellOutcome(ExecutionResult):
    """What one execution of a cell came to: a `CellRun` (record.schema.nodes) but for its id and key.

    A cell that met its memory limit is executed twice; each execution has an outcome of its own.
    """

    cell: Cell = field(kw_only=True)
    training: TrainingCounts | None = None
    """None where nothing was seen of it, or it went on from a checkpoint: then the rest alone was."""


OnCellEnded = Callable[[Cell, CellOutcome, Path], Awaitable[Path]]
"""Told of each execution of a cell once it ended, with the folder that holds what it left, sealed: no code can write
to it any more. Moves the folder to its final place, commits, and returns where it is. Called one at a time."""


async def keep_in_place(cell: Cell, outcome: CellOutcome, folder: Path) -> Path:
    """A `Took` that leaves the folder where it is."""
    return folder


@dataclass(frozen=True)
class Job:
    """One execution: a script in a folder of its own, or (`cells`) a program once for each of its cells.

    `folder` is an empty or new folder that the code may write to; `source` maps file names to text that is put into
    it first (names may have folders); `inputs` maps a name to a folder of recorded arrays copied to
    `folder/inputs/<name>/`.
    """

    name: str
    folder: Path
    source: dict[str, str]
    entry: str = "experiment.py"
    mode: Literal["experiment", "plot", "score"] = "experiment"
    seed: int = 0
    timeout: float = 3600.0
    """Seconds of wall clock for the code; then interrupt, then the kernel's whole process group is killed. For a job of
    cells: seconds of computing of all of them together, their sum, on however many slots they run."""
    datasets: tuple[str, ...] = ()
    """Names that `lab.data` accepts; their views must have been materialised (`sandbox.datasets`)."""
    inputs: dict[str, Path] = field(default_factory=dict[str, Path])
    artifacts: dict[str, AttemptArtifacts] = field(default_factory=dict[str, AttemptArtifacts])
    """Node -> what it left; those that the source names are copied for `lab.artifact`."""
    earlier_folder: Path | None = None
    """The folder of an attempt of the same node that was cut, whose checkpoints `lab.restore` finds. For a job of
    cells: those of a cell lie in its `cells/<cell.name>/`, unless `cut` names another folder."""
    watch: ProgressWatch | None = None
    """Called about every `sandbox.monitor.WATCH_SECONDS` while the code runs, and once when it has ended. The text
    that it returns ends the code as the time limit does, and becomes its failure, of kind `hopeless`. For a job of
    cells: called for each cell by itself; once one is hopeless, the job is, and what has not begun is left out."""
    live_output: Path | None = None
    """A file that the code cannot write, which holds the beginning of its output while it runs; gone afterwards."""
    is_too_late: Callable[[], bool] = lambda: False
    """Asked once there is a place: whether it is too late to begin."""
    on_start: Callable[[], None] = lambda: None
    """Called once there is a place and it is not too late."""
    alone: bool = False
    """Whether no other job of the executor may run at the same time: it then has the machine's memory to itself."""
    cells: tuple[Cell, ...] = ()
    """What is to be measured, in the order of importance; empty for a program that does all at once. Cells run in
    kernels that see the view of their dataset alone, each in a process of its own (docs/sandbox.md)."""
    needs: Mapping[str, ResourceNeeds] = field(default_factory=dict[str, ResourceNeeds])
    """Arm -> what its cells need of the machine. A program that does all at once gets the most that any does."""
    settings: Mapping[Cell, HyperparameterSetting] = field(default_factory=dict[Cell, HyperparameterSetting])
    """Hyperparameters of each of `cells`, as `cell.setting` shows them to the code."""
    rungs_by: Literal["steps", "data"] = "steps"
    """What a share below 1 of a cell is of: the training steps, which the code sees to (`cell.share`), or the training
    examples, of which `lab.data` gives no more; `cell.share` is 1 then."""
    arms: tuple[str, ...] = ()
    """All arms of the study: a cell does not see the file `arms/<arm>.py` of another (`record.source_tree`). Empty:
    those of `cells`."""
    pilots: tuple[Cell, ...] = ()
    """Those of `cells` that are measured first. Empty: of each arm and dataset the last in order."""
    expected_seconds: Mapping[Cell, float] = field(default_factory=dict[Cell, float])
    """Seconds that cells are known to take. An arm on a dataset of which a cell is known needs no pilot."""
    measured_folders: Mapping[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Those of `cells` that were measured before, with their sealed folders: not run, only put into the whole."""
    failed_outcomes: Mapping[Cell, CellOutcome] = field(default_factory=dict[Cell, CellOutcome])
    """Those of `cells` that were executed before and failed: not run again, and counted as what they are."""
    interrupted_folders: Mapping[Cell, Path] = field(default_factory=dict[Cell, Path])
    """Folders of earlier executions of `cells` that ran into a limit, whose checkpoints `lab.restore` finds."""
    subjects: tuple[str, ...] = ()
    """Language models that the code may ask."""
    key: str = ""
    """What its exchanges with them are kept under; of a job of cells each has its own, in `keys`."""
    keys: Mapping[Cell, str] = field(default_factory=dict[Cell, str])
    on_cell_ended: OnCellEnded = keep_in_place
    may_skip_cells: bool = True
    """Whether the seconds that cells are expected to take decide that some are left out, and tighten their limits.
    Where False, only a `timeout` that is spent does the former."""

    def compute_max_needs(self) -> ResourceNeeds:
        """The most that any arm needs."""
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
    """What a job came to. Of one of cells, the folder holds what all measured cells left, as if one script had, and
    `failure` is None where every arm was measured somewhere and no cell failed by an exception of its code."""

    figures: tuple[Figure, ...] = ()
    cells: tuple[CellOutcomeLine, ...] = ()
    """What became of each of `Job.cells`, in that order. Those of `Job.ready` are `measured`, with the seconds that
    `Job.expected` has of them; ids and nodes are for the caller to fill in."""


class Executor(Protocol):
    """Runs jobs, at most `slots` at a time; further calls wait their turn, in the order in which they came."""

    slots: int

    @property
    def environment_fingerprint(self) -> str:
        """What values depend on besides code, data and seed: interpreter, packages, kind of processor or GPU, threads.

        The same text wherever all of it is the same. May block for a moment when first asked for.
        """
        ...

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """The most that one cell can have here."""
        ...

    async def run(self, job: Job) -> JobOutcome:
        """Run one job to its end. Cancelling the task kills the kernel. Raises `ExecutorError`, `TooLate`."""
        ...

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """What frozen scorers give for the sealed submissions of an attempt (file -> recorded sha256).

        To be called after the search. Raises `SubmissionRefused` where a scorer gives no values, `ExecutorError`.
        """
        ...

    async def close(self) -> None:
        """Kill what still runs; idempotent."""
        ...
