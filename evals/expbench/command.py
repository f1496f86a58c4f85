"""`scientist bench exp`: answer research questions on repositories, judge step by step; report table, CSV and JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.campaign import build_terms
from labwright.agent.cli.errors import DONE, format_line, print_lines
from labwright.agent.cli.preflight import check_disk_space, check_isolation, check_writable
from labwright.agent.forecast import open_model
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.commands import BenchExp
from labwright.evals.expbench.answers import ExpTask, SubmittedAnswer, read_answers, read_tasks
from labwright.evals.expbench.evaluation import EVALUATED_FILE, STEPS, Evaluated, JudgedStep
from labwright.evals.expbench.roles import ANSWER_DESIGN
from labwright.evals.expbench.scores import SCORE_NAMES, compute_scores, to_percent
from labwright.evals.expbench.table import ExpTable, build_table, format_groups, format_overall, table_to_csv
from labwright.evals.expbench.violations import RepositoryNotFound, find_repository
from labwright.evals.item_loop import (
    ItemJobs,
    check_options,
    parse_names,
    read_stored,
    report_results,
    run_items,
    store_result,
)
from labwright.inspector.safe_text import shorten, to_plain
from labwright.record.errors import UsageError
from labwright.record.schema import FrozenModel
from labwright.record.table import Table
from labwright.sandbox.gpus import open_gpu_leases, read_cuda_visible_devices

ORDER_FILE = "order.json"
FREE_OPTIONS = ("tasks", "repos", "minutes")
"""Options that may change when a benchmark is continued."""


class ExpBenchConfig(FrozenModel):
    """Options of a benchmark; a folder has one configuration."""

    tasks: str
    repos: str | None
    answers: str | None
    steps: tuple[JudgedStep, ...]
    minutes: float
    execute_minutes: float
    model: str
    judge: str


def run_exp_bench(args: BenchExp) -> int:
    out = args.out.absolute()
    tasks = read_tasks(args.tasks, tuple(args.only or ()))
    answers = None if args.answers is None else read_answers(args.answers)
    settings = compose_settings(config=args.config, flags=args.flags)
    check_isolation(settings.sandbox)
    order = build_config(args, settings, answers)
    skipped = {
        task.name: why
        for task in tasks
        if (why := "" if args.anyway else find_unmet_needs(task, settings) or explain_missing_repository(task, args))
    }
    ready = [task.name for task in tasks if task.name not in skipped]
    if args.dry_run:
        show_plan(tasks, skipped, order)
        return DONE
    check_writable(out, "--out")
    check_disk_space(settings, out)
    check_options(out / ORDER_FILE, order, free=FREE_OPTIONS)
    terms = build_terms(settings, parallel=args.parallel, entry_kind="tasks")
    store_result(out / ORDER_FILE, order)

    def show_end(name: str) -> None:
        if not args.json:
            print_lines(format_line(format_evaluated(one)) for one in read_evaluated(out, name))

    to_do = [name for name in ready if not is_complete(read_evaluated(out, folder_name(name)), answers, name)]
    places = [folder_name(name) for name in to_do]
    is_whole = run_items(out, build_jobs(out, answers), places, settings=settings, terms=terms, on_end=show_end)
    results = build_table(
        collect_evaluated(out, tasks, skipped),
        {task.name: task for task in tasks},
        model=order.model,
        judge=order.judge,
        steps=order.steps,
    )
    return report_results(
        out,
        results,
        table_to_csv(results),
        format_results(results),
        is_complete=results.is_complete,
        is_whole=is_whole,
        json=args.json,
    )


def build_config(
    args: BenchExp, settings: Settings, answers: Mapping[str, Sequence[SubmittedAnswer]] | None
) -> ExpBenchConfig:
    """Build the configuration. Raises `UsageError`."""
    scripted = settings.models.name == "offline"
    if scripted and answers is None:
        raise UsageError(
            "the offline model cannot answer questions on repositories: configure another, as with --model, or "
            "give --answers FILE"
        )
    if scripted and any(one.judge is None and one.given for each in (answers or {}).values() for one in each):
        raise UsageError(
            "the answers contain no verdicts, and the offline model cannot judge: configure a model, as with --model"
        )
    judge = "the file of answers" if scripted else open_model(settings.models).get_model_name(ANSWER_DESIGN)
    return ExpBenchConfig(
        tasks=str(args.tasks.absolute()),
        repos=None if args.repos is None else str(args.repos.absolute()),
        answers=None if args.answers is None else str(args.answers.absolute()),
        steps=parse_names("--steps", args.steps, STEPS),
        minutes=args.minutes,
        execute_minutes=args.execute_minutes,
        judge=judge,
        model="answers" if args.answers is not None else settings.models.model_names,
    )


# --- requirements of tasks ------------------------------------------------------------------------------------------


def find_unmet_needs(task: ExpTask, settings: Settings) -> str:
    """Describe what a task needs and this machine lacks; also if its needs are unknown."""
    needs = task.needs
    if needs is None:
        return "its needs are not declared (needs.json); use --anyway to try it"
    gpus = open_gpu_leases(settings.sandbox, read_cuda_visible_devices()).capacity or 0
    unknown = [name for name in ("gpus", "network", "data") if getattr(needs, name) is None]
    keys = [key for key in needs.keys if not os.environ.get(key)]
    why = [f"needs {needs.gpus} GPUs, has {gpus}"] if (needs.gpus or 0) > gpus else []
    why += [f"needs the keys {', '.join(keys)}"] if keys else []
    why += ["needs a network"] if needs.network else []
    why += [f"needs the data {', '.join(needs.data)}"] if needs.data else []
    why += [f"its needs are unknown: {', '.join(unknown)}"] if unknown else []
    return "; ".join(why)


def explain_missing_repository(task: ExpTask, args: BenchExp) -> str:
    try:
        find_repository(task, args.tasks, args.repos)
    except RepositoryNotFound as error:
        return str(error)
    return ""


# --- the work -------------------------------------------------------------------------------------------------------


def folder_name(task: str) -> str:
    return task.replace("/", "_")


def build_jobs(out: Path, answers: Mapping[str, Sequence[SubmittedAnswer]] | None) -> ItemJobs:
    """Return the tasks as processes that handle their answers in turn."""
    tasks = {folder_name(task): task for task in answers or ()}
    return ItemJobs(
        out,
        "labwright.evals.expbench",
        is_complete=lambda name: is_complete(read_evaluated(out, name), answers, tasks.get(name, name)),
        compute_spent=lambda name: {"usd": sum(one.judging_usd for one in read_evaluated(out, name))},
    )


def read_evaluated(out: Path, name: str) -> list[Evaluated]:
    """Read the stored evaluations of a task's answers, by variant."""
    return [
        one
        for folder in sorted((out / "tasks" / name).glob("*"))
        if (one := read_stored(folder / EVALUATED_FILE, Evaluated))
    ]


