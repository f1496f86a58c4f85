"""Tables of an ablation benchmark: one row per paper, means with intervals, judges, controls, costs.

Papers that are not judged or cannot be scored have no score; they are counted separately, not as zero. A submitted
empty plan scores 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from statistics import fmean

from pydantic import Field

from labwright.evals.ablationbench.agreement import count_agreement
from labwright.evals.ablationbench.data import Task
from labwright.evals.ablationbench.means import MeanWithInterval, compute_mean
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.evals.ablationbench.results import CONTROLS, JudgedPlan, PaperResult, PlanSource
from labwright.evals.ablationbench.scores import (
    NO_GOLD,
    NO_REQUEST,
    AuthorScore,
    PlanFigures,
    compute_author_score,
    compute_reviewer_score,
    find_majority,
    format_not_judged,
)
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.table import Table

FIGURES = {
    "author": ("precision", "recall", "f1", "ndcg", "f1_one_to_one", "precision_plan", "ndcg_plan"),
    "reviewer": ("precision", "recall", "f1", "f1_unique", "precision_plan"),
}
"""Figures of a task; `f1_unique` is against the requests as the judges list them, with equal ones merged."""


class PaperRow(FrozenModel):
    """A paper. `why` says what is missing if there is no score, `found` which gold ablations were found."""

    task: Task
    id: str
    state: str = Field(description="scored, not scorable, not judged or no plan")
    why: str = ""
    wanted: int
    entries: int
    repeats: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    figures: dict[str, float] = Field(default_factory=dict[str, float])
    found: tuple[bool, ...] = ()
    unquoted: int = Field(default=0, description="matches whose quotes were not found in the cited text")
    by_judge: dict[str, float] = Field(default_factory=dict[str, float], description="F1 by each judge separately")
    planner_usd: float = 0.0
    judge_usd: float = 0.0
    planner_unpriced: int = 0
    judge_unpriced: int = 0
    planner_calls: int = 0
    judge_calls: int = 0
    planner_tokens: int = 0
    judge_tokens: int = 0
    planner_seconds: float = 0.0
    judge_seconds: float = 0.0


class JudgeRow(FrozenModel):
    """A judge over all papers of a task, and its kappa with the majority, over pairs or entries."""

    judge: str
    papers: int
    f1: MeanWithInterval | None
    kappa: float | None


class ControlFigures(FrozenModel):
    """The same judges' scores for a plan of known quality."""

    what: PlanSource
    papers: int
    figures: dict[str, MeanWithInterval]


class TaskTable(FrozenModel):
    """All papers of one task."""

    task: Task
    papers: int
    scored: int
    not_scorable: int
    not_judged: int
    no_plan: int
    empty_plans: int
    figures: dict[str, MeanWithInterval]
    judges: tuple[JudgeRow, ...]
    controls: tuple[ControlFigures, ...] = ()
    kappa: float | None = Field(description="between judges, mean over pairs of them; None for one judge")


