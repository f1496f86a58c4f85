"""`scientist bench ablation-judge`: compare plan judges with human labels."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.errors import format_line
from labwright.agent.forecast import check_prices_known
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.ablationbench.agreement import PlanLabels
from labwright.evals.ablationbench.command import (
    LOG_FILE,
    AblationBenchConfig,
    check_config,
    check_out,
    choose_judges,
    choose_tasks,
    make_opener,
)
from labwright.evals.ablationbench.data import BenchPaper, LabelledPlan, Task, read_labels, read_papers
from labwright.evals.ablationbench.judge_eval import (
    MAJORITY,
    JudgeEval,
    JudgeTable,
    PooledFigure,
    build_judge_table,
    label_plan,
    vote_majority,
)
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.evals.ablationbench.results import find_plan_file, read_stored_rows
from labwright.evals.ablationbench.roles import PAPER_ABLATIONS
from labwright.evals.ablationbench.rows import Row
from labwright.evals.ablationbench.runner import AblationBenchWork, run_bench
from labwright.evals.commands import BenchAblationJudge
from labwright.evals.item_loop import STOPS, open_answers, print_interrupted, report_results
from labwright.record.errors import UsageError
from labwright.record.table import Table


def run_judge_eval(args: BenchAblationJudge) -> int:
    tasks = choose_tasks(args.task, args.data)
    settings = compose_settings(config=args.config, flags=args.flags)
    judges = choose_judges(args.judges, args.answers, tasks, settings.models)
    check_out(args.out)
    try:
        found = JudgeEval(judges=tuple(one for task in tasks for one in _build_tables(args, task, judges, settings)))
    except STOPS:
        return print_interrupted()
    is_complete = not any(one.not_judged for one in found.judges)
    return report_results(args.out, found, None, format_judge_eval(found), is_complete=is_complete, json=args.json)


def _build_tables(
    args: BenchAblationJudge, task: Task, judges: Sequence[str], settings: Settings
) -> Iterator[JudgeTable]:
    """Yield a table for each judge on one task, and for their majority."""
    plans = read_labels(args.data, task)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.answers is not None:
        answers = args.answers
        by_judge = {
            judge: [
                label_plan(task, plan, read_stored_rows(answers, task, judge, plan.planner, plan.paper))
                for plan in plans
            ]
            for judge in judges
        }
    else:
        by_judge = _ask_judge(args, task, plans, judges, settings)
    for judge, found in by_judge.items():
        yield build_judge_table(task, judge, found)
    if len(judges) > 1:
        yield build_judge_table(task, MAJORITY, vote_majority(list(by_judge.values())))


def _ask_judge(
    args: BenchAblationJudge, task: Task, plans: Sequence[LabelledPlan], judges: Sequence[str], settings: Settings
) -> dict[str, list[PlanLabels]]:
    """Ask models to judge the labelled plans."""
    folder = args.plans or Path(args.data) / "plans"
    papers = _read_all_papers(args, task)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    check_prices_known(settings)
    own = settings.models.list_candidates(PAPER_ABLATIONS)[0].name
    check_config(
        args.out,
        begun := AblationBenchConfig(
            data=args.data,
            split="judge_eval",
            planner="labelled",
            plans=str(folder),
            answers="",
            model="",
            judges=tuple(judges),
            k=None,
            controls=False,
        ),
    )
    with open_answers(args.out, begun, file=LOG_FILE) as log:
        for planner in dict.fromkeys(plan.planner for plan in plans):
            here = [
                papers[plan.paper]
                for plan in plans
                if plan.planner == planner
                and plan.paper in papers
                and find_plan_file(folder, task, planner, plan.paper) is not None
            ]
            bench = AblationBenchWork(planner, tuple(judges), 1000, folder, controls=False)
            for result in asyncio.run(run_bench(bench, here, args.out / planner, log, make_opener(settings, own))):
                judged = result.find_judged("plan")
                for verdict in judged.verdicts if judged and result.plan.state == "done" else ():
                    if verdict.state == "done":
                        names = [one.name for one in judged.entries] if judged else []
                        rows[verdict.judge, planner, result.id] = _verdict_to_rows(
                            task, verdict, papers[result.id], names
                        )
    return {
        judge: [label_plan(task, plan, rows.get((judge, plan.planner, plan.paper))) for plan in plans]
        for judge in judges
    }


def _read_all_papers(args: BenchAblationJudge, task: Task) -> dict[str, BenchPaper]:
    """Read the papers of both splits that have tables."""
    found: dict[str, BenchPaper] = {}
    for split in ("test", "dev"):
        with suppress(UsageError):
            found |= {paper.id: paper for paper in read_papers(args.data, task, split, papers=args.papers)}
    if not found:
        raise UsageError(
            f"--data {args.data}: there is neither {task}/dev.jsonl nor {task}/test.jsonl with the papers that "
            "judges have to see"
        )
    return found


def _verdict_to_rows(task: Task, verdict: PlanVerdict, paper: BenchPaper, names: Sequence[str]) -> list[Row]:
    """Convert a verdict to rows by name, as in the human labels."""
    if task == "author":
        return [
            {"name_in_paper": one.name, "name_in_plan": [names[at] for gold, at in verdict.pairs if gold == place]}
            for place, one in enumerate(paper.gold)
        ]
    return [{"name_in_plan": name, "appears_in_review": at in verdict.matched_entries} for at, name in enumerate(names)]


def format_judge_eval(found: JudgeEval) -> Iterator[Text | Table]:
    """Format one row per judge: means over plans, then figures over all items with intervals."""
    for task in dict.fromkeys(one.task for one in found.judges):
        here = [one for one in found.judges if one.task == task]
        yield Text(f"{task}: {here[0].plans} labelled plans, {max(one.items for one in here)} items", style="bold")
        yield Table.of(
            ("judge", "F1", "sensitivity", "specificity", "kappa"),
            (
                (
                    one.judge,
                    f"{one.macro_f1:.3f}",
                    *(_format_pooled(part) for part in (one.sensitivity, one.specificity, one.kappa)),
                )
                for one in here
            ),
        )
        for one in here:
            if one.not_judged:
                yield format_line(f"{one.judge} gave no answer for {one.not_judged} of {one.plans} plans", "yellow")
    yield format_line(
        "F1: mean over plans in which humans found a match; the rest over all items, 95 % intervals over "
        "papers; published F1 is macro_upstream in the JSON",
        "dim",
    )


def _format_pooled(one: PooledFigure) -> str:
    value = "-" if one.value is None else f"{one.value:.3f}"
    return value if one.low is None else f"{value} ({one.low:.2f}-{one.high:.2f})"
