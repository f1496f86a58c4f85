"""What the hours of a run can decide: the seeds that a plan's confirmatory cells allow, and the precision to expect.

One fresh seed measures every cell of the plan's main arms. `CONFIRMATION_SHARE` of the slot-seconds is meant for fresh
seeds; prototype, tuning and the other experiments share the rest. Before the first cell is measured, the seconds of a
cell are the planner's estimate, and the spread over seeds is unknown.

A design that does not fit is reduced before the lock, by value (`reduce_design`): first levels and datasets that no
confirmatory hypothesis reads, then reference models, then tuning trials. What a confirmatory hypothesis reads is never
removed. Limits: cells of a level or dataset that was never measured are assumed to take as long as the others of their
arm; debugging and failed experiments are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, sqrt
from statistics import fmean, median, stdev
from typing import NamedTuple

from labwright.record.claims.hypothesis_tests import estimate_over_seeds, read_replicate_values
from labwright.record.claims.planned_seeds import compute_planned_seeds, predict_seeds
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    find_effect_metric,
    find_hypothesis_faults,
    is_contrast,
    list_cells_read,
    list_main_arms,
    list_registered_cells,
    list_swapped_cells,
)
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, OmittedCells, parse_arm
from labwright.record.schema.hypotheses import Effect
from labwright.record.schema.nodes import Node
from labwright.record.tuning_results import list_trial_cells
from labwright.search.settings import SearchSettings

CONFIRMATION_SHARE = 0.6
"""Share of a run's slot-seconds that is meant for fresh seeds."""
FULL_EXPERIMENTS = 3
"""Experiments with every cell before the lock that the forecast counts: a prototype, the tuned one, and another."""
REFERENCE_SECONDS = 5.0
"""Assumed seconds of one setting of a reference model on one dataset (docs/search.md: up to half a minute)."""
MIN_TRIALS = 8
"""Number of trials of an arm below which tuning is not reduced."""
FEW_SEEDS = 6
"""At most this many seeds decide little: other units should be considered."""
WANTED_SEEDS = FEW_SEEDS + 1
"""Fresh seeds for which a design must have time."""
ASSUMED_DISAGREEMENT = 0.1
"""Share of test predictions in which two arms are assumed to differ before anything is measured."""
NORMAL_QUANTILE = 1.96


class EffectForecast(FrozenModel):
    """The precision to expect for one effect of a confirmatory hypothesis, as half-widths of its 95 % interval."""

    hypotheses: str
    """Names of the hypotheses that it belongs to."""
    estimand: str
    claim: str
    """What is claimed of it: `at least 0.03`."""
    smallest: float
    design: float
    """The true value at which the claim should be supported with a probability of 80 %."""
    half_width: float | None = None
    """Expected half-width with the seeds of the share; None: the spread over seeds is unknown."""
    planned: int | None = None
    """Number of seeds for that; None: unknown, or no number is enough."""
    equivalent: float | None = None
    """Probability that a true zero is then called equivalent; None for estimands whose zero is not "no effect"."""
    floor: float | None = None
    """The part that the test examples leave, whatever the number of seeds, if a tenth of the predictions differs; None:
    unknown or none."""

    def __str__(self) -> str:
        parts = ["half-width unknown" if self.half_width is None else f"expected half-width {self.half_width:.2g}"]
        if self.floor:
            parts.append(
                f"the test examples leave {self.floor:.2g} of it, whatever the number of seeds, if a tenth of the "
                "predictions differs"
            )
        if self.half_width is not None:
            parts.append(
                f"if the truth is {self.design:g}, {self.planned} seeds support the claim with probability 0.8"
                if self.planned is not None
                else f"no number of seeds supports the claim with probability 0.8 if the truth is {self.design:g}"
            )
        if self.equivalent is not None and self.planned is not None:
            parts.append(f"a true zero is then called equivalent with probability {self.equivalent:.2f}")
        return f"{self.hypotheses}, `{self.estimand}` {self.claim}, margin {self.smallest:g}: {'; '.join(parts)}"


