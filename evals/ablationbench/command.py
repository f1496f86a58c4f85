"""`scientist bench ablation`: run a planner of ablations on the papers of a benchmark, judge and score its plans."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.errors import DONE, format_line, print_lines, print_result
from labwright.agent.cli.preflight import check_writable
from labwright.agent.forecast import check_prices_known, open_budgeted_models
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.ablationbench.data import (
    TASKS,
    BenchPaper,
    LabelledPlan,
    Task,
    find_tasks,
    read_labels,
    read_papers,
)
from labwright.evals.ablationbench.judge_eval import (
    MAJORITY,
    JudgeEval,
    JudgeTable,
    PlanLabels,
    PooledFigure,
    build_judge_table,
    label_plan,
    vote_majority,
)
from labwright.evals.ablationbench.output import (
    AblationBenchTable,
    build_table,
    format_bench,
    format_planned_work,
    table_to_csv,
)
from labwright.evals.ablationbench.plan_judge import PlanVerdict
from labwright.evals.ablationbench.results import check_plans, find_plan_file, list_stored_judges, read_stored_rows
from labwright.evals.ablationbench.roles import PAPER_ABLATIONS
from labwright.evals.ablationbench.runner import MODEL_PLANNERS, AblationBenchWork, OpenModels, run_bench
from labwright.evals.ablationbench.scores import PairedPlannerDifference, Row, compute_paired_difference
from labwright.evals.commands import BenchAblation, BenchAblationJudge
from labwright.evals.item_loop import (
    JSON_FILE,
    OPTIONS_FILE,
    STOPS,
    check_options,
    open_answers,
    parse_names,
    print_interrupted,
    read_stored,
    report_results,
)
from labwright.models.client import Models
from labwright.models.offline.judgements import CONFIGURE_MODEL_HINT
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import adjust_p_values
from labwright.record.errors import UsageError
from labwright.record.event_log import EventLog, Recorder
from labwright.record.schema import FrozenModel
from labwright.record.table import Table

# Compare planners of ablations paper by paper, from the results of finished benchmarks.


class PlannerComparison(FrozenModel):
    """All pairs of planners on their common papers; p is adjusted with Holm over all pairs of a figure."""

    planners: tuple[str, ...]
    paired: tuple[PairedPlannerDifference, ...]


def compare_planners(outs: Sequence[Path]) -> PlannerComparison:
    """Compare every pair of benchmarks on the papers that both scored. Raises `UsageError`."""
    if len(outs) < 2:
        raise UsageError("--compare needs the folders of at least two benchmarks")
    tables = [(_planner_name(out, outs), _read_results(out)) for out in outs]
    found: list[PairedPlannerDifference] = []
    for task, figure in itertools.product(TASKS, ("precision", "recall", "f1")):
        family = [
            one
            for (first, a), (second, b) in itertools.combinations(tables, 2)
            if (one := _compare_pair(first, a, second, b, task, figure)) is not None
        ]
        adjusted = adjust_p_values([one.p for one in family])
        found += [one.model_copy(update={"adjusted": p}) for one, p in zip(family, adjusted, strict=True)]
    if not found:
        raise UsageError("no two of these benchmarks have scored a common paper")
    return PlannerComparison(planners=tuple(name for name, _ in tables), paired=tuple(found))


def _planner_name(out: Path, outs: Sequence[Path]) -> str:
    return out.name if sum(one.name == out.name for one in outs) == 1 else str(out)


def _read_results(out: Path) -> AblationBenchTable:
    if (found := read_stored(out / JSON_FILE, AblationBenchTable)) is None:
        raise UsageError(f"{out} contains no results of scientist bench ablation: finish that benchmark first")
    return found


def _compare_pair(
    first: str, a: AblationBenchTable, second: str, b: AblationBenchTable, task: Task, figure: str
) -> PairedPlannerDifference | None:
    scores = [
        {row.id: row.figures[figure] for row in one.rows if row.task == task and figure in row.figures}
        for one in (a, b)
    ]
    common = [id for id in scores[0] if id in scores[1]]
    if not common:
        return None
    return compute_paired_difference(
        first, second, f"{task} {figure}", [(scores[0][id], scores[1][id]) for id in common]
    )


def format_comparison(found: PlannerComparison) -> Iterator[Text | Table]:
    yield Table.of(
        ("figure", "first", "second", "n", "difference", "95 % interval", "p (Holm)"),
        (
            (
                one.figure,
                one.first,
                one.second,
                str(one.difference.n),
                f"{one.difference.mean:+.3f}",
                one.difference.range_text,
                "-" if one.adjusted is None else f"{one.adjusted:.3f}",
            )
            for one in found.paired
        ),
    )
    yield format_line("difference: first minus second, by paper; intervals resample papers, p by paired t tests", "dim")


LOG_FILE = "answers.jsonl"
PLANNERS = (*MODEL_PLANNERS, "headings")


def run_ablation_bench(args: BenchAblation) -> int:
    if args.compare:
        found = compare_planners(args.outs or ())
        print_result(found, format_comparison(found), json=args.json)
        return DONE
    if args.outs:
        raise UsageError("folders of results are only read with --compare: give --out for the output folder")
    if args.data is None:
        raise UsageError("Missing option '--data': give a folder with author/test.jsonl or reviewer/test.jsonl")
    tasks = choose_tasks(args.task, args.data)
    papers = [
        paper
        for task in tasks
        for paper in read_papers(args.data, task, args.split, papers=args.papers, only=args.only or ())
    ]
    settings = compose_settings(config=args.config, flags=args.flags)
    bench = _build_work(args, tasks, settings)
    if bench.plans is not None:
        check_plans(bench.plans, bench.planner, papers)
    if args.dry_run:
        print_lines(format_planned_work(bench, papers))
        return DONE
    check_writable(args.out, "--out")
    try:
        with _open_log(args.out, bench, settings) as log:
            results = asyncio.run(run_bench(bench, papers, args.out, log, make_opener(settings)))
    except STOPS:
        return print_interrupted()
    k: dict[str, int] = {task: bench.max_entries(task) for task in tasks}
    made = build_table(results, split=args.split, planner=bench.planner, judges=bench.judges, k=k)
    return report_results(
        args.out, made, table_to_csv(made), format_bench(made), is_complete=made.is_complete, json=args.json
    )


def choose_tasks(text: str, data: str) -> tuple[Task, ...]:
    """Return the requested tasks, or those with tables. Raises `UsageError`."""
    return parse_names("--task", text, TASKS) if text.strip() else find_tasks(data)


def _build_work(args: BenchAblation, tasks: Sequence[Task], settings: Settings) -> AblationBenchWork:
    """Build the work of the benchmark. Raises `UsageError`."""
    if args.plans is None and args.planner not in PLANNERS:
        raise UsageError(
            f"--planner {args.planner!r}: choose from {', '.join(PLANNERS)}; with --plans DIR it names a "
            "folder of plans there"
        )
    if args.answers is not None and args.plans is None:
        raise UsageError("--answers are about stored plans: add --plans DIR")
    for folder, option in ((args.plans, "--plans"), (args.answers, "--answers"), (args.papers, "--papers")):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{option} {folder} is not a folder")
    planner, model = args.planner, ""
    if args.plans is not None and planner in PLANNERS:
        planner = args.plans.name
    judges = choose_judges(args.judges, args.answers, tasks, settings.models)
    if args.plans is None and planner in MODEL_PLANNERS:
        model = _find_model(settings.models)
    if model == "offline":
        raise UsageError(f"the offline model cannot read papers; use --planner headings, or {CONFIGURE_MODEL_HINT}")
    return AblationBenchWork(
        planner=planner,
        judges=judges,
        k=args.k,
        plans=args.plans,
        answers=args.answers,
        controls=args.controls,
        data=args.data or "",
        split=args.split,
        model=model,
    )


def choose_judges(named: str, answers: Path | None, tasks: Sequence[Task], models: ModelSettings) -> tuple[str, ...]:
    """Return the judges by name: those with stored rows, or models. Raises `UsageError`."""
    judges = tuple(name.strip() for name in named.split(",") if name.strip())
    if len(set(judges)) < len(judges):
        raise UsageError(f"--judges {named}: name each judge once")
    if answers is not None:
        there = list_stored_judges(answers, tasks)
        if not there or not set(judges) <= set(there):
            raise UsageError(
                f"--answers {answers} has rows of {', '.join(there) or 'no judge'}: it needs TASK/JUDGE/, "
                "and --judges must name some of these judges"
            )
        return judges or there
    if judges:
        return judges
    own = _find_model(models)
    if own == "offline":
        raise UsageError(
            f"a judge must read the plans: name models with --judges, give stored rows with --answers, or "
            f"{CONFIGURE_MODEL_HINT}"
        )
    return (own,)


def _find_model(models: ModelSettings) -> str:
    return models.list_candidates(PAPER_ABLATIONS)[0].name


def make_opener(settings: Settings) -> OpenModels:
    """Return a function that opens the planner's models, or one judge's model, within one shared budget."""
    own = _find_model(settings.models)

    def open_models(judge: str | None, log: Recorder) -> Models:
        models = settings.models if judge is None or judge == own else settings.models.select_model(judge)
        return open_budgeted_models(settings.model_copy(update={"models": models}), log)

    return open_models


def _open_log(out: Path, work: AblationBenchWork, settings: Settings) -> AbstractContextManager[EventLog]:
    """Open the log in the folder of a benchmark. Raises `UsageError` for another folder, or other options."""
    kept = out / OPTIONS_FILE
    if not kept.exists() and out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty and contains no ablation benchmark: choose another --out")
    check_options(kept, work)
    check_prices_known(settings)
    return open_answers(out, work, file=LOG_FILE)


# `scientist bench ablation-judge`: compare plan judges with human labels.


def run_judge_eval(args: BenchAblationJudge) -> int:
    tasks = choose_tasks(args.task, args.data)
    settings = compose_settings(config=args.config, flags=args.flags)
    judges = choose_judges(args.judges, args.answers, tasks, settings.models)
    check_writable(args.out, "--out")
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
    options = AblationBenchWork(
        planner="labelled",
        judges=tuple(judges),
        k=1000,
        plans=folder,
        controls=False,
        data=args.data,
        split="judge_eval",
    )
    with _open_log(args.out, options, settings) as log:
        for planner in dict.fromkeys(plan.planner for plan in plans):
            here = [
                papers[plan.paper]
                for plan in plans
                if plan.planner == planner
                and plan.paper in papers
                and find_plan_file(folder, task, planner, plan.paper) is not None
            ]
            bench = options.model_copy(update={"planner": planner})
            for result in asyncio.run(run_bench(bench, here, args.out / planner, log, make_opener(settings))):
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
