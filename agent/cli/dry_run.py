"""`scientist run --dry-run`: the data plan of an idea, made as a run would make it, and a forecast of that run.

The planner is really asked, which costs its call; the datasets are really split, so that sizes and duplicates are
facts. All is written to a temporary folder that is removed. Not guaranteed: that a run makes the same plan again; a
model's second answer may differ.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.cli.edge import DONE, FAILED, say
from agent.data import sources_of
from agent.environment import rate_of
from agent.forecast import Amount, Forecast, forecast
from agent.settings import Settings
from inspector.text import count, dollars, duration, plain
from models.client import Models
from models.errors import ModelUnavailable
from models.failover import open_backend
from models.roles.planning import PLAN
from record.events.running import Started
from record.fold.state import RunState
from record.folder import RunFolder
from record.log import MemoryLog
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from sandbox.executor import LocalExecutor
from sandbox.scorers import scorers_of
from stages.bench import Bench
from stages.documents import keep
from stages.prepare import PlanError, prepare

MOST_NAMED = 12


class Planned(Frozen):
    """What the planner's calls took. `usd` is None where the price is unknown."""

    calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None


class DryRun(Frozen):
    """A data plan with its datasets as they are, what making it took, and what the run would take."""

    idea: str
    title: str
    model: str
    workers: int
    device: str
    time_limit: float
    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    planned: Planned
    forecast: Forecast


def dry_run(idea: Idea, settings: Settings) -> DryRun:
    """Plan a run without starting it. Raises `PlanError`, `ModelError`, `DatasetError`."""
    with tempfile.TemporaryDirectory(prefix="scientist-dry-run-") as folder:
        state = asyncio.run(_prepared(idea, settings, RunFolder(Path(folder) / "run")))
    assert state.data_plan is not None
    total = state.total
    return DryRun(
        idea=idea.name, title=idea.title, model=settings.models.called, workers=settings.search.num_workers,
        device=settings.sandbox.device, time_limit=settings.time_limit, data_plan=state.data_plan,
        datasets=state.datasets, forecast=forecast(state.data_plan, state.datasets, settings),
        planned=Planned(calls=total.calls, input_tokens=total.input_tokens, output_tokens=total.output_tokens,
                        usd=None if total.unpriced and settings.models.called != "offline" else total.usd))


async def _prepared(idea: Idea, settings: Settings, folder: RunFolder) -> RunState:
    """The state of a run right after its first step."""
    folder.create()
    if settings.context is not None:
        keep(settings.context, folder.context)
    log = MemoryLog()
    log.append(Started(idea=idea, settings=settings.model_dump(mode="json"), seed=settings.seed,
                       version=version("scientist"), model=settings.models.called,
                       rate=rate_of(settings.sandbox, at_once=settings.search.num_workers)))
    executor = LocalExecutor(1, folder.views, labels=folder.labels, settings=settings.sandbox, cache=folder.cache)
    try:
        await prepare(Bench(
            recorder=log, folder=folder, executor=executor, search=settings.search, paper=settings.paper,
            models=Models(open_backend(settings.models), log, settings.models, time.monotonic),
            node_seconds=settings.sandbox.timeout, device=executor.device, sources=sources_of(settings),
            scorers=scorers_of(sources_of(settings), settings.sandbox.scorers)))
    finally:
        await executor.close()
    return log.state


# --- what is shown --------------------------------------------------------------------------------------------------


def show_plan(idea: Idea, settings: Settings, *, as_json: bool) -> int:
    """Make the plan and show it; returns 1 where there is no usable plan."""
    console = Console()
    planner = settings.models.candidates(PLAN)[0].name
    if planner != "offline" and not as_json:
        console.print(Text(f"asking {plain(planner)} for the data plan; this costs the planner's call"),
                      soft_wrap=True)
    try:
        found = dry_run(idea, settings)
    except PlanError as error:
        say(str(error))
        return FAILED
    except ModelUnavailable as error:  # there is no run that could be resumed
        why = str(error).replace("; resume later", "")
        say(f"the planner did not answer, no run was made: {why}; look at it with: scientist doctor --model MODEL")
        return FAILED
    if as_json:
        print(found.model_dump_json(indent=1))
        return DONE
    console.print(*lines(found), sep="\n", soft_wrap=True, highlight=False)
    return DONE