class AblationBenchTable(FrozenModel):
    """The whole benchmark. `overall`: the mean of both tasks, if both are scored."""

    split: str
    planner: str
    judges: tuple[str, ...]
    k: dict[str, int]
    tasks: tuple[TaskTable, ...]
    overall: dict[str, float]
    rows: tuple[PaperRow, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether every scorable paper has a score."""
        return all(one.state in ("scored", "not scorable") for one in self.rows)


def build_table(
    results: Sequence[PaperResult], *, split: str, planner: str, judges: Sequence[str], k: dict[str, int]
) -> AblationBenchTable:
    rows = [build_row(one, k[one.task]) for one in results]
    tasks: list[Task] = [task for task in ("author", "reviewer") if any(row.task == task for row in rows)]
    tables = tuple(
        _build_task(
            task, [one for one in results if one.task == task], [row for row in rows if row.task == task], judges
        )
        for task in tasks
    )
    both = len(tables) == 2 and all(one.scored for one in tables)
    overall = (
        {name: fmean(one.figures[name].mean for one in tables) for name in ("precision", "recall", "f1")}
        if both
        else {}
    )
    return AblationBenchTable(
        split=split, planner=planner, judges=tuple(judges), k=k, tasks=tables, overall=overall, rows=tuple(rows)
    )


def _build_task(
    task: Task, results: Sequence[PaperResult], rows: Sequence[PaperRow], judges: Sequence[str]
) -> TaskTable:
    states = [row.state for row in rows]
    return TaskTable(
        task=task,
        papers=len(rows),
        scored=states.count("scored"),
        not_scorable=states.count("not scorable"),
        not_judged=states.count("not judged"),
        no_plan=states.count("no plan"),
        empty_plans=sum(row.state == "scored" and not row.entries for row in rows),
        figures=compute_means(rows),
        judges=tuple(_build_judge_row(judge, results, rows) for judge in judges),
        controls=tuple(one for what in CONTROLS if (one := _build_control(what, results)) is not None),
        kappa=_mean_pairwise_kappa(results, judges),
    )


def compute_means(rows: Sequence[PaperRow]) -> dict[str, MeanWithInterval]:
    names = dict.fromkeys(name for row in rows for name in row.figures)
    found = {name: compute_mean([row.figures[name] for row in rows if name in row.figures]) for name in names}
    return {name: mean for name, mean in found.items() if mean is not None}


def build_row(result: PaperResult, k: int) -> PaperRow:
    """Build the row of a paper."""
    plan, judged = result.plan, result.find_judged("plan")
    verdicts = judged.verdicts if judged else ()
    common = PaperRow(
        task=result.task,
        id=result.id,
        state="not judged",
        wanted=result.wanted,
        entries=len(plan.entries),
        repeats=plan.repeats,
        faults=plan.faults,
        planner_usd=plan.usd,
        planner_calls=plan.calls,
        planner_tokens=plan.tokens,
        planner_seconds=round(plan.seconds, 2),
        judge_usd=sum(one.usd for one in verdicts),
        judge_calls=sum(one.calls for one in verdicts),
        judge_tokens=sum(one.tokens for one in verdicts),
        judge_seconds=round(sum(one.seconds for one in verdicts), 2),
        planner_unpriced=plan.unpriced,
        judge_unpriced=sum(one.unpriced for one in verdicts),
    )
    if not result.wanted:
        return common.model_copy(
            update={"state": "not scorable", "why": NO_GOLD if result.task == "author" else NO_REQUEST}
        )
    if judged is None:
        return common.model_copy(update={"state": "no plan", "why": plan.why})
    score = score_plan(result, judged, k)
    if score is None:
        missing = "; ".join(f"{one.judge}: {one.why}" for one in verdicts if one.why)
        counted = format_not_judged([one if one.state == "done" else None for one in verdicts])
        return common.model_copy(update={"why": f"{counted}{'; ' if missing else ''}{missing}"})
    alone = {one.judge: _score_verdicts(result, judged, [one], k) for one in verdicts}
    figures = {name: value for name in FIGURES[result.task] if (value := getattr(score, name, None)) is not None}
    if result.task == "reviewer" and any(one.requests for one in verdicts):
        figures["f1_unique"] = fmean(
            compute_author_score(len(one.requests), len(judged.entries), one.pairs).f1
            for one in verdicts
            if one.state == "done"
        )
    return common.model_copy(
        update={
            "state": "scored",
            "figures": figures,
            "found": score.found if isinstance(score, AuthorScore) else (),
            "unquoted": sum(not match.quoted for one in verdicts for match in one.matches),
            "by_judge": {judge: one.f1 for judge, one in alone.items() if one is not None},
        }
    )


def score_plan(result: PaperResult, judged: JudgedPlan, k: int) -> PlanFigures | None:
    """Return the score by the majority of judges; None if too few answered.

    Gold used as the plan is not cut.
    """
    return _score_verdicts(result, judged, judged.verdicts, k)


def _score_verdicts(
    result: PaperResult, judged: JudgedPlan, verdicts: Sequence[PlanVerdict], k: int
) -> PlanFigures | None:
    entries = len(judged.entries)
    cut = entries if judged.what == "gold" else k
    if result.task == "author":
        pairs = find_majority([one.pairs if one.state == "done" else None for one in verdicts])
        return None if pairs is None else compute_author_score(result.wanted, entries, pairs, k=cut or k)
    matched = find_majority([one.matched_entries if one.state == "done" else None for one in verdicts])
    return None if matched is None else compute_reviewer_score(result.wanted, entries, matched, k=cut or k)


def _build_judge_row(judge: str, results: Sequence[PaperResult], rows: Sequence[PaperRow]) -> JudgeRow:
    scores = [row.by_judge[judge] for row in rows if judge in row.by_judge]
    return JudgeRow(
        judge=judge, papers=len(scores), f1=compute_mean(scores), kappa=_kappa_with_majority(judge, results)
    )


def _item_labels(result: PaperResult, matched: Collection[object]) -> list[bool]:
    """Return the labels of every pair of a plan (author), or of every entry (reviewer)."""
    entries = range(len(result.plan.entries))
    if result.task == "author":
        return [(gold, entry) in matched for gold in range(result.wanted) for entry in entries]
    return [entry in matched for entry in entries]


def _said_items(result: PaperResult, verdict: PlanVerdict) -> frozenset[object]:
    return frozenset(verdict.pairs if result.task == "author" else verdict.matched_entries)


def _kappa_with_majority(judge: str, results: Sequence[PaperResult]) -> float | None:
    mine, all_of = list[bool](), list[bool]()
    for result in results:
        verdicts = judged.verdicts if (judged := result.find_judged("plan")) else ()
        voted = find_majority([_said_items(result, one) if one.state == "done" else None for one in verdicts])
        own = next((one for one in verdicts if one.judge == judge and one.state == "done"), None)
        if voted is not None and own is not None and len(verdicts) > 1:
            mine += _item_labels(result, _said_items(result, own))
            all_of += _item_labels(result, voted)
    return count_agreement(all_of, mine).kappa if mine else None


def _mean_pairwise_kappa(results: Sequence[PaperResult], judges: Sequence[str]) -> float | None:
    """Return the mean kappa of two judges over the same items."""
    found = list[float]()
    for first, second in itertools.combinations(judges, 2):
        sides: tuple[list[bool], list[bool]] = ([], [])
        for result in results:
            judged = result.find_judged("plan")
            by_judge = {one.judge: one for one in judged.verdicts if one.state == "done"} if judged else {}
            if first in by_judge and second in by_judge:
                for side, name in zip(sides, (first, second), strict=True):
                    side.extend(_item_labels(result, _said_items(result, by_judge[name])))
        if sides[0] and (kappa := count_agreement(*sides).kappa) is not None:
            found.append(kappa)
    return fmean(found) if found else None


def _build_control(what: PlanSource, results: Sequence[PaperResult]) -> ControlFigures | None:
    """Build the figures of a control.

    It is not cut at the task's k, because it already has the length to judge.
    """
    scores = [
        score
        for result in results
        if (judged := result.find_judged(what)) is not None
        and (score := score_plan(result, judged, len(judged.entries))) is not None
    ]
    if not scores:
        return None
    found = {name: compute_mean([getattr(one, name) for one in scores]) for name in ("precision", "recall", "f1")}
    return ControlFigures(
        what=what, papers=len(scores), figures={name: one for name, one in found.items() if one is not None}
    )


def table_to_csv(found: AblationBenchTable) -> str:
    """Return one row per paper; an empty cell means no score."""
    names = list(dict.fromkeys(name for row in found.rows for name in row.figures))
    plain = ("task", "id", "state", "wanted", "entries")
    costs = (
        *(
            f"{who}_{what}"
            for what in ("usd", "unpriced", "calls", "tokens", "seconds")
            for who in ("planner", "judge")
        ),
        "unquoted",
        "why",
    )
    rows = [
        (
            *(getattr(row, name) for name in plain),
            *(None if name not in row.figures else round(row.figures[name], 6) for name in names),
            *(None if judge not in row.by_judge else round(row.by_judge[judge], 6) for judge in found.judges),
            "".join("1" if one else "0" for one in row.found),
            *(getattr(row, name) for name in costs),
        )
        for row in found.rows
    ]
    return Table.of((*plain, *names, *(f"f1_{judge}" for judge in found.judges), "found", *costs), rows).to_csv()