def is_complete(found: Sequence[Evaluated], answers: Mapping[str, Sequence[SubmittedAnswer]] | None, task: str) -> bool:
    wanted = {one.variant for one in (answers or {}).get(task, ())}
    done = {one.variant for one in found if one.state not in ("failed", "not_begun")}
    return wanted <= done and bool(wanted or found)


def collect_evaluated(out: Path, tasks: Sequence[ExpTask], skipped: Mapping[str, str]) -> list[Evaluated]:
    """Return every stored evaluation, and an entry for each task without one."""
    found: list[Evaluated] = []
    for task in tasks:
        if task.name in skipped:
            found.append(Evaluated(task=task.name, state="skipped", why=skipped[task.name]))
        else:
            found += read_evaluated(out, folder_name(task.name)) or [Evaluated(task=task.name, state="not_begun")]
    return found


# --- output ---------------------------------------------------------------------------------------------------------


def format_evaluated(one: Evaluated) -> str:
    head = f"{one.task}{f', {one.variant}' if one.variant else ''}: "
    found = compute_scores(one.to_judged())
    passes = ", ".join(
        f"{name} {to_percent(value):g} %" if name in ("D", "I") else f"{name} {int(value)}"
        for name in SCORE_NAMES
        if (value := found[name]) is not None
    )
    why = "; ".join(one.reasons) or one.why
    state = "violation" if any(one.flags.values()) else one.state
    return to_plain(head + state + (f" ({shorten(why, 200)})" if why else "") + (f": {passes}" if passes else ""))


def format_results(found: ExpTable) -> Iterator[Text | Table]:
    yield Table.of(("score", "%", "95 %", "tasks", "anchor"), format_overall(found))
    yield format_line("")
    yield Table.of(("", "n", *SCORE_NAMES, "bound"), format_groups(found))
    counted = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in found.counts.items())
    yield format_line(f"answers: {counted}; judged by {found.judge}")
    yield format_line(
        "passed the monitor, of those that were executed or stopped: "
        + ", ".join(f"{name} {value}" for name, value in found.ladder.items())
    )
    for state, each in found.not_counted.items():
        yield format_line(f"{state.replace('_', ' ')}, not counted: {shorten('; '.join(each), 400)}", "yellow")


def show_plan(tasks: Sequence[ExpTask], skipped: Mapping[str, str], order: ExpBenchConfig) -> None:
    kinds = ", ".join(f"{sum(task.type == kind for task in tasks)} of type {kind}" for kind in (1, 2, 3))
    print_lines(
        [
            format_line(
                f"{len(tasks)} tasks ({kinds}), {len(skipped)} skipped; limits: {order.minutes:g} minutes per answer, "
                f"{order.execute_minutes:g} per script"
            ),
            *(format_line(f"{name}: skipped: {why}", "yellow") for name, why in skipped.items()),
        ]
    )


def clean_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text) or "answer"
