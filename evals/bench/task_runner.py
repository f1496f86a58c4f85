"""Run one task of a benchmark, step by step, saving each step when it ends; and run tasks as campaign jobs.

Completed steps are not repeated. The next call of the same benchmark retries failed steps, and refused ones, since
a refusal costs nothing and the model may have changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from labwright.agent.campaign import read_last_line, share_options
from labwright.evals.bench.tasks import (
    PREREQUISITES,
    BenchTask,
    StepLine,
    StepName,
    StepOutcome,
    StepScoring,
    find_needed_steps,
    read_result,
    save_result,
)
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError
from labwright.record.campaign import CampaignEntry, RunAllowance, RunEnded, SpendingCaps
from labwright.record.lock import RunLockedError
from labwright.record.log_reader import RecordError
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge import JudgeError
from labwright.sandbox.errors import SandboxError

REFUSALS = (CatalogueError,)
FAILURES = (ModelError, RecordError, RunLockedError, SandboxError, JudgeError, TexError, OSError)
Result = TypeVar("Result", StepOutcome, StepScoring)


class BenchInterrupted(Exception):
    """The user or an outage stopped the work; the same call continues it."""


class StepMaker(Protocol):
    """Makes the document of a step in a task's folder, or continues unfinished work."""

    def __call__(self, task: BenchTask, folder: Path) -> StepOutcome:
        """Return how the step ended. Raises one of `REFUSALS` or `FAILURES`, or `BenchInterrupted`."""
        ...


class StepJudge(Protocol):
    """Judges the document of a step with the step's rubric."""

    def __call__(self, task: BenchTask, step: StepName, folder: Path, outcome: StepOutcome) -> StepScoring:
        """Return the judgement. Raises one of `REFUSALS` or `FAILURES`."""
        ...


@dataclass(frozen=True)
class MlrBench:
    """A benchmark in its folder `out`, in which each task has a folder of its name."""

    out: Path
    asked: tuple[StepName, ...]
    makers: dict[StepName, StepMaker]
    judge: StepJudge

    def step_folder(self, task: str, step: StepName) -> Path:
        """Return the folder of a step's files."""
        return self.out / task / step


def save_task_text(out: Path, task: BenchTask) -> None:
    """Save the text of a task next to its results.

    Raises `RecordError` if the task was started with another text.
    """
    kept = out / task.name / "task.md"
    if kept.exists() and kept.read_text(encoding="utf-8") != task.text:
        raise RecordError(
            f"the task {task.name} differs from the one that {out} was created with: choose another --out"
        )
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(task.text, encoding="utf-8")


def run_task(bench: MlrBench, task: BenchTask) -> None:
    """Run a task as far as possible. Raises `BenchInterrupted`, `ModelConfigError`."""
    for step in find_needed_steps(bench.asked):
        outcome = make_step(bench, task, step)
        if step in bench.asked:
            score_step(bench, task, step, outcome)


def make_step(bench: MlrBench, task: BenchTask, step: StepName) -> StepOutcome:
    """Return the outcome of a step, saved or made now."""
    known = read_result(bench.step_folder(task.name, step), StepOutcome)
    if known is not None and known.state == "done":
        return known
    for before in PREREQUISITES[step]:
        earlier = read_result(bench.step_folder(task.name, before), StepOutcome)
        if earlier is None or earlier.state != "done":
            return StepOutcome(state="not begun", why=f"there is no {before}")
    return _save_step(
        bench.step_folder(task.name, step), StepOutcome, lambda: bench.makers[step](task, bench.out / task.name)
    )


def score_step(bench: MlrBench, task: BenchTask, step: StepName, outcome: StepOutcome) -> StepScoring | None:
    """Return the scoring of a step, saved or made now; None if there is nothing to judge."""
    if outcome.state != "done":
        return None
    known = read_result(bench.step_folder(task.name, step), StepScoring)
    if known is not None and known.judgement is not None:
        return known
    return _save_step(
        bench.step_folder(task.name, step), StepScoring, lambda: bench.judge(task, step, bench.out / task.name, outcome)
    )


def _save_step(folder: Path, kind: type[Result], make: Callable[[], Result]) -> Result:
    """Return the result of some work, including failures and refusals, and save it in its folder."""
    try:
        result = make()
    except ModelConfigError:
        raise
    except REFUSALS as error:
        result = kind(state="refused", why=str(error))
    except FAILURES as error:
        result = kind(state="failed", why=f"{type(error).__name__}: {error}")
    save_result(folder, result)
    return result


def read_lines(out: Path, requested: tuple[StepName, ...], tasks: Sequence[str]) -> tuple[StepLine, ...]:
    """Read every step of every task from the files."""
    lines: list[StepLine] = []
    for task in tasks:
        for step in find_needed_steps(requested):
            folder = out / task / step
            outcome = read_result(folder, StepOutcome) or StepOutcome(state="not begun")
            judged = step in requested and outcome.state == "done"
            lines.append(
                StepLine(
                    task=task,
                    step=step,
                    asked=step in requested,
                    outcome=outcome,
                    scoring=read_result(folder, StepScoring) if judged else None,
                )
            )
    return tuple(lines)


def is_complete(lines: Sequence[StepLine]) -> bool:
    """Return whether every step is done, and judged if requested."""
    return all(
        line.outcome.state == "done"
        and (not line.asked or (line.scoring is not None and line.scoring.judgement is not None))
        for line in lines
    )


@dataclass(frozen=True)
class MlrTasks:
    """The tasks of a benchmark as campaign jobs: each is a process that works through its steps."""

    out: Path
    asked: tuple[StepName, ...]
    spent: Callable[[Path], SpendingCaps]
    """Returns what a task cost, by its folder."""
    program: tuple[str, ...] = field(default=(sys.executable, "-m", "labwright.evals.bench"))

    def build_command(self, entry: CampaignEntry, share: RunAllowance) -> list[str]:
        return [*self.program, str(self.out), entry.name, ",".join(self.asked), *share_options(share)]

    def read_end(self, entry: CampaignEntry, returned: int | None) -> RunEnded:
        lines = read_lines(self.out, self.asked, [entry.name])
        spent = self.spent(self.out / entry.name)
        if is_complete(lines):
            return RunEnded(name=entry.name, code=0, spent=spent)
        why = next((line.outcome.why for line in lines if line.outcome.why and line.outcome.state != "done"), "")
        if returned == 0:  # it ran to its end; failed steps are not retried automatically
            return RunEnded(name=entry.name, code=4, why=why, spent=spent)
        return RunEnded(
            name=entry.name,
            code=returned if returned in (1, 2, 130) else None,
            spent=spent,
            why=read_last_line(self.out, entry.name),
        )
