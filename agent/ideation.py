"""One ideation from its topic to its files: makes the folder, holds the lock, keeps to the budget.

Its log is `ideas.db`, beside `ideas.json`; it is no run, and no command for runs takes it for one. The same order given
again goes on where it was left.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from labwright.agent.budget import check_priced, models_of
from labwright.agent.data import sources_of
from labwright.agent.environment import devices_of, machine_of, packages, rate_of
from labwright.agent.settings import Settings, credentials
from labwright.literature.lookup import open_literature
from labwright.models.errors import CatalogueError, ModelConfigError
from labwright.models.failover import open_backend
from labwright.record.errors import WrongUse
from labwright.record.events.papers import Conceived, Ideating
from labwright.record.events.searching import WorkDone
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.ideation import Means
from labwright.record.lock import hold, is_unused
from labwright.record.log import EventLog, Listener
from labwright.record.network import on_network
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.nodes import STAGES
from labwright.record.prompts import keep as keep_prompt
from labwright.record.reading import read_events
from labwright.sandbox.datasets import catalogue
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.packages.of_run import RunPackages
from labwright.stages.bench import numbered
from labwright.stages.digests import digest_all
from labwright.stages.documents import copies_in, keep
from labwright.stages.ideation.ideas import Step, Study, find_ideas, idea_work, write_up

LOG = "ideas.db"
HUB = ("huggingface.co", 443)
HUB_WAIT = 5.0
"""Seconds in which the hub has to take a connection, to count as reached."""


@dataclass(frozen=True)
class IdeaTask:
    """What ideas are wanted. `name` is that of the topic's file."""

    topic: str
    sha256: str
    name: str
    count: int
    rounds: int
    steps: tuple[Step, ...]
    context: Path | None = None


def ideate(
    order: IdeaTask, settings: Settings, folder: Path, *, on_idea: Callable[[int, Conceived], None], listener: Listener
) -> RunState:
    """Bring an order to its end in a folder; `on_idea` gets each idea, and those found before. Returns the state of
    the log.

    Raises: `WrongUse`, `ModelError` (`BudgetSpent` among them), `RecordError`, `RunLockedError`.
    """
    open_backend(settings.models)
    check_priced(settings)
    made = not folder.exists()
    if not made and not (folder / LOG).exists() and not is_unused(folder):
        raise WrongUse(f"{folder} is not empty and holds no ideation: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    if on_network(folder):
        raise WrongUse(f"{folder} lies on a network filesystem: give --out a folder on a local disk")
    try:
        with hold(folder), closing(EventLog(folder / LOG, listener=listener)) as log:
            asyncio.run(_work(order, settings, log, on_idea))
            return log.state
    except (ModelConfigError, CatalogueError):
        if made and not fold(read_events(folder / LOG)).answers:  # what was paid for is gone on with
            shutil.rmtree(folder)
        raise


async def _work(order: IdeaTask, settings: Settings, log: EventLog, on_idea: Callable[[int, Conceived], None]) -> None:
    await _begin(order, settings, log)
    folder = log.path.parent
    models = models_of(settings, log, partial(keep_prompt, folder))
    async with open_literature(settings.literature, credentials()) as literature:
        study = Study(recorder=log, models=models, literature=literature, folder=folder, on_idea=on_idea)
        if order.context is not None:
            keep(order.context, folder / "context")
        copies, refused = copies_in(folder / "context")
        if study.state.context is None and (copies or refused):  # documents are summarised once, before all ideas
            k = numbered(study.recorder, Work(task="context"))
            log.append(await digest_all(models.at(k, 0), copies, refused))
            log.append(WorkDone(k=k))
        await find_ideas(study, order.count)
        if order.steps != ("idea",):
            await write_up(study, order.steps)


async def _begin(order: IdeaTask, settings: Settings, log: EventLog) -> None:
    began = log.state.ideating
    if began is None:
        means = means_of(settings, fetching=bool(settings.literature.sources) and await reaches_hub())
        log.append(
            Ideating(
                topic=order.topic,
                sha256=order.sha256,
                means=means,
                rounds=order.rounds,
                version=version("labwright"),
                model=settings.models.called,
            )
        )
    elif began.sha256 != order.sha256:
        raise WrongUse(f"{log.path.parent} holds ideas for another topic: choose another --out")
    elif (
        order.context is not None
        and log.state.context is None
        and idea_work(1) in [one.action for one in log.state.decisions.values()]
    ):
        raise WrongUse(f"{log.path.parent} was begun without documents: choose another --out for --context")


# --- the machine ----------------------------------------------------------------------------------------------------


def means_of(settings: Settings, *, fetching: bool) -> Means:
    """What a run with these settings has at hand here. `fetching`: whether the hub is reached."""
    sandbox, machine = settings.sandbox, machine_of(settings.sandbox)
    entries = catalogue(sources_of(settings), seed=settings.seed)
    described = (
        f"{one.name}: {one.title}; {one.examples} examples, {one.features} features, "
        f"{f'{one.classes} classes' if one.classes else 'regression'}"
        for one in entries
    )
    gpu_memory = min((one.memory for one in devices_of(sandbox)), default=0)
    return Means(
        processor=machine.processor,
        cores=machine.cores,
        memory_gb=round(machine.memory_bytes / 1e9, 1),
        gpus=machine.gpus,
        gpu_memory_gb=round(gpu_memory / 1e9, 1),
        hours=settings.time_limit / 3600,
        node_hours=sandbox.timeout / 3600,
        workers=settings.search.num_workers,
        rate=rate_of(sandbox, at_once=settings.search.num_workers),
        packages=packages(sandbox.python),
        datasets=tuple(one.name for one in entries),
        own=tuple(one.name for one in settings.data),
        installable=(*sandbox.packages, *RunPackages(sandbox).names),
        pretrained=sandbox.pretrained,
        described=tuple(described),
        metrics=tuple(METRICS),
        experiments=sum(settings.search.limits(stage).nodes for stage in STAGES),
        network=sandbox.network == "on",
        fetching=fetching,
    )


async def reaches_hub(address: tuple[str, int] = HUB, *, limit: float = HUB_WAIT) -> bool:
    """Whether the hub takes a connection within `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            _, writer = await asyncio.open_connection(*address, family=socket.AF_UNSPEC)
    except OSError:  # TimeoutError among them
        return False
    writer.close()
    return True
