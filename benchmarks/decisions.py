"""`python -m benchmarks.decisions --out FILE`: how often a false claim is supported, and how often intervals cover.

`boundary`: confirmations of every unit and form of estimand, from 2 to 40 seeds and from 5 clusters, with and without
divergence, as in a run (`stages.evidence.resampling`). The true value of an estimand is its mean over seeds on all
possible test examples; the claim is "at least" this value, so at most 2.5 % may be supported. `rules`: the same for one
to eight looks, families of hypotheses, conjunctions, chains and ratios, with values drawn per seed; every study goes on
to its last look. `crossed`: two-sided coverage of intervals over crossed seeds and examples, and their power at an
effect that an interval with known variances finds in 80 %. `looks`: power and seeds of a table of looks, against the
planned number of seeds at once.

Rules are simulated on arrays; a sample of studies is also decided by `record.claims.hypothesis_tests`, and a difference
is an error. Shares have 95 % Clopper-Pearson intervals. Exits 1 if a share of false claims is above .025 by more than
simulation error: by an interval corrected for all cases (Bonferroni). Such a boundary case is simulated once more,
independently and five times as often, which decides; `first` is the first share.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import ceil, inf, sqrt
from typing import Any, get_args
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from benchmarks.report import make_parser, print_report
from labwright.record.claims.differences import MAX_FREEDOM, MIN_CALIBRATED_FREEDOM, Spread, compute_exponent
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_t_quantile, compute_upper_rate
from labwright.record.claims.hypothesis_tests import (
    SKEWED_LEVEL_FACTOR,
    LookSample,
    ReplicateValues,
    decide_from_looks,
    decide_from_runs,
)
from labwright.record.claims.planned_seeds import compute_planned_seeds
from labwright.record.estimands import (
    BinaryOperation,
    CellRef,
    Expression,
    NumberLiteral,
    evaluate_estimand,
    has_extreme,
    list_cells_read,
    split_quotient,
)
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, MetricSpec, ResampledInterval
from labwright.record.schema.decisions import build_look_sizes, build_look_weights
from labwright.record.schema.hypotheses import Effect, Hypothesis, IntervalUnit
from labwright.stages.evidence.resampling import SampleSize, resample_effect

Array = NDArray[Any]
stats: Any = scipy_stats
MAX_FALSE_RATE = 0.025
DRAWS = 400
"""Bootstrap draws of examples: fewer than in a run, which makes the spread slightly less exact."""
VALIDATION = 0.02
"""Spread of validation values around those of all examples."""
BATCH_SIZE, CHECKED_PER_BATCH = 250, 15
"""Confirmations per batch; number of them, twice, that are also decided individually."""
MIN_TRUTH_DRAWS, MAX_TRUTH_DRAWS = 250_000, 500_000
"""Seeds that give a true value: 125 for each confirmation, within these bounds."""
EXAMPLES = 100
COVERAGE_GOAL = (0.94, 0.97)
FORMS: dict[str, tuple[str, ...]] = {
    "difference": ("method@a0 - baseline@a0",),
    "ratio": ("method@a0 / baseline@a0",),
    "relative change": ("change(method@a0, baseline@a0)",),
    "difference of differences": ("mean(drop(baseline, from=a0) - drop(method, from=a0), over=[a1, a2])",),
    "slope": ("slope(method - baseline, over=levels)",),
    "mean over levels": ("mean(method - baseline, over=levels)",),
    "worst of a difference": ("worst(method - baseline, over=levels)",),
    "difference of worsts": ("worst(method, over=levels) - worst(baseline, over=levels)",),
    "difference of maxima": ("max(method, over=levels) - max(baseline, over=levels)",),
    "mean over datasets": ("mean(method@a0 - baseline@a0, over=datasets)",),
    "least over datasets": ("min(method@a0 - baseline@a0, over=datasets)",),
    "difference of worst datasets": ("worst(method@a0, over=datasets) - worst(baseline@a0, over=datasets)",),
    "threshold": ("method@a0 - baseline@a0 - 0.5 * (method@a1 - baseline@a1)",),
    "chosen on validation": (
        "tuned(method, over=levels, by=validation) - tuned(baseline, over=levels, by=validation)",
    ),
    "two effects, both at the boundary": ("method@a0 - baseline@a0", "method@a1 - baseline@a1"),
}
ARMS = ("method", "baseline")
MEANS = {"baseline": 0.50, "method": 0.60}
LEVELS = {"a0": 0.0, "a1": 0.02, "a2": 0.05}
"""Effect of a level on the method; the baseline's levels are equal, so its worst one is random."""


