"""What comes of the plan's hypotheses: each effect by unit, its interval, and the first verdict that it supports.

An effect is computed for every seed from that seed's own values, so that arms are paired; its interval is Student's
over seeds. Where test examples, or clusters of them, count as a sample, too, the variance over them is added to that of
the mean over seeds, each times the square of its own Student quantile: that holds whatever their sizes, where degrees
of freedom after Satterthwaite promise too much with two or three seeds. Where datasets are the unit, a value is a
dataset's mean over seeds. Over fewer clusters than `MIN_CLUSTERS` nothing is decided.

A seed whose training diverged is left out, with the rate of every arm told beside the verdict, or counts as the
metric's worst value, as the hypothesis says. The mean with worst values has no Student's interval: one that saw no
divergence knows nothing of a rare one. So its interval also holds what the mean would be if each arm diverged as often
as the upper end of its Clopper-Pearson interval says, wherever that hurts, or helps. Seeds that have no value for
another reason are left out, and told.

By the interval, first match: `supported` (above the smallest effect), `smaller` (above zero, below the smallest),
`negligible` (within plus and minus the smallest), `opposite` (below zero), else `undecided`. The p of a hypothesis is
of "at most the smallest effect", doubled as two-sided intervals want it, the largest of its parts; Holm's correction
runs over the confirmatory hypotheses, and each interval is at the level at which its p was looked at. So at most 2.5 %
of studies call something supported that is not, however the hypotheses depend on each other. `smaller`, `negligible`
and `opposite` are read off the same intervals.

What it does not guarantee: that values, by seed and by cluster, are roughly normal (for estimands with a least or
largest value, which are skewed if the cells are normal, intervals are wider). Preview verdicts, on validation
data or seeds that the search has used, confirm nothing.

Sources: Holm 1979; Banerjee 1960 (the sum of variances with their own quantiles), Kish 1965 and Carter, Schnepel and
Steigerwald 2017 (what unequal clusters are worth); Clopper and Pearson 1934; Stein 1945 (n from a pilot). Satterthwaite
1946, in records from before.
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
"""(dataset, condition, metric) -> value, of one run on one split."""
TARGET_POWER = 0.9
"""Power that n is planned for, so that 80 % are kept; measured by `benchmarks.decisions`."""
MAX_UNITS = 10_000
"""More units than this are no answer to how many would decide."""


SKEWED_LEVEL_FACTOR = 0.6
"""Of its level, that at which the interval of an estimand with a `min`, `max` or `worst` is taken: the least of several
normal values is skewed, and Student's interval misses its mean in up to 3.9 % on one side (of 30 values, five seeds)
where it promises 2.5 %. Measured by `benchmarks.false_support`."""
MIN_CLUSTERS = 5
"""Clusters of test examples below which no verdict is given: so few show no spread that could be trusted."""


class ReplicateValues(NamedTuple):
    """One execution of the winner's program: its seed, and what it measured on the split that decides and on others."""

    seed: int
    node: str
    values: ValuesByCell
    values_by_split: Mapping[str, ValuesByCell] = {}
    """Split -> values: dev and validation, which choices inside an estimand go by."""
    diverged: frozenset[CellRef] = frozenset()
    failure: str = ""
    """Why the whole of it has no values."""


ResampledLookup = Callable[[str], ResampledInterval | None]
"""What resampling the test examples says of an effect, by key; None on validation data, which nobody resamples."""
CellValueLookup = Callable[[CellRef], EstimandValue | None]
"""The values of a run in the place of those that it measured: its resamples, or what would have been measured."""


class DivergedError(Exception):
    """Training of arms that an effect reads diverged, and such seeds are left out."""

    def __init__(self, arms: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(arms)))
        self.arms = arms


def format_effect_key(hypothesis: Hypothesis, number: int) -> str:
    """The key of one of what `measured_of` lists."""
    return f"hypothesis/{hypothesis.id}/{number}"


