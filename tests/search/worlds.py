"""A scripted world for the search: what comes of a node is a function of its decision, not of time."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from functools import cache
from random import Random

from labwright.record.events.running import Started
from labwright.record.events.searching import (
    CellExecuted,
    CellsOwed,
    Compared,
    Decided,
    Executed,
    Judged,
    Prepared,
    Proposed,
    Settled,
    WorkDone,
)
from labwright.record.fold.state import RunState
from labwright.record.log import MemoryLog
from labwright.record.nouns.cells import Cell
from labwright.record.nouns.data import Arm, DataPlan, DatasetUse, Measurement, MetricSpec
from labwright.record.nouns.decisions import Compare, End, Expand
from labwright.record.nouns.idea import Idea
from labwright.record.nouns.nodes import STAGES, Attempt, CellRun, Failure, StageName, node_id
from labwright.record.nouns.tuning import Hyperparameter, Setting, Tuning
from labwright.record.tuning import cells_of_trial
from labwright.search.limits import Limits
from labwright.search.policy import policy_of
from labwright.search.replication import as_left, lock_of, unsettled
from labwright.search.scheduler import Freed, Scheduler
from labwright.search.settings import SearchSettings, StageLimits
from tests.search import virtual_time

PLAN = DataPlan(
    task="t",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
    space=(
        Hyperparameter(name="rate", kind="log", low=1e-4, high=1, default=0.001, source="practice"),
        Hyperparameter(name="depth", kind="integer", low=1, high=9, default=2, source="practice", arms=("method",)),
    ),
    tuning=Tuning(budget=6, sampler="random"),
)
IDEA = Idea.model_validate(
    {"Name": "x", "Title": "X", "Experiments": ["one", "two"], "Risk Factors and Limitations": ["r"]}
)


def settings(**changes: object) -> SearchSettings:
    small = {
        "preliminary": StageLimits(nodes=8),
        "tuning": StageLimits(nodes=4),
        "agenda": StageLimits(nodes=4),
        "ablation": StageLimits(nodes=3),
        "num_drafts": 3,
        "num_seeds": 2,
        "max_seeds": 2,
        "order": "ticket",
        "window": 6,
    }
    return SearchSettings.model_validate(small | changes)


def new_log(seed: int = 0, *, plan: DataPlan = PLAN) -> MemoryLog:
    """A record that has begun, on the clock of the running loop."""
    log = MemoryLog([Started(idea=IDEA, settings={}, seed=seed, version="0", model="scripted")], clock=_clock)
    log.append(Prepared(data_plan=plan, datasets=()))
    return log


def _clock() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


class World:
    """Expands nodes: each is good or buggy, and measures, by chance drawn from its action alone."""

    by_setting = False
    """Whether all nodes measure what their settings come to, and not what chance has it."""

    def __init__(
        self, log: MemoryLog, *, buggy: float = 0.3, delay: Callable[[int], float] = lambda k: 0.0, seconds: float = 1.0
    ) -> None:
        self.log, self.buggy, self.delay, self.seconds = log, buggy, delay, seconds
        self.running: set[str] = set()
        self.places_used = 0
        self.started: list[int] = []

    async def perform(self, decided: Decided, freed: Freed) -> None:
        if not isinstance(decided.action, Expand):
            await asyncio.sleep(self.delay(decided.k))
            self._answer(decided)
            return
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
            self.finish(node, decided.k, decided.action)
        finally:
            self.running.discard(node)

    def measured(self, action: Expand, rng: Random) -> tuple[Measurement, ...]:
        """What a node that works measures."""
        return tuple(
            Measurement(
                name="log_loss",
                value=rng.random(),
                condition=arm.name,
                dataset="digits",
                split="validation",
                seed=action.seed,
                grade="computed",
            )
            for arm in PLAN.arms
        )

    def _answer(self, decided: Decided) -> None:
        if isinstance(decided.action, Compare):
            a, b = decided.action.a, decided.action.b
            self.log.append(Compared(k=decided.k, a=a, b=b, better=Random(f"{a}/{b}").choice((a, b, None))))
        else:
            self.log.append(WorkDone(k=decided.k))

    def value(self, arm: str, setting: Setting) -> float:
        """What a trial measures: the better, the nearer its rate is to 0.01."""
        return (math.log10(float(setting["rate"])) + 2) ** 2 / 8

    def seconds_of(self, arm: str) -> float:
        """What a cell of an arm takes."""
        return self.seconds

    def finish(self, node: str, k: int, action: Expand) -> None:
        """Append what came of a node."""
        rng = Random(f"{k}/{action}".replace(" mends=()", "").replace(" trials=()", "").replace(" arm=''", ""))
        if action.kind not in ("replicate", "aggregate", "trial", "tune") and rng.random() < self.buggy:
            name = "".join("abcdefghij"[int(digit)] for digit in str(rng.randrange(1000)))
            failure = Failure(kind="other", message=f"error {name}")
            self.log.append(Proposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
            self.log.append(Judged(node=node, status="buggy", failure=failure))
            return
        self.log.append(Proposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
        values = () if action.kind in ("trial", "aggregate") else self.measured(action, rng)
        self._measure_cells(node, action, {one.arm: one.value for one in values})
        self.log.append(Executed(node=node, attempt=Attempt(number=1, seconds=self.seconds, measurements=values)))
        self.log.append(Judged(node=node, status="good"))

    def _measure_cells(self, node: str, action: Expand, values: dict[str, float]) -> None:
        """Append what the cells of a node came to."""
        trials = self.log.state.nodes[node].trials
        cells = [
            cell
            for one in action.trials
            if action.kind == "trial"
            for cell in cells_of_trial(PLAN, one.arm, seed=action.seed, number=one.number, share=one.share)
        ] or [Cell(dataset="digits", arm=arm, trial=trials.get(arm, 0), seed=action.seed) for arm in values]
        known = self.log.state.owed.get(action.parent or "")
        repeats = known is not None and action.kind in ("trial", "tune", "replicate")
        code = known.code["method"] if known is not None and repeats else f"{node}'s"
        if not cells:
            return
        keys = tuple(hashlib.sha256(f"{node}/{cell}".encode()).hexdigest() for cell in cells)
        self.log.append(
            CellsOwed(node=node, cells=tuple(cells), keys=keys, code=dict.fromkeys(("baseline", "method"), code))
        )
        for cell, key in zip(cells, keys, strict=True):
            setting = self.log.state.setting_of(cell.arm, cell.trial)
            value = self.value(cell.arm, setting) if self.by_setting or action.kind == "trial" else values[cell.arm]
            self.log.append(
                CellExecuted(
                    node=node,
                    run=CellRun(
                        id=f"{key[:24]}-0",
                        cell=cell,
                        key=key,
                        seconds=self.seconds_of(cell.arm),
                        measurements=(
                            Measurement(
                                name="log_loss",
                                value=value,
                                condition=cell.arm,
                                dataset="digits",
                                split="validation",
                                seed=action.seed,
                                grade="computed",
                            ),
                        ),
                    ),
                )
            )


async def search(
    log: MemoryLog,
    world: World,
    given: SearchSettings,
    stages: tuple[StageName, ...] = STAGES,
    *,
    limits: Limits | None = None,
) -> None:
    """Run the stages that are not settled yet, the way `stages.stage` does."""

    def settle() -> None:
        while (again := unsettled(log.state, given)) is not None:
            log.append(Settled(stage=again.stage, best=again.best.id if again.best else None, ended="again"))
        lock()

    def lock() -> None:
        if (event := lock_of(log.state, given)) is not None:
            log.append(event)

    scheduler = Scheduler(recorder=log, policy=policy_of(given), perform=world.perform, settings=given, settle=settle)
    for stage in stages:
        if log.state.stages[stage].settled:
            continue
        end = await scheduler.run(stage, limits)
        assert end is not None and isinstance(end.action, End)
        view = as_left(log.state, stage, given)
        assert view is not None
        log.append(Settled(stage=stage, best=view.best.id if view.best else None, ended=end.action.reason))
        lock()
        if not any(one.best for one in log.state.stages.values()):
            return


def tree(log: MemoryLog) -> list[tuple[object, ...]]:
    """The tree as it compares: everything but the order of events."""
    return [
        (node.id, node.parent, node.stage, node.kind, node.seed, node.status, node.measurements)
        for node in log.state.nodes.values()
    ]


def run(
    *,
    timing: int = 0,
    seed: int = 0,
    buggy: float = 0.3,
    world: type[World] = World,
    plan: DataPlan = PLAN,
    **changes: object,
) -> tuple[MemoryLog, World]:
    """A whole search in virtual time, its delays drawn from `timing`."""
    log, rng = new_log(seed, plan=plan), Random(timing)
    delays = [10 * rng.random() for _ in range(500)]
    made = world(log, buggy=buggy, delay=lambda k: delays[k])
    virtual_time.run(search(log, made, settings(**changes)))
    return log, made


@cache
def ended(*, timing: int = 0, order: str = "ticket", buggy: float = 0.3) -> MemoryLog:
    """What such a search left, made once: read it, and append to a log of your own."""
    return run(timing=timing, order=order, buggy=buggy)[0]


def stage_at(state: RunState, k: int) -> StageName:
    """The stage that was searched when decision k was made."""
    ends = {stage: end.k for stage in STAGES if (end := state.end_of(stage)) is not None}
    return next(stage for stage in STAGES if k <= ends.get(stage, k))