@dataclass(frozen=True)
class Case:
    """Confirmations of one kind. Spreads are of the difference between two arms."""

    form: str
    unit: IntervalUnit
    n: int
    clusters: int = 0
    unequal: bool = False
    seed_sd: float = 0.05
    sample_sd: float = 0.05
    """Spread of the mean over the test set, between test sets."""
    diverges: tuple[float, float] = (0.0, 0.0)
    """Probability that training of method and baseline diverges."""
    datasets: int = 1

    @property
    def is_sampled(self) -> bool:
        return self.unit in ("seeds and examples", "seeds and clusters")

    @property
    def units(self) -> int:
        """Number of examples of a test set, or of clusters."""
        return self.clusters or EXAMPLES

    @property
    def weights(self) -> Array:
        """Share of the test set of each; the largest cluster is seven times the smallest."""
        sizes = np.exp(np.linspace(-1, 1, self.units)) if self.unequal else np.ones(self.units)
        return sizes / sizes.sum()

    def build_plan(self, smallest: tuple[float, ...]) -> DataPlan:
        """Build the plan of such a study."""
        effects = tuple(
            Effect(estimand=text, smallest=size) for text, size in zip(FORMS[self.form], smallest, strict=True)
        )
        return DataPlan(
            task="simulated",
            expected_seconds=1,
            factor="x",
            metrics=(MetricSpec(name="accuracy", higher_is_better=True, worst=0.0),),
            datasets=tuple(DatasetUse(name=f"d{k}") for k in range(self.datasets)),
            arms=(Arm(name="baseline", role="baseline"), Arm(name="method", role="method")),
            levels=tuple(Level(name=name, value=float(k)) for k, name in enumerate(LEVELS)),
            hypotheses=(
                Hypothesis(
                    id="h",
                    statement="above",
                    reason="less is noise",
                    unit=self.unit,
                    effects=effects,
                    cluster="group" if self.unit == "seeds and clusters" else "",
                ),
            ),
        )


def expected_score(place: CellRef) -> float:
    """Return the mean score of a cell."""
    return MEANS[place.arm] + (LEVELS[place.level] if place.arm == "method" else 0.0)