def list_estimated_effects(hypothesis: Hypothesis) -> tuple[Effect, ...]:
    """All that is estimated of a hypothesis, in the order of their keys: its effects, its alternatives, its rival's."""
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
    """A dataset by the columns that examples may be clustered by: their values, and how many of them test has."""

    @property
    def meta(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def meta_in_test(self) -> Mapping[str, int]: ...


def find_cluster_faults(plan: DataPlan, known: Mapping[str, HasColumns]) -> Iterator[str]:
    """What keeps the test examples that a hypothesis reads from being clusters that decide it, a sentence each."""
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
                    f"hypothesis {one.id!r}: {one.cluster!r} is no column of {name!r} to cluster by; there "
                    + (f"are {', '.join(columns)}" if columns else "is none (group= or meta= of the data)")
                )
            elif found < MIN_CLUSTERS:
                yield (
                    f"hypothesis {one.id!r}: the test examples of {name!r} have {found} clusters by "
                    f"{one.cluster!r}, and fewer than {MIN_CLUSTERS} decide nothing: take unit 'seeds and "
                    "examples' and say in `untested` that other clusters are not tested, or bring data with more"
                )


def decide_hypotheses(state: RunState, levels: Mapping[str, float] | None = None) -> tuple[HypothesisDecision, ...]:
    """Every hypothesis of the plan in order; on test data once it is scored, before that a preview on validation.

    All of them are exploratory in a branch of a run whose test data were scored before. `levels`, by hypothesis: at
    which each is looked at, where a family is larger than the run.
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
    """The decisions of several runs, those that are confirmed at levels that Holm's correction leaves over all runs."""
    alone = {name: decide_hypotheses(state) for name, state in states.items()}
    levels = compute_joint_levels(alone)
    return {
        name: decide_hypotheses(state, levels[name]) if name in levels else alone[name]
        for name, state in states.items()
    }


def compute_joint_levels(alone: Mapping[str, Sequence[HypothesisDecision]]) -> dict[str, dict[str, float]]:
    """Study -> confirmed hypothesis -> the level that Holm's correction leaves it over all of them."""
    asked = [(name, one) for name, every in alone.items() for one in every if one.confirmed]
    levels: dict[str, dict[str, float]] = {}
    for (name, one), level in zip(asked, compute_holm_levels([one.p for _, one in asked]), strict=True):
        levels.setdefault(name, {})[one.hypothesis.id] = level
    return levels


def find_deciding_nodes(state: RunState) -> tuple[list[Node], bool]:
    """The replicates that decide, and whether they are the fresh ones of the lock: others only give a preview. Of a
    seed that was run again the last one."""
    best = find_winner(state)
    if best is None:
        return [], False
    nodes = {one.seed: one for one in find_trusted_replicates(state, best) if one.is_finished}
    return [*nodes.values()], bool(nodes) and state.current_lock is not None and all(
        map(state.current_lock.is_fresh_seed, nodes)
    )


def read_replicate_values(node: Node, tests: Sequence[Measurement] | None = None) -> ReplicateValues:
    """What a replicate measured on validation data, or on test data, where these are given. Values of dev are what its
    code said."""
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
    """What these runs say of every hypothesis of a plan."""
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
    """The level at which each p is looked at by Holm's correction; after the first that fails, all at its level."""
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
    """The values of an effect by unit, and what became of the seeds that have none."""

    values: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    diverged: Mapping[str, int] = {}
    """Arm that is read -> seeds with which it diverged."""
    ran: int = 0
    left_out: tuple[str, ...] = ()


VarianceTerms = tuple[tuple[float, float], ...]
"""Variances that add up to that of a mean, each with its degrees of freedom; that over units first."""


