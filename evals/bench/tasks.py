"""Tasks of a benchmark, and the files of each step: `step.json` when it has ended, `judge.json` when it was judged.

A task is a Markdown file, as in MLR-Bench; its text is the topic of the idea. A step's file is written atomically
after what it describes. A step without a file is not done; a resumed benchmark looks at nothing else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from labwright.record.errors import UsageError
from labwright.record.reducers.call_state import RoleUsage
from labwright.record.run_folder import write_file
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import Judgement

MAX_TASK_BYTES = 200_000


@dataclass(frozen=True)
class BenchTask:
    """A task, named after its file."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_tasks(folder: Path, only: tuple[str, ...] = ()) -> tuple[BenchTask, ...]:
    """Read the tasks of a folder by name; `only` selects names or patterns. Raises `UsageError`."""
    if not folder.is_dir():
        raise UsageError(f"--tasks {folder} is not a folder: give one with a .md file for each task")
    paths = sorted(path for path in folder.glob("*.md") if path.stem.lower() != "readme")
    if not paths:
        raise UsageError(f"--tasks {folder} contains no .md file: give a folder with a .md file for each task")
    for pattern in only:
        if not any(fnmatch(path.stem, pattern) for path in paths):
            raise UsageError(
                f"--only {pattern} matches none of the {len(paths)} tasks in {folder}, such as {paths[0].stem}"
            )
    return tuple(_read_task(path) for path in paths if not only or any(fnmatch(path.stem, one) for one in only))


def _read_task(path: Path) -> BenchTask:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig").strip()
    except OSError as error:
        raise UsageError(f"cannot read the task {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the task {path} is not UTF-8 text: save it as text, or exclude it with --only") from None
    if len(text.split()) < 3 or "\0" in text or len(data) > MAX_TASK_BYTES:
        raise UsageError(
            f"the task {path} is not a string of 3 words to {MAX_TASK_BYTES // 1000} kB: shorten it, or exclude it "
            "with --only"
        )
    return BenchTask(path.stem, text)


# --- steps -----------------------------------------------------------------------------------------------------------

StepName = Literal["idea", "proposal", "experiment", "paper"]
STEPS: tuple[StepName, ...] = get_args(StepName)
PREREQUISITES: dict[StepName, tuple[StepName, ...]] = {
    "idea": (),
    "proposal": ("idea",),
    "experiment": ("idea",),
    "paper": ("idea", "experiment"),
}
"""Steps that each step needs. They are made even if not requested, but then not judged."""

StepState = Literal["done", "failed", "refused", "not begun"]
StepFile = TypeVar("StepFile", bound=BaseModel)


class StepOutcome(FrozenModel):
    """How a step ended. `refused`: the model refuses such work, which says nothing about its quality."""

    state: StepState
    document: str = Field(default="", description="the judged document, relative to the task's folder")
    code: str = Field(
        default="", description="the folder of the code behind it, relative to the task's folder; empty: none"
    )
    why: str = Field(default="", description="why the step is not done, or what it lacks")
    took: RoleUsage = RoleUsage()
    seconds: float = Field(default=0.0, description="elapsed time of the step")


class StepScoring(FrozenModel):
    """The judgement of a step's document, or why there is none."""

    judgement: Judgement | None = None
    state: StepState
    why: str = ""
    took: RoleUsage = RoleUsage()


class StepLine(FrozenModel):
    """A step of a task as reported. `asked`: whether it was to be judged."""

    task: str
    step: StepName
    asked: bool
    outcome: StepOutcome
    scoring: StepScoring | None = None


RESULT_FILES: dict[type[BaseModel], str] = {StepOutcome: "step.json", StepScoring: "judge.json"}


def read_result(folder: Path, kind: type[StepFile]) -> StepFile | None:
    """Read how a step ended or was judged; None if it was not.

    A damaged file counts as missing, so the work is repeated.
    """
    try:
        return kind.model_validate_json((folder / RESULT_FILES[kind]).read_bytes())
    except (OSError, ValidationError):
        return None


def save_result(folder: Path, result: StepOutcome | StepScoring) -> None:
    """Write the result of a step into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / RESULT_FILES[type(result)], result.model_dump_json(indent=1) + "\n")


def find_needed_steps(requested: tuple[StepName, ...]) -> tuple[StepName, ...]:
    """Return the steps to make: the requested ones and those that they need, in order."""
    return tuple(step for step in STEPS if step in requested or any(step in PREREQUISITES[name] for name in requested))
