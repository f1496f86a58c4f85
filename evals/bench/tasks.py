"""Tasks of a bench, and what is kept of each step: `step.json` when it ended, `judge.json` when it was judged.

A task is a Markdown file, as MLR-Bench has them; its text is the topic of the idea. A file of a step is written whole
or not at all, after what it describes. What has no file is not done; that is all that a resumed bench looks at.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from labwright.record.errors import WrongUse
from labwright.record.fold.facts import RoleUsage
from labwright.record.folder import write_file
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.papers import Judgement

MOST_BYTES = 200_000


@dataclass(frozen=True)
class Task:
    """A task by the name of its file."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_tasks(folder: Path, only: tuple[str, ...] = ()) -> tuple[Task, ...]:
    """The tasks of a folder by name; `only` keeps those that match a name or pattern. Raises `WrongUse`."""
    if not folder.is_dir():
        raise WrongUse(f"--tasks {folder} is not a folder: give one with a .md file for each task")
    paths = sorted(path for path in folder.glob("*.md") if path.stem.lower() != "readme")
    if not paths:
        raise WrongUse(f"--tasks {folder} holds no .md file: give one with a .md file for each task")
    for pattern in only:
        if not any(fnmatch(path.stem, pattern) for path in paths):
            raise WrongUse(
                f"--only {pattern}: none of the {len(paths)} tasks in {folder} is named so, as {paths[0].stem}"
            )
    return tuple(_task(path) for path in paths if not only or any(fnmatch(path.stem, one) for one in only))


def _task(path: Path) -> Task:
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig").strip()
    except OSError as error:
        raise WrongUse(f"cannot read the task {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUse(f"the task {path} is not text in UTF-8: save it as text, or leave it out with --only") from None
    if len(text.split()) < 3 or "\0" in text or len(data) > MOST_BYTES:
        raise WrongUse(
            f"the task {path} is not a text of 3 words to {MOST_BYTES // 1000} kB: shorten it, or leave it "
            "out with --only"
        )
    return Task(path.stem, text)


# --- steps -----------------------------------------------------------------------------------------------------------

StepName = Literal["idea", "proposal", "experiment", "paper"]
STEPS: tuple[StepName, ...] = get_args(StepName)
BEFORE: dict[StepName, tuple[StepName, ...]] = {
    "idea": (),
    "proposal": ("idea",),
    "experiment": ("idea",),
    "paper": ("idea", "experiment"),
}
"""What a step is made from. It is made too, though not judged, where it is not asked for."""

State = Literal["done", "failed", "refused", "not begun"]
Kept = TypeVar("Kept", bound=BaseModel)


class Outcome(Frozen):
    """How a step ended. `refused`: the model does not do such work at all, which says nothing about its quality."""

    state: State
    document: str = Field(default="", description="what is judged, relative to the task's folder")
    code: str = Field(default="", description="the folder of the code behind it, likewise; empty: none")
    why: str = Field(default="", description="why the step is not done, or what is missing in it")
    took: RoleUsage = RoleUsage()
    seconds: float = Field(default=0.0, description="wall clock of the step")


class Scoring(Frozen):
    """The judgement of a step's document, or why there is none."""

    judgement: Judgement | None = None
    state: State
    why: str = ""
    took: RoleUsage = RoleUsage()


class Line(Frozen):
    """One step of one task as it is reported. `asked`: whether it was to be judged."""

    task: str
    step: StepName
    asked: bool
    outcome: Outcome
    scoring: Scoring | None = None


FILES: dict[type[BaseModel], str] = {Outcome: "step.json", Scoring: "judge.json"}


def saved(folder: Path, kind: type[Kept]) -> Kept | None:
    """How a step ended or was judged; None where it was not. A damaged file counts as missing: the work is repeated."""
    try:
        return kind.model_validate_json((folder / FILES[kind]).read_bytes())
    except (OSError, ValidationError):
        return None


def save(folder: Path, result: Outcome | Scoring) -> None:
    """Write the result of a step into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / FILES[type(result)], result.model_dump_json(indent=1) + "\n")


def needed(asked: tuple[StepName, ...]) -> tuple[StepName, ...]:
    """The steps to make: those asked for, and what they are made from, in order."""
    return tuple(step for step in STEPS if step in asked or any(step in BEFORE[name] for name in asked))
