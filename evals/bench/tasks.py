"""Tasks of a benchmark, and the files of each step: `step.json` when it has ended, `judge.json` when it was judged.

A task is a Markdown file, as in MLR-Bench; its text is the topic of the idea. A step's file is written atomically
after what it describes. A step without a file is not done; a resumed benchmark looks at nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, Field

from labwright.evals.item_loop import ItemJobs, read_stored, select_items, store_result
from labwright.models.errors import CatalogueError, ModelConfigError, ModelError
from labwright.record.campaign import SpendingCaps
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError
from labwright.record.lock import RunLockedError
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema import FrozenModel
from labwright.record.schema.paper import Judgement
from labwright.review.evidence.tex_runner import TexError
from labwright.review.judge.paper_reader import JudgeError
from labwright.sandbox.job import SandboxError

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
    where = f"tasks in {folder}, such as {paths[0].stem}"
    return tuple(map(_read_task, select_items(paths, only, where, lambda path, one: fnmatch(path.stem, one))))


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

StepName = Literal["idea", "proposal", "experiment", "paper", "writing"]
STEPS: tuple[StepName, ...] = get_args(StepName)
PREREQUISITES: dict[StepName, tuple[StepName, ...]] = {
    "idea": (),
    "proposal": ("idea",),
    "experiment": ("idea",),
    "paper": ("idea", "experiment"),
    "writing": ("idea", "proposal", "experiment", "paper"),
}
"""Steps that each step needs. They are made even if not requested, but then not judged."""

StepState = Literal["done", "failed", "refused", "not begun"]


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
    """The judgement of a step's document, or why there is none. `further`: by other judges."""

    judgement: Judgement | None = None
    further: tuple[Judgement, ...] = ()
    state: StepState
    why: str = ""
    took: RoleUsage = RoleUsage()

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        return (self.judgement, *self.further) if self.judgement is not None else ()

    @property
    def scores(self) -> dict[tuple[str, int, int], float]:
        """Return the mean score of the judges by dimension, lowest and highest score."""
        several = zip(*(one.scores for one in self.judgements), strict=True)
        return {(one[0].dimension, one[0].lowest, one[0].highest): fmean(each.score for each in one) for one in several}


class StepLine(FrozenModel):
    """A step of a task as reported. `asked`: whether it was to be judged."""

    task: str
    step: StepName
    asked: bool
    outcome: StepOutcome
    scoring: StepScoring | None = None


RESULT_FILES: dict[type[BaseModel], str] = {StepOutcome: "step.json", StepScoring: "judge.json"}
Result = TypeVar("Result", StepOutcome, StepScoring)


def read_result(folder: Path, kind: type[Result]) -> Result | None:
    """Read how a step ended or was judged; None if it was not."""
    return read_stored(folder / RESULT_FILES[kind], kind)


def find_needed_steps(requested: tuple[StepName, ...]) -> tuple[StepName, ...]:
    """Return the steps to make: the requested ones and those that they need, in order."""
    return tuple(step for step in STEPS if step in requested or any(step in PREREQUISITES[name] for name in requested))


# Run one task of a benchmark, step by step, saving each step when it ends; and run tasks as campaign jobs. Completed
# steps are not repeated. The next call of the same benchmark retries failed steps, and refused ones, since a refusal
# costs nothing and the model may have changed.

REFUSALS = (CatalogueError,)
FAILURES = (ModelError, RecordError, RunLockedError, SandboxError, JudgeError, TexError, OSError)
StepMaker = Callable[[BenchTask, Path], StepOutcome]
"""Makes the document of a step in a task's folder, or continues unfinished work. Raises one of `REFUSALS` or
`FAILURES`, or `ItemInterrupted`."""
StepJudge = Callable[[BenchTask, StepName, Path, StepOutcome], StepScoring]
"""Judges the document of a step with the step's rubric. Raises one of `REFUSALS` or `FAILURES`."""


@dataclass(frozen=True)
class MlrBench:
    """A benchmark in its folder `out`, in which each task has a folder of its name."""

    out: Path
    asked: tuple[StepName, ...]
    makers: dict[StepName, StepMaker]
    judge: StepJudge


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
    """Run a task as far as possible. Raises `ItemInterrupted`, `ModelConfigError`."""
    for step in find_needed_steps(bench.asked):
        outcome = make_step(bench, task, step)
        if step in bench.asked:
            score_step(bench, task, step, outcome)


def make_step(bench: MlrBench, task: BenchTask, step: StepName) -> StepOutcome:
    """Return the outcome of a step, saved or made now."""
    place = bench.out / task.name
    known = read_result(place / step, StepOutcome)
    if known is not None and known.state == "done":
        return known
    for before in PREREQUISITES[step]:
        earlier = read_result(place / before, StepOutcome)
        if earlier is None or earlier.state != "done":
            return StepOutcome(state="not begun", why=f"there is no {before}")
    return _save_step(place / step, StepOutcome, lambda: bench.makers[step](task, place))


def score_step(bench: MlrBench, task: BenchTask, step: StepName, outcome: StepOutcome) -> StepScoring | None:
    """Return the scoring of a step, saved or made now; None if there is nothing to judge."""
    if outcome.state != "done":
        return None
    place = bench.out / task.name
    known = read_result(place / step, StepScoring)
    if known is not None and known.judgement is not None:
        return known
    return _save_step(place / step, StepScoring, lambda: bench.judge(task, step, place, outcome))


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
    store_result(folder / RESULT_FILES[kind], result)
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


def build_jobs(out: Path, asked: tuple[StepName, ...], spent: Callable[[Path], SpendingCaps]) -> ItemJobs:
    """Return the tasks as processes that work through their steps; `spent` says what the folder of a task cost."""

    def find_reason(name: str) -> str:
        lines = read_lines(out, asked, [name])
        return next((line.outcome.why for line in lines if line.outcome.why and line.outcome.state != "done"), "")

    return ItemJobs(
        out,
        "labwright.evals.bench.command",
        is_complete=lambda name: is_complete(read_lines(out, asked, [name])),
        compute_spent=lambda name: spent(out / name),
        find_reason=find_reason,
        words=(",".join(asked),),
    )