class DesignForecast(FrozenModel):
    """What a plan can decide in the hours of a run. Slot-seconds are seconds of one of the parallel experiments."""

    slots: int
    seconds: float
    """Wall clock that is left."""
    cells: int
    """Cells of one fresh seed."""
    deciding: int
    """Those of them that a confirmatory hypothesis or its rival reads."""
    seed_seconds: float
    """Slot-seconds of one fresh seed."""
    measured: bool
    """Whether cell times were measured rather than estimated by the planner."""
    exploration_seconds: float
    """Slot-seconds of everything before the lock."""
    limit: int
    """Maximum number of fresh seeds by the settings."""
    effects: tuple[EffectForecast, ...] = ()

    @property
    def slot_seconds(self) -> float:
        return self.slots * self.seconds

    @property
    def most_seeds(self) -> int:
        """Number of fresh seeds if all hours went there."""
        return _count_seeds(self.slot_seconds, self.seed_seconds)

    @property
    def share_seeds(self) -> int:
        """Number of fresh seeds in their share of the hours."""
        return _count_seeds(CONFIRMATION_SHARE * self.slot_seconds, self.seed_seconds)

    @property
    def excess_seconds(self) -> float:
        """Slot-seconds by which `WANTED_SEEDS` exceed their share and everything before the lock exceeds the rest."""
        seeds = WANTED_SEEDS * self.seed_seconds - CONFIRMATION_SHARE * self.slot_seconds
        before = self.exploration_seconds - (1 - CONFIRMATION_SHARE) * self.slot_seconds
        return max(0.0, seeds) + max(0.0, before)

    @property
    def fits(self) -> bool:
        return self.excess_seconds <= 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The forecast as lines of text, for prompts and listings."""
        by, plural = "measured" if self.measured else "by the plan's estimate", "s" * (self.slots != 1)
        first = (
            f"{self.slots} slot{plural}, {_format_minutes(self.seconds)}, {self.seed_seconds:.0f} slot-seconds a seed "
            f"of all {self.cells} cells, of which {self.deciding} decide ({by}): {self.most_seeds} seeds if all hours "
            f"went there, {self.share_seeds} in their share of six tenths"
        )
        if self.limit < self.share_seeds:
            first += f"; search.max_seeds allows {self.limit}"
        rest = (1 - CONFIRMATION_SHARE) * self.slot_seconds
        too_much = ": too much" * (self.exploration_seconds > rest)
        before = (
            f"before the lock: {self.exploration_seconds:.0f} slot-seconds for {FULL_EXPERIMENTS} experiments of all "
            f"cells, tuning and reference models, of {rest:.0f}{too_much}"
        )
        few = (
            f"at most {FEW_SEEDS} seeds fit: reduce the cells that the confirmatory hypotheses read, or let "
            "examples, tasks or datasets be the unit, and say so"
        )
        return (first, *map(str, self.effects), before, *([few] if self.share_seeds <= FEW_SEEDS else []))


def _count_seeds(seconds: float, seed_seconds: float) -> int:
    return floor(seconds / seed_seconds + 1e-9) if seed_seconds > 0 else 0


def _format_minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.3g} h"


@dataclass(frozen=True)
class CellTimes:
    """Seconds of cells: measured ones by dataset, condition; others as those of their arm, else as the average."""

    measured: Mapping[tuple[str, str], float]
    average: float

    def estimate(self, cells: Iterable[CellRef]) -> float:
        """Return the sum over cells, in slot-seconds."""
        return sum(self._find(one) for one in cells)

    def _find(self, cell: CellRef) -> float:
        if (found := self.measured.get((cell.dataset, cell.condition))) is not None:
            return found
        places = [place for place in self.measured if place[0] == cell.dataset and parse_arm(place[1]) == cell.arm]
        return median(self.measured[place] for place in places) if places else self.average


def read_cell_times(nodes: Iterable[Node], *expected: float) -> CellTimes | None:
    """Return the seconds of cells measured in full, medians over executions; None before the first one.

    `expected`: an estimate that counts as one more execution of each cell, so that a single one, maybe on a loaded
    machine, does not decide alone.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for line in (line for node in nodes for attempt in node.attempts for line in attempt.cells):
        if line.outcome in ("measured", "taken over") and line.seconds > 0:
            known = found.setdefault((line.cell.dataset, line.cell.condition), {})
            known[line.id or str(len(known))] = line.seconds  # an execution may serve several nodes
    if not found:
        return None
    medians = {place: median((*seconds.values(), *expected)) for place, seconds in found.items()}
    return CellTimes(medians, fmean(medians.values()))