@dataclass
class Confirmations:
    """Many confirmations of one case at once: what was measured in each, by cell."""

    case: Case
    count: int
    rng: Generator
    places: tuple[CellRef, ...] = ()
    means: Array = field(init=False)
    """(count, cells): true value of a cell; if datasets are the unit, on the drawn datasets."""
    seeds: Array = field(init=False)
    """(count, n, cells): effect of training again."""
    sample: Array = field(init=False)
    """(count, units, cells): effect of an example or cluster. Cells of one dataset share half of it."""
    lost: Array = field(init=False)
    """(count, n, arms): whether training diverged."""

    def __post_init__(self) -> None:
        case, rng, cells = self.case, self.rng, len(self.places)
        self.means = np.tile([expected_score(place) for place in self.places], (self.count, 1))
        self.seeds = rng.normal(0, case.seed_sd / sqrt(2), (self.count, case.n, cells))
        self.lost = rng.random((self.count, case.n, 2)) < np.array(case.diverges)
        units = case.units if case.is_sampled else 1
        spread = case.sample_sd / sqrt(2) / sqrt((case.weights**2).sum()) if case.is_sampled else 0.0
        self.sample = rng.normal(0, spread, (self.count, units, cells))
        for dataset in dict.fromkeys(place.dataset for place in self.places):
            here = [k for k, place in enumerate(self.places) if place.dataset == dataset]
            self.sample[:, :, here] += rng.normal(0, spread, (self.count, units, 1))
            if case.unit == "datasets":
                for arm in ARMS:
                    own = [k for k in here if self.places[k].arm == arm]
                    self.means[:, own] += rng.normal(0, case.sample_sd / sqrt(2), (self.count, 1))

    @cached_property
    def resample_shares(self) -> Array:
        """(draws, units): the share of each example in a resample, or of the clusters that are not omitted."""
        case = self.case
        if not case.clusters:
            return self.rng.multinomial(case.units, case.weights, DRAWS) / case.units
        left = np.where(np.eye(case.units, dtype=bool), 0.0, case.weights)
        return left / left.sum(axis=1, keepdims=True)

    @cached_property
    def values(self) -> Array:
        """(count, n, cells): values on the test set."""
        over = np.einsum("u,cuk->ck", self.case.weights, self.sample) if self.case.is_sampled else 0.0
        return (self.means + over)[:, None] + self.seeds

    @cached_property
    def validation(self) -> Array:
        """(count, n, cells): values on validation data."""
        return self.means[:, None] + self.seeds + self.rng.normal(0, VALIDATION, self.seeds.shape)

    def make_reader(self, s: int, values: Array) -> Callable[[CellRef], Array]:
        """Return a reader of the cells with seed s: `values` are (count, ..., cells)."""

        def read(place: CellRef) -> Array:
            k = self.places.index(place._replace(selection_split=""))
            if not place.selection_split:
                return values[..., k]
            found = self.validation[:, s, k]
            return found.reshape(found.shape + (1,) * (values.ndim - 2))

        return read

    def compute_effects(self, plan: DataPlan, estimand: str | Expression, dataset: str = "") -> Array:
        """(count, n): the effect with each seed."""
        return np.stack(
            [self._effects_with_seed(plan, estimand, s, self.values[:, s], dataset) for s in range(self.case.n)], axis=1
        )

    def compute_shared_variance(self, plan: DataPlan, estimand: str | Expression) -> tuple[Array, float]:
        """Return the variance over examples or clusters that all seeds share, by confirmation, and its degrees of
        freedom; none if these are not sampled."""
        case, variance = self.case, np.zeros(self.count)
        if not case.is_sampled:
            return variance, inf
        moved = np.einsum("du,cuk->cdk", self.resample_shares, self.sample)
        datasets = dict.fromkeys(place.dataset for place in self.places)
        for dataset in datasets if case.clusters else [""]:
            here = [dataset in ("", place.dataset) for place in self.places]
            draws = np.where(here, self.means[:, None] + moved, (self.values - self.seeds)[:, :1])
            each = [self._effects_with_seed(plan, estimand, s, draws + self.seeds[:, s, None]) for s in range(case.n)]
            if case.clusters:
                scale = (case.units - 1) / case.units
                each = [
                    values - self._effects_with_seed(plan, estimand, s, self.values[:, s, None])
                    for s, values in enumerate(each)
                ]
            else:
                scale = case.units / (case.units - 1) / (DRAWS - 1)
                each = [values - values.mean(axis=1, keepdims=True) for values in each]
            of_mean = (np.mean(each, axis=0) ** 2).sum(axis=1)
            own = np.mean([(values**2).sum(axis=1) for values in each], axis=0)
            variance += scale * (case.n * of_mean - own) / (case.n - 1)
        return np.maximum(0, variance), 1 / float((case.weights**2).sum()) - 1

    def _effects_with_seed(
        self, plan: DataPlan, estimand: str | Expression, s: int, values: Array, dataset: str = ""
    ) -> Array:
        if not isinstance(estimand, str) or "tuned(" not in estimand:
            return np.asarray(
                evaluate_estimand(estimand, plan, plan.primary_metric, self.make_reader(s, values), dataset=dataset)
            )
        return self._choose_level(s, values, "method") - self._choose_level(s, values, "baseline")

    def _choose_level(self, s: int, values: Array, arm: str) -> Array:
        """Return an arm at the level that validation values select, in each confirmation."""
        own = [k for k, place in enumerate(self.places) if place.arm == arm]
        best = self.validation[:, s][:, own].argmax(axis=1)
        return np.take_along_axis(values[..., own], best.reshape(-1, *[1] * (values.ndim - 1)), axis=-1)[..., 0]


def is_supported(plan: DataPlan, drawn: Confirmations) -> Array:
    """Return whether each confirmation supports its hypothesis.

    This is the rule of `record.claims.hypothesis_tests` on arrays; `check_one` compares the two.
    """
    case, every = drawn.case, np.ones(drawn.count, dtype=bool)
    lost: Array = np.asarray(drawn.lost.any(axis=2))
    for effect in plan.hypotheses[0].effects:
        level = SIGNIFICANCE_LEVEL * (SKEWED_LEVEL_FACTOR if has_extreme(effect.estimand) else 1)
        if case.unit == "datasets":
            values = np.stack([drawn.compute_effects(plan, effect.estimand, use.name) for use in plan.datasets], axis=1)
            with warnings.catch_warnings(action="ignore"):  # if no seed is left
                values = np.nanmean(np.where(lost[:, None], np.nan, values), axis=2)
            every &= _lower_ends(values, np.zeros(drawn.count), 1.0, level) > effect.smallest
            continue
        parts = split_quotient(effect.estimand)
        if parts is not None:
            every &= _ratio_lies_above(plan, drawn, parts, effect.smallest, lost)
            continue
        values = np.where(lost, np.nan, drawn.compute_effects(plan, effect.estimand))
        every &= _lower_ends(values, *drawn.compute_shared_variance(plan, effect.estimand), level) > effect.smallest
    return every


