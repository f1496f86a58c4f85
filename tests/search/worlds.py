"""A scripted world for the search: what comes of a node is a function of its decision, not of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from record.events import Decided, Executed, Judged, Prepared, Proposed, Settled, Started
from record.fold import node_id
from record.log import MemoryLog
from record.nouns import (
    STAGES,
    Arm,
    Attempt,
    DataPlan,
    DatasetUse,
    Expand,
    Failure,
    Idea,
    Measurement,
    MetricSpec,
    Seen,
    StageName,
)
from search.policy import BestFirst
from search.scheduler import Freed, Scheduler
from search.settings import SearchSettings, StageLimits
from search.tree import view_of

PLAN = DataPlan(
    task="t", datasets=(DatasetUse(name="digits"),), expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")))
IDEA = Idea.model_validate({
    "Name": "x", "Title": "X", "Experiments": ["one", "two"], "Risk Factors and Limitations": ["r"]})


def settings(**changes: object) -> SearchSettings:
    small = {
        "preliminary": StageLimits(nodes=8), "tuning": StageLimits(nodes=4), "agenda": StageLimits(nodes=4),
        "ablation": StageLimits(nodes=3), "num_drafts": 3, "num_seeds": 2, "order": "ticket", "window": 6}
    return SearchSettings.model_validate(small | changes)


def new_log(seed: int = 0) -> MemoryLog:
    log = MemoryLog([Started(idea=IDEA, settings={}, seed=seed, version="0", model="scripted")])
    log.append(Prepared(data_plan=PLAN, datasets=()))
    return log


class World:
    """Expands nodes: each is good or buggy, and measures, by chance drawn from its action alone."""

    def __init__(self, log: MemoryLog, *, buggy: float = 0.3, delay: Callable[[int], float] = lambda k: 0.0) -> None:
        self.log, self.buggy, self.delay = log, buggy, delay
        self.running: set[str] = set()
        self.places_used = 0
        self.started: list[int] = []

    async def expand(self, decided: Decided, freed: Freed) -> None:
        assert isinstance(decided.action, Expand)
        node = node_id(decided.k)
        assert node not in self.running, f"{node} is expanded twice at once"
        self.running.add(node)
        self.started.append(decided.k)
        self.places_used = max(self.places_used, len(self.running))
        try:
            await asyncio.sleep(self.delay(decided.k))
            self.running.discard(node)
            freed()
            await asyncio.sleep(self.delay(decided.k) / 4)
            self._finish(node, decided.k, decided.action)
        finally:
            self.running.discard(node)

    def _finish(self, node: str, k: int, action: Expand) -> None:
        rng = Random(f"{k}/{action}")
        if action.kind not in ("replicate", "aggregate") and rng.random() < self.buggy:
            failure = Failure(kind="other", message=f"error {rng.randrange(1000)}")
            self.log.append(Judged(node=node, status="buggy", failure=failure))
            return
        self.log.append(Proposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
        values = tuple(Measurement(name="log_loss", value=rng.random(), condition=arm.name, dataset="digits",
                                   split="validation", seed=action.seed, grade="computed") for arm in PLAN.arms)
        self.log.append(Executed(node=node, attempt=Attempt(number=1, seconds=1, measurements=values, converged=True)))
        self.log.append(Judged(node=node, status="good"))


async def search(log: MemoryLog, world: World, given: SearchSettings, stages: tuple[StageName, ...] = STAGES) -> None:
    """Run the stages that are not settled yet, the way `stages.stage` does."""
    for stage in stages:
        if log.state.stages[stage].settled:
            continue
        scheduler = Scheduler(
            recorder=log, policy=BestFirst(given), expand=world.expand, settings=given, stage=stage)
        end = await scheduler.run()
        assert end is not None
        view = view_of(log.state, stage, Seen(through=log.state.last_decision))
        log.append(Settled(stage=stage, best=view.best.id if view.best else None, ended=end.reason))
        if view.best is None:
            return


def tree(log: MemoryLog) -> list[tuple[object, ...]]:
    """The tree as it compares: everything but the order of events."""
    return [(node.id, node.parent, node.stage, node.kind, node.seed, node.status, node.measurements)
            for node in log.state.nodes.values()]
