"""The work on one task of a bench: step after step, each kept when it ended; and the tasks as jobs of a campaign.

What is done is not done again. What failed is tried again by the next call of the same bench; so is what was refused,
since a refusal costs nothing and the model may be another one by then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from labwright.agent.campaign import last_words, limits_of
from labwright.evals.bench.tasks import BEFORE, Line, Outcome, Scoring, StepName, Task, needed, save, saved
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError
from labwright.record.campaign import Amounts, Entry, RunEnded, Share
from labwright.record.lock import RunLockedError
from labwright.record.reading import RecordError
from labwright.review.evidence.tex import TexError
from labwright.review.judge import JudgeError
from labwright.sandbox.errors import SandboxError

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
    """A bench in its folder `out`, where each task has a folder of its name."""

    out: Path
    asked: tuple[StepName, ...]
    makers: dict[StepName, Maker]
    judge: Judge

    def folder(self, task: str, step: StepName) -> Path:
        """The folder of a step's files."""
        return self.out / task / step


def keep_text(out: Path, task: Task) -> None:
    """Keep the text of a task beside its results. Raises `RecordError` where it was begun with another."""
    kept = out / task.name / "task.md"
    if kept.exists() and kept.read_text(encoding="utf-8") != task.text:
        raise RecordError(f"the task {task.name} is not the one that {out} was begun with: choose another --out")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(task.text, encoding="utf-8")


def work(bench: Bench, task: Task) -> None:
    """Bring a task as far as it goes. Raises `Interrupted`, `ModelConfigError`."""
    for step in needed(bench.asked):
        outcome = made(bench, task, step)
        if step in bench.asked:
            scored(bench, task, step, outcome)


def made(bench: Bench, task: Task, step: StepName) -> Outcome:
    """The outcome of a step: as saved, or made now."""
    known = saved(bench.folder(task.name, step), Outcome)
    if known is not None and known.state == "done":
        return known
    for before in BEFORE[step]:
        earlier = saved(bench.folder(task.name, before), Outcome)
        if earlier is None or earlier.state != "done":
            return Outcome(state="not begun", why=f"there is no {before}")
    return _result(bench.folder(task.name, step), Outcome, lambda: bench.makers[step](task, bench.out / task.name))


def scored(bench: Bench, task: Task, step: StepName, outcome: Outcome) -> Scoring | None:
    """The scoring of a step: as saved, or made now. None where there is nothing to judge."""
    if outcome.state != "done":
        return None
    known = saved(bench.folder(task.name, step), Scoring)
    if known is not None and known.judgement is not None:
        return known
    return _result(
        bench.folder(task.name, step), Scoring, lambda: bench.judge(task, step, bench.out / task.name, outcome)
    )


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


def lines_of(out: Path, asked: tuple[StepName, ...], tasks: Sequence[str]) -> tuple[Line, ...]:
    """Every step of every task as the files have it."""
    lines: list[Line] = []
    for task in tasks:
        for step in needed(asked):
            folder = out / task / step
            outcome = saved(folder, Outcome) or Outcome(state="not begun")
            judged = step in asked and outcome.state == "done"
            lines.append(
                Line(
                    task=task,
                    step=step,
                    asked=step in asked,
                    outcome=outcome,
                    scoring=saved(folder, Scoring) if judged else None,
                )
            )
    return tuple(lines)


def complete(lines: Sequence[Line]) -> bool:
    """Whether every step is done, and judged where it was asked for."""
    return all(
        line.outcome.state == "done"
        and (not line.asked or (line.scoring is not None and line.scoring.judgement is not None))
        for line in lines
    )


@dataclass(frozen=True)
class Tasks:
    """The tasks of a bench as jobs of a campaign: each is a process that works through its steps."""

    out: Path
    asked: tuple[StepName, ...]
    spent: Callable[[Path], Amounts]
    """What a task took, by its folder."""
    program: tuple[str, ...] = field(default=(sys.executable, "-m", "labwright.evals.bench"))

    def command(self, entry: Entry, share: Share) -> list[str]:
        return [*self.program, str(self.out), entry.name, ",".join(self.asked), *limits_of(share)]

    def ended(self, entry: Entry, returned: int | None) -> RunEnded:
        lines = lines_of(self.out, self.asked, [entry.name])
        spent = self.spent(self.out / entry.name)
        if complete(lines):
            return RunEnded(name=entry.name, code=0, spent=spent)
        why = next((line.outcome.why for line in lines if line.outcome.why and line.outcome.state != "done"), "")
        if returned == 0:  # it came to its end: what failed is not tried again by itself
            return RunEnded(name=entry.name, code=4, why=why, spent=spent)
        return RunEnded(
            name=entry.name,
            code=returned if returned in (1, 2, 130) else None,
            spent=spent,
            why=last_words(self.out, entry.name),
        )