def _ratio_lies_above(
    plan: DataPlan, drawn: Confirmations, parts: tuple[Expression, Expression], bound: float, lost: Array
) -> Array:
    """Return whether Fieller's interval of each ratio lies above a bound; divisors are positive."""
    contrast = BinaryOperation("-", parts[0], BinaryOperation("*", NumberLiteral(bound), parts[1]))
    above = np.ones(drawn.count, dtype=bool)
    for part in (contrast, parts[1]):
        values = np.where(lost, np.nan, drawn.compute_effects(plan, part))
        above &= _lower_ends(values, *drawn.compute_shared_variance(plan, part)) > 0
    return above


def _lower_ends(values: Array, over: Array, freedom: float, level: float = SIGNIFICANCE_LEVEL) -> Array:
    """Return the lower end of the interval of each row's mean; -inf with fewer than two values."""
    n = (~np.isnan(values)).sum(axis=1)
    low = np.full(len(values), -np.inf)
    for kept in set(n[n > 1].tolist()):
        rows = n == kept
        own = np.nanvar(values[rows], axis=1, ddof=1) / kept
        low[rows] = np.nanmean(values[rows], axis=1) - compute_half_widths(own, kept - 1, over[rows], freedom, level)
    return low


def compute_half_widths(units: Array, freedom: float, examples: Array, examples_freedom: float, level: float) -> Array:
    """Return `Spread.compute_half_width` of many spreads with the same degrees of freedom."""
    of_units = compute_t_quantile(1 - level / 2, freedom) ** 2
    of_examples = compute_t_quantile(1 - level / 2, min(examples_freedom, MAX_FREEDOM)) ** 2
    exponent = compute_exponent(freedom, level) if examples_freedom >= MIN_CALIBRATED_FREEDOM else 1.0
    total = units + examples
    mixed = of_examples + (of_units - of_examples) * (units / np.maximum(total, 1e-300)) ** exponent
    return np.sqrt(np.where(examples > 0, mixed, of_units) * total)


def check_one(plan: DataPlan, drawn: Confirmations, number: int) -> str:
    """Return the verdict on one confirmation, as in a run."""
    case, places = drawn.case, drawn.places
    runs: list[ReplicateValues] = []
    for s in range(case.n):
        gone = frozenset(place for place in places if drawn.lost[number, s, ARMS.index(place.arm)])
        kept, validation = (
            {
                (place.dataset, place.condition, "accuracy"): float(found[number, s, k])
                for k, place in enumerate(places)
                if place not in missing
            }
            for found, missing in ((drawn.values, gone), (drawn.validation, ()))
        )
        runs.append(ReplicateValues(s, f"n{s}", kept, {"validation": validation}, gone))
    over: dict[str, ResampledInterval] = {}
    if case.is_sampled:
        moved = drawn.resample_shares @ drawn.sample[number]
        draws = {
            (place.dataset, f"n{s}", place.condition, "accuracy"): drawn.means[number, k]
            + drawn.seeds[number, s, k]
            + moved[:, k]
            for s in range(case.n)
            for k, place in enumerate(places)
        }
        [one], worth = plan.hypotheses, 1 / float((case.weights**2).sum())
        for place, effect in enumerate(one.effects):
            over[f"hypothesis/h/{place}"] = resample_effect(
                plan,
                one,
                effect,
                f"hypothesis/h/{place}",
                runs,
                drawn=draws,  # pyrefly: ignore  its keys are tuples
                samples={use.name: SampleSize(case.units, worth) for use in plan.datasets},
            )
    return decide_from_runs(plan, runs, confirmed=True, find_resampled=over.get)[0].verdict


def compute_truths(case: Case, draws: int) -> tuple[float, ...]:
    """Return the true value of each effect: its mean over `draws` seeds on all possible examples."""
    plan, rng = case.build_plan((1.0,) * len(FORMS[case.form])), np.random.default_rng(5)
    many = Confirmations(
        replace(case, n=1, unit="seeds", clusters=0, diverges=(0, 0)), draws, rng, list_cells(plan, case)
    )
    half = many.count // 2
    many.seeds[half:] = -many.seeds[:half]  # makes everything linear in them exact
    return tuple(float(many.compute_effects(plan, effect.estimand).mean()) for effect in plan.hypotheses[0].effects)