def list_main_cells(plan: DataPlan) -> tuple[CellRef, ...]:
    """Return every cell of one experiment: the main arms at every level on every dataset."""
    cells = product((use.name for use in plan.datasets), list_main_arms(plan), plan.level_names)
    return tuple(CellRef(*cell) for cell in cells if plan.has_cell(*cell))


def list_seed_cells(plan: DataPlan, *, trials: Mapping[str, int] | None = None) -> tuple[CellRef, ...]:
    """Return every cell that a fresh seed measures; an arm at the setting of another takes as long as at its own.

    `trials`: arm -> number of its chosen setting, if known.
    """
    swapped = list_swapped_cells(plan, trials=trials)
    return (*list_main_cells(plan), *(CellRef(one.dataset, one.arm, one.level) for one in swapped))


def estimate_cell_times(plan: DataPlan) -> CellTimes:
    """Return the planner's estimate of the seconds of a cell, the same for all."""
    return CellTimes({}, plan.expected_seconds / max(1, len(list_main_cells(plan))))


def estimate_exploration(plan: DataPlan, times: CellTimes, *, measured: bool, ladder: bool) -> float:
    """Return the slot-seconds of everything before the lock: full experiments, tuning, and reference models if there
    is a `ladder` of them.

    `measured`: the prototype has run.
    """
    experiments = (FULL_EXPERIMENTS - measured) * times.estimate(list_main_cells(plan))
    trial = (cell for arm in plan.tuned_arms for cell in list_trial_cells(plan, arm, seed=0))
    seconds = times.estimate(CellRef(one.dataset, one.arm, one.level) for one in trial)
    if ladder and plan.reference_models:
        seconds += len(plan.datasets) * REFERENCE_SECONDS
    return experiments + plan.tuning.budget * seconds


def forecast_design(
    plan: DataPlan,
    times: CellTimes | None,
    settings: SearchSettings,
    seconds: float,
    *,
    sizes: Mapping[str, Mapping[str, int]] | None = None,
    spreads: Mapping[tuple[str, str], float] | None = None,
) -> DesignForecast:
    """Return what a plan can decide in `seconds` of wall clock.

    `times`: None before the first measured cell. `sizes`: dataset -> split -> examples. `spreads`: (hypothesis,
    estimand) -> sd over seeds.
    """
    known = times or estimate_cell_times(plan)
    cells = list_seed_cells(plan)
    found = DesignForecast(
        slots=settings.num_workers,
        seconds=max(0.0, seconds),
        cells=len(cells),
        deciding=len(list_registered_cells(plan)),
        limit=settings.max_seeds,
        seed_seconds=known.estimate(cells),
        measured=times is not None,
        exploration_seconds=estimate_exploration(plan, known, measured=times is not None, ladder=settings.ladder),
    )
    seeds = min(found.limit, found.share_seeds)
    test_sizes = {name: splits.get("test", 0) for name, splits in (sizes or {}).items()}
    effects: dict[tuple[str, str, str], EffectForecast] = {}
    for one, effect in plan.confirmatory_effects:
        key = effect.estimand, effect.metric, effect.claim_text
        sd = (spreads or {}).get((one.id, effect.estimand))
        left = _assume_floor(plan, effect, test_sizes) if one.unit == "seeds and examples" else None
        forecast = EffectForecast(
            hypotheses=f"{effects[key].hypotheses}, {one.id}" if key in effects else one.id,
            estimand=effect.estimand,
            claim=effect.claim_text,
            smallest=effect.smallest,
            design=effect.design_value,
            floor=left,
        )
        if sd is not None and seeds > 1:
            examples = ((left or 0.0) / NORMAL_QUANTILE) ** 2
            planned = compute_planned_seeds(effect, sd, examples=examples)
            expected = predict_seeds(effect, seeds, sd, examples=examples)
            equivalent = planned.equivalent if is_contrast(effect.estimand) else None
            forecast = forecast.model_copy(
                update={"half_width": expected.half_width, "planned": planned.n, "equivalent": equivalent}
            )
        effects[key] = forecast
    return found.model_copy(update={"effects": tuple(effects.values())})


