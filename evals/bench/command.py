"""`scientist bench mlr`: a folder of tasks from idea to paper, every step judged, as a table, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labwright.agent.budget import open_model
from labwright.agent.campaign import Campaign, check_share, prepare
from labwright.agent.cli.campaign import terms_of
from labwright.agent.cli.checks import check_parts, check_space, check_writable
from labwright.agent.cli.edge import DONE, FAILED, INTERRUPTED, say
from labwright.agent.cli.paper_commands import BenchMlr
from labwright.agent.settings import Settings, compose
from labwright.evals.bench.makers import task_spent
from labwright.evals.bench.table import BenchTable, StepTable, as_csv, table
from labwright.evals.bench.tasks import STEPS, Line, StepName, read_tasks
from labwright.evals.bench.work import Tasks, complete, keep_text, lines_of
from labwright.inspector.text import dollars, duration, plain, short
from labwright.models.roles.judge import JUDGE
from labwright.record.campaign import CampaignBegan, CampaignEvent, Queued, RunEnded, Terms
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.nouns.frozen import Frozen

JSON, CSV, MODELS = "results.json", "results.csv", "models.json"


class ModelNames(Frozen):
    """Which model works and which one judges: one bench has one of each."""

    model: str
    judge: str


def bench_mlr(asked: BenchMlr) -> int:
    out, steps = asked.out.absolute(), steps_in(asked.steps)
    chosen = read_tasks(asked.tasks, tuple(asked.only or ()))
    settings = compose(config=asked.config, flags={"paper.judge": False} | asked.flags)
    names = [one.name for one in chosen]
    models = ModelNames(model=settings.models.called, judge=open_model(settings.models).name_of(JUDGE))
    _check(settings, out, models)
    terms = terms_of(settings, parallel=asked.parallel, of="tasks")
    if asked.dry_run:
        _show_plan(lines_of(out, steps, names), settings, terms, Console())
        return DONE
    console = Console(quiet=asked.json)

    def told(event: CampaignEvent) -> None:
        for line in lines_of(out, steps, [event.name]) if isinstance(event, RunEnded) else ():
            console.print(as_text(line), soft_wrap=True)

    open_tasks = [name for name in names if not complete(lines_of(out, steps, [name]))]
    check_share(settings, terms, max(1, len(open_tasks)))
    for task in chosen:
        keep_text(out, task)
    prepare(out, settings, terms)
    write_file(out / MODELS, models.model_dump_json(indent=1))
    state = Campaign(out, Tasks(out, steps, task_spent), told=told, only=open_tasks).work(
        (CampaignBegan(terms=terms, version=version("labwright")), *(Queued(name=name) for name in open_tasks))
    )
    results = table(lines_of(out, steps, names), model=models.model, judge=models.judge)
    write_file(out / JSON, results.model_dump_json(indent=1) + "\n")
    write_file(out / CSV, as_csv(results))
    if asked.json:
        print(results.model_dump_json(indent=1))
    else:
        show(results, console)
        print(f"written to {out / CSV} and {out / JSON}")
    if any(state.entries[name].standing in ("interrupted", "failed", "waiting") for name in open_tasks):
        say("interrupted; continue with the same command")
        return INTERRUPTED
    return DONE if results.complete else FAILED


def steps_in(text: str) -> tuple[StepName, ...]:
    """`idea,paper` as steps in their order. Raises `WrongUse`."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    if not named or any(name not in STEPS for name in named):
        raise WrongUse(f"--steps {text!r}: name one or more of {', '.join(STEPS)}, separated by commas")
    return tuple(step for step in STEPS if step in named)


def _check(settings: Settings, out: Path, names: ModelNames) -> None:
    """Refuse what cannot work before anything is made. Raises `WrongUse`, `ModelConfigError`."""
    check_writable(out, "--out")
    check_space(settings, out)
    check_parts(settings)
    kept = out / MODELS
    if kept.exists() and (before := ModelNames.model_validate_json(kept.read_bytes())) != names:
        raise WrongUse(
            f"{out} was begun with {before.model}, judged by {before.judge}, and now it is {names.model}, "
            f"judged by {names.judge}: choose another --out"
        )


# --- what is shown --------------------------------------------------------------------------------------------------


def as_text(line: Line) -> Text:
    """How a step ended, in one line."""
    head = Text(f"{plain(line.task)}, {line.step}: ", style="bold")
    outcome, scoring = line.outcome, line.scoring
    if outcome.state != "done":
        return head + Text(f"{outcome.state}: {short(outcome.why, 300)}", style="yellow")
    if scoring is None:
        return head + Text("done")
    if scoring.judgement is None:
        return head + Text(f"done, not judged ({scoring.state}): {short(scoring.why, 300)}", style="yellow")
    return head + Text(plain(scoring.judgement.line))


def show(results: BenchTable, console: Console) -> None:
    """Means with spread by step and dimension, then what each step took."""
    means = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for name in ("step", "dimension", "mean", "sd", "n", "scale"):
        means.add_column(name, justify="right" if name in ("mean", "sd", "n") else "left")
    for step in results.steps:
        for mean in step.means:
            sd = "-" if mean.sd is None else f"{mean.sd:.4f}"
            means.add_row(
                step.step, plain(mean.dimension), f"{mean.mean:.4f}", sd, str(mean.n), f"{mean.lowest}-{mean.highest}"
            )
    if means.row_count:
        console.print(means)
    for step in results.steps:
        for line in _counts(step):
            console.print(line, soft_wrap=True)


def _counts(step: StepTable) -> Iterator[Text]:
    head = Text(f"{step.step}: ", style="bold")
    judged = (
        f"; {step.judged} judged, {step.not_judged} not, {dollars(step.judging.usd, step.judging.unpriced)}"
        if step.asked
        else "; not to be judged"
    )
    yield head + Text(
        f"{step.done} of {step.tasks} tasks done, {step.failed} failed, {step.refused} refused, {step.not_begun} "
        f"not begun; {dollars(step.took.usd, step.took.unpriced)}, {step.took.calls} calls, "
        f"{duration(step.seconds)}{judged}"
    )
    for name, count in step.checks.items():
        yield Text(f"  {plain(name)}: yes for {count} of {step.judged}")
    if step.heuristic:
        yield Text(
            f"  HEURISTIC: {step.heuristic} of {step.judged} were counted from the record, nobody read them",
            style="bold yellow",
        )


def _show_plan(lines: Sequence[Line], settings: Settings, terms: Terms, console: Console) -> None:
    """What is done, what would be done now, and its upper limits."""
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
            f"{runs} runs, {terms.parallel} at a time: at most {duration(whole)}; {caps or 'no budget is set'}"
            f"{' for all of them together, judging aside' if caps else ''}; what one run is likely to take: "
            f"scientist run "
            "--idea IDEA --dry-run"
        ),
        soft_wrap=True,
    )
