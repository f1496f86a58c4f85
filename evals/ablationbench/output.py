"""Print the results of an ablation benchmark."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from statistics import fmean

from pydantic import Field
from rich.text import Text

from labwright.agent.cli.errors import format_line
from labwright.evals.ablationbench.data import TASKS, BenchPaper, Task
from labwright.evals.ablationbench.judge_eval import count_agreement
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.evals.ablationbench.results import CONTROLS, JudgedPlan, PaperResult, PlanSource
from labwright.evals.ablationbench.runner import MODEL_PLANNERS, AblationBenchWork
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
from labwright.evals.intervals import MeanWithInterval, compute_mean
from labwright.inspector.safe_text import format_dollars, format_duration, to_plain
from labwright.record.reducers.run_state import RoleUsage, sum_usage
from labwright.record.schema import FrozenModel
from labwright.record.table import Table

# Tables of an ablation benchmark: one row per paper, means with intervals, judges, controls, costs. Papers that are
# not judged or cannot be scored have no score; they are counted separately, not as zero. A submitted empty plan
# scores 0.

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
    planner: RoleUsage
    judge: RoleUsage


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
        planner=plan.took,
        judge=sum_usage(one.took for one in verdicts),
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
    paid = ("usd", "unpriced", "calls", "tokens", "seconds")
    costs = [f"{who}_{what}" for who in ("planner", "judge") for what in paid]
    rows = [
        (
            *(getattr(row, name) for name in plain),
            *(None if name not in row.figures else round(row.figures[name], 6) for name in names),
            *(None if judge not in row.by_judge else round(row.by_judge[judge], 6) for judge in found.judges),
            "".join("1" if one else "0" for one in row.found),
            *(
                cell
                for took in (row.planner, row.judge)
                for cell in (took.usd, took.unpriced, took.calls, took.tokens, round(took.seconds, 2))
            ),
            row.unquoted,
            row.why,
        )
        for row in found.rows
    ]
    head = (*plain, *names, *(f"f1_{judge}" for judge in found.judges), "found", *costs, "unquoted", "why")
    return Table.of(head, rows).to_csv()


def format_bench(found: AblationBenchTable) -> Iterator[Text | Table]:
    """Yield the figures of each task with intervals over papers, judges, controls and costs."""
    for one in found.tasks:
        yield Text(f"{one.task}@{found.k[one.task]}, {found.split}: {to_plain(found.planner)}", style="bold")
        yield format_line(_format_counts(one))
        if one.figures:
            yield Table.of(("figure", "mean", "95 % interval", "sd"), map(_format_figure, one.figures.items()))
            yield from _format_judges(one)
        if one.controls:
            yield Table.of(
                ("control", "papers", "precision", "recall", "F1"),
                (
                    (
                        PLAN_NAMES[control.what],
                        str(control.papers),
                        *(
                            f"{control.figures[name].mean:.3f}" if name in control.figures else "-"
                            for name in ("precision", "recall", "f1")
                        ),
                    )
                    for control in one.controls
                ),
            )
        yield from _format_costs(found, one)
        short = [row for row in found.rows if row.task == one.task and row.why and row.state != "not scorable"]
        yield from (format_line(f"{row.id}: {row.why[:300]}", "yellow", label=f"{row.state}: ") for row in short[:12])
        yield from (
            format_line(f"{row.id}: {', '.join(row.repeats)}", "dim", label="repeated entries: ")
            for row in found.rows
            if row.task == one.task and row.repeats
        )
    if found.overall:
        yield format_line(
            "both tasks: " + ", ".join(f"{name} {value:.3f}" for name, value in found.overall.items()), "bold"
        )


PLAN_NAMES = {
    "plan": "the plan",
    "gold": "gold as the plan",
    "other": "another paper's plan",
    "headings": "each named part removed",
}


def _format_counts(one: TaskTable) -> str:
    rest = [
        (one.not_scorable, "not scorable"),
        (one.not_judged, "not judged"),
        (one.no_plan, "without a plan"),
        (one.empty_plans, "of which empty plans"),
    ]
    return f"{one.scored} of {one.papers} papers scored" + "".join(f", {count} {what}" for count, what in rest if count)


def _format_figure(figure: tuple[str, MeanWithInterval]) -> tuple[str, ...]:
    name, mean = figure
    return name, f"{mean.mean:.3f}", mean.range_text, "-" if mean.sd is None else f"{mean.sd:.3f}"


def _format_judges(one: TaskTable) -> Iterator[Text | Table]:
    if len(one.judges) > 1:
        yield Table.of(
            ("judge", "papers", "F1 alone", "kappa with the majority"),
            (
                (
                    each.judge,
                    str(each.papers),
                    "-" if each.f1 is None else f"{each.f1.mean:.3f}",
                    "-" if each.kappa is None else f"{each.kappa:.3f}",
                )
                for each in one.judges
            ),
        )
        yield format_line("kappa between judges: " + ("-" if one.kappa is None else f"{one.kappa:.3f}"))
    else:
        yield format_line("only one judge: measure its reliability with bench ablation-judge", "dim")


def _format_costs(found: AblationBenchTable, one: TaskTable) -> Iterator[Text]:
    rows = [row for row in found.rows if row.task == one.task]
    usages = {"planner": [row.planner for row in rows], "judge": [row.judge for row in rows]}
    for who, took in ((who, sum_usage(each)) for who, each in usages.items()):
        if took.calls:
            yield format_line(
                f"{who}: {took.calls} calls, {took.tokens} tokens, {format_dollars(took.usd, took.unpriced)}, "
                f"{format_duration(took.seconds)}; a paper "
                f"{format_dollars(took.usd / len(rows), 0)}, {format_duration(took.seconds / len(rows))}",
                "dim",
            )


def format_planned_work(bench: AblationBenchWork, papers: Sequence[BenchPaper]) -> Iterator[Text]:
    """Yield the maximum work that would be done."""
    for task in TASKS:
        here = [paper for paper in papers if paper.task == task]
        if here:
            scorable = sum(bool(paper.target_count) for paper in here)
            plans = len(here) if bench.plans is None and bench.planner in MODEL_PLANNERS else 0
            kinds = 1 + (3 if bench.controls else 0)
            calls = 0 if bench.answers is not None else scorable * len(bench.judges) * (kinds + (task == "reviewer"))
            yield format_line(
                f"{task}: {len(here)} papers, {scorable} of them scorable; at most {plans} plans to request"
                f"{' (up to four calls each)' if bench.planner == 'agent' else ''}, "
                f"and {calls} calls of {', '.join(bench.judges)}"
            )
