"""Print the results of an ablation benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from labwright.agent.cli.output import format_line
from labwright.evals.ablationbench.data import TASKS, BenchPaper
from labwright.evals.ablationbench.judge_eval import MAJORITY, JudgeEval, JudgeTable, correct_share
from labwright.evals.ablationbench.means import MeanWithInterval
from labwright.evals.ablationbench.runner import MODEL_PLANNERS, AblationBenchWork
from labwright.evals.ablationbench.table import FIGURES, AblationBenchTable, TaskTable
from labwright.inspector.safe_text import format_dollars, format_duration, to_plain
from labwright.record.table import Table


def format_bench(found: AblationBenchTable, calibration: JudgeEval | None = None) -> Iterator[Text | Table]:
    """Yield the figures of each task with intervals over papers, judges, controls and costs."""
    for one in found.tasks:
        yield Text(f"{one.task}@{found.k[one.task]}, {found.split}: {to_plain(found.planner)}", style="bold")
        yield format_line(_format_counts(one))
        judge = _find_calibration(one, found, calibration)
        if one.figures:
            yield _figures_table(one, judge)
            yield from _format_judges(one, judge)
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


def _find_calibration(one: TaskTable, found: AblationBenchTable, calibration: JudgeEval | None) -> JudgeTable | None:
    """Return the agreement with humans of the majority of judges, or of the only judge."""
    return (
        None
        if calibration is None
        else calibration.find_table(one.task, MAJORITY if len(found.judges) > 1 else "".join(found.judges))
    )


def _figures_table(one: TaskTable, judge: JudgeTable | None) -> Table:
    share = {"author": "recall", "reviewer": "precision_plan"}[
        one.task
    ]  # the share that items of labelled plans represent
    rows = list[tuple[str, ...]]()
    for name in FIGURES[one.task]:
        if (mean := one.figures.get(name)) is not None:
            value = correct_share(mean.mean, judge) if judge is not None and name == share else None
            rows.append(
                (
                    name,
                    f"{mean.mean:.3f}",
                    format_interval(mean),
                    "-" if mean.sd is None else f"{mean.sd:.3f}",
                    "" if value is None else f"{value:.3f}",
                )
            )
    return Table.of(
        ("figure", "mean", "95 % interval", "sd", "" if judge is None else "corrected for the judge's errors"),
        rows=rows,
    )


def format_interval(mean: MeanWithInterval) -> str:
    return "-" if mean.low is None or mean.high is None else f"{mean.low:.3f} to {mean.high:.3f}"


def _format_judges(one: TaskTable, judge: JudgeTable | None) -> Iterator[Text | Table]:
    if judge is not None and judge.kappa.value is not None:
        yield format_line(f"kappa of {judge.judge} with humans, on labelled plans: {judge.kappa.value:.3f}")
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
    elif judge is None:
        yield format_line("only one judge: measure its reliability with bench ablation-judge", "dim")


def _format_costs(found: AblationBenchTable, one: TaskTable) -> Iterator[Text]:
    rows = [row for row in found.rows if row.task == one.task]
    for who in ("planner", "judge"):
        calls, tokens, usd, unpriced, seconds = (
            sum(getattr(row, f"{who}_{what}") for row in rows)
            for what in ("calls", "tokens", "usd", "unpriced", "seconds")
        )
        if calls:
            yield format_line(
                f"{who}: {calls} calls, {tokens} tokens, {format_dollars(usd, unpriced)}, "
                f"{format_duration(seconds)}; a paper "
                f"{format_dollars(usd / len(rows), 0)}, {format_duration(seconds / len(rows))}",
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
                f"{' (up to four calls each)' if bench.planner == 'agent' and plans else ''}, and {calls} "
                f"calls of {', '.join(bench.judges)}"
            )
