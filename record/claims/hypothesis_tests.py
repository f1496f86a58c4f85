"""Test the hypotheses of a plan: the values of each effect by unit, its interval, and the verdict.

An effect is computed for every seed from that seed's own values, so arms are paired; its interval is Student's t over
seeds. If test examples, or clusters of them, also count as a sample, their variance is added to that of the mean over
seeds, each multiplied by the square of its own Student quantile. This holds for any sizes, while Satterthwaite's
degrees of freedom are anti-conservative with two or three seeds. If datasets are the unit, a value is a dataset's mean
over seeds. With fewer than `MIN_CLUSTERS` clusters nothing is decided.

A seed whose training diverged is either left out, with the rate of every arm reported next to the verdict, or counts as
the metric's worst value, as the hypothesis specifies. A mean with worst values has no Student interval, since a sample
without divergence says nothing about rare divergence. Its interval therefore also covers the mean that would result if
each arm diverged at the upper end of its Clopper-Pearson interval, wherever that hurts or helps. Seeds without a value
for another reason are left out and reported.

The verdict is the first that the interval supports: `supported` (above the smallest effect), `smaller` (above zero,
below the smallest), `negligible` (within plus and minus the smallest), `opposite` (below zero), else `undecided`. The p
of a hypothesis tests "at most the smallest effect", two-sided, the largest of its parts; Holm's correction covers the
confirmatory hypotheses, and each interval uses the level at which its p was tested. So at most 2.5 % of studies support
a false hypothesis, however the hypotheses depend on each other. `smaller`, `negligible` and `opposite` use the same
intervals.

Limits: values by seed and by cluster are assumed roughly normal (estimands with a minimum or maximum are skewed even
then, so their intervals are wider). Preview verdicts, on validation data or on seeds that the search has used, confirm
nothing.

Sources: Holm 1979; Banerjee 1960 (sum of variances with their own quantiles); Kish 1965 and Carter, Schnepel and
Steigerwald 2017 (effective number of unequal clusters); Clopper and Pearson 1934; Stein 1945 (n from a pilot);
Satterthwaite 1946 (older records).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import ceil, exp, inf, log, nan, sqrt
from statistics import fmean, stdev
from types import MappingProxyType
from typing import NamedTuple, Protocol

from labwright.record.claims.estimates import (
    MIN_REPLICATES,
    SIGNIFICANCE_LEVEL,
    compute_t_probability,
    compute_t_quantile,
    compute_upper_rate,
    find_trusted_replicates,
    find_winner,
)
from labwright.record.estimands import (
    CellRef,
    EstimandError,
    EstimandValue,
    MissingCell,
    evaluate_estimand,
    find_effect_metric,
    has_extreme,
    list_cells_read,
    list_conditions_read,
)
from labwright.record.float_compare import differs_beyond_rounding
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, Measurement, MetricSpec, ResampledInterval
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, HypothesisDecision, HypothesisVerdict
from labwright.record.schema.nodes import Node

ValuesByCell = Mapping[tuple[str, str, str], float]
"""(dataset, condition, metric) -> value, for one run on one split."""
TARGET_POWER = 0.9
"""Power that n is planned for, so that at least 80 % is achieved; measured by `benchmarks.decisions`."""
MAX_UNITS = 10_000
"""If deciding would need more units than this, no number is given."""


SKEWED_LEVEL_FACTOR = 0.6
"""Factor on the level of intervals of estimands with `min`, `max` or `worst`: the minimum of several normal values is
skewed, and Student's interval misses its mean on one side in up to 3.9 % (of 30 values, five seeds) instead of 2.5 %.
Measured by `benchmarks.false_support`."""
MIN_CLUSTERS = 5
"""Minimum number of clusters of test examples for a verdict; fewer give no reliable spread."""


class ReplicateValues(NamedTuple):
    """One execution of the winner's program: its seed, and its values on the deciding split and on others."""

    seed: int
    node: str
    values: ValuesByCell
    values_by_split: Mapping[str, ValuesByCell] = {}
    """Split -> values: dev and validation, used by choices inside an estimand."""
    diverged: frozenset[CellRef] = frozenset()
    failure: str = ""
    """Reason why the execution has no values at all."""