def list_cells(plan: DataPlan, case: Case) -> tuple[CellRef, ...]:
    """Return the cells that a study reads."""
    return tuple(
        dict.fromkeys(
            place
            for effect in plan.hypotheses[0].effects
            for use in (plan.datasets if case.unit == "datasets" else plan.datasets[:1])
            for place in list_cells_read(effect.estimand, plan, plan.primary_metric, dataset=use.name)
            if not place.selection_split
        )
    )


def simulate(request: tuple[Case, int, float]) -> dict[str, Any]:
    """Return how often a case is supported.

    Raises `ValueError` if the verdicts on a sample differ from those of a run.
    """
    case, count, error = request
    plan, rng, found = (
        case.build_plan(compute_truths(case, min(MAX_TRUTH_DRAWS, max(MIN_TRUTH_DRAWS, 125 * count)))),
        np.random.default_rng([crc32(repr(case).encode()), count]),
        0,
    )
    for first in range(0, count, BATCH_SIZE):
        drawn = Confirmations(case, min(BATCH_SIZE, count - first), rng, list_cells(plan, case))
        those = is_supported(plan, drawn)
        found += int(those.sum())
        if not first:
            some = [*np.flatnonzero(those)[:CHECKED_PER_BATCH], *range(CHECKED_PER_BATCH)]
            if wrong := [k for k in some if (check_one(plan, drawn, int(k)) == "supported") != those[k]]:
                raise ValueError(f"{case}: a run gives another verdict in {wrong}")

    def low(share: float) -> float:
        return 1 - compute_upper_rate(count - found, count, share)

    return {
        **{one.name: getattr(case, one.name) for one in fields(case)},
        "confirmations": count,
        "supported": round(found / count, 4),
        "low": round(low(0.025), 4),
        "high": round(compute_upper_rate(found, count, 0.025), 4),
        "holds": low(error / 2) <= MAX_FALSE_RATE,
    }


def list_cases() -> Iterator[Case]:
    """Yield all simulated cases."""
    for form in FORMS:
        plain = Case(form, "seeds", 5, datasets=3 if "dataset" in form else 1)
        yield plain
        for n in (2, 5, 40):
            yield replace(plain, n=n, unit="seeds and examples")
            yield replace(plain, n=n, unit="seeds and clusters", clusters=5, unequal=True)
    for n in (2, 3, 5, 10, 40):
        yield Case("difference", "seeds", n)
        for seed_sd, sample_sd in ((0.005, 0.05), (0.05, 0.02)):
            yield Case("difference", "seeds and examples", n, seed_sd=seed_sd, sample_sd=sample_sd)
            for clusters, unequal in ((5, False), (5, True), (8, True), (20, False), (20, True)):
                yield Case("difference", "seeds and clusters", n, clusters, unequal, seed_sd, sample_sd)
    for datasets in (3, 5, 10, 20):
        for form in ("difference", "difference of worsts"):
            yield Case(form, "datasets", 5, datasets=datasets)
    units: tuple[IntervalUnit, ...] = get_args(IntervalUnit)
    for unit in units:
        for diverges in ((0.02, 0.02), (0.1, 0.1)):
            plain = Case(
                "difference",
                unit,
                5,
                8 if unit == "seeds and clusters" else 0,
                diverges=diverges,
                datasets=8 if unit == "datasets" else 1,
            )
            yield from (replace(plain, n=n) for n in (5, 20))


# --- looks, families, conjunctions, chains, ratios -------------------------------------------------------------------

BOUND = 1.0
"""Bound of every claim, in standard deviations of a seed's value."""


