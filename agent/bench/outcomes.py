"""What is kept of a step: `step.json` when it has ended, `judge.json` when its document was judged.

A file is written whole or not at all, after what it speaks of. What has no file is not done; that is all that a resumed
bench looks at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from agent.commands.asking import Took
from record.folder import write_file
from record.judgement import Judgement
from record.nouns.frozen import Frozen

StepName = Literal["idea", "proposal", "experiment", "paper"]
STEPS: tuple[StepName, ...] = get_args(StepName)
BEFORE: dict[StepName, tuple[StepName, ...]] = {
    "idea": (), "proposal": ("idea",), "experiment": ("idea",), "paper": ("idea", "experiment")}
"""What a step is made from. It is made too, though not judged, where it is not asked for."""

State = Literal["done", "failed", "refused", "not begun"]
Kept = TypeVar("Kept", bound=BaseModel)


class Outcome(Frozen):
    """How a step ended. `refused`: the model does not do such work at all, which says nothing of the work's worth."""

    state: State
    document: str = Field(default="", description="what is judged, relative to the task's folder")
    code: str = Field(default="", description="the folder of code behind it, likewise; empty: none")
    why: str = Field(default="", description="why it is not done, or what is missing in it")
    took: Took = Took()
    seconds: float = Field(default=0.0, description="wall clock of the step")


class Scoring(Frozen):
    """The judgement of a step's document, or why there is none."""

    judgement: Judgement | None = None
    state: State
    why: str = ""
    took: Took = Took()


class Line(Frozen):
    """One step of one task, as it is told. `asked`: whether it was to be judged."""

    task: str
    step: StepName
    asked: bool
    outcome: Outcome
    scoring: Scoring | None = None


def read_outcome(home: Path) -> Outcome | None:
    """How a step ended; None where it did not."""
    return _read(home / "step.json", Outcome)


def read_scoring(home: Path) -> Scoring | None:
    """How a step was judged; None where it was not."""
    return _read(home / "judge.json", Scoring)


def keep(home: Path, found: Outcome | Scoring) -> None:
    """Write what became of a step into its folder."""
    home.mkdir(parents=True, exist_ok=True)
    write_file(home / ("step.json" if isinstance(found, Outcome) else "judge.json"),
               found.model_dump_json(indent=1) + "\n")


def needed(asked: tuple[StepName, ...]) -> tuple[StepName, ...]:
    """The steps to make: those asked for, and what they are made from, in order."""
    return tuple(step for step in STEPS if step in asked or any(step in BEFORE[one] for one in asked))


def _read(path: Path, kind: type[Kept]) -> Kept | None:
    """A file of ours; one that is damaged counts as not there, so that its step is taken up again."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