ResampledLookup = Callable[[str], ResampledInterval | None]
"""Look up the resampling interval of an effect by key; None on validation data, which is not resampled."""
CellValueLookup = Callable[[CellRef], EstimandValue | None]
"""Values that replace the measured ones of a run: resampled or hypothetical values."""


class DivergedError(Exception):
    """Training of arms that an effect reads diverged, and such seeds are left out."""

    def __init__(self, arms: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(arms)))
        self.arms = arms


def format_effect_key(hypothesis: Hypothesis, number: int) -> str:
    """Return the key of the effect at index `number` of `list_estimated_effects`."""
    return f"hypothesis/{hypothesis.id}/{number}"


def list_estimated_effects(hypothesis: Hypothesis) -> tuple[Effect, ...]:
    """Return all estimated effects of a hypothesis, in the order of their keys: its effects, alternatives, and its
    rival's."""
    rival = (
        ()
        if hypothesis.rival is None
        else (
            Effect(
                estimand=hypothesis.rival.estimand,
                metric=hypothesis.effects[0].metric,
                smallest=hypothesis.effects[0].smallest,
            ),
        )
    )
    return (*hypothesis.effects, *hypothesis.alternatives, *rival)


class HasColumns(Protocol):
    """A dataset with the columns by which examples may be clustered: their values, and the number of clusters
    in test."""

    @property
    def meta(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def meta_in_test(self) -> Mapping[str, int]: ...


def find_cluster_faults(plan: DataPlan, known: Mapping[str, HasColumns]) -> Iterator[str]:
    """Yield why the test examples that a hypothesis reads cannot be clustered as it requires, one sentence each."""
    for one in plan.hypotheses:
        read = (
            {dataset for dataset, _, _ in list_conditions_read(list_estimated_effects(one), plan)}
            if one.cluster
            else set[str]()
        )
        for name in (use.name for use in plan.datasets if use.name in read):
            columns, found = known[name].meta, known[name].meta_in_test.get(one.cluster, MIN_CLUSTERS)
            if one.cluster not in columns:
                yield (
                    f"hypothesis {one.id!r}: {name!r} has no column {one.cluster!r} to cluster by; "
                    + (
                        f"there are {', '.join(columns)}"
                        if columns
                        else "there are none (set group= or meta= of the data)"
                    )
                )
            elif found < MIN_CLUSTERS:
                yield (
                    f"hypothesis {one.id!r}: the test examples of {name!r} form {found} clusters by "
                    f"{one.cluster!r}, but at least {MIN_CLUSTERS} are needed: use unit 'seeds and "
                    "examples' and say in `untested` that other clusters are not tested, or use data with more clusters"
                )


def decide_hypotheses(state: RunState, levels: Mapping[str, float] | None = None) -> tuple[HypothesisDecision, ...]:
    """Decide every hypothesis of the plan in order: on test data once scored, before that a preview on validation data.

    All are exploratory in a branch of a run whose test data were already scored. `levels` gives the significance level
    of each hypothesis if the family is larger than the run.
    """
    plan = state.data_plan
    if plan is None or not plan.hypotheses:
        return ()
    if state.reuses_test_data:
        plan = plan.model_copy(
            update={"hypotheses": tuple(one.model_copy(update={"confirmatory": False}) for one in plan.hypotheses)}
        )
    nodes, fresh = find_deciding_nodes(state)
    tested = any(node.id in state.test_measurements for node in nodes)
    return decide_from_runs(
        plan,
        [read_replicate_values(node, state.test_measurements.get(node.id, ()) if tested else None) for node in nodes],
        confirmed=tested and fresh,
        levels=levels or {},
        find_resampled=lambda key: (
            state.resampled_intervals.get(key, ResampledInterval(key=key, nodes=(), reason="nobody resampled them"))
            if tested
            else None
        ),
    )


def decide_across_runs(states: Mapping[str, RunState]) -> dict[str, tuple[HypothesisDecision, ...]]:
    """Decide the hypotheses of several runs; confirmed ones at levels from Holm's correction over all runs."""
    alone = {name: decide_hypotheses(state) for name, state in states.items()}
    levels = compute_joint_levels(alone)
    return {
        name: decide_hypotheses(state, levels[name]) if name in levels else alone[name]
        for name, state in states.items()
    }


def compute_joint_levels(alone: Mapping[str, Sequence[HypothesisDecision]]) -> dict[str, dict[str, float]]:
    """Return study -> confirmed hypothesis -> its level from Holm's correction over all of them."""
    asked = [(name, one) for name, every in alone.items() for one in every if one.confirmed]
    levels: dict[str, dict[str, float]] = {}
    for (name, one), level in zip(asked, compute_holm_levels([one.p for _, one in asked]), strict=True):
        levels.setdefault(name, {})[one.hypothesis.id] = level
    return levels


def find_deciding_nodes(state: RunState) -> tuple[list[Node], bool]:
    """Return the replicates that decide, and whether they are the fresh ones of the lock (others only give a preview).

    If a seed was run twice, the last replicate counts.
    """
    best = find_winner(state)
    if best is None:
        return [], False
    nodes = {one.seed: one for one in find_trusted_replicates(state, best) if one.is_finished}
    return [*nodes.values()], bool(nodes) and state.current_lock is not None and all(
        map(state.current_lock.is_fresh_seed, nodes)
    )


def read_replicate_values(node: Node, tests: Sequence[Measurement] | None = None) -> ReplicateValues:
    """Read the values of a replicate: on test data if `tests` is given, else on validation data.

    Values on dev are self-reported by the code.
    """
    last = node.attempts[-1] if node.attempts else None
    final = (*(last.self_reported if last is not None else ()), *node.measurements, *(tests or ()))
    values = {
        split: {
            (one.dataset, one.condition, one.name): one.value
            for one in final
            if one.split == split and one.step is None
        }
        for split in ("dev", "validation", "test")
    }
    return ReplicateValues(
        node.seed,
        node.id,
        values["validation" if tests is None else "test"],
        values,
        frozenset(
            CellRef(one.cell.dataset, one.cell.arm, one.cell.level)
            for one in (last.cells if last is not None else ())
            if one.diverged
        ),
        node.failure.message if node.failure is not None else "",
    )


def decide_from_runs(
    plan: DataPlan,
    runs: Sequence[ReplicateValues],
    *,
    confirmed: bool,
    find_resampled: ResampledLookup = lambda key: None,
    levels: Mapping[str, float] = MappingProxyType({}),
) -> tuple[HypothesisDecision, ...]:
    """Decide every hypothesis of a plan from these runs."""
    measured = {
        one.id: [
            _estimate_effect(plan, one, effect, runs, find_resampled(format_effect_key(one, number)))
            for number, effect in enumerate(list_estimated_effects(one))
        ]
        for one in plan.hypotheses
    }
    asked = [one for one in plan.hypotheses if one.confirmatory]
    found = {one.id: _compute_p(measured[one.id][: len(one.effects)]) for one in plan.hypotheses}
    own = compute_holm_levels([found[one.id] for one in asked])
    level_of = {one.id: level for one, level in zip(asked, own, strict=True)} | dict(levels)
    return tuple(
        _build_decision(
            one,
            measured[one.id],
            found[one.id],
            level_of.get(one.id, SIGNIFICANCE_LEVEL),
            family=len(asked) if one.confirmatory else 1,
            confirmed=confirmed and one.confirmatory,
        )
        for one in plan.hypotheses
    )


def compute_holm_levels(p_values: Sequence[float | None]) -> list[float]:
    """Return the level at which Holm's correction tests each p; after the first failure all use the failed level."""
    ordered = sorted(range(len(p_values)), key=lambda place: inf if (p := p_values[place]) is None else p)
    levels, failed = [SIGNIFICANCE_LEVEL] * len(p_values), 0.0
    for rank, place in enumerate(ordered):
        level = failed or SIGNIFICANCE_LEVEL / (len(p_values) - rank)
        p = p_values[place]
        if p is None or p > level:
            failed = level
        levels[place] = level
    return levels


class UnitValues(NamedTuple):
    """The values of an effect by unit, and why other seeds have none."""

    values: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    diverged: Mapping[str, int] = {}
    """Arm that the effect reads -> number of seeds with which it diverged."""
    ran: int = 0
    left_out: tuple[str, ...] = ()


VarianceTerms = tuple[tuple[float, float], ...]
"""Variances that add up to that of a mean, each with its degrees of freedom; the variance over units comes first."""


class _DivergenceBound(NamedTuple):
    """The outcome if everything diverged that can hurt (or help) an effect, and how often that may happen."""

    values: tuple[float, ...]
    """Measured values by unit, for units without divergence, and the corresponding losses."""
    losses: tuple[float, ...]
    diverged_of_ran: tuple[tuple[int, int], ...]
    """For each arm: (seeds that diverged, seeds that ran)."""

    def compute_max_rate(self, level: float) -> float:
        """Return an upper bound on the rate at which any of these arms diverges."""
        return min(1.0, sum(compute_upper_rate(found, ran, level / 2) for found, ran in self.diverged_of_ran))

    def compute_interval_end(self, level: float, sign: float, beside: VarianceTerms) -> float:
        """Return one end of the interval of the mean with worst values: the lower (-1) or the upper one (1)."""
        rate = self.compute_max_rate(level)
        values = [(1 - rate) * value + rate * lost for value, lost in zip(self.values, self.losses, strict=True)]
        return fmean(values) + sign * compute_half_width((_estimate_unit_variance(values), *beside), level)


class _EffectEstimate(NamedTuple):
    """An effect before its interval: the variances of its mean, or why there are none."""

    effect: Effect
    units: UnitValues = UnitValues()
    spread: VarianceTerms = ()
    divergence_bounds: tuple[_DivergenceBound, _DivergenceBound] | None = None
    """Set if worst values count: bounds for harm and for benefit."""
    why: str = ""

    @property
    def level_factor(self) -> float:
        """The factor by which the level of the interval is multiplied."""
        return SKEWED_LEVEL_FACTOR if has_extreme(self.effect.estimand) else 1.0

    def compute_interval(self, level: float) -> tuple[float, float]:
        """Return the interval at a level."""
        return _compute_interval(
            fmean(self.units.values), self.spread, self.divergence_bounds, level * self.level_factor
        )


def compute_half_width(spread: VarianceTerms, level: float) -> float:
    """Return half of the interval width of a mean whose variance is a sum of these terms."""
    if len(freedoms := {freedom for variance, freedom in spread if variance}) == 1:
        return compute_t_quantile(1 - level / 2, freedoms.pop()) * sqrt(sum(variance for variance, _ in spread))
    return sqrt(
        sum(compute_t_quantile(1 - level / 2, freedom) ** 2 * variance for variance, freedom in spread if variance)
    )


def _compute_interval(
    mean: float, spread: VarianceTerms, rare: tuple[_DivergenceBound, _DivergenceBound] | None, level: float
) -> tuple[float, float]:
    """Return the interval of a mean at a level."""
    half = compute_half_width(spread, level)
    if rare is None:
        return mean - half, mean + half
    hurts, helps = rare
    return min(mean - half, hurts.compute_interval_end(level, -1, spread[1:])), max(
        mean + half, helps.compute_interval_end(level, 1, spread[1:])
    )


def _estimate_unit_variance(values: Sequence[float]) -> tuple[float, float]:
    spread = stdev(values) if differs_beyond_rounding(values) else 0.0
    return spread**2 / len(values), len(values) - 1.0


def _estimate_effect(
    plan: DataPlan, one: Hypothesis, effect: Effect, runs: Sequence[ReplicateValues], over: ResampledInterval | None
) -> _EffectEstimate:
    try:
        units = compute_unit_values(plan, one, effect, runs)
    except (MissingCell, EstimandError) as gap:
        return _EffectEstimate(effect, why=f"{gap} was not measured" if isinstance(gap, MissingCell) else str(gap))
    found = _EffectEstimate(effect, units)
    if len(units.values) < 2:
        lost = next(iter(units.left_out), "") or (
            "training diverged with every seed" if any(units.diverged.values()) else "nothing was measured"
        )
        return found._replace(why="one unit shows no spread" if units.values else lost)
    if over is not None and one.unit == "seeds and clusters" and (over.sd is None or over.reason):
        return found._replace(why=f"the spread over clusters is unknown: {over.reason or 'a score has no value'}")
    if over is not None and one.unit == "seeds and clusters" and over.worth and over.clusters < MIN_CLUSTERS:
        return found._replace(why=f"{over.clusters} clusters, at least {MIN_CLUSTERS} needed")
    spread = _collect_variances(_estimate_unit_variance(units.values), over if "and" in one.unit else None)
    if not any(variance for variance, _ in spread):
        return found._replace(why="every seed gave the same: the spread is unknown")
    if one.diverged != "worst value":
        return found._replace(spread=spread)
    try:
        return found._replace(spread=spread, divergence_bounds=_bound_divergence(plan, one, effect, runs, units))
    except MissingCell as gap:
        return found._replace(why=f"{gap} has no value where training diverges")


def _collect_variances(own: tuple[float, float], over: ResampledInterval | None) -> VarianceTerms:
    """Return the variance over units and, if known, that over examples.

    In older records both have Satterthwaite's degrees of freedom, with which they were printed.
    """
    if over is None or not over.sd:
        return (own,)
    if over.worth:
        return (own, (over.sd**2, max(over.worth - 1, 0.01)))
    freedom = own[1] * ((own[0] + over.sd**2) / own[0]) ** 2 if own[0] else inf
    return ((own[0], min(freedom, 1e6)), (over.sd**2, min(freedom, 1e6)))


def compute_unit_values(
    plan: DataPlan, hypothesis: Hypothesis, effect: Effect, runs: Sequence[ReplicateValues]
) -> UnitValues:
    """Return the values of an effect by unit: a seed, or a dataset with its mean over seeds.

    Raises `MissingCell` if a dataset that is a unit has no value, and `EstimandError`.
    """
    datasets = [use.name for use in plan.datasets] if hypothesis.unit == "datasets" and runs else [""]
    found: list[tuple[int, float]] = []
    values, left_out, diverged, ran = list[float](), list[str](), Counter[str](), 0
    for dataset in datasets:
        of_dataset: list[tuple[int, float]] = []
        for run in runs:
            try:
                value, lost = compute_effect_value(plan, hypothesis, effect, run, dataset=dataset)
                of_dataset.append((run.seed, float(value)))
                diverged.update(lost)
                ran += 1
            except DivergedError as those:
                diverged.update(those.arms)
                ran += 1
            except MissingCell as gap:
                left_out.append(f"{gap} was not measured{f' ({run.failure})' if run.failure else ''}")
        if dataset and not of_dataset:
            raise MissingCell(CellRef(dataset, "every arm", ""), " together, with any seed,")
        values += [fmean(value for _, value in of_dataset)] if dataset else []
        found += of_dataset
    seeds = () if hypothesis.unit == "datasets" else tuple(seed for seed, _ in found)
    arms = dict.fromkeys(
        place.arm for place in list_cells_read(effect.estimand, plan, find_effect_metric(effect, plan))
    )
    return UnitValues(
        tuple(values) if hypothesis.unit == "datasets" else tuple(value for _, value in found),
        seeds,
        {arm: diverged[arm] for arm in arms} if ran else {},
        ran,
        tuple(left_out),
    )


class _EstimandReader:
    """Reads the cells of a run for an estimand, and collects those that diverged or are missing."""

    def __init__(
        self, run: ReplicateValues, metric: MetricSpec, worst: float | None, values: CellValueLookup | None
    ) -> None:
        self._run, self._metric, self._values, self.worst = run, metric, values, worst
        self.diverged: set[str] = set()
        self.missing: list[CellRef] = []

    def __call__(self, place: CellRef) -> EstimandValue:
        found = self._find_value(place)
        if found is not None:
            return found
        if place._replace(selection_split="") not in self._run.diverged:
            self.missing.append(place)
        elif place.selection_split:  # never selected
            return -inf if self._metric.higher_is_better else inf
        else:
            self.diverged.add(place.arm)
            if self.worst is not None:
                return self.worst
        return nan

    def _find_value(self, place: CellRef) -> EstimandValue | None:
        if self._values is not None and not place.selection_split:
            return self._values(place)
        found = self._run.values_by_split.get(place.selection_split, {}) if place.selection_split else self._run.values
        return found.get((place.dataset, place.condition, self._metric.name))


def compute_effect_value(
    plan: DataPlan,
    hypothesis: Hypothesis,
    effect: Effect,
    run: ReplicateValues,
    *,
    dataset: str = "",
    values: CellValueLookup | None = None,
) -> tuple[EstimandValue, frozenset[str]]:
    """Return the value of an effect in one run, on a dataset (default: the main one), and the diverged arms that it
    reads.

    Raises `DivergedError` if such a run is left out, `MissingCell` if a cell is missing, and `EstimandError`.
    """
    metric = find_effect_metric(effect, plan)
    read = _EstimandReader(run, metric, metric.worst if hypothesis.diverged == "worst value" else None, values)
    try:
        value = evaluate_estimand(effect.estimand, plan, metric, read, dataset=dataset)
    except MissingCell as gap:
        raise MissingCell(gap.place, f" with seed {run.seed}") from None
    if read.diverged and read.worst is None:
        raise DivergedError(frozenset(read.diverged))
    if read.missing:
        raise MissingCell(read.missing[0], f" with seed {run.seed}")
    return value, frozenset(read.diverged)


def _bound_divergence(
    plan: DataPlan, one: Hypothesis, effect: Effect, runs: Sequence[ReplicateValues], units: UnitValues
) -> tuple[_DivergenceBound, _DivergenceBound]:
    """Return the worst and the best outcome of divergence for an effect, over runs without divergence.

    Raises `MissingCell`.
    """
    metric = find_effect_metric(effect, plan)
    whole: list[tuple[str, ReplicateValues]] = []
    for dataset in [use.name for use in plan.datasets] if one.unit == "datasets" else [""]:
        for run in runs:
            try:
                whole += [] if compute_effect_value(plan, one, effect, run, dataset=dataset)[1] else [(dataset, run)]
            except MissingCell:
                continue
    if len(whole) < 2 or metric.worst is None:
        raise MissingCell(CellRef(plan.datasets[0].name, "an effect of fewer than two seeds without divergence", ""))

    def made(sign: float) -> _DivergenceBound:
        arms, values, lost = set[str](), list[float](), list[float]()
        for dataset, run in whole:
            most, places = _find_worst_value(plan, one, effect, run, dataset, sign)
            arms |= {place.arm for place in places}
            values.append(float(compute_effect_value(plan, one, effect, run, dataset=dataset)[0]))
            lost.append(most)
        return _DivergenceBound(
            tuple(values), tuple(lost), tuple((units.diverged[arm], units.ran) for arm in sorted(arms))
        )

    return made(1.0), made(-1.0)


def compute_worst_loss(
    plan: DataPlan, hypothesis: Hypothesis, effect: Effect, runs: Sequence[ReplicateValues]
) -> float:
    """Return the maximum mean loss from divergence if worst values count; else 0.

    Raises `MissingCell`.
    """
    if hypothesis.diverged != "worst value":
        return 0.0
    hurts, _ = _bound_divergence(plan, hypothesis, effect, runs, compute_unit_values(plan, hypothesis, effect, runs))
    return fmean(hurts.values) - fmean(hurts.losses)


def _find_worst_value(
    plan: DataPlan, one: Hypothesis, effect: Effect, run: ReplicateValues, dataset: str, sign: float
) -> tuple[float, set[CellRef]]:
    """Return the minimum of an effect in a run (maximum if `sign` is -1) if cells of it diverge, and those cells.

    A cell is included if it lowers the value, alone or with the others. Raises `MissingCell`.
    """
    metric, lost = find_effect_metric(effect, plan), set[CellRef]()

    def at(places: set[CellRef]) -> float:
        return float(
            compute_effect_value(
                plan,
                one,
                effect,
                run,
                dataset=dataset,
                values=lambda place: (
                    metric.worst if place in places else run.values.get((place.dataset, place.condition, metric.name))
                ),
            )[0]
        )

    least = at(lost)
    every = [
        place for place in list_cells_read(effect.estimand, plan, metric, dataset=dataset) if not place.selection_split
    ]
    for _ in range(2):  # twice: losing only one of two cells does not change their maximum
        for place in every:
            if sign * (value := at(lost | {place})) < sign * least:
                least, lost = value, lost | {place}
    return least, lost


def _compute_p(parts: Sequence[_EffectEstimate]) -> float | None:
    return None if any(not part.spread for part in parts) else max(map(_compute_effect_p, parts))


def _compute_effect_p(part: _EffectEstimate) -> float:
    """Return the level at which the lower end of the effect's interval equals its smallest effect."""
    mean, smallest = fmean(part.units.values), part.effect.smallest
    freedoms = {freedom for variance, freedom in part.spread if variance}
    if len(freedoms) == 1 and part.divergence_bounds is None:
        error = sqrt(sum(variance for variance, _ in part.spread))
        return min(1.0, 2 * compute_t_probability(-(mean - smallest) / error, freedoms.pop()) / part.level_factor)
    return min(1.0, _solve_level(mean, part.spread, part.divergence_bounds, smallest) / part.level_factor)


@lru_cache(maxsize=512)
def _solve_level(
    mean: float, spread: VarianceTerms, rare: tuple[_DivergenceBound, _DivergenceBound] | None, smallest: float
) -> float:
    low, high = -700.0, 0.0  # logarithm of the level
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if _compute_interval(mean, spread, rare, exp(middle))[0] > smallest else (middle, high)
        )
    return exp(high)