@dataclass(frozen=True)
class RuleCase:
    """Studies with several effects, each of the same spread, that are tested at looks until the table's last one.

    `shifts` are true values minus the bound; `groups` the effects of each hypothesis; `after` the hypothesis that each
    presupposes (-1: none). A ratio is (bound * divisor + shift + noise) / divisor.
    """

    name: str
    shifts: tuple[float, ...]
    groups: tuple[tuple[int, ...], ...]
    after: tuple[int, ...]
    first: int
    looks: int = 1
    correlation: float = 0.0
    ratio: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Seeds of each look that is reached."""
        return (self.first,) if self.looks == 1 else build_look_sizes(self.first, 10**6)[: self.looks]

    @property
    def weights(self) -> tuple[float, ...]:
        return (1.0,) if self.looks == 1 else build_look_weights(len(build_look_sizes(self.first, 10**6)))[: self.looks]

    @property
    def is_false(self) -> tuple[bool, ...]:
        """Whether the claim of each hypothesis is false: an effect is at its bound."""
        return tuple(any(self.shifts[effect] <= 0 for effect in group) for group in self.groups)

    def draw(self, count: int, rng: Generator) -> tuple[Array, Array]:
        """Return (count, seeds, effects) values relative to their bounds, and (count, seeds) divisors."""
        n = self.sizes[-1]
        common = rng.normal(0, sqrt(self.correlation), (count, n, 1))
        own = rng.normal(0, sqrt(1 - self.correlation), (count, n, len(self.shifts)))
        divisors = rng.normal(6.0, 1.0, (count, n)) if self.ratio else np.ones((count, n))
        return common + own + np.array(self.shifts), divisors

    def build_plan(self) -> DataPlan:
        """Build a plan whose arms a0, a1, ... have the effects' values, compared with arm `base`."""
        names = [f"a{k}" for k in range(len(self.shifts))]
        effects = [
            Effect(estimand=f"{name} / base" if self.ratio else f"{name} - base", smallest=BOUND) for name in names
        ]
        return DataPlan(
            task="simulated",
            expected_seconds=1,
            metrics=(MetricSpec(name="accuracy", higher_is_better=True),),
            datasets=(DatasetUse(name="d0"),),
            arms=(Arm(name="base", role="baseline"), *(Arm(name=name, role="method") for name in names)),
            hypotheses=tuple(
                Hypothesis(
                    id=f"h{number}",
                    statement="above",
                    reason="less is noise",
                    unit="seeds",
                    effects=tuple(effects[effect] for effect in group),
                    presupposes=f"h{after}" if after >= 0 else "",
                )
                for number, (group, after) in enumerate(zip(self.groups, self.after, strict=True))
            ),
        )


def find_supported(case: RuleCase, values: Array, divisors: Array) -> Array:
    """Return (count, hypotheses) whether each is supported at the last look: the rule of a run, on arrays."""
    of_effect = np.ones((len(values), values.shape[2]))
    for n, weight in zip(case.sizes, case.weights, strict=True):
        p = np.stack([_compute_upper_p(values[:, :n, effect]) for effect in range(values.shape[2])], axis=1)
        if case.ratio:  # nothing is decided where the divisor is not clear
            p = np.maximum(p, _compute_upper_p(divisors[:, :n])[:, None])
        of_effect = np.minimum(of_effect, p / weight)
    sequential = np.stack([of_effect[:, list(group)].max(axis=1) for group in case.groups], axis=1)
    chains: dict[int, list[int]] = {}
    for number, after in enumerate(case.after):
        chains.setdefault(number if after < 0 else next(head for head, of in chains.items() if after in of), []).append(
            number
        )
    largest = np.stack([sequential[:, of].max(axis=1) for of in chains.values()], axis=1)
    levels, failed = np.empty_like(largest), np.zeros(len(values))
    for rank, places in enumerate(np.argsort(largest, axis=1, kind="stable").T):
        rows = np.arange(len(values))
        level = np.where(failed > 0, failed, SIGNIFICANCE_LEVEL / (len(chains) - rank))
        failed = np.where(largest[rows, places] > level, level, failed)
        levels[rows, places] = level
    found = np.zeros_like(sequential, dtype=bool)
    for place, of in enumerate(chains.values()):
        reached = np.ones(len(values), dtype=bool)
        for number in of:
            found[:, number] = reached & (sequential[:, number] <= levels[:, place])
            reached = found[:, number]
    return found


def _compute_upper_p(values: Array) -> Array:
    """Return the two-sided p at which each row's mean is just above zero."""
    n = values.shape[1]
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / sqrt(n))
    return np.minimum(1.0, 2 * stats.t.sf(t, n - 1))


def decide_rule_case(case: RuleCase, values: Array, divisors: Array) -> list[bool]:
    """Return whether each hypothesis of one study is supported, as in a run."""
    runs = [
        ReplicateValues(
            seed,
            f"n{seed}",
            {("d0", "base", "accuracy"): divisor if case.ratio else 0.0}
            | {
                ("d0", f"a{effect}", "accuracy"): float(value) + BOUND * float(divisor)
                for effect, value in enumerate(row)
            },
        )
        for seed, (row, divisor) in enumerate(zip(values, divisors.tolist(), strict=True))
    ]
    samples = [
        LookSample(runs[:n], weight=weight, look=look)
        for look, (n, weight) in enumerate(zip(case.sizes, case.weights, strict=True))
    ]
    decided = decide_from_looks(case.build_plan(), samples, confirmed=True, levels={})
    return [one.verdict == "supported" for one in decided]