class _DivergenceBound(NamedTuple):
    """What would have been had everything diverged that can hurt an effect (or help it), and how often that may be."""

    values: tuple[float, ...]
    """By unit, of those in which nothing diverged; that was measured, and that would have been."""
    losses: tuple[float, ...]
    diverged_of_ran: tuple[tuple[int, int], ...]
    """Of each arm: with how many seeds of how many it diverged."""

    def compute_max_rate(self, level: float) -> float:
        """The most often that any of these arms may diverge."""
        return min(1.0, sum(compute_upper_rate(found, ran, level / 2) for found, ran in self.diverged_of_ran))

    def compute_interval_end(self, level: float, sign: float, beside: VarianceTerms) -> float:
        """The end of the interval of the mean with worst values, the lower (-1) or the upper one (1)."""
        rate = self.compute_max_rate(level)
        values = [(1 - rate) * value + rate * lost for value, lost in zip(self.values, self.losses, strict=True)]
        return fmean(values) + sign * compute_half_width((_estimate_unit_variance(values), *beside), level)


class _EffectEstimate(NamedTuple):
    """An effect before its interval: the variances of its mean, or why there are none."""

    effect: Effect
    units: UnitValues = UnitValues()
    spread: VarianceTerms = ()
    divergence_bounds: tuple[_DivergenceBound, _DivergenceBound] | None = None
    """Where worst values count: what hurts, and what helps."""
    why: str = ""

    @property
    def level_factor(self) -> float:
        """Of a level, that at which the interval is taken."""
        return SKEWED_LEVEL_FACTOR if has_extreme(self.effect.estimand) else 1.0

    def compute_interval(self, level: float) -> tuple[float, float]:
        """The interval at a level."""
        return _compute_interval(
            fmean(self.units.values), self.spread, self.divergence_bounds, level * self.level_factor
        )


def compute_half_width(spread: VarianceTerms, level: float) -> float:
    """Half of the interval of a mean whose variance is a sum of these."""
    if len(freedoms := {freedom for variance, freedom in spread if variance}) == 1:
        return compute_t_quantile(1 - level / 2, freedoms.pop()) * sqrt(sum(variance for variance, _ in spread))
    return sqrt(
        sum(compute_t_quantile(1 - level / 2, freedom) ** 2 * variance for variance, freedom in spread if variance)
    )


def _compute_interval(
    mean: float, spread: VarianceTerms, rare: tuple[_DivergenceBound, _DivergenceBound] | None, level: float
) -> tuple[float, float]:
    """The interval of a mean at a level."""
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
    """The variance over units and, where it is known, that over examples. In records from before both have the degrees
    of freedom after Satterthwaite with which they were printed."""
    if over is None or not over.sd:
        return (own,)
    if over.worth:
        return (own, (over.sd**2, max(over.worth - 1, 0.01)))
    freedom = own[1] * ((own[0] + over.sd**2) / own[0]) ** 2 if own[0] else inf
    return ((own[0], min(freedom, 1e6)), (over.sd**2, min(freedom, 1e6)))


def compute_unit_values(
    plan: DataPlan, hypothesis: Hypothesis, effect: Effect, runs: Sequence[ReplicateValues]
) -> UnitValues:
    """The values of an effect in each unit: a seed, or a dataset with its mean over seeds.

    Raises `Gap` where a dataset that is a unit has no value, and `EstimandError`.
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
    """The cells of a run as an estimand reads them, and which of them diverged or are missing."""

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
        elif place.selection_split:  # it is chosen last
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
    """The value of an effect in one run, on a dataset (the main one), and the arms that diverged of those it reads.

    Raises `Diverged` where such a run is left out, `Gap` where a cell is missing, and `EstimandError`.
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
    """What divergence does to an effect at its worst, and at its best, in the runs without any. Raises `Gap`."""
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
    """What divergence costs an effect at most where worst values count, on average over the runs; else 0.
    Raises `Gap`.
    """
    if hypothesis.diverged != "worst value":
        return 0.0
    hurts, _ = _bound_divergence(plan, hypothesis, effect, runs, compute_unit_values(plan, hypothesis, effect, runs))
    return fmean(hurts.values) - fmean(hurts.losses)