def _build_decision(
    one: Hypothesis, measured: Sequence[_EffectEstimate], p: float | None, level: float, *, family: int, confirmed: bool
) -> HypothesisDecision:
    parts = [_decide_effect(part, level) for part in measured]
    end = len(one.effects) + len(one.alternatives)
    own, others, rival = parts[: len(one.effects)], parts[len(one.effects) : end], parts[end:]
    verdicts = [part.verdict for part in own]
    against: tuple[HypothesisVerdict, ...] = ("opposite", "negligible", "smaller")
    # while one part is undecided, so is the whole: no verdict for all parts would be true of it
    refuted: tuple[HypothesisVerdict, ...] = tuple(
        name for name in against if "undecided" not in verdicts and name in verdicts
    )
    verdict: HypothesisVerdict = "supported" if set(verdicts) == {"supported"} else (*refuted, "undecided")[0]
    return HypothesisDecision(
        hypothesis=one,
        parts=tuple(own),
        verdict=verdict,
        p=p,
        level=level,
        family=family,
        confirmed=confirmed,
        holds=sum(part.verdict == "supported" for part in others),
        others=tuple(others),
        rival=rival[0] if rival else None,
    )


def _decide_effect(part: _EffectEstimate, level: float) -> EffectDecision:
    values = part.units.values
    base = EffectDecision(
        effect=part.effect,
        values=values,
        seeds=part.units.seeds,
        why=part.why,
        mean=fmean(values) if values else None,
        diverged=dict(part.units.diverged),
        ran=part.units.ran,
        left_out=part.units.left_out,
    )
    if not part.spread:
        return base
    mean = fmean(values)
    low, high = part.compute_interval(level)
    verdict = classify_interval(low, high, part.effect.smallest)
    open_ = verdict == "undecided"
    return base.model_copy(
        update={
            "low": low,
            "high": high,
            "verdict": verdict,
            "examples": any(variance for variance, _ in part.spread[1:]),
            "sd": stdev(values) if differs_beyond_rounding(values) else None,
            "why": _explain_divergence(part, level) if open_ and part.divergence_bounds is not None else "",
            "decides": compute_deciding_n(part, mean, level) if open_ and part.divergence_bounds is None else None,
        }
    )


