"""A scripted world for the search: what comes of a node is a function of its decision, not of time."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from functools import cache, partial
from random import Random

from labwright.record.event_log import MemoryLog, Recorder
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    LookTaken,
    NodeJudged,
    NodeProposed,
    NodesCompared,
    PlanPrepared,
    StageWinnerChosen,
    TaskDone,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    HyperparameterSetting,
    Measurement,
    MetricSpec,
    TuningPlan,
)
from labwright.record.schema.decisions import LOOK_TASKS, CompareNodes, EndStage, ExpandTree, SearchAction
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import STAGES, Attempt, Cell, CellRun, Failure, StageName, format_node_id
from labwright.record.tuning_results import list_trial_cells
from labwright.search.hours import (
    LimitHit,
    RunTime,
    TimeLimits,
    check_time,
    count_affordable_seeds,
    explain_sampling_end,
)
from labwright.search.policy import build_policy
from labwright.search.replication import build_lock, find_unsettled_stage, list_look_replicates, view_at_stage_end
from labwright.search.scheduler import ReleaseSlot, Scheduler
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import StageSnapshot
from tests.search import virtual_time

PLAN = DataPlan(
    task="t",
    objective="improve",
    datasets=(DatasetUse(name="digits"),),
    expected_seconds=1,
    metrics=(MetricSpec(name="log_loss", higher_is_better=False),),
    arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
    space=(
        Hyperparameter(name="rate", kind="log", low=1e-4, high=1, default=0.001, source="practice"),
        Hyperparameter(name="depth", kind="integer", low=1, high=9, default=2, source="practice", arms=("method",)),
    ),
    tuning=TuningPlan(budget=6, sampler="random"),
    open=("the model",),
)
IDEA = Idea.model_validate(
    {"Name": "x", "Title": "X", "Experiments": ["one", "two"], "Risk Factors and Limitations": ["r"]}
)


def make_settings(**changes: object) -> SearchSettings:
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
    log = MemoryLog([RunStarted(idea=IDEA, settings={}, seed=seed, version="0", model="scripted")], clock=_clock)
    log.append(PlanPrepared(data_plan=plan, datasets=()))
    return log


def _clock() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def measure(value: float, arm: str = "method", *, dataset: str = "digits", seed: int = 0) -> Measurement:
    """A loss on validation data."""
    return Measurement(
        name="log_loss", value=value, condition=arm, dataset=dataset, split="validation", seed=seed, grade="computed"
    )


class SearchWorld:
    """Expands nodes: each is good or buggy, and measures, by chance drawn from its action alone."""

    by_setting = False
    """Whether all nodes measure what their settings come to, and not what chance has it."""
    conclusive_look: int | None = None
    """The first look that decides every claim; None: none does."""
    settings = SearchSettings()
    run_seconds = math.inf

    def __init__(
        self, log: Recorder, *, buggy: float = 0.3, delay: Callable[[int], float] = lambda k: 0.0, seconds: float = 1.0
    ) -> None:
        self.log, self.buggy, self.delay, self.seconds = log, buggy, delay, seconds
        self.running: set[str] = set()
        self.places_used = 0
        self.started: list[int] = []

    async def perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        if not isinstance(decided.action, ExpandTree):
            await asyncio.sleep(self.delay(decided.k))
            self._answer(decided)
            return
        node = format_node_id(decided.k)
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

    def draw_measurements(self, action: ExpandTree, rng: Random) -> tuple[Measurement, ...]:
        """What a node that works measures."""
        return tuple(measure(rng.random(), arm.name, seed=action.seed) for arm in PLAN.arms)

    def _answer(self, decided: DecisionMade) -> None:
        if isinstance(decided.action, CompareNodes):
            a, b = decided.action.a, decided.action.b
            self.log.append(NodesCompared(k=decided.k, a=a, b=b, better=Random(f"{a}/{b}").choice((a, b, None))))
        else:
            if decided.action in LOOK_TASKS:
                self.take_look(LOOK_TASKS.index(decided.action))
            self.log.append(TaskDone(k=decided.k))

    def take_look(self, look: int) -> None:
        """Record a look that decides nothing, or everything from the look `conclusive_look` on."""
        lock, nodes = self.log.state.search.current_lock, list_look_replicates(self.log.state, look)
        assert lock is not None
        if len(self.log.state.search.looks) > look:
            return
        conclusive = self.conclusive_look is not None and look >= self.conclusive_look
        taken = LookTaken(look=look, seeds=tuple(node.seed for node in nodes), conclusive=conclusive)
        ends = "decided" if conclusive else self.explain_sampling_end(taken) or ""
        self.log.append(taken.model_copy(update={"ends": ends}))

    def explain_sampling_end(self, taken: LookTaken) -> str | None:
        """Why no look follows this one."""
        return explain_sampling_end(self.log.state, self.settings, self.time, taken)

    def continue_sampling(self) -> None:
        """Let sampling go on in time that nothing else needs, as `stages.stage_runner` does."""
        state = self.log.state
        last = state.search.looks[-1] if state.search.looks else None
        if last is None or not last.ends or last.conclusive or state.search.stage != "ablation":
            return
        if not state.limit_reason and self.explain_sampling_end(last) is None:
            self.log.append(last.model_copy(update={"ends": ""}))

    @property
    def time(self) -> RunTime:
        return RunTime(self.run_seconds, self.run_seconds - self.log.state.active_seconds)

    def compute_value(self, arm: str, setting: HyperparameterSetting) -> float:
        """What a trial measures: the better, the nearer its rate is to 0.01."""
        return (math.log10(float(setting["rate"])) + 2) ** 2 / 8

    def compute_seconds(self, arm: str) -> float:
        """What a cell of an arm takes."""
        return self.seconds

    def finish(self, node: str, k: int, action: ExpandTree) -> None:
        """Append what came of a node."""
        rng = Random(f"{k}/{action}".replace(" trials=() arm=''", ""))
        self.log.append(NodeProposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
        if action.kind not in ("replicate", "aggregate", "trial", "tune") and rng.random() < self.buggy:
            name = "".join("abcdefghij"[int(digit)] for digit in str(rng.randrange(1000)))
            failure = Failure(kind="other", message=f"error {name}")
            self.log.append(NodeJudged(node=node, status="buggy", failure=failure))
            return
        values = () if action.kind in ("trial", "aggregate") else self.draw_measurements(action, rng)
        self._measure_cells(node, action, {one.arm: one.value for one in values})
        attempt = Attempt(number=1, seconds=self.seconds, measurements=values)
        self.log.append(AttemptExecuted(node=node, attempt=attempt))
        self.log.append(NodeJudged(node=node, status="good"))

    def _measure_cells(self, node: str, action: ExpandTree, values: dict[str, float]) -> None:
        """Append what the cells of a node came to."""
        trials = self.log.state.nodes[node].trials
        cells = [
            cell
            for one in action.trials
            if action.kind == "trial"
            for cell in list_trial_cells(PLAN, one.arm, seed=action.seed, number=one.number)
        ] or [Cell(dataset="digits", arm=arm, trial=trials.get(arm, 0), seed=action.seed) for arm in values]
        known = self.log.state.required_cells.get(action.parent or "")
        repeats = known is not None and action.kind in ("trial", "tune", "replicate")
        code = known.code["method"] if known is not None and repeats else f"{node}'s"
        if not cells:
            return
        keys = tuple(hashlib.sha256(f"{node}/{cell}".encode()).hexdigest() for cell in cells)
        codes = {"baseline": code, "method": code}
        self.log.append(CellsRequired(node=node, cells=tuple(cells), keys=keys, code=codes))
        for cell, key in zip(cells, keys, strict=True):
            setting, computed = self.log.state.search.find_setting(cell.arm, cell.trial), action.kind == "trial"
            value = self.compute_value(cell.arm, setting) if self.by_setting or computed else values[cell.arm]
            found, seconds = (measure(value, cell.arm, seed=action.seed),), self.compute_seconds(cell.arm)
            run = CellRun(id=f"{key[:24]}-0", cell=cell, key=key, seconds=seconds, measurements=found)
            self.log.append(CellExecuted(node=node, run=run))


async def run_search(
    log: Recorder,
    world: SearchWorld,
    given: SearchSettings,
    stages: tuple[StageName, ...] = STAGES,
    *,
    limits: TimeLimits | None = None,
) -> None:
    """Run the stages that are not settled yet, the way `stages.stage_runner` does."""

    def check_room(action: SearchAction) -> LimitHit | None:
        return check_time(action, log.state, given, world.time)

    def settle() -> None:
        while (again := find_unsettled_stage(log.state, given)) is not None:
            choose(again, "again")
        lock()
        world.continue_sampling()

    def choose(view: StageSnapshot, why: str) -> None:
        log.append(StageWinnerChosen(stage=view.stage, best=view.best_node.id if view.best_node else None, ended=why))

    def lock() -> None:
        event = build_lock(log.state, given, partial(count_affordable_seeds, log.state, given, world.time))
        if event is not None:
            log.append(event)

    scheduler = Scheduler(
        recorder=log,
        policy=build_policy(given),
        perform=world.perform,
        settings=given,
        settle=settle,
        check_room=check_room,
    )
    for stage in stages:
        if log.state.search.stages[stage].is_settled:
            continue
        end = await scheduler.run(stage, limits)
        assert end is not None and isinstance(end.action, EndStage)
        view = view_at_stage_end(log.state, stage, given)
        assert view is not None
        choose(view, end.action.reason)
        lock()
        if not any(one.best for one in log.state.search.stages.values()):
            return


def comparable_tree(log: MemoryLog) -> list[tuple[object, ...]]:
    """The tree as it compares: everything but the order of events."""
    return [
        (node.id, node.parent, node.stage, node.kind, node.seed, node.status, node.measurements)
        for node in log.state.nodes.values()
    ]


def run_whole_search(
    *,
    timing: int = 0,
    seed: int = 0,
    buggy: float = 0.3,
    world: type[SearchWorld] = SearchWorld,
    plan: DataPlan = PLAN,
    stages: tuple[StageName, ...] = STAGES,
    **changes: object,
) -> tuple[MemoryLog, SearchWorld]:
    """A whole search in virtual time, its delays drawn from `timing`; or its first `stages`."""
    log, rng = new_log(seed, plan=plan), Random(timing)
    delays = [10 * rng.random() for _ in range(500)]
    made = world(log, buggy=buggy, delay=lambda k: delays[k])
    made.settings = make_settings(**changes)
    virtual_time.run(run_search(log, made, made.settings, stages))
    return log, made


@cache
def finished_search(*, timing: int = 0, order: str = "ticket", buggy: float = 0.3) -> MemoryLog:
    """What such a search left, made once: read it, and append to a log of your own."""
    return run_whole_search(timing=timing, order=order, buggy=buggy)[0]


def find_stage(state: RunState, k: int) -> StageName:
    """The stage that was searched when decision k was made."""
    ends = {stage: end.k for stage in STAGES if (end := state.find_stage_end(stage)) is not None}
    return next(stage for stage in STAGES if k <= ends.get(stage, k))
