"""Stored results for a paper: its plan, and each judge's verdict on the plan and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from labwright.evals.ablationbench.data import BenchPaper, Task, read_json_lines
from labwright.evals.ablationbench.papers import PlannedAblation
from labwright.evals.ablationbench.plan_judge import PlanMatch, PlanVerdict
from labwright.evals.ablationbench.scores import find_requested_entries, parse_pairs
from labwright.record.errors import UsageError
from labwright.record.reducers.run_state import RoleUsage
from labwright.record.schema import FrozenModel

PlanSource = Literal["plan", "gold", "other", "headings"]
CONTROLS: tuple[PlanSource, ...] = ("gold", "other", "headings")
"""Gold as the plan, another paper's plan, and each named part of the method removed."""


class PlanResult(FrozenModel):
    """The plan of a paper.

    `missing` and `failed` mean that there is no plan; a submitted empty plan is `done`.
    """

    state: Literal["done", "missing", "failed"] = "done"
    why: str = ""
    entries: tuple[PlannedAblation, ...] = ()
    repeats: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    cut: tuple[str, ...] = Field(default=(), description="titles of sections withheld from an author planner")
    left_out: tuple[str, ...] = Field(default=(), description="omitted parts of a long paper")
    took: RoleUsage = Field(default_factory=RoleUsage)


class JudgedPlan(FrozenModel):
    """A plan or a control, and each judge's verdict on it."""

    what: PlanSource
    entries: tuple[PlannedAblation, ...]
    verdicts: tuple[PlanVerdict, ...]


class PaperResult(FrozenModel):
    """A paper of one task: its plan and the verdicts."""

    task: Task
    id: str
    wanted: int
    plan: PlanResult
    judged: tuple[JudgedPlan, ...] = ()

    def find_judged(self, what: PlanSource) -> JudgedPlan | None:
        return next((one for one in self.judged if one.what == what), None)


# Stored plans and judges' rows: in the benchmark's files, in folders by task, judge and planner.


def find_plan_file(folder: Path, task: str, planner: str, id: str) -> Path | None:
    """Return the file of a stored plan: `FOLDER/TASK/PLANNER/ID.jsonl`, or with fewer folders."""
    places = (folder / task / planner, folder / task, folder / planner, folder)
    return next((path for place in places if (path := place / f"{id}.jsonl").is_file()), None)


def check_plans(folder: Path, planner: str, papers: Sequence[BenchPaper]) -> None:
    """Reject a folder without a plan for any of the papers. Raises `UsageError`."""
    if papers and not any(find_plan_file(folder, one.task, planner, one.id) for one in papers):
        names = sorted({path.parent.name for path in folder.rglob("*.jsonl")} - {folder.name})[:12]
        more = f"; there are plans in {', '.join(names)}: name one with --planner" if names else ""
        raise UsageError(f"--plans {folder}: {planner} has no plan of these papers, such as {papers[0].id}.jsonl{more}")


def list_stored_judges(answers: Path, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the judges whose rows are in a folder, by `ANSWERS/TASK/JUDGE/`."""
    return tuple(sorted({path.name for task in tasks for path in (answers / task).glob("*") if path.is_dir()}))


def read_stored_rows(answers: Path, task: str, judge: str, planner: str, id: str) -> list[dict[str, object]] | None:
    """Return the rows of a judge on a plan; None if there is no file. Raises `UsageError`."""
    path = find_plan_file(answers / task / judge, task, planner, id)
    return None if path is None else [dict(row) for row in read_json_lines(path)]


def read_stored_verdict(
    answers: Path, judge: str, planner: str, paper: BenchPaper, entries: Sequence[PlannedAblation]
) -> PlanVerdict:
    rows = read_stored_rows(answers, paper.task, judge, planner, paper.id)
    if rows is None:
        return PlanVerdict(judge=judge, state="failed", why="there is no file with this judge's rows")
    names = [one.name for one in entries]
    if paper.task == "author":
        pairs = sorted(parse_pairs(rows, [one.name for one in paper.gold], names))
        return PlanVerdict(
            judge=judge, matches=tuple(PlanMatch(gold=f"g{gold + 1}", entry=f"e{at + 1}") for gold, at in pairs)
        )
    return PlanVerdict(
        judge=judge,
        matches=tuple(PlanMatch(gold="r1", entry=f"e{at + 1}") for at in sorted(find_requested_entries(rows, names))),
    )