def _assume_floor(plan: DataPlan, effect: Effect, test_sizes: Mapping[str, int]) -> float | None:
    """Return the half-width from test examples if a tenth of the predictions differs; None for metrics other than
    shares of examples, and for estimands that are not differences of two cells."""
    metric = find_effect_metric(effect, plan)
    cells = list_cells_read(effect.estimand, plan, metric)
    sizes = [test_sizes.get(cell.dataset, 0) for cell in cells]
    if (metric.low, metric.high) != (0.0, 1.0) or len(cells) != 2 or not all(sizes):
        return None
    return NORMAL_QUANTILE * sqrt(ASSUMED_DISAGREEMENT / min(sizes))


def read_spreads(state: RunState) -> dict[tuple[str, str], float]:
    """Return the sd over seeds of every confirmatory effect: (hypothesis, estimand) -> sd on validation.

    From the node with most seeds before the lock, itself included. Effects with fewer than two values are left out.
    """
    plan, groups = state.search.data_plan, dict[str, list[str]]()
    if plan is None:
        return {}
    for node in (node for node in state.nodes.values() if node.status == "good" and not node.suspect):
        groups.setdefault(node.parent or "" if node.kind == "replicate" else node.id, []).append(node.id)
    most = max(groups.values(), key=len) if groups else []
    runs = [read_replicate_values(state.nodes[name]) for name in most]
    found: dict[tuple[str, str], float] = {}
    for one, effect in plan.confirmatory_effects:
        values = estimate_over_seeds(plan, effect, runs).values
        if len(values) >= 2:
            found[one.id, effect.estimand] = stdev(values)
    return found


# --- reductions ------------------------------------------------------------------------------------------------------


class Reduction(NamedTuple):
    """A smaller plan, and what was removed and why, in one sentence."""

    plan: DataPlan
    why: str


def reduce_design(plan: DataPlan, times: CellTimes, settings: SearchSettings, seconds: float) -> tuple[Reduction, ...]:
    """Return the reductions, in order, after which the design fits; empty if it does already.

    After the last one it may still not fit: nothing else can be removed without changing what is decided.
    """
    found: list[Reduction] = []
    while not (now := forecast_design(plan, times, settings, seconds)).fits:
        smaller = _iterate_smaller(plan, times, now, ladder=settings.ladder)
        costs = ((one, forecast_design(one.plan, times, settings, seconds).excess_seconds) for one in smaller)
        first = next((one for one, excess in costs if excess < now.excess_seconds), None)
        if first is None:
            break
        plan = first.plan
        why = (
            f"{first.why}: {WANTED_SEEDS} fresh seeds would take {WANTED_SEEDS * now.seed_seconds:.0f} slot-seconds "
            f"and all before the lock {now.exploration_seconds:.0f}, of {now.slot_seconds:.0f} that are left"
        )
        found.append(Reduction(plan, why))
    return tuple(found)


