"""`scientist bench ablation-judge`: judges of plans held against people's labels."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from rich.table import Table
from rich.text import Text

from labwright.agent.budget import check_priced
from labwright.agent.cli.edge import DONE, FAILED, INTERRUPTED, say
from labwright.agent.cli.paper_commands import BenchAblationJudge
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.settings import Settings, compose
from labwright.evals.ablationbench.agreement import Labels
from labwright.evals.ablationbench.command import (
    BEGUN,
    JSON,
    LOG,
    Begun,
    check_begun,
    check_out,
    judges_of,
    opener,
    tasks_of,
)
from labwright.evals.ablationbench.data import BenchPaper, LabelledPlan, Task, read_labels, read_papers
from labwright.evals.ablationbench.judge_eval import (
    MAJORITY,
    JudgeEval,
    JudgeTable,
    Pooled,
    judge_table,
    labelled,
    voted,
)
from labwright.evals.ablationbench.judging import Verdict
from labwright.evals.ablationbench.rows import Row
from labwright.evals.ablationbench.stored import plan_file, stored_rows
from labwright.evals.ablationbench.work import Work, work
from labwright.models.roles.ablations import PAPER_ABLATIONS
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.lock import hold
from labwright.record.log import EventLog


def bench_ablation_judge(asked: BenchAblationJudge) -> int:
    tasks = tasks_of(asked.task, asked.data)
    settings = compose(config=asked.config, flags=asked.flags)
    judges = judges_of(asked.judges, asked.answers, tasks, settings.models)
    check_out(asked.out)
    try:
        found = JudgeEval(judges=tuple(one for task in tasks for one in _tables(asked, task, judges, settings)))
    except KeyboardInterrupt:
        say("interrupted (Ctrl-C); continue with the same command")
        return INTERRUPTED
    write_file(asked.out / JSON, found.model_dump_json(indent=1) + "\n")
    answer(found, lines(found), json=asked.json)
    if not asked.json:
        print(f"written to {asked.out / JSON}")
    return FAILED if any(one.not_judged for one in found.judges) else DONE


def _tables(asked: BenchAblationJudge, task: Task, judges: Sequence[str], settings: Settings) -> Iterator[JudgeTable]:
    """A table for each judge on one task, and for their majority."""
    plans = read_labels(asked.data, task)
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.answers is not None:
        answers = asked.answers
        by_judge = {
            judge: [labelled(task, plan, stored_rows(answers, task, judge, plan.planner, plan.paper)) for plan in plans]
            for judge in judges
        }
    else:
        by_judge = _asked(asked, task, plans, judges, settings)
    for judge, found in by_judge.items():
        yield judge_table(task, judge, found)
    if len(judges) > 1:
        yield judge_table(task, MAJORITY, voted(list(by_judge.values())))


def _asked(
    asked: BenchAblationJudge, task: Task, plans: Sequence[LabelledPlan], judges: Sequence[str], settings: Settings
) -> dict[str, list[Labels]]:
    """What models say of the labelled plans."""
    folder = asked.plans or Path(asked.data) / "plans"
    papers = _papers(asked, task)
    rows: dict[tuple[str, str, str], list[Row]] = {}
    check_priced(settings)
    own = settings.models.candidates(PAPER_ABLATIONS)[0].name
    check_begun(
        asked.out,
        begun := Begun(
            data=asked.data,
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
    with hold(asked.out), closing(EventLog(asked.out / LOG)) as log:
        write_file(asked.out / BEGUN, begun.model_dump_json(indent=1) + "\n")
        for planner in dict.fromkeys(plan.planner for plan in plans):
            here = [
                papers[plan.paper]
                for plan in plans
                if plan.planner == planner
                and plan.paper in papers
                and plan_file(folder, task, planner, plan.paper) is not None
            ]
            bench = Work(planner, tuple(judges), 1000, folder, controls=False)
            for result in asyncio.run(work(bench, here, asked.out / planner, log, opener(settings, own))):
                judged = result.of("plan")
                for verdict in judged.verdicts if judged and result.plan.state == "done" else ():
                    if verdict.state == "done":
                        names = [one.name for one in judged.entries] if judged else []
                        rows[verdict.judge, planner, result.id] = _rows(task, verdict, papers[result.id], names)
    return {
        judge: [labelled(task, plan, rows.get((judge, plan.planner, plan.paper))) for plan in plans] for judge in judges
    }


def _papers(asked: BenchAblationJudge, task: Task) -> dict[str, BenchPaper]:
    """The papers of both splits, as far as there are tables."""
    found: dict[str, BenchPaper] = {}
    for split in ("test", "dev"):
        with suppress(WrongUse):
            found |= {paper.id: paper for paper in read_papers(asked.data, task, split, papers=asked.papers)}
    if not found:
        raise WrongUse(
            f"--data {asked.data}: there is neither {task}/dev.jsonl nor {task}/test.jsonl, whose papers "
            "judges have to see"
        )
    return found


def _rows(task: Task, verdict: Verdict, paper: BenchPaper, names: Sequence[str]) -> list[Row]:
    """A verdict as rows by name, as people's labels are."""
    if task == "author":
        return [
            {"name_in_paper": one.name, "name_in_plan": [names[at] for gold, at in verdict.pairs if gold == place]}
            for place, one in enumerate(paper.gold)
        ]
    return [{"name_in_plan": name, "appears_in_review": at in verdict.matched} for at, name in enumerate(names)]


def lines(found: JudgeEval) -> Iterator[Text | Table]:
    """A row a judge: means over plans, then figures over all items with intervals."""
    for task in dict.fromkeys(one.task for one in found.judges):
        here = [one for one in found.judges if one.task == task]
        yield Text(f"{task}: {here[0].plans} labelled plans, {max(one.items for one in here)} items", style="bold")
        yield table(
            "judge",
            "F1",
            "sensitivity",
            "specificity",
            "kappa",
            rows=(
                (
                    one.judge,
                    f"{one.macro_f1:.3f}",
                    *(_shown(part) for part in (one.sensitivity, one.specificity, one.kappa)),
                )
                for one in here
            ),
        )
        for one in here:
            if one.not_judged:
                yield line(f"{one.judge} gave no answer for {one.not_judged} of {one.plans} plans", "yellow")
    yield line(
        "F1: mean over plans in which people found a match; the rest over all items, 95 % intervals over "
        "papers; published F1 is macro_upstream in the JSON",
        "dim",
    )


def _shown(one: Pooled) -> str:
    value = "-" if one.value is None else f"{one.value:.3f}"
    return value if one.low is None else f"{value} ({one.low:.2f}-{one.high:.2f})"
