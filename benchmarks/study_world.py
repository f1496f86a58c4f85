"""Whole studies of known truth for `benchmarks.hours`, and the real scheduler in them.

Scheduler, policy, tuning, division of hours, required cells, lock, looks, record and claims are those of a run, in
virtual time; only what programs measure, and how long they take, is simulated. A study takes about 0.2 s.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import cache
from math import exp, log, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated_runs import measure
from labwright.record.claims.hypothesis_tests import close_look, decide_after_look, decide_hypotheses
from labwright.record.event_log import Recorder
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    LookTaken,
    NodeJudged,
    NodeProposed,
    SealedTestScored,
)
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    MetricSpec,
    ResampledInterval,
    TuningPlan,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.hypotheses import ClaimForm, Effect, Hypothesis, HypothesisVerdict
from labwright.record.schema.nodes import Attempt, Cell, CellOutcomeLine, CellRun, Failure, Node, format_node_id
from labwright.search.hours import TimeLimits
from labwright.search.replication import FRESH_SEED_OFFSET, list_look_replicates
from labwright.search.scheduler import ReleaseSlot
from labwright.search.settings import STAGE_TIME_SHARE, SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot
from labwright.search.tuning import FINALIST_SEED_OFFSET, FINALIST_SEEDS, MAX_BUDGET_FACTOR, MAX_FINALISTS
from labwright.stages.nodes.node_cells import list_controls_of_tuning, required_cells
from tests.search import virtual_time
from tests.search.scripted_search import SearchWorld, new_log, run_search

Array = NDArray[Any]
SETTINGS = SearchSettings(lookahead=0, ladder=False, planned_ablations=0, ablation=StageLimits(nodes=1))
TRIALS = 12
"""Tuning budget of each arm; its defaults are the first trial."""
MOST_TRIALS = MAX_BUDGET_FACTOR * TRIALS
STRATA = {"short": (12.0, 35.0), "middle": (35.0, 100.0), "ample": (100.0, 300.0)}
"""Slot-seconds of a run over those of one fresh seed; the study of random erasing had 29."""
EFFECTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
EXAMPLES = 1000


@dataclass(frozen=True)
class Study:
    """A study and its truth. Effects and spreads are in margins, times in fresh seeds: every cell of one seed."""

    number: int
    stratum: str
    claim: ClaimForm
    effect: float
    """True effect of fully tuned arms."""
    sd: float
    """Of the effect between seeds."""
    examples: float
    """Variance of the effect over test examples, which all seeds share."""
    arms: int
    """Arms that are measured and tuned; the claim compares the first two."""
    slots: int
    hours: float
    """Slot-seconds of the run over those of a fresh seed."""
    gap: float
    """Largest loss of an arm by a setting that is not the best one."""
    failing: float
    """Probability that a program, or a fresh seed, fails."""
    is_open: bool
    """Whether the plan leaves choices open, so that drafts differ."""
    objective: Literal["measure", "improve"]

    @property
    def seconds(self) -> float:
        """The run's time limit."""
        return self.hours / self.slots

    @property
    def registered(self) -> Effect:
        return Effect(estimand="method - baseline", smallest=1.0, claim=self.claim)

    @property
    def truth(self) -> HypothesisVerdict:
        """The right verdict; `open` at the boundary."""
        limit = self.registered.limit
        return "open" if self.effect == limit else "supported" if self.effect > limit else "refuted"

    @property
    def arm_names(self) -> tuple[str, ...]:
        return ("baseline", "method", *(f"control{k}" for k in range(2, self.arms)))

    @property
    def spread_of_examples(self) -> ResampledInterval:
        """What resampling the test examples shows."""
        return ResampledInterval(key="hypothesis/h/0", nodes=(), shared=(self.examples,), examples=EXAMPLES)

    def build_plan(self) -> DataPlan:
        """Build the plan; its first two arms are compared."""
        return DataPlan(
            task="simulated",
            objective=self.objective,
            open=("method",) if self.is_open else (),
            expected_seconds=1,
            datasets=(DatasetUse(name="d0"),),
            metrics=(MetricSpec(name="score", higher_is_better=True),),
            arms=tuple(Arm(name=name, role="method" if name == "method" else "baseline") for name in self.arm_names),
            space=(
                Hyperparameter(
                    name="rate", kind="log", low=1e-4, high=1, default=0.001, source="practice", closed=True
                ),
            ),
            tuning=TuningPlan(budget=TRIALS, sampler="random"),
            hypotheses=(
                Hypothesis(
                    id="h",
                    statement="above",
                    reason="less is noise",
                    unit="seeds and examples" if self.examples else "seeds",
                    effects=(self.registered,),
                ),
            ),
        )


