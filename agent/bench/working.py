"""The work on a bench: task after task, step after step; a task that fails does not end the others.

What is done is not done again. What failed is tried again by the next call of the same bench; what was refused as well,
since a refusal costs nothing and the model may be another one by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.bench.outcomes import BEFORE, Line, Outcome, Scoring, StepName, keep, needed, read_outcome, read_scoring
from agent.bench.tasks import Task
from models.errors import CatalogueError, ModelConfigError, ModelError
from record.lock import RunLockedError
from record.log import RecordError
from review.evidence.tex import TexError
from review.judge import JudgeError
from sandbox.errors import SandboxError

REFUSALS = (CatalogueError,)
FAILURES = (ModelError, RecordError, RunLockedError, SandboxError, JudgeError, TexError, OSError)


class Interrupted(Exception):
    """The person, or an outage, ended the work; the same call takes it up again."""


class Maker(Protocol):
    """Makes the document of a step in a task's folder, or takes up what was begun there."""

    def __call__(self, task: Task, home: Path) -> Outcome:
        """How the step ended. Raises one of `REFUSALS` or `FAILURES`, or `Interrupted`."""
        ...


class Judge(Protocol):
    """Judges the document of a step by the step's rubric."""

    def __call__(self, task: Task, step: StepName, home: Path, outcome: Outcome) -> Scoring:
        """The judgement. Raises one of `REFUSALS` or `FAILURES`."""
        ...


@dataclass(frozen=True)
class Bench:
    """A bench in its folder `out`, where each task has a folder of its name. `told` is called with each line."""

    out: Path
    asked: tuple[StepName, ...]
    makers: dict[StepName, Maker]
    judge: Judge
    told: Callable[[Line], None] = field(default=lambda line: None)

    def home(self, task: Task, step: StepName) -> Path:
        """Where the files of a step lie."""
        return self.out / task.name / step


def work(bench: Bench, tasks: Sequence[Task]) -> None:
    """Bring every task as far as it goes. Raises `Interrupted`, `ModelConfigError`."""
    for task in tasks:
        _unchanged(bench, task)
        for step in needed(bench.asked):
            outcome = made(bench, task, step)
            scoring = scored(bench, task, step, outcome) if step in bench.asked else None
            bench.told(Line(task=task.name, step=step, asked=step in bench.asked, outcome=outcome, scoring=scoring))


def made(bench: Bench, task: Task, step: StepName) -> Outcome:
    """The outcome of a step: as it is kept, or made now."""
    home = bench.home(task, step)
    known = read_outcome(home)
    if known is not None and known.state == "done":
        return known
    for before in BEFORE[step]:
        earlier = read_outcome(bench.home(task, before))
        if earlier is None or earlier.state != "done":
            return Outcome(state="not begun", why=f"there is no {before}")
    try:
        found = bench.makers[step](task, bench.out / task.name)
    except ModelConfigError:
        raise
    except REFUSALS as error:
        found = Outcome(state="refused", why=str(error))
    except FAILURES as error:
        found = Outcome(state="failed", why=f"{type(error).__name__}: {error}")
    keep(home, found)
    return found


def scored(bench: Bench, task: Task, step: StepName, outcome: Outcome) -> Scoring | None:
    """The scoring of a step: as it is kept, or made now. None where there is nothing to judge."""
    home = bench.home(task, step)
    known = read_scoring(home)
    if outcome.state != "done" or (known is not None and known.judgement is not None):
        return known if outcome.state == "done" else None
    try:
        found = bench.judge(task, step, bench.out / task.name, outcome)
    except ModelConfigError:
        raise
    except REFUSALS as error:
        found = Scoring(state="refused", why=str(error))
    except FAILURES as error:
        found = Scoring(state="failed", why=f"{type(error).__name__}: {error}")
    keep(home, found)
    return found


def lines_of(bench: Bench, tasks: Sequence[Task]) -> tuple[Line, ...]:
    """Every step of every task as the files have it."""
    found: list[Line] = []
    for task in tasks:
        for step in needed(bench.asked):
            home = bench.home(task, step)
            outcome = read_outcome(home) or Outcome(state="not begun")
            asked = step in bench.asked
            found.append(Line(task=task.name, step=step, asked=asked, outcome=outcome,
                              scoring=read_scoring(home) if asked and outcome.state == "done" else None))
    return tuple(found)


def _unchanged(bench: Bench, task: Task) -> None:
    """Keep the task's text beside its steps. Raises `RecordError` where it was another when it was begun."""
    kept = bench.out / task.name / "task.md"
    if kept.exists() and kept.read_text(encoding="utf-8") != task.text:
        raise RecordError(f"the task {task.name} is not the one that {bench.out} was begun with: choose another --out")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(task.text, encoding="utf-8")