def list_rule_cases() -> Iterator[RuleCase]:
    """Yield the simulated rules: false claims exactly at their bound, true ones clearly beyond it."""
    for n in (5, 6, 10, 20, 40):
        single = RuleCase("one effect", (0.0,), ((0,),), (-1,), n)
        yield single
        yield replace(single, name="ratio", ratio=True)
        for correlation in (0.0, 0.8):
            three = replace(single, first=n, correlation=correlation, after=(-1, -1, -1), groups=((0,), (1,), (2,)))
            yield replace(three, name="family, all false", shifts=(0.0, 0.0, 0.0))
            yield replace(three, name="family, one true", shifts=(2.0, 0.0, 0.0))
            yield replace(three, name="chain after a true claim", shifts=(2.0, 0.0, 0.0), after=(-1, 0, 1))
            yield replace(three, name="chain after a false claim", shifts=(0.0, 2.0, 0.0), after=(-1, 0, -1))
            pair = replace(single, correlation=correlation, groups=((0, 1),))
            yield replace(pair, name="conjunction, one false", shifts=(0.0, 2.0))
            yield replace(pair, name="conjunction, both false", shifts=(0.0, 0.0))
    for looks in (3, 4, 5, 6, 8):
        for first in (5, 7, 12):
            single = RuleCase("one effect", (0.0,), ((0,),), (-1,), first, looks)
            yield single
            yield replace(
                single,
                name="chain after a true claim",
                shifts=(1.0, 0.0, 0.0),
                groups=((0,), (1,), (2,)),
                after=(-1, 0, -1),
            )
            alone = ((0,), (1,), (2,))
            yield replace(single, name="family, all false", shifts=(0.0,) * 3, groups=alone, after=(-1,) * 3)
            yield replace(single, name="conjunction, one false", shifts=(0.0, 1.0), groups=((0, 1),))


def simulate_rule(request: tuple[RuleCase, int, float]) -> dict[str, Any]:
    """Return how often a false claim of a study is supported.

    Raises `ValueError` if the decisions on a sample differ from those of a run.
    """
    case, count, error = request
    rng = np.random.default_rng([crc32(repr(case).encode()), count])
    false, found = np.array(case.is_false), 0
    for begin in range(0, count, RULE_BATCH):
        values, divisors = case.draw(min(RULE_BATCH, count - begin), rng)
        supported = find_supported(case, values, divisors)
        wrong = (supported & false).any(axis=1)
        found += int(wrong.sum())
        if not begin:
            for k in [*np.flatnonzero(wrong)[:CHECKED_PER_BATCH], *range(CHECKED_PER_BATCH)]:
                decided = decide_rule_case(case, values[k], divisors[k])
                # where the intervals of several looks do not overlap, a run goes by the last one and supports less
                if decided != supported[k].tolist() and (case.looks == 1 or any(decided > supported[k])):
                    raise ValueError(f"{case}: a run decides study {k} differently")
    low = 1 - compute_upper_rate(count - found, count, error / 2)
    return {
        "rule": case.name,
        "seeds": case.sizes[-1],
        "looks": case.looks,
        "correlation": case.correlation,
        "studies": count,
        "false": round(found / count, 4),
        "holds": low <= MAX_FALSE_RATE,
    }


# --- coverage and power ----------------------------------------------------------------------------------------------

RULE_BATCH = 5000
CROSSED_EXAMPLES = 200


def simulate_crossed(request: tuple[int, tuple[float, float, float], int]) -> dict[str, Any]:
    """Return the coverage of intervals over crossed seeds and examples, and their power compared with known variances.

    `request`: seeds; variances of the mean that seeds, examples and their interaction each cause; studies.
    """
    n, (of_seeds, of_examples, of_both), count = request
    m, rng = CROSSED_EXAMPLES, np.random.default_rng([n, count, round(1e4 * of_examples), round(1e4 * of_both)])
    means, units, shared = np.empty(count), np.empty(count), np.empty(count)
    for begin in range(0, count, 100):
        rows = min(100, count - begin)
        each = rng.normal(0, sqrt(of_both * n * m), (rows, n, m)) + rng.normal(0, sqrt(of_examples * m), (rows, 1, m))
        each += rng.normal(0, sqrt(of_seeds * n), (rows, n, 1))
        by_seed, here = each.mean(axis=2), slice(begin, begin + rows)
        means[here], units[here] = by_seed.mean(axis=1), by_seed.var(axis=1, ddof=1) / n
        of_mean = each.mean(axis=1).var(axis=1, ddof=1) / m
        own = each.var(axis=2, ddof=1).mean(axis=1) / m
        shared[here] = np.maximum(0, (n * of_mean - own) / (n - 1))
    half = compute_half_widths(units, n - 1, shared, m - 1, SIGNIFICANCE_LEVEL)
    for k in range(CHECKED_PER_BATCH):
        exact = Spread(float(units[k]), n - 1.0, float(shared[k]), m - 1.0).compute_half_width(SIGNIFICANCE_LEVEL)
        if abs(exact - half[k]) > 1e-9 * exact:
            raise ValueError(f"{request}: a run has another interval in study {k}")
    error = sqrt(of_seeds + of_examples + of_both)
    effect = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * error
    covered = float((abs(means) < half).mean())
    return {
        "seeds": n,
        "share_of_seeds": of_seeds,
        "share_of_examples": of_examples,
        "share_of_both": of_both,
        "studies": count,
        "coverage": round(covered, 4),
        "power": round(float((means + effect > half).mean()), 4),
        "oracle_power": 0.8,
        "holds": COVERAGE_GOAL[0] <= covered <= COVERAGE_GOAL[1],
    }


