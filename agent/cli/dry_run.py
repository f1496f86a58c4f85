"""`scientist run --dry-run`: make the data plan of an idea as a run would, and forecast that run.

The planner and the reviewer are called, which is billed; datasets are split, so that sizes and duplicates are exact.
Everything is written to a temporary folder that is removed. No catalogue is queried for prior work: only the user's own
documents are read.

Limits: a run may make a different plan, since the model may answer differently.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.errors import (
    DONE,
    FAILED,
    WRONG_USE,
    check_output,
    format_block,
    format_line,
    print_lines,
    print_result,
    print_to_stderr,
)
from labwright.agent.data import list_sources
from labwright.agent.environment import describe_reviewer, measure_machine_rate
from labwright.agent.forecast import Amount, Forecast, forecast_run, open_model
from labwright.agent.plan_files import find_review_path, plan_to_yaml
from labwright.agent.repository_setup import copy_repository
from labwright.agent.settings import Settings, override_settings
from labwright.inspector.safe_text import format_count, format_dollars, format_duration
from labwright.models.errors import ModelUnavailable
from labwright.models.roles.study_plan import PLAN, REPOSITORY_PLAN
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog
from labwright.record.events.paper_events import PriorWorkRead
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import ProtocolReviewed
from labwright.record.reducers.run_state import RoleUsage, RunState
from labwright.record.run_folder import RunFolder, write_file
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, HubItem
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import InstalledPackages
from labwright.record.table import format_quantity
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.hub import HubOffers
from labwright.sandbox.packages import RunPackages
from labwright.sandbox.repository.environment import StudyRepository
from labwright.sandbox.repository.git_mirror import open_mirror
from labwright.sandbox.scorers import parse_scorers
from labwright.search.design_forecast import forecast_design
from labwright.stages.data_planning import PlanError, plan_data
from labwright.stages.run_context import RunContext
from labwright.stages.user_documents import copy_documents

MAX_NAMES_SHOWN = 12


class DryRun(FrozenModel):
    """A data plan, facts about its datasets, the cost of making the plan, and a forecast of the run."""

    idea: str
    title: str
    model: str
    workers: int
    device: str
    time_limit: float
    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    installed: InstalledPackages | None = None
    hub: tuple[HubItem, ...] = ()
    prior_work: PriorWorkRead | None = None
    protocol: ProtocolReviewed | None = None
    hours: tuple[str, ...] = ()
    """What the plan can decide in the hours of a run, in lines."""
    planned: RoleUsage
    """The model calls of this dry run."""
    reviewer: str = ""
    """The model of the roles that judge, in one line."""
    forecast: Forecast
    effort: str


def show_plan(
    idea: Idea,
    settings: Settings,
    *,
    plan: DataPlan | None = None,
    review: ProtocolReviewed | None = None,
    out: Path | None = None,
    json: bool,
) -> int:
    """Make or load the plan, show it, and write it to `out`, with its review. Returns 2 if there is no usable plan.

    `review`: an earlier review of the given plan, which is not repeated.

    Raises: `ModelError`, `DatasetError`, `UsageError`.
    """
    role = PLAN if settings.code.repository is None else REPOSITORY_PLAN
    planner = settings.models.list_candidates(role)[0].name
    if out is not None:
        check_output(out)
        if out.exists():
            raise UsageError(f"{out} already exists: choose another --out")
    if planner != "offline" and not json and plan is None:
        print_lines([format_line(f"requesting a plan and a review from {planner} (billed)")])
    try:
        with tempfile.TemporaryDirectory(prefix="scientist-dry-run-") as folder:
            state = asyncio.run(_prepare_run(idea, settings, RunFolder(Path(folder) / "run"), plan, review))
    except PlanError as error:
        print_to_stderr(str(error))
        return WRONG_USE
    except ModelUnavailable as error:  # a dry run cannot be resumed
        why = str(error).replace("; resume later", "")
        print_to_stderr(f"the planner is unavailable: {why}; check it with: scientist doctor --model MODEL")
        return FAILED
    assert state.search.data_plan is not None
    effective = override_settings(settings.model_dump(mode="json"), state.overrides)
    dry_run = DryRun(
        idea=idea.name,
        title=idea.title,
        model=settings.models.model_names,
        workers=settings.search.num_workers,
        device=settings.sandbox.device,
        time_limit=settings.time_limit,
        data_plan=state.search.data_plan,
        datasets=state.search.datasets,
        installed=state.search.installed_packages,
        hub=state.search.hub_items,
        prior_work=state.paper.prior_work,
        protocol=state.search.protocol_review,
        hours=forecast_design(
            state.search.data_plan,
            None,
            settings.search,
            settings.time_limit,
            sizes={one.name: one.sizes for one in state.search.datasets},
        ).lines,
        reviewer=describe_reviewer(settings.models),
        forecast=forecast_run(state.search.data_plan, state.search.datasets, effective),
        effort=settings.effort,
        planned=state.calls.total_usage,
    )
    if out is not None:
        write_file(out, plan_to_yaml(state.search.data_plan))
        if state.search.protocol_review is not None and not state.search.protocol_review.why:
            write_file(find_review_path(out), state.search.protocol_review.model_dump_json(indent=1))
    print_result(dry_run, format_dry_run(dry_run), json=json)
    if out is not None and not json:
        print_to_stderr(f"plan written to {out}: edit it if needed, then run it with --plan {out}")
    return DONE


async def _prepare_run(
    idea: Idea, settings: Settings, folder: RunFolder, plan: DataPlan | None, review: ProtocolReviewed | None
) -> RunState:
    """Return the state of a run right after its first step."""
    folder.create_folders()
    settings = copy_repository(settings, folder)
    code = settings.code
    if settings.context is not None:
        copy_documents(settings.context, folder.context)
    log = MemoryLog()
    started = RunStarted(
        idea=idea,
        settings=settings.model_copy(update={"gates": ()}).model_dump(mode="json"),
        seed=settings.seed,
        version=version("labwright"),
        model=settings.models.model_names,
        plan=plan,
        review=review,
        rate=measure_machine_rate(settings.sandbox, at_once=settings.search.num_workers),
    )
    log.append(started)
    executor = LocalExecutor(1, folder.views, labels=folder.labels, settings=settings.sandbox, cache=folder.cache)
    try:
        await plan_data(
            RunContext(
                recorder=log,
                folder=folder,
                executor=executor,
                search=settings.search,
                paper=settings.paper,
                models=open_model(settings.models, log),
                repository=None if code.repository is None else StudyRepository(code, open_mirror(folder)),
                run_packages=RunPackages(settings.sandbox),
                hub=HubOffers(settings.sandbox),
                subjects=settings.subjects,
                node_seconds=settings.sandbox.timeout,
                run_seconds=settings.time_limit,
                device=executor.device,
                memory=settings.memory,
                sources=list_sources(settings),
                scorers=parse_scorers(list_sources(settings), settings.sandbox.scorers),
            )
        )
    finally:
        await executor.close()
    return log.state


def format_dry_run(dry_run: DryRun) -> Iterator[Text]:
    """Format the plan as the YAML that `--out` writes, then what is known about it and the forecast."""
    plan, spent, added = dry_run.data_plan, dry_run.planned, dry_run.installed
    yield format_line(dry_run.title, "bold")
    yield from format_block(plan_to_yaml(plan))
    rows = (
        *(row for one in dry_run.datasets for row in list_dataset_rows(one)),
        ("packages", f"{added}: {added.bytes / 1e6:.1f} MB, installed" if added and added.packages else ""),
        *(("hub", str(one)) for one in dry_run.hub),
        ("expected", f"{format_duration(plan.expected_seconds)} for one experiment (all conditions, all datasets)"),
        *(("can decide", line) for line in dry_run.hours),
        *_review_rows(dry_run),
    )
    yield from (_format_row(name, value) for name, value in rows if value)
    yield Text("estimated cost: likely / maximum", style="bold")
    yield from (_format_row(name, value) for name, value in _forecast_rows(dry_run))
    tokens = f"{format_count(spent.input_tokens)} tokens in, {format_count(spent.output_tokens)} out"
    calls, price = format_quantity(spent.calls, "model call"), format_dollars(spent.usd, spent.unpriced)
    yield Text(f"this dry run made {calls}: {tokens}, {price}", style="dim")


def _review_rows(dry_run: DryRun) -> Iterator[tuple[str, str]]:
    papers = dry_run.prior_work.papers if dry_run.prior_work is not None else ()
    for one in papers:
        yield "prior work", f"{one.title}: {', '.join(use.name for use in one.uses) or 'nothing found in it'}"
    if not papers:
        yield "prior work", "not read"
    if dry_run.protocol is not None:
        yield "review", dry_run.protocol.message
        yield from (("open" if one.open else "answered", one.summary_line) for one in dry_run.protocol.findings)


def list_dataset_rows(facts: DatasetFacts) -> Iterator[tuple[str, str]]:
    """Yield labels and texts on the splits of a dataset, its missing values, and warnings."""
    sizes = ", ".join(f"{split} {size}" for split, size in facts.sizes.items())
    kind = f"{facts.classes} classes" if facts.classes else facts.task or "regression"
    also = [f"{facts.duplicates} of validation and test also in train"] if facts.duplicates else []
    twins = ", ".join([*also, *(f"{rows} {where}" for where, rows in facts.duplicates_by.items() if rows)]) or "none"
    rule = f"; {facts.split_rule}" if facts.split_rule else ""
    about = f"{facts.name} ({facts.source}; {facts.features} features, {kind})"
    yield "splits", f"{about}: {sizes}; duplicates: {twins}{rule}"
    missing = [f"{name} {number}" for name, number in facts.missing.items()]
    yield "missing", ", ".join(missing[:MAX_NAMES_SHOWN]) + ", ..." * (len(missing) > MAX_NAMES_SHOWN)
    yield from (("warning", warning) for warning in facts.warnings)


def _forecast_rows(dry_run: DryRun) -> Iterator[tuple[str, str]]:
    cast, workers = dry_run.forecast, dry_run.workers
    calls = Amount(likely=sum(one.likely for one in cast.calls), most=sum(one.most for one in cast.calls))
    wall = Amount(likely=cast.code_hours.likely / workers, most=cast.code_hours.most / workers)

    def pair(amount: Amount, form: Callable[[float], str]) -> str:
        return f"{form(amount.likely)}, at most {form(amount.most)}"

    def whole(number: float) -> str:
        return format_count(round(number))

    def hours(number: float) -> str:
        return format_duration(number * 3600)

    yield "experiments", f"{pair(cast.experiments, whole)} executions of code, replicates included"
    yield "calls", f"{pair(calls, whole)} ({', '.join(f'{one.role} {one.likely}-{one.most}' for one in cast.calls)})"
    unused = " (with a language model; offline: none)" if dry_run.model == "offline" else ""
    yield "tokens", f"{pair(cast.input_tokens, whole)} in, {pair(cast.output_tokens, whole)} out{unused}"
    for one in cast.phases:
        usd = "price unknown" if one.usd is None else pair(one.usd, lambda v: f"${v:.2f}")
        yield f"  {one.phase} ", f"{pair(one.calls, whole)} calls, {usd}"
    if dry_run.reviewer:
        yield "reviewer", dry_run.reviewer
    yield "USD", "unknown: the model has no listed price" if cast.usd is None else pair(cast.usd, lambda v: f"${v:.2f}")
    limit = f"the run's time limit is {format_duration(dry_run.time_limit)}"
    clock = f"{pair(wall, hours)} wall clock on {format_quantity(workers, 'worker')}"
    yield "code", f"{pair(cast.code_hours, hours)}; {clock}; {limit}"
    gpus = cast.gpu_hours
    yield "GPU-hours", "none (experiments run on the CPU)" if gpus is None else pair(gpus, hours)
    yield "disk", pair(cast.disk_gb, lambda v: f"{v:.2f} GB")


def _format_row(name: str, value: str) -> Text:
    return format_line(value, "cyan", label=f"{name:<12}")
