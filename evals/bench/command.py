"""`scientist bench mlr`: run tasks from idea to paper, judge every step, and report a table, CSV and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.campaign import CONFIG_FILE, check_budget_share
from labwright.agent.cli.campaign import build_terms
from labwright.agent.cli.errors import DONE, print_lines
from labwright.agent.cli.preflight import check_components, check_disk_space, check_writable
from labwright.agent.forecast import open_model
from labwright.agent.settings import Settings, compose_settings, settings_from_assignments
from labwright.evals.bench.step_makers import StepMakers, compute_task_spent, judge_step, list_judge_settings
from labwright.evals.bench.table import MlrBenchTable, StepTable, build_table, table_to_csv
from labwright.evals.bench.tasks import (
    STEPS,
    BenchTask,
    MlrBench,
    StepLine,
    build_jobs,
    is_complete,
    read_lines,
    read_tasks,
    run_task,
    save_task_text,
)
from labwright.evals.commands import BenchMlr
from labwright.evals.item_loop import check_options, parse_names, report_results, run_item, run_items, store_result
from labwright.inspector.safe_text import format_dollars, format_duration, shorten, to_plain
from labwright.models.roles.judge import JUDGE
from labwright.record.campaign import CampaignTerms
from labwright.record.schema import FrozenModel
from labwright.record.table import Table, format_quantity

MODELS_FILE = "models.json"


class ModelNames(FrozenModel):
    """The working model, and the judge or judges; a benchmark has the same from start to end."""

    model: str
    judge: str
    judges: tuple[str, ...] = ()


def run_mlr_bench(args: BenchMlr) -> int:
    out, steps = args.out.absolute(), parse_names("--steps", args.steps, STEPS)
    chosen = read_tasks(args.tasks, tuple(args.only or ()))
    settings = compose_settings(config=args.config, flags={"paper.judge": False} | args.flags)
    names = [one.name for one in chosen]
    judges = tuple(name.strip() for name in args.judges.split(",") if name.strip())
    opened = [open_model(one) for one in list_judge_settings(settings.models, judges)]
    named = ", ".join(one.get_model_name(JUDGE) for one in opened)
    models = ModelNames(model=settings.models.model_names, judge=named, judges=judges)
    check_writable(out, "--out")
    check_disk_space(settings, out)
    check_components(settings)
    check_options(out / MODELS_FILE, models)
    terms = build_terms(settings, parallel=args.parallel, entry_kind="tasks")
    if args.dry_run:
        _show_plan(read_lines(out, steps, names), settings, terms, Console())
        return DONE

    def show_end(name: str) -> None:
        if not args.json:
            print_lines(map(format_step, read_lines(out, steps, [name])))

    open_tasks = [name for name in names if not is_complete(read_lines(out, steps, [name]))]
    check_budget_share(settings, terms, max(1, len(open_tasks)))
    for task in chosen:
        save_task_text(out, task)
    store_result(out / MODELS_FILE, models)
    jobs = build_jobs(out, steps, compute_task_spent)
    is_whole = run_items(out, jobs, open_tasks, settings=settings, terms=terms, on_end=show_end)
    results = build_table(read_lines(out, steps, names), model=models.model, judge=models.judge)
    return report_results(
        out,
        results,
        table_to_csv(results),
        format_results(results),
        is_complete=results.is_complete,
        is_whole=is_whole,
        json=args.json,
    )


# --- output -------------------------------------------------------------------------------------------------------


def format_step(line: StepLine) -> Text:
    """Format how a step ended, in one line."""
    head = Text(f"{to_plain(line.task)}, {line.step}: ", style="bold")
    outcome, scoring = line.outcome, line.scoring
    if outcome.state != "done":
        return head + Text(f"{outcome.state}: {shorten(outcome.why, 300)}", style="yellow")
    if scoring is None:
        return head + Text("done")
    if scoring.judgement is None:
        return head + Text(f"done, not judged ({scoring.state}): {shorten(scoring.why, 300)}", style="yellow")
    return head + Text("; ".join(to_plain(one.score_line) for one in scoring.judgements))


def format_results(results: MlrBenchTable) -> Iterator[Text | Table]:
    """Yield means with spread by step and dimension, then the cost of each step."""
    means = [
        (
            step.step,
            mean.dimension,
            f"{mean.mean:.4f}",
            mean.range_text,
            "-" if mean.sd is None else f"{mean.sd:.4f}",
            mean.n,
            f"{mean.lowest}-{mean.highest}",
        )
        for step in results.steps
        for mean in step.means
    ]
    if means:
        yield Table.of(("step", "dimension", "mean", "95 % interval", "sd", "n", "scale"), means)
    for step in results.steps:
        yield from _format_counts(step)


def _format_counts(step: StepTable) -> Iterator[Text]:
    head = Text(f"{step.step}: ", style="bold")
    judged = (
        f"; {step.judged} judged, {step.not_judged} not, {format_dollars(step.judging.usd, step.judging.unpriced)}"
        if step.asked
        else "; not judged"
    )
    yield head + Text(
        f"{step.done} of {step.tasks} tasks done, {step.failed} failed, {step.refused} refused, {step.not_begun} "
        f"not started; {format_dollars(step.took.usd, step.took.unpriced)}, {step.took.calls} calls, "
        f"{format_duration(step.seconds)}{judged}"
    )
    for name, count in step.checks.items():
        yield Text(f"  {to_plain(name)}: yes for {count} of {step.judged}")


def _show_plan(lines: Sequence[StepLine], settings: Settings, terms: CampaignTerms, console: Console) -> None:
    """Print what is done, what would be done now, and the limits."""
    for step in dict.fromkeys(line.step for line in lines):
        here = [line for line in lines if line.step == step]
        to_make = sum(line.outcome.state != "done" for line in here)
        to_judge = sum(line.asked and (line.scoring is None or line.scoring.judgement is None) for line in here)
        done = f"{len(here) - to_make} of {len(here)} done"
        console.print(Text(f"{step}: {done}, {to_make} to make, {to_judge} to judge"))
    runs = sum(line.step == "experiment" and line.outcome.state != "done" for line in lines)
    caps = ", ".join(f"{cap:g} {what.replace('_', ' ')}" for what, cap in terms.caps.items())
    whole = terms.seconds or ceil(runs / terms.parallel) * settings.time_limit
    console.print(
        Text(
            f"{format_quantity(runs, 'run')}, {terms.parallel} at a time: at most {format_duration(whole)}; "
            f"{caps or 'no budget is set'}{' in total, excluding judging' if caps else ''}; to estimate one run: "
            "scientist run --idea IDEA --dry-run"
        ),
        soft_wrap=True,
    )


def run_one_task(words: list[str]) -> int:
    """`python -m labwright.evals.bench.command OUT TASK STEPS [--set KEY=VALUE]...`: run a task in its own process."""
    out, name, steps = Path(words[0]), words[1], parse_names("STEPS", words[2], STEPS)
    limits = settings_from_assignments(word for word in words[3:] if word != "--set")
    settings = compose_settings(config=out / CONFIG_FILE, flags=limits | {"campaign": str(out)})
    task = BenchTask(name, (out / name / "task.md").read_text(encoding="utf-8"))
    judges = list_judge_settings(
        settings.models, ModelNames.model_validate_json((out / MODELS_FILE).read_bytes()).judges
    )
    bench = MlrBench(out, steps, StepMakers(settings).by_step, partial(judge_step, judges))
    return run_item(lambda: run_task(bench, task), out / name)


if __name__ == "__main__":
    sys.exit(run_one_task(sys.argv[1:]))