def _iterate_smaller(plan: DataPlan, times: CellTimes, now: DesignForecast, *, ladder: bool) -> Iterator[Reduction]:
    """Yield smaller plans that can be carried out and decide the same, by value, each with what was removed."""
    deciding = list_registered_cells(plan)
    kept = {cell.level for cell in deciding} | {cell.dataset for cell in deciding}
    for level in _sort_by_cost({cell.level for cell in list_main_cells(plan)} - {""}, "level", plan, times):
        left_out = OmittedCells(level=level, reason="too little time; no confirmatory hypothesis reads it")
        smaller = _drop_unreadable(plan.model_copy(update={"left_out": (*plan.left_out, left_out)}))
        if level not in kept and not _is_named(plan, level) and not list(find_hypothesis_faults(smaller)):
            yield Reduction(smaller, f"level {level} was left out, which no confirmatory hypothesis reads")
    for dataset in _sort_by_cost({use.name for use in plan.datasets[1:]}, "dataset", plan, times):
        rest = {
            "datasets": tuple(use for use in plan.datasets if use.name != dataset),
            "left_out": tuple(one for one in plan.left_out if one.dataset != dataset),
            "untested": (*plan.untested, f"the dataset {dataset} (too little time)"),
        }
        smaller = _drop_unreadable(plan.model_copy(update=rest))
        if dataset not in kept and not _is_named(plan, dataset) and not list(find_hypothesis_faults(smaller)):
            yield Reduction(smaller, f"dataset {dataset} was left out, which no confirmatory hypothesis reads")
    if ladder and plan.reference_models:
        smaller = plan.model_copy(update={"reference_models": False})
        yield Reduction(smaller, "the reference models were left out")
    if plan.tuned_arms and plan.tuning.budget > MIN_TRIALS:
        with_one_less = _set_trials(plan, plan.tuning.budget - 1)
        before, after = (
            estimate_exploration(one, times, measured=now.measured, ladder=False) for one in (plan, with_one_less)
        )
        over, trials = now.exploration_seconds - (1 - CONFIRMATION_SHARE) * now.slot_seconds, MIN_TRIALS
        if before > after:
            trials = max(MIN_TRIALS, floor(plan.tuning.budget - over / (before - after)))
        why = f"tuning was reduced from {plan.tuning.budget:g} to {trials} trials an arm"
        yield Reduction(_set_trials(plan, trials), why)


def _sort_by_cost(names: set[str], axis: str, plan: DataPlan, times: CellTimes) -> list[str]:
    """Return levels or datasets: first those that nothing registered reads, among them the most expensive first."""
    cells, effects = list_main_cells(plan), (effect for one in plan.hypotheses for effect in one.effects)
    alternatives = (effect for one in plan.hypotheses for effect in one.alternatives)
    known = ((effect, find_effect_metric(effect, plan)) for effect in (*effects, *alternatives))
    read = {getattr(cell, axis) for effect, metric in known for cell in list_cells_read(effect.estimand, plan, metric)}
    costs = {name: times.estimate(one for one in cells if getattr(one, axis) == name) for name in names}
    return sorted(names, key=lambda name: (name in read, -costs[name], name))


def _is_named(plan: DataPlan, name: str) -> bool:
    """Return whether tuning or a published anchor needs a level or dataset."""
    return name in (*plan.tuning.levels, *plan.tuning.datasets) or any(
        name in (one.level, one.dataset) for one in plan.anchors
    )


def _set_trials(plan: DataPlan, trials: float) -> DataPlan:
    return plan.model_copy(update={"tuning": plan.tuning.model_copy(update={"budget": float(trials)})})


def _drop_unreadable(plan: DataPlan) -> DataPlan:
    """Return the plan without alternatives and exploratory hypotheses that read cells it does not have; what the latter
    claim is listed as untested."""

    def is_readable(effects: Sequence[Effect]) -> bool:
        try:
            return all(list_cells_read(one.estimand, plan, find_effect_metric(one, plan)) for one in effects)
        except EstimandError:
            return False

    kept = tuple(
        one.model_copy(update={"alternatives": tuple(other for other in one.alternatives if is_readable((other,)))})
        for one in plan.hypotheses
        if one.confirmatory or is_readable(one.effects)
    )
    ids = {one.id for one in kept}
    lost = (f"{one.statement.rstrip('.')} (too little time)" for one in plan.hypotheses if one.id not in ids)
    return plan.model_copy(update={"hypotheses": kept, "untested": (*plan.untested, *lost)})
