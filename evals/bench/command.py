"""`scientist bench mlr`: run tasks from idea to paper, judge every step, and report a table, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.campaign import CampaignRunner, check_budget_share, prepare_folder
from labwright.agent.cli.campaign import build_terms
from labwright.agent.cli.commands import BenchMlr
from labwright.agent.cli.errors import DONE, FAILED, INTERRUPTED, print_lines, print_to_stderr
from labwright.agent.cli.preflight import check_components, check_disk_space, check_writable
from labwright.agent.forecast import open_model
from labwright.agent.settings import Settings, compose_settings
from labwright.evals.bench.step_makers import compute_task_spent
from labwright.evals.bench.table import MlrBenchTable, StepTable, build_table, table_to_csv
from labwright.evals.bench.tasks import (
    STEPS,
    MlrTasks,
    StepLine,
    StepName,
    is_complete,
    read_lines,
    read_tasks,
    save_task_text,
)
from labwright.inspector.safe_text import format_dollars, format_duration, shorten, to_plain
from labwright.models.roles.judge import JUDGE
from labwright.record.campaign import CampaignEvent, CampaignStarted, CampaignTerms, EntryQueued, RunEnded
from labwright.record.errors import UsageError
from labwright.record.run_folder import write_file
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.table import Table

JSON_FILE, CSV_FILE, MODELS_FILE = "results.json", "results.csv", "models.json"


class ModelNames(FrozenModel):
    """The working model and the judge; a benchmark has one of each."""

    model: str
    judge: str


def run_mlr_bench(args: BenchMlr) -> int:
    out, steps = args.out.absolute(), parse_steps(args.steps)
    chosen = read_tasks(args.tasks, tuple(args.only or ()))
    settings = compose_settings(config=args.config, flags={"paper.judge": False} | args.flags)
    names = [one.name for one in chosen]
    models = ModelNames(model=settings.models.model_names, judge=open_model(settings.models).get_model_name(JUDGE))
    _check_options(settings, out, models)
    terms = build_terms(settings, parallel=args.parallel, item_count="tasks")
    if args.dry_run:
        _show_plan(read_lines(out, steps, names), settings, terms, Console())
        return DONE
    console = Console(quiet=args.json)

    def print_event(event: CampaignEvent) -> None:
        for line in read_lines(out, steps, [event.name]) if isinstance(event, RunEnded) else ():
            console.print(format_step(line), soft_wrap=True)

    open_tasks = [name for name in names if not is_complete(read_lines(out, steps, [name]))]
    check_budget_share(settings, terms, max(1, len(open_tasks)))
    for task in chosen:
        save_task_text(out, task)
    prepare_folder(out, settings, terms)
    write_file(out / MODELS_FILE, models.model_dump_json(indent=1))
    state = CampaignRunner(
        out, MlrTasks(out, steps, compute_task_spent), listener=print_event, only_names=open_tasks
    ).run(
        (CampaignStarted(terms=terms, version=version("labwright")), *(EntryQueued(name=name) for name in open_tasks))
    )
    results = build_table(read_lines(out, steps, names), model=models.model, judge=models.judge)
    write_file(out / JSON_FILE, results.model_dump_json(indent=1) + "\n")
    write_file(out / CSV_FILE, table_to_csv(results))
    if args.json:
        print(results.model_dump_json(indent=1))
    else:
        show_results(results, console)
        print(f"written to {out / CSV_FILE} and {out / JSON_FILE}")
    if any(state.entries[name].status in ("interrupted", "failed", "waiting") for name in open_tasks):
        print_to_stderr("interrupted; continue with the same command")
        return INTERRUPTED
    return DONE if results.is_complete else FAILED


def parse_steps(text: str) -> tuple[StepName, ...]:
    """Parse `idea,paper` into ordered steps. Raises `UsageError`."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    if not named or any(name not in STEPS for name in named):
        raise UsageError(f"--steps {text!r}: name one or more of {', '.join(STEPS)}, separated by commas")
    return tuple(step for step in STEPS if step in named)


def _check_options(settings: Settings, out: Path, names: ModelNames) -> None:
    """Reject invalid options before anything is created. Raises `UsageError`, `ModelConfigError`."""
    check_writable(out, "--out")
    check_disk_space(settings, out)
    check_components(settings)
    kept = out / MODELS_FILE
    if kept.exists() and (before := ModelNames.model_validate_json(kept.read_bytes())) != names:
        raise UsageError(
            f"{out} was created with {before.model} and judge {before.judge}, but now it is {names.model} and "
            f"{names.judge}: choose another --out"
        )


# --- output ---------------------------------------------------------------------------------------------------------


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
    return head + Text(to_plain(scoring.judgement.score_line))


def show_results(results: MlrBenchTable, console: Console) -> None:
    """Print means with spread by step and dimension, then the cost of each step."""
    means = [
        (
            step.step,
            mean.dimension,
            f"{mean.mean:.4f}",
            "-" if mean.sd is None else f"{mean.sd:.4f}",
            mean.n,
            f"{mean.lowest}-{mean.highest}",
        )
        for step in results.steps
        for mean in step.means
    ]
    table = Table.of(("step", "dimension", "mean", "sd", "n", "scale"), means)
    print_lines([*[table] * bool(means), *(line for step in results.steps for line in _format_counts(step))], console)


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
    if step.heuristic:
        yield Text(
            f"  HEURISTIC: {step.heuristic} of {step.judged} were counted from the record, not read by a model",
            style="bold yellow",
        )


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
            f"{runs} runs, {terms.parallel} at a time: at most {format_duration(whole)}; {caps or 'no budget is set'}"
            f"{' in total, excluding judging' if caps else ''}; to estimate one run: "
            f"scientist run "
            "--idea IDEA --dry-run"
        ),
        soft_wrap=True,
    )
