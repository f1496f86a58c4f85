"""`scientist bench mlr`: a folder of tasks from idea to paper, every step judged, as a table, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.commands.edge import DONE, FAILED, INTERRUPTED, WrongUse, say
from agent.commands.run import check_parts, check_space, check_writable
from agent.settings import Settings, compose, from_assignments
from inspector.text import dollars, duration, plain, short
from record.folder import write_file
from record.nouns.frozen import Frozen

if TYPE_CHECKING:
    from agent.bench.outcomes import Line, StepName
    from agent.bench.table import BenchTable, StepTable
    from agent.bench.tasks import Task
    from agent.bench.working import Bench

JSON, CSV, MODELS = "results.json", "results.csv", "models.json"


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    tasks: Path
    only: tuple[str, ...]
    steps: str
    out: Path
    config: Path | None
    assignments: tuple[str, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    dry: bool = False
    as_json: bool = False


class Cast(Frozen):
    """Who works and who judges: one bench has one of each."""

    model: str
    judge: str


def bench_mlr(request: Request) -> int:
    """Do what is not done yet, and show the table; returns the exit code: 1 where a step is missing or unjudged."""
    from agent.bench.tasks import TaskError, read_tasks

    asked = steps_in(request.steps)
    try:
        tasks = read_tasks(request.tasks, request.only)
    except TaskError as error:
        raise WrongUse(str(error)) from None
    flags = {"paper.judge": False} | from_assignments(request.assignments) | request.flags
    settings = compose(config=request.config, flags=flags)
    console = Console(quiet=request.as_json)
    bench = _bench(request, settings, asked, console)
    cast = _cast(settings)
    _check(settings, request.out, cast)
    if request.dry:
        _ahead(bench, tasks, settings, Console())
        return DONE
    interrupted = _worked(bench, tasks, cast)
    found = _written(bench, tasks, cast)
    if request.as_json:
        print(found.model_dump_json(indent=1))
    else:
        show(found, console)
        print(f"written to {request.out / CSV} and {request.out / JSON}")
    return INTERRUPTED if interrupted else DONE if found.complete else FAILED


def steps_in(text: str) -> tuple[StepName, ...]:
    """`idea,paper` as steps in their order. Raises `WrongUse`."""
    from agent.bench.outcomes import STEPS

    named = [one.strip() for one in text.split(",") if one.strip()]
    if not named or any(one not in STEPS for one in named):
        raise WrongUse(f"--steps {text!r}: name one or more of {', '.join(STEPS)}, divided by commas")
    return tuple(step for step in STEPS if step in named)


def _bench(request: Request, settings: Settings, asked: tuple[StepName, ...], console: Console) -> Bench:
    from agent.bench.judging import StepJudge
    from agent.bench.making import Makers
    from agent.bench.working import Bench

    return Bench(request.out, asked, Makers(settings).all, StepJudge(settings.models),
                 told=lambda line: console.print(told(line), soft_wrap=True))


def _cast(settings: Settings) -> Cast:
    from agent.commands.asking import open_model

    return Cast(model=settings.models.called, judge=open_model(settings.models).models.name_of("judge"))


def _check(settings: Settings, out: Path, cast: Cast) -> None:
    """Refuse what cannot work before anything is made. Raises `WrongUse`, `ModelConfigError`."""
    check_writable(out)
    check_space(settings, out)
    check_parts(settings)
    kept = out / MODELS
    if kept.exists() and (before := Cast.model_validate_json(kept.read_bytes())) != cast:
        raise WrongUse(f"{out} was begun with {before.model}, judged by {before.judge}, and now it is {cast.model}, "
                       f"judged by {cast.judge}: choose another --out")


def _worked(bench: Bench, tasks: tuple[Task, ...], cast: Cast) -> bool:
    """Whether the work was interrupted."""
    from agent.bench.working import Interrupted, work
    from record.lock import hold

    bench.out.mkdir(parents=True, exist_ok=True)
    with hold(bench.out):
        write_file(bench.out / MODELS, cast.model_dump_json(indent=1))
        try:
            work(bench, tasks)
        except (KeyboardInterrupt, Interrupted) as stopped:
            say(f"interrupted ({stopped or 'Ctrl-C'}); go on with the same command")
            return True
    return False


def _written(bench: Bench, tasks: tuple[Task, ...], cast: Cast) -> BenchTable:
    from agent.bench.table import as_csv, table
    from agent.bench.working import lines_of

    found = table(lines_of(bench, tasks), model=cast.model, judge=cast.judge)
    write_file(bench.out / JSON, found.model_dump_json(indent=1) + "\n")
    write_file(bench.out / CSV, as_csv(found))
    return found


# --- what is shown --------------------------------------------------------------------------------------------------


def told(line: Line) -> Text:
    """What became of a step, in one line."""
    head = Text(f"{plain(line.task)}, {line.step}: ", style="bold")
    outcome, scoring = line.outcome, line.scoring
    if outcome.state != "done":
        return head + Text(f"{outcome.state}: {short(outcome.why, 300)}", style="yellow")
    if scoring is None:
        return head + Text("done")
    if scoring.judgement is None:
        return head + Text(f"done, not judged ({scoring.state}): {short(scoring.why, 300)}", style="yellow")
    return head + Text(plain(scoring.judgement.line))


def show(found: BenchTable, console: Console) -> None:
    """Means with spread by step and dimension, then what each step took."""
    means = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for name in ("step", "dimension", "mean", "sd", "n", "scale"):
        means.add_column(name, justify="right" if name in ("mean", "sd", "n") else "left")
    for step in found.steps:
        for one in step.means:
            sd = "-" if one.sd is None else f"{one.sd:.4f}"
            means.add_row(step.step, plain(one.dimension), f"{one.mean:.4f}", sd, str(one.n),
                          f"{one.lowest}-{one.highest}")
    if means.row_count:
        console.print(means)
    for step in found.steps:
        for line in _counts(step):
            console.print(line, soft_wrap=True)


def _counts(step: StepTable) -> Iterator[Text]:
    head = Text(f"{step.step}: ", style="bold")
    judged = (f"; {step.judged} judged, {step.not_judged} not, {dollars(step.judging.usd, step.judging.unpriced)}"
              if step.asked else "; not to be judged")
    yield head + Text(
        f"{step.done} of {step.tasks} tasks done, {step.failed} failed, {step.refused} refused, {step.not_begun} "
        f"not begun; {dollars(step.took.usd, step.took.unpriced)}, {step.took.calls} calls, "
        f"{duration(step.seconds)}{judged}")
    for name, count in step.checks.items():
        yield Text(f"  {plain(name)}: yes for {count} of {step.judged}")
    if step.heuristic:
        yield Text(f"  HEURISTIC: {step.heuristic} of {step.judged} were counted from the record, nobody read them",
                   style="bold yellow")


def _ahead(bench: Bench, tasks: tuple[Task, ...], settings: Settings, console: Console) -> None:
    """What is done, what would be done now, and what bounds it."""
    from agent.bench.working import lines_of

    lines = lines_of(bench, tasks)
    for step in dict.fromkeys(line.step for line in lines):
        here = [line for line in lines if line.step == step]
        to_make = sum(line.outcome.state != "done" for line in here)
        to_judge = sum(line.asked and (line.scoring is None or line.scoring.judgement is None) for line in here)
        done = f"{len(here) - to_make} of {len(here)} done"
        console.print(Text(f"{step}: {done}, {to_make} to make, {to_judge} to judge"))
    runs = sum(line.step == "experiment" and line.outcome.state != "done" for line in lines)
    budget = settings.budget
    cap = "no budget is set" if budget.usd is None else f"${budget.usd:g} for each ideation and each run by itself"
    console.print(Text(
        f"{runs} runs of at most {duration(settings.time_limit)} each, one after the other: at most "
        f"{duration(runs * settings.time_limit)}; {cap}; what one run is likely to take: scientist run --idea IDEA "
        "--dry-run"), soft_wrap=True)
