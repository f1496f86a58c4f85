"""Ideation from a topic to idea files: creates the folder, holds the lock and keeps the budget.

The log is next to `ideas.json`; commands for runs ignore the folder. Repeating the same task resumes it.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from labwright.agent.data import list_sources
from labwright.agent.environment import describe_machine, find_devices, list_packages, measure_machine_rate
from labwright.agent.forecast import check_prices_known, open_budgeted_models
from labwright.agent.settings import Settings, read_credentials
from labwright.literature.lookup import open_literature
from labwright.models.errors import CatalogueError, ModelConfigError
from labwright.models.retry import open_backend
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, EventLog, is_study, read_events
from labwright.record.events.paper_events import IdeationStarted
from labwright.record.events.search_events import TaskDone
from labwright.record.ideation import AvailableResources, FollowedStudy
from labwright.record.line_store import EVENTS_FILE
from labwright.record.llm_calls import store_prompt
from labwright.record.lock import acquire_lock, is_unused
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import STAGES
from labwright.sandbox.datasets import list_choices
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.packages import RunPackages
from labwright.stages.document_summaries import digest_documents
from labwright.stages.ideation.idea_drafting import IdeationContext
from labwright.stages.ideation.ideation_steps import WriteUpStep, build_idea_work, find_ideas, write_up
from labwright.stages.prompt_inputs import recall_studies
from labwright.stages.run_context import decision_number
from labwright.stages.user_documents import copy_documents, read_copies

HUB_ADDRESS = ("huggingface.co", 443)
HUB_WAIT_SECONDS = 5.0
"""Seconds within which the Hub must accept a connection to count as reachable."""


@dataclass(frozen=True)
class IdeaTask:
    """The options of an ideation. `name` is the name of the topic file."""

    topic: str
    sha256: str
    name: str
    count: int
    rounds: int
    steps: tuple[WriteUpStep, ...]
    context: Path | None = None
    study: FollowedStudy | None = None


def ideate(task: IdeaTask, settings: Settings, folder: Path, *, listener: EventListener) -> RunState:
    """Complete a task in a folder and return the state of its log.

    Raises: `UsageError`, `ModelError` (including `BudgetSpent`), `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_prices_known(settings)
    if settings.memory is not None and settings.memory.exists() and not settings.memory.is_dir():
        raise UsageError(f"--memory {settings.memory} is a file: give a folder")
    made = not folder.exists()
    if not made and not is_study(folder, "ideation") and not is_unused(folder):
        raise UsageError(f"{folder} is not empty and is not an ideation: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with acquire_lock(folder), closing(EventLog(folder / EVENTS_FILE, kind="ideation", listener=listener)) as log:
            asyncio.run(_ideate(task, settings, log))
            return log.state
    except (ModelConfigError, CatalogueError):
        state = fold_events(read_events(folder / EVENTS_FILE))
        if made and not state.calls.answers:  # billed answers are kept for resuming
            shutil.rmtree(folder)
        raise


async def _ideate(task: IdeaTask, settings: Settings, log: EventLog) -> None:
    await _record_start(task, settings, log)
    folder = log.path.parent
    models = open_budgeted_models(settings, log, partial(store_prompt, folder))
    async with open_literature(settings.literature, read_credentials()) as literature:
        study = IdeationContext(recorder=log, models=models, literature=literature, folder=folder)
        if task.context is not None:
            copy_documents(task.context, folder / "context")
        copies, refused = read_copies(folder / "context")
        # documents are summarised once, before the first idea
        if study.state.paper.context is None and (copies or refused):
            k = decision_number(study.recorder, RunTask(task="context"))
            log.append(await digest_documents(models.make_client(k, 0), copies, refused))
            log.append(TaskDone(k=k))
        recall_studies(log, settings.memory, task.topic)
        await find_ideas(study, task.count)
        if task.steps != ("idea",):
            await write_up(study, task.steps)


async def _record_start(task: IdeaTask, settings: Settings, log: EventLog) -> None:
    began = log.state.ideation.started
    has_begun = build_idea_work(1) in [one.action for one in log.state.decisions.values()]
    if began is None:
        means = find_resources(settings, fetching=bool(settings.literature.sources) and await reaches_hub())
        log.append(
            IdeationStarted(
                topic=task.topic,
                sha256=task.sha256,
                means=means,
                study=task.study,
                rounds=task.rounds,
                version=version("labwright"),
                model=settings.models.model_names,
            )
        )
    elif began.sha256 != task.sha256:
        raise UsageError(f"{log.path.parent} has ideas for another topic: choose another --out")
    elif task.context is not None and log.state.paper.context is None and has_begun:
        raise UsageError(f"{log.path.parent} was started without documents: choose another --out for --context")


# --- the machine ----------------------------------------------------------------------------------------------------


def find_resources(settings: Settings, *, fetching: bool) -> AvailableResources:
    """Describe the data, packages and hardware available to a run with these settings. `fetching` says whether the Hub
    is reachable."""
    sandbox, machine = settings.sandbox, describe_machine(settings.sandbox)
    entries = list_choices(list_sources(settings), seed=settings.seed)
    described = (
        f"{one.name}: {one.title}; {one.example_count} examples, {one.features} features, "
        f"{f'{one.classes} classes' if one.classes else 'regression'}"
        for one in entries
    )
    gpu_memory = min((one.memory_bytes for one in find_devices(sandbox)), default=0)
    return AvailableResources(
        **machine.model_dump(include={"processor", "cores", "gpus"}),
        memory_gb=round(machine.memory_bytes / 1e9, 1),
        gpu_memory_gb=round(gpu_memory / 1e9, 1),
        hours=settings.time_limit / 3600,
        node_hours=sandbox.timeout / 3600,
        workers=settings.search.num_workers,
        rate=measure_machine_rate(sandbox, at_once=settings.search.num_workers),
        packages=list_packages(sandbox.python),
        datasets=tuple(one.name for one in entries),
        own=tuple(one.name for one in settings.data),
        installable=(*sandbox.packages, *RunPackages(sandbox).names),
        pretrained=sandbox.pretrained,
        described=tuple(described),
        metrics=tuple(METRICS),
        experiments=sum(settings.search.find_limits(stage).nodes for stage in STAGES),
        network=sandbox.network == "on",
        fetching=fetching,
    )


async def reaches_hub(address: tuple[str, int] = HUB_ADDRESS, *, limit: float = HUB_WAIT_SECONDS) -> bool:
    """Check whether the Hub accepts a connection within `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            _, writer = await asyncio.open_connection(*address, family=socket.AF_UNSPEC)
    except OSError:  # includes TimeoutError
        return False
    writer.close()
    return True