def _explain_divergence(part: _EffectEstimate, level: float) -> str:
    """Return how often training may diverge, if only that leaves the effect undecided; else ""."""
    smallest = part.effect.smallest
    if (
        part.divergence_bounds is None
        or classify_interval(*part._replace(divergence_bounds=None).compute_interval(level), smallest) == "undecided"
    ):
        return ""
    return (
        f"{part.units.ran} seeds leave it open whether training diverges with up to "
        f"{max(one.compute_max_rate(level * part.level_factor) for one in part.divergence_bounds):.0%} of them"
    )


def classify_interval(low: float, high: float, smallest: float) -> HypothesisVerdict:
    """Return the first verdict that an interval supports."""
    if low > smallest:
        return "supported"
    if low > 0 and high < smallest:
        return "smaller"
    if -smallest < low and high < smallest:
        return "negligible"
    return "opposite" if high < 0 else "undecided"


def compute_deciding_n(part: _EffectEstimate, mean: float, level: float) -> int | None:
    """Return the number of units that would decide, given the current mean and spread; None if no number would."""
    smallest, values = part.effect.smallest, part.units.values
    if mean > smallest:
        room = mean - smallest
    elif mean > -smallest:
        room = max(smallest - abs(mean), -mean)
    else:
        room = -mean
    (variance, freedom), *more = part.spread
    as_before = (
        freedom != len(values) - 1
    )  # older record: the spread over examples has no degrees of freedom of its own

    def decides(n: int) -> bool:
        return (
            compute_half_width(
                ((variance * len(values) / n, n - 1.0), *((over, n - 1.0 if as_before else of) for over, of in more)),
                level * part.level_factor,
            )
            < room
        )

    sizes = _list_sample_sizes()  # the interval narrows with n
    return sizes[bisect_left(sizes, True, key=decides)] if decides(sizes[-1]) else None