def lines(found: DryRun) -> list[Text]:
    """Plan and forecast as a page of text."""
    text = [Text(plain(found.title), style="bold"), *_plan(found.data_plan)]
    text += [line for one in found.datasets for line in _dataset(one)]
    text.append(_row("expected", f"{duration(found.data_plan.expected_seconds)} for one experiment "
                                 "(all conditions, all datasets)"))
    for untested in found.data_plan.untested:
        text.append(_row("not tested", untested))
    if found.data_plan.notes:
        text.append(_row("notes", found.data_plan.notes))
    text.append(Text("what a run would take, as it is likely to go and at most", style="bold"))
    text += _forecast(found, found.forecast)
    spent = found.planned
    price = "price unknown" if spent.usd is None else dollars(spent.usd, 0)
    took = f"{count(spent.input_tokens)} tokens in, {count(spent.output_tokens)} out, {price}"
    asked = f"{spent.calls} planner call{'s' * (spent.calls != 1)}"
    text.append(Text(f"this dry run took {asked}: {took}. No run was made.", style="dim"))
    return text


def _plan(plan: DataPlan) -> list[Text]:
    metrics = [f"{one.name} ({'higher' if one.higher_is_better else 'lower'} is better"
               f"{', selects' if one is plan.primary else ''})" for one in plan.metrics]
    rows = [_row("task", plan.task), _row("metrics", ", ".join(metrics))]
    rows += [_row(arm.role, ": ".join(filter(None, (arm.name, arm.description or arm.title)))) for arm in plan.arms]
    if plan.levels:
        rows.append(_row("levels", f"{plan.factor}: " + ", ".join(level.name for level in plan.levels)))
    shown = ", ".join(plan.conditions[:MOST_NAMED]) + (", ..." if len(plan.conditions) > MOST_NAMED else "")
    rows.append(_row("conditions", f"{len(plan.conditions)} ({shown})"))
    return rows + [_row("dataset", f"{use.name}{': ' if use.reason else ''}{use.reason}") for use in plan.datasets]


def _dataset(one: DatasetFacts) -> list[Text]:
    counted = ", ".join(f"{rows} {where}" for where, rows in one.duplicates_by.items() if rows)
    twins = f"duplicates: {counted}" if counted else "no duplicates"
    if one.duplicates:
        twins = (f"{one.duplicates} examples of validation and test also stand in train"
                 + (f" (duplicates: {counted})" if counted else ""))
    sizes = ", ".join(f"{split} {size}" for split, size in one.sizes.items())
    kind = f"{one.classes} classes" if one.classes else one.task or "regression"
    rule = f"; {one.split_rule}" if one.split_rule else ""
    rows = [_row("splits", f"{one.name} ({one.source}; {one.features} features, {kind}): {sizes}; {twins}{rule}")]
    if one.missing:
        gaps = [f"{name} {number}" for name, number in one.missing.items()]
        rows.append(_row("missing", ", ".join(gaps[:MOST_NAMED]) + (", ..." if len(gaps) > MOST_NAMED else "")))
    return rows + [_row("warning", warning) for warning in one.warnings]


def _forecast(found: DryRun, cast: Forecast) -> list[Text]:
    roles = ", ".join(f"{one.role} {one.likely}-{one.most}" for one in cast.calls)
    calls = Amount(likely=sum(one.likely for one in cast.calls), most=sum(one.most for one in cast.calls))
    into, out = cast.input_tokens, cast.output_tokens
    wall = Amount(likely=cast.code_hours.likely / found.workers, most=cast.code_hours.most / found.workers)
    unused = " (with a language model; offline: none)" if found.model == "offline" else ""
    tokens = f"{_pair(into, _count)} in, {_pair(out, _count)} out{unused}"
    usd = "unknown: the model has no listed price" if cast.usd is None else _pair(cast.usd, lambda v: f"${v:.2f}")
    gpu = "none (experiments run on the CPU)" if cast.gpu_hours is None else _pair(cast.gpu_hours, _hours)
    return [
        _row("experiments", f"{_pair(cast.experiments, _count)} executions of code, replicates included"),
        _row("calls", f"{_pair(calls, _count)} ({roles})"), _row("tokens", tokens), _row("USD", usd),
        _row("code", f"{_pair(cast.code_hours, _hours)}; {_pair(wall, _hours)} of wall clock on "
                     f"{found.workers} worker{'s' * (found.workers != 1)}; the run's time limit is "
                     f"{_hours(found.time_limit / 3600)}"),
        _row("GPU-hours", gpu), _row("disk", _pair(cast.disk_gb, lambda v: f"{v:.2f} GB"))]


def _pair(amount: Amount, form: Callable[[float], str]) -> str:
    return f"{form(amount.likely)}, at most {form(amount.most)}"


def _hours(hours: float) -> str:
    return duration(hours * 3600)


def _count(number: float) -> str:
    return count(round(number))


def _row(name: str, value: str) -> Text:
    return Text(f"{name:<12}", style="cyan") + Text(plain(value))
