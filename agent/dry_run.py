"""The data plan of an idea, made as a run would make it, and what that run would take; no run is left behind.

The planner is really asked, which costs its call; the datasets are really cut, so that sizes and duplicates are facts.
Everything is written to a temporary folder that is removed. Not guaranteed: that a run makes the same plan again; a
model's second answer may differ.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from agent.data import sources_of
from agent.environment import rate_of
from agent.forecast import Amount, Forecast, Shape, forecast
from agent.settings import Settings
from models import prices
from models.client import Models
from models.failover import open_backend
from models.roles import ROLES
from record.events.running import Started
from record.fold.state import RunState
from record.folder import RunFolder
from record.log import MemoryLog
from record.nouns.data import DataPlan, DatasetFacts
from record.nouns.decisions import Usage
from record.nouns.frozen import Frozen
from record.nouns.idea import Idea
from sandbox.executor import LocalExecutor
from sandbox.scorers import scorers_of
from stages.bench import Bench
from stages.documents import keep
from stages.prepare import prepare


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
    shape = Shape(plan=state.data_plan, datasets=state.datasets, search=settings.search, paper=settings.writing,
                  device=settings.sandbox.device, node_seconds=settings.sandbox.timeout, time_limit=settings.time_limit)
    return DryRun(
        idea=idea.name, title=idea.title, model=settings.models.called, workers=settings.search.num_workers,
        device=settings.sandbox.device, time_limit=settings.time_limit, data_plan=state.data_plan,
        datasets=state.datasets, forecast=priced(forecast(shape), settings),
        planned=Planned(calls=total.calls, input_tokens=total.input_tokens, output_tokens=total.output_tokens,
                        usd=None if total.unpriced and settings.models.called != "offline" else total.usd))


def priced(found: Forecast, settings: Settings) -> Forecast:
    """A forecast with its USD, where the prices of all models are known.

    At most: every call is answered by the dearest model that may play its role.
    """
    likely, most = 0.0, 0.0
    for line in found.calls:
        role = ROLES[line.role]
        into, out = role.usual
        used = Usage(input_tokens=into, output_tokens=out)
        costs = [prices.usd(one, used) for one in settings.models.candidates(role)]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return found
        likely += line.likely * known[0] if known else 0.0
        most += line.most * max(known, default=0.0)
    return found.model_copy(update={"usd": Amount(likely=likely, most=most)})


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