def compute_planned_n(sd: float, pilot: int, smallest: float, level: float) -> int:
    """Return the fresh units needed to decide effects of zero and of twice the smallest, with 80 % power, from a pilot.

    At twice the smallest effect the interval must lie above the smallest, at zero within plus and minus it. As in
    Stein's rule the quantiles use the pilot's degrees of freedom, so that a spread underestimated by chance does not
    reduce the power; since the spread of the fresh units is an estimate as well, n is planned for `TARGET_POWER`.
    """
    both = compute_t_quantile(1 - level / 2, pilot - 1) + compute_t_quantile((1 + TARGET_POWER) / 2, pilot - 1)
    return max(MIN_REPLICATES, min(MAX_UNITS, ceil((both * sd / smallest) ** 2)))


def compute_divergence_n(harm: float, smallest: float, level: float) -> int:
    """Return the fresh units that, if none diverges, show that divergence costs at most half of the smallest effect.

    `harm` is the cost of one divergence.
    """
    rate = min(1.0, smallest / 2 / harm) if harm > 0 else 1.0
    return min(MAX_UNITS, ceil(log(level / 2) / log(1 - rate))) if rate < 1 else 1


@cache
def _list_sample_sizes() -> Sequence[int]:
    """Return the numbers of units to try: each up to 200, then in steps of 5 %."""
    sizes = [*range(2, 200)]
    while sizes[-1] < MAX_UNITS:
        sizes.append(ceil(sizes[-1] * 1.05))
    return sizes
