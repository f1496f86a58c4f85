"""The job of this process (the JSON file that LAB_JOB names), its seeds and threads, and the function that measures its
cell, whose output is restricted to the cell's own dataset and condition.

The same file with the same `lab.seed` computes the same numbers.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np


class LabError(Exception):
    """`lab` was used incorrectly. The message says what was expected and what was given."""

    diverged = False
    """Whether the cause is a value that is not finite or too large."""


def not_finite_error(message: str) -> LabError:
    """Return the error for code that diverged."""
    error = LabError(message)
    error.diverged = True
    return error


@dataclass(frozen=True)
class LabCell:
    """The cell measured by one call of the function given to `lab.measure`."""

    dataset: str
    arm: str
    level: str = ""
    trial: int = 0
    share: float = 1.0
    """Always 1: read by programs of earlier versions."""
    seed: int = 0
    setting: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """Hyperparameter -> value, for this arm in this trial."""
    setting_of: str = ""
    """Arm whose setting this one runs with; empty: its own."""
    setting_trial: int = 0

    @property
    def condition(self) -> str:
        """The arm, or `arm@level`; with the setting of another arm, `arm-at-other` (`Cell.condition` on the host)."""
        arm = f"{self.arm}-at-{self.setting_of}" if self.setting_of else self.arm
        return f"{arm}@{self.level}" if self.level else arm

    @property
    def name(self) -> str:
        """Suffix of the names of the cell's arrays and artifacts, equal for every setting (`Cell.place_name` on the
        host).
        """
        parts = [self.dataset, *self.condition.split("@")]
        joined = "__".join(parts)
        if not any("__" in part for part in parts):
            return joined
        return f"{joined}__{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]}"

    def __str__(self) -> str:
        return f"{self.condition} on {self.dataset}"


@dataclass(frozen=True)
class JobFile:
    """Seed, deadline (of `time.monotonic`, shared by all processes of a machine), device, views, folder and more."""

    seed: int
    deadline: float
    device: str
    mode: Literal["experiment", "plot", "score"]
    folder: Path
    entry: str
    datasets: dict[str, str]
    """Dataset name -> its view, an .npz file without the withheld labels, relative to `folder` or absolute."""
    limit: float = 0.0
    """Wall clock limit of the script in seconds."""
    cache: str = ""
    """Folder shared by the kernels of a run."""
    processes: int = 1
    """Default number of processes for `lab.launch`: one per GPU."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> its artifacts, saved with `lab.save_artifact`."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> its folder."""
    scorers: list[str] = field(default_factory=list[str])
    """Datasets whose frozen scorer takes artifacts."""
    checkpoint_bytes: int = 2 * 2**30
    artifact_bytes: int = 2 * 2**30
    tree: str = ""
    """sha256 of all source files that the code sees."""
    cell: LabCell | None = None
    """The cell to measure; None for a plain script."""
    arms: dict[str, str] = field(default_factory=dict[str, str])
    """Arm whose artifacts this cell reads -> name of the cell that saved them."""
    subjects: list[str] = field(default_factory=list[str])
    """Language models that the code may query."""
    llm: str = ""
    """Path of the socket for queries to language models."""
    grace: float = 2.0
    """Seconds between the interrupt of a cell and its kill."""


@functools.cache
def read_job() -> JobFile:
    """Return the job of this process. Raises `LabError` outside a kernel of the harness."""
    path = os.environ.get("LAB_JOB")
    if path is None:
        raise LabError("lab works only in a kernel of the harness: run this file with `scientist exec FILE`")
    with open(path, encoding="utf-8") as file:
        fields: dict[str, Any] = json.load(file)
    cell = fields.pop("cell", None)
    return JobFile(folder=Path(fields.pop("folder")), cell=cell and LabCell(**cell), **fields)


def require_experiment(function: str) -> JobFile:
    """Return the job if it is an experiment. Raises `LabError` in a plotting script, which may only read arrays."""
    current = read_job()
    if current.mode != "experiment":
        raise LabError(f"lab.{function} belongs in experiment.py: a plotting script only reads recorded arrays")
    return current


# --- seeds and threads ----------------------------------------------------------------------------------------------


class BuildState:
    """State of a value that `lab.shared` is building in this process."""

    seed: ClassVar[int | None] = None
    """Its seed; None if none is being built."""


def get_seed() -> int:
    """Return `lab.seed`: the seed of the job or, in a build of `lab.shared`, that of the value."""
    return read_job().seed if BuildState.seed is None else BuildState.seed


def seed_everything() -> None:
    """Seed random, numpy and torch with `lab.seed`. If torch is imported later, it is seeded at that time."""
    seed_all(get_seed())


def seed_all(seed: int) -> None:
    """Seed random, numpy, and torch if imported."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        _seed_torch(sys.modules["torch"], seed)


def apply_job() -> None:
    """Switch to the current job, since modules were imported before the job existed."""
    read_job.cache_clear()
    if "torch" in sys.modules:
        _seed_torch(sys.modules["torch"], read_job().seed)


def configure_torch(torch: ModuleType) -> None:
    """Set torch's threads and seed. Convolutions differ in the last bits between one and two threads."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    _seed_torch(torch, get_seed())


def _seed_torch(torch: ModuleType, seed: int) -> None:
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(os.environ.get("LAB_DETERMINISTIC") == "1")


# --- the cell ---------------------------------------------------------------------------------------------------------


_MAX_FILE_NAME_CHARS = 115
"""Maximum length of a file name that the host accepts, in characters."""
_registered: list[Callable[[LabCell], Any]] = []


def measure(function: Callable[[LabCell], Any], reads: dict[str, str] | None = None) -> None:
    """Call the function for each cell of the study, `function(cell)`, each time in a separate process; it may be
    `async`.

    `reads` maps an arm to the arm whose artifacts it reads (`lab.artifact(name, arm=...)`); it is read from the source,
    so it must be a literal. Raises `LabError` if called twice.
    """
    if require_experiment("measure").cell is None:
        raise LabError("lab.measure: this program was started without cells: choose some (exec --cells, --on)")
    if _registered:
        raise LabError("lab.measure was called twice: distinguish arms in one function, with cell.arm")
    _registered.append(function)


def get_registered() -> Callable[[LabCell], Any]:
    """Return the function that measures a cell. Raises `LabError` if the program registered none."""
    if not _registered:
        raise LabError(f"{read_job().entry} does not call lab.measure: end it with lab.measure(run)")
    return _registered[0]


def resolve_cell(where: str, dataset: str, condition: str) -> tuple[str, str]:
    """Return dataset and condition, by default those of the cell. Raises `LabError` if they belong to another cell."""
    cell = read_job().cell
    if cell is None:
        return dataset, condition
    if dataset and dataset != cell.dataset:
        raise LabError(f"{where}: this cell is {cell}; it cannot report on dataset {dataset!r}")
    if condition and condition != cell.condition:
        raise LabError(f"{where}: this cell is {cell}; it cannot report on condition {condition!r}")
    return cell.dataset, cell.condition


def add_cell_name(name: str, cell: str | None = None) -> str:
    """Add the name of the current cell (or of the given one) to a file name, before its extension:
    `net__digits__cnn.pt`.

    Raises `LabError` if the result is too long.
    """
    current = read_job().cell
    own = cell if cell is not None else current and current.name
    if own is None:
        return name
    stem, ending = os.path.splitext(name)
    full = f"{stem}__{own}{ending}"
    if len(full) > _MAX_FILE_NAME_CHARS:
        raise LabError(f"the name {name!r} becomes {full!r}: choose a shorter one")
    return full