def simulate_looks(request: tuple[float, int]) -> dict[str, Any]:
    """Return the power of four looks and of the planned seeds at once, at the registered design effect.

    `request`: standard deviation between seeds over the smallest effect; studies.
    """
    sd, count = request
    effect = Effect(estimand="a0 - base", smallest=1.0)
    planned = compute_planned_seeds(effect, sd)
    assert planned.n is not None
    rng = np.random.default_rng([round(1000 * sd), count])
    first = ceil(planned.n / 2)
    sizes, weights = build_look_sizes(first, 10**6)[:4], build_look_weights(len(build_look_sizes(first, 10**6)))
    values = rng.normal(effect.design_value - effect.limit, sd, (count, max(planned.n, sizes[-1])))
    alone = _compute_upper_p(values[:, : planned.n]) <= SIGNIFICANCE_LEVEL
    supported, stopped, powers = np.zeros(count, dtype=bool), np.full(count, sizes[-1]), list[float]()
    for n, weight in zip(sizes, weights, strict=False):
        here = ~supported & (_compute_upper_p(values[:, :n]) <= SIGNIFICANCE_LEVEL * weight)
        stopped[here] = n
        supported |= here
        powers.append(round(float(supported.mean()), 3))
    return {
        "sd": sd,
        "planned_seeds": planned.n,
        "planned_power": round(planned.power, 3),
        "null_called_equivalent": round(planned.equivalent, 3),
        "half_width": round(planned.half_width, 3),
        "fixed_power": round(float(alone.mean()), 3),
        "looks": sizes,
        "power_by_look": powers,
        "mean_seeds": round(float(stopped.mean()), 1),
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--confirmations", type=int, default=4000, help="confirmations per boundary case")
    parser.add_argument("--studies", type=int, default=20_000, help="studies per case of the other parts")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only one of so many boundary cases")
    args = parser.parse_args()
    began = time.monotonic()
    every = [*list_cases()][:: args.every]
    work = [(one, args.confirmations, 0.05 / len(every)) for one in every]
    rules = [*list_rule_cases()]
    crossed = [
        (n, shares, args.studies // 4)
        for n in (2, 3, 4, 5, 10, 20, 40)
        for shares in ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0), (0.4, 0.2, 0.4), (0.1, 0.1, 0.8), (0.1, 0.6, 0.3))
    ]
    with ProcessPoolExecutor(args.processes) as pool:
        boundary = list(pool.map(simulate, work))
        by_rule = list(pool.map(simulate_rule, [(one, args.studies, 0.05 / len(rules)) for one in rules]))
        covered = list(pool.map(simulate_crossed, crossed))
        powers = list(pool.map(simulate_looks, [(sd, args.studies) for sd in (0.5, 1.0, 1.5, 2.5)]))
    again = {
        place: {**simulate((one, 5 * args.confirmations, 0.05 / len(every))), "first": boundary[place]["supported"]}
        for place, one in enumerate(every)
        if not boundary[place]["holds"]
    }
    boundary = [again.get(place, one) for place, one in enumerate(boundary)]
    report = {
        "boundary": boundary,
        "largest_at_boundary": max(one["supported"] for one in boundary),
        "rules": by_rule,
        "largest_of_rules": max(one["false"] for one in by_rule),
        "crossed": covered,
        "coverage": [min(one["coverage"] for one in covered), max(one["coverage"] for one in covered)],
        "looks": powers,
        "holds": all(one["holds"] for one in (*boundary, *by_rule)),
        "coverage_holds": all(one["holds"] for one in covered),
        "seconds": round(time.monotonic() - began, 1),
    }
    print_report(report, args.out)
    return 0 if report["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