def _find_worst_value(
    plan: DataPlan, one: Hypothesis, effect: Effect, run: ReplicateValues, dataset: str, sign: float
) -> tuple[float, set[CellRef]]:
    """The least value (the largest, where `sign` is -1) that an effect has in a run if cells of it diverge, and which:
    each that makes it less, alone or with others that do. Raises `Gap`."""
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
    for _ in range(2):  # once more: of the larger of two, either alone costs nothing
        for place in every:
            if sign * (value := at(lost | {place})) < sign * least:
                least, lost = value, lost | {place}
    return least, lost


def _compute_p(parts: Sequence[_EffectEstimate]) -> float | None:
    return None if any(not part.spread for part in parts) else max(map(_compute_effect_p, parts))


def _compute_effect_p(part: _EffectEstimate) -> float:
    """The level at which the interval of an effect just reaches down to its smallest."""
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
    low, high = -700.0, 0.0  # of its logarithm
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
    # while a part is open the whole is: no word for all of them is true of that part
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
    """How often training may diverge, where that alone keeps an effect from being decided; else empty."""
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
    """The first verdict that an interval supports."""
    if low > smallest:
        return "supported"
    if low > 0 and high < smallest:
        return "smaller"
    if -smallest < low and high < smallest:
        return "negligible"
    return "opposite" if high < 0 else "undecided"


def compute_deciding_n(part: _EffectEstimate, mean: float, level: float) -> int | None:
    """Units whose interval would decide, were mean and spread what they are now; None where no number would."""
    smallest, values = part.effect.smallest, part.units.values
    if mean > smallest:
        room = mean - smallest
    elif mean > -smallest:
        room = max(smallest - abs(mean), -mean)
    else:
        room = -mean
    (variance, freedom), *more = part.spread
    as_before = freedom != len(values) - 1  # a record from before, whose spread over examples has no freedom of its own

    def decides(n: int) -> bool:
        return (
            compute_half_width(
                ((variance * len(values) / n, n - 1.0), *((over, n - 1.0 if as_before else of) for over, of in more)),
                level * part.level_factor,
            )
            < room
        )

    sizes = _list_sample_sizes()  # the larger, the narrower is the interval
    return sizes[bisect_left(sizes, True, key=decides)] if decides(sizes[-1]) else None


def compute_planned_n(sd: float, pilot: int, smallest: float, level: float) -> int:
    """Fresh units that decide effects of zero and of twice the smallest with a power of 80 %, from a pilot's spread.

    At twice the smallest effect the interval is to lie above the smallest, at zero within plus and minus it. As in
    Stein's rule the quantiles have the pilot's degrees of freedom, so that a spread which came out small by chance does
    not take the power; since the spread of the fresh units is an estimate as well, `AIM` is aimed at.
    """
    both = compute_t_quantile(1 - level / 2, pilot - 1) + compute_t_quantile((1 + TARGET_POWER) / 2, pilot - 1)
    return max(MIN_REPLICATES, min(MAX_UNITS, ceil((both * sd / smallest) ** 2)))


def compute_divergence_n(harm: float, smallest: float, level: float) -> int:
    """Fresh units that show, where none of them diverges, that divergence costs half of the smallest effect at most.
    `harm` is what one costs."""
    rate = min(1.0, smallest / 2 / harm) if harm > 0 else 1.0
    return min(MAX_UNITS, ceil(log(level / 2) / log(1 - rate))) if rate < 1 else 1


@cache
def _list_sample_sizes() -> Sequence[int]:
    """Numbers of units that are tried, each up to 200, then in steps of a twentieth."""
    sizes = [*range(2, 200)]
    while sizes[-1] < MAX_UNITS:
        sizes.append(ceil(sizes[-1] * 1.05))
    return sizes
