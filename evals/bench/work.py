"""The work on a bench: task after task, step after step; a task that fails does not end the others.

What is done is not done again. What failed is tried again by the next call of the same bench; so is what was refused,
since a refusal costs nothing and the model may be another one by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from evals.bench.tasks import BEFORE, Line, Outcome, Scoring, StepName, Task, needed, save, saved
from models.errors import CatalogueError, ModelConfigError, ModelError
from record.lock import RunLockedError
from record.reading import RecordError
from review.evidence.tex import TexError
from review.judge import JudgeError
from sandbox.errors import SandboxError

REFUSALS = (CatalogueError,)
FAILURES = (ModelError, RecordError, RunLockedError, SandboxError, JudgeError, TexError, OSError)
Result = TypeVar("Result", Outcome, Scoring)


class Interrupted(Exception):
    """The person, or an outage, ended the work; the same call continues it."""


class Maker(Protocol):
    """Makes the document of a step in a task's folder, or continues what was begun there."""

    def __call__(self, task: Task, folder: Path) -> Outcome:
        """How the step ended. Raises one of `REFUSALS` or `FAILURES`, or `Interrupted`."""
        ...


class Judge(Protocol):
    """Judges the document of a step by the step's rubric."""

    def __call__(self, task: Task, step: StepName, folder: Path, outcome: Outcome) -> Scoring:
        """The judgement. Raises one of `REFUSALS` or `FAILURES`."""
        ...


@dataclass(frozen=True)
class Bench:
    """A bench in its folder `out`, where each task has a folder of its name. `report` is called with each line."""

    out: Path
    asked: tuple[StepName, ...]
    makers: dict[StepName, Maker]
    judge: Judge
    report: Callable[[Line], None] = field(default=lambda line: None)

    def folder(self, task: Task, step: StepName) -> Path:
        """The folder of a step's files."""
        return self.out / task.name / step


def work(bench: Bench, tasks: Sequence[Task]) -> None:
    """Bring every task as far as it goes. Raises `Interrupted`, `ModelConfigError`, and
    `RecordError` where it was begun with another text."""
    for task in tasks:
        kept = bench.out / task.name / "task.md"
        if kept.exists() and kept.read_text(encoding="utf-8") != task.text:
            raise RecordError(f"the task {task.name} is not the one that {bench.out} was begun with: choose another "
                              "--out")
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(task.text, encoding="utf-8")
        for step in needed(bench.asked):
            outcome = made(bench, task, step)
            scoring = scored(bench, task, step, outcome) if step in bench.asked else None
            bench.report(Line(task=task.name, step=step, asked=step in bench.asked, outcome=outcome, scoring=scoring))


def made(bench: Bench, task: Task, step: StepName) -> Outcome:
    """The outcome of a step: as saved, or made now."""
    known = saved(bench.folder(task, step), Outcome)
    if known is not None and known.state == "done":
        return known
    for before in BEFORE[step]:
        earlier = saved(bench.folder(task, before), Outcome)
        if earlier is None or earlier.state != "done":
            return Outcome(state="not begun", why=f"there is no {before}")
    return _result(bench.folder(task, step), Outcome, lambda: bench.makers[step](task, bench.out / task.name))


def scored(bench: Bench, task: Task, step: StepName, outcome: Outcome) -> Scoring | None:
    """The scoring of a step: as saved, or made now. None where there is nothing to judge."""
    if outcome.state != "done":
        return None
    known = saved(bench.folder(task, step), Scoring)
    if known is not None and known.judgement is not None:
        return known
    return _result(bench.folder(task, step), Scoring,
                  lambda: bench.judge(task, step, bench.out / task.name, outcome))


def _result(folder: Path, kind: type[Result], make: Callable[[], Result]) -> Result:
    """The result of some work, failures and refusals included, written into its folder."""
    try:
        result = make()
    except ModelConfigError:
        raise
    except REFUSALS as error:
        result = kind(state="refused", why=str(error))
    except FAILURES as error:
        result = kind(state="failed", why=f"{type(error).__name__}: {error}")
    save(folder, result)
    return result


def lines_of(bench: Bench, tasks: Sequence[Task]) -> tuple[Line, ...]:
    """Every step of every task as the files have it."""
    lines: list[Line] = []
    for task in tasks:
        for step in needed(bench.asked):
            outcome = saved(bench.folder(task, step), Outcome) or Outcome(state="not begun")
            judged = step in bench.asked and outcome.state == "done"
            lines.append(Line(task=task.name, step=step, asked=step in bench.asked, outcome=outcome,
                              scoring=saved(bench.folder(task, step), Scoring) if judged else None))
    return tuple(lines)