def draw_study(number: int) -> Study:
    """Draw the study with this number; claims, effects and hours are balanced."""
    rng = np.random.default_rng([49, number])
    stratum = list(STRATA)[number % len(STRATA)]
    low, high = STRATA[stratum]
    return Study(
        number=number,
        stratum=stratum,
        effect=EFFECTS[number // len(STRATA) % len(EFFECTS)],
        claim="positive" if number // (len(STRATA) * len(EFFECTS)) % 3 == 0 else "at least",
        sd=exp(rng.uniform(log(0.3), log(2.0))),
        examples=float(rng.choice([0.0, 0.1, 0.2])) ** 2,
        arms=int(rng.integers(2, 5)),
        slots=int(rng.choice([1, 2, 4])),
        hours=exp(rng.uniform(log(low), log(high))),
        gap=float(rng.choice([0.0, 1.0, 3.0])),
        failing=float(rng.choice([0.0, 0.05, 0.15])),
        is_open=bool(rng.random() < 0.5),
        objective="measure" if rng.random() < 2 / 3 else "improve",
    )


class Draws:
    """What chance makes of a study, the same for every policy."""

    def __init__(self, study: Study) -> None:
        rng = np.random.default_rng([50, study.number])
        self.seeds: Array = rng.normal(0, study.sd, 1000)
        """Deviation of the effect with each fresh seed."""
        self.failed: Array = rng.random(1000) < study.failing
        self.shared = float(rng.normal(0, sqrt(study.examples)))
        """Deviation that the test examples cause with every seed."""
        self.pilot: Array = rng.normal(0, study.sd, 10)
        self.buggy: Array = rng.random((3, SETTINGS.max_debug_depth + 1)) < study.failing
        """Whether each program of a line of drafts fails."""
        self.losses, self.trials, self.finals = draw_trials(study, rng, ())


def draw_trials(study: Study, rng: np.random.Generator, count: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return (*count, arms, trials) losses of settings and their scores with one seed, and (..., seeds) with others.

    Two hyperparameters matter: the loss of a random setting is uniform between 0 and the gap. The defaults of the
    baseline are known to be good, those of other arms are a typical setting.
    """
    shape, sd = (*count, study.arms, MOST_TRIALS), study.sd / sqrt(2)
    losses = study.gap * rng.random(shape)
    losses[..., 0] *= np.where(np.arange(study.arms) == 0, 0.3, 1.0)
    finals = rng.normal(0, sd, (*shape, FINALIST_SEEDS)) - losses[..., None]
    return losses, rng.normal(0, sd, shape) - losses, finals


def choose_settings(losses: Array, trials: Array, finals: Array, count: int, *, repeated: bool) -> Array:
    """Return the losses of the settings that `count` trials choose: the best, or the best mean of repeated ones."""
    seen = trials[..., :count]
    if repeated:
        order = np.argsort(-seen, axis=-1)[..., :MAX_FINALISTS]
        mean = (np.take_along_axis(seen, order, -1) + np.take_along_axis(finals.sum(axis=-1), order, -1)) / (
            1 + FINALIST_SEEDS
        )
        chosen = np.take_along_axis(order, mean.argmax(axis=-1)[..., None], -1)
    else:
        chosen = seen.argmax(axis=-1)[..., None]
    return np.take_along_axis(losses, chosen, -1)[..., 0]


def compute_bias(losses: Array) -> Array:
    """Return what the losses of the arms add to the effect: (..., arms) to (...)."""
    return losses[..., 0] - losses[..., 1]


@dataclass(frozen=True)
class Outcome:
    """What a policy made of a study."""

    verdict: HypothesisVerdict
    is_precise: bool
    seeds: int
    """Fresh seeds that were read."""
    share: float
    """Of the slot-seconds that ran fresh seeds."""
    bias: float
    """Of the effect with the confirmed settings, since tuning is not complete."""

    def is_success(self, study: Study) -> bool:
        """Return whether the claim is rightly decided, or precise and not wrongly decided."""
        return (self.verdict == study.truth and self.verdict != "open") or (
            self.is_precise and not self.is_wrong(study)
        )

    def is_wrong(self, study: Study) -> bool:
        """Return whether the verdict is wrong of fully tuned arms."""
        return self.verdict not in ("open", study.truth)


@cache
def build_plan(study: Study) -> DataPlan:
    return study.build_plan()


@cache
def find_draws(study: Study) -> Draws:
    return Draws(study)


class StudyWorld(SearchWorld):
    """What the programs of a study measure. A fresh seed takes `seed_seconds`."""

    seed_seconds = 1.0
    is_trial = False
    """Whether the node that is measured tries settings."""

    def __init__(self, log: Recorder, study: Study, *, is_biased: bool) -> None:
        super().__init__(log)
        self.study, self.draws, self.plan, self.is_biased = study, find_draws(study), build_plan(study), is_biased
        self.code: dict[str, str] = {}
        """Node -> the node whose code it runs."""
        self.required: dict[str, tuple[Cell, ...]] = {}
        """Node -> the cells that it measures."""
        self.measured: set[tuple[str, Cell]] = set()
        """Code and cells that were measured."""
        self.run_seconds = study.seconds
        self.settings = SETTINGS.model_copy(update={"num_workers": study.slots})

    async def perform(self, decided: DecisionMade, freed: ReleaseSlot) -> None:
        if not isinstance(decided.action, ExpandTree):
            self._answer(decided)
            return
        node = format_node_id(decided.k)
        await asyncio.sleep(self.sum_seconds(self.log.state.nodes[node], decided.action))
        freed()
        self.finish(node, decided.k, decided.action)

    def list_cells(self, node: Node, action: ExpandTree) -> tuple[Cell, ...]:
        """Return the cells that a node measures, as a run requires them when it is decided on; an ablation has those of
        every arm."""
        if action.kind == "aggregate":
            return ()
        if node.id not in self.required:
            state = self.log.state
            view = build_snapshot(state, "agenda" if action.kind == "ablate" else action.stage, settings=self.settings)
            trials = action.trials if action.kind == "trial" else ()
            cells = required_cells(node, view, plan=self.plan, trials=trials)
            self.required[node.id] = (*cells, *list_controls_of_tuning(node, view, state))
        return self.required[node.id]

    def find_code(self, action: ExpandTree) -> str:
        """Return the node whose code a node runs; empty for its own."""
        repeats = action.kind in ("trial", "tune", "replicate")
        return self.code.get(action.parent or "", "") if repeats else ""

    def sum_seconds(self, node: Node, action: ExpandTree) -> float:
        """Return the time of a node; cells that the same code has measured are reused."""
        code = self.find_code(action)
        cells = sum((code, cell) not in self.measured for cell in self.list_cells(node, action))
        return cells * self.seed_seconds / self.study.arms

    def compute_cell_value(self, cell: Cell) -> float:
        """Return the validation value of a cell."""
        arm, seed = self.study.arm_names.index(cell.arm), cell.seed - FINALIST_SEED_OFFSET
        if cell.seed < FINALIST_SEED_OFFSET:
            return float(self.draws.trials[arm, cell.trial])
        if cell.seed < FRESH_SEED_OFFSET and seed < FINALIST_SEEDS and self.is_trial:
            return float(self.draws.finals[arm, cell.trial, seed])
        return float(self.draws.pilot[seed % len(self.draws.pilot)]) if cell.arm == "method" else 0.0

    def finish(self, node: str, k: int, action: ExpandTree) -> None:
        log = self.log
        log.append(NodeProposed(node=node, decision=k, title="", plan="", varies=f"v{k}", source_sha256="0"))
        if self.fails(action):
            failure = Failure(kind="other", message=f"error {chr(97 + k % 26)}{chr(97 + k // 26 % 26)}")
            log.append(AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=1.0, failure=failure)))
            log.append(NodeJudged(node=node, status="buggy", failure=failure))
            return
        cells, self.is_trial = self.list_cells(log.state.nodes[node], action), action.kind == "trial"
        measured = {
            cell: measure(self.compute_cell_value(cell), cell, name="score", seed=action.seed, grade="computed")
            for cell in cells
        }
        seconds, each = self.sum_seconds(log.state.nodes[node], action), self.seed_seconds / self.study.arms
        lines = tuple(CellOutcomeLine(cell=cell, outcome="measured", seconds=each) for cell in cells)
        self.code[node] = name = self.find_code(action) or node
        self.measured |= {(name, cell) for cell in cells}
        if cells:
            code = dict.fromkeys(self.study.arm_names, f"{name}'s")
            keys = tuple(hashlib.sha256(f"{node}/{cell}".encode()).hexdigest() for cell in cells)
            log.append(CellsRequired(node=node, cells=tuple(cells), keys=keys, code=code))
            for cell, key in zip(cells, keys, strict=True):
                run = CellRun(id=f"{key[:24]}-0", cell=cell, key=key, seconds=each, measurements=(measured[cell],))
                log.append(CellExecuted(node=node, run=run))
        values = () if action.kind == "trial" else tuple(measured.values())
        log.append(
            AttemptExecuted(node=node, attempt=Attempt(number=1, seconds=seconds, measurements=values, cells=lines))
        )
        log.append(NodeJudged(node=node, status="good"))

    def fails(self, action: ExpandTree) -> bool:
        """Return whether a program or a fresh seed fails."""
        if action.kind == "replicate" and action.seed >= FRESH_SEED_OFFSET:
            return bool(self.draws.failed[action.seed - FRESH_SEED_OFFSET])
        if action.kind not in ("draft", "debug"):
            return False
        depth, nodes = 0, self.log.state.nodes
        ordinal, parent = action.ordinal, nodes.get(action.parent or "")
        while parent is not None:
            depth, made = depth + 1, self.log.state.decisions[parent.decision].action
            assert isinstance(made, ExpandTree)
            ordinal, parent = made.ordinal, nodes.get(parent.parent or "")
        return bool(self.draws.buggy[ordinal % len(self.draws.buggy), min(depth, self.draws.buggy.shape[1] - 1)])

    def find_bias(self, node: Node) -> float:
        """Return the bias of the effect with the settings of a node; none if tuning counts as complete."""
        if not self.is_biased:
            return 0.0
        losses = [self.draws.losses[arm, node.trials.get(name, 0)] for arm, name in enumerate(self.study.arm_names)]
        return float(compute_bias(np.array(losses)))

    def take_look(self, look: int) -> None:
        """Score and test the fresh seeds, as `stages.evidence.resampling.take_look`."""
        state = self.log.state
        lock, nodes = state.search.current_lock, list_look_replicates(state, look)
        assert lock is not None
        if len(state.search.looks) > look:
            return
        mean = self.study.effect + self.find_bias(state.nodes[lock.winner]) + self.draws.shared
        for node in nodes:
            if node.id not in state.search.test_measurements:
                value = mean + float(self.draws.seeds[node.seed - FRESH_SEED_OFFSET])
                self.log.append(
                    SealedTestScored(
                        node=node.id,
                        measurements=tuple(
                            measure(
                                value if line.cell.arm == "method" else 0.0,
                                line.cell,
                                name="score",
                                split="test",
                                seed=node.seed,
                            )
                            for line in node.attempts[-1].cells
                            if not line.cell.setting_of
                        ),
                    )
                )
        taken = LookTaken(
            look=look, seeds=tuple(node.seed for node in nodes), resampled=(self.study.spread_of_examples,)
        )
        taken = close_look(state, taken, decide_after_look(state, taken))
        ends = "every claim is decided" if taken.conclusive else self.explain_sampling_end(taken) or ""
        self.log.append(taken.model_copy(update={"ends": ends}))


def drive(study: Study, *, is_biased: bool) -> Outcome:
    """Carry out a study by the real scheduler; without bias, what is confirmed counts as fully tuned."""
    log = new_log(plan=build_plan(study))
    world = StudyWorld(log, study, is_biased=is_biased)
    limits = TimeLimits(seconds=STAGE_TIME_SHARE * study.seconds, run_seconds=study.seconds)
    virtual_time.run(run_search(log, world, world.settings, limits=limits))
    state = log.state
    nodes = [one for one in state.nodes.values() if one.kind == "replicate" and one.seed >= FRESH_SEED_OFFSET]
    fresh = sum(attempt.seconds for one in nodes for attempt in one.attempts) / study.hours
    if state.search.current_lock is None or not state.search.looks:
        return Outcome("open", False, 0, fresh, 0.0)
    [found] = decide_hypotheses(state)
    return Outcome(
        verdict=found.verdict,
        is_precise=all(part.is_precise for part in found.parts),
        seeds=len(state.search.looks[-1].seeds),
        share=fresh,
        bias=world.find_bias(state.nodes[state.search.current_lock.winner]),
    )
