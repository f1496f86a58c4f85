"""`python -m benchmarks.false_support --out FILE`: how often an effect at the boundary is called `supported`.

Confirmations are simulated, decided by `record.claims.hypothesis_tests` and resampled by
`stages.evidence.resampling` as in a run: every unit, every form of estimand, from 2 to 40 seeds and from 5
clusters, with and without divergence. The true value of an estimand is its mean over seeds on all possible test
examples; the smallest effect of interest is set to it, so at most 2.5 % may be supported. Seeds, examples, clusters
and datasets are normal, each with its own spread. Every share has a 95 % Clopper-Pearson interval. Exits 1 if a
share is above .025 by more than simulation error: by an interval corrected for all cases (Bonferroni). Such a case
is simulated once more, independently and five times as often, which decides; `first` is the first share.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any, Literal, get_args
from zlib import crc32

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_t_quantile, compute_upper_rate
from labwright.record.claims.hypothesis_tests import SKEWED_LEVEL_FACTOR, ReplicateValues, decide_from_runs
from labwright.record.estimands import CellRef, evaluate_estimand, has_extreme, list_cells_read
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, MetricSpec, ResampledInterval
from labwright.record.schema.hypotheses import Effect, Hypothesis, IntervalUnit
from labwright.stages.evidence.resampling import SampleSize, resample_effect

Array = NDArray[Any]
MAX_FALSE_RATE = 0.025
DRAWS = 400
"""Bootstrap draws of examples: fewer than in a run, which makes the spread slightly less exact."""
VALIDATION = 0.02
"""Spread of validation values around those of all examples."""
BATCH_SIZE, CHECKED_PER_BATCH = 250, 15
"""Confirmations per batch; number of them, twice, that are also decided individually."""
EXAMPLES = 100
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
    policy: Literal["left out", "worst value"] = "left out"
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
                    diverged=self.policy,
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

    def compute_effects(self, plan: DataPlan, estimand: str, dataset: str = "") -> Array:
        """(count, n): the effect with each seed."""
        return np.stack(
            [self._effects_with_seed(plan, estimand, s, self.values[:, s], dataset) for s in range(self.case.n)], axis=1
        )

    def compute_sample_variance(self, plan: DataPlan, estimand: str) -> tuple[Array, float]:
        """Return the variance of the mean effect over examples or clusters, by confirmation, and its degrees of
        freedom.
        """
        case, variance = self.case, np.zeros(self.count)
        moved = np.einsum("du,cuk->cdk", self.resample_shares, self.sample)
        datasets = dict.fromkeys(place.dataset for place in self.places)
        for dataset in datasets if case.clusters else [""]:
            here = [dataset in ("", place.dataset) for place in self.places]
            draws = np.where(here, self.means[:, None] + moved, (self.values - self.seeds)[:, :1])
            mean = np.mean(
                [
                    self._effects_with_seed(
                        plan, estimand, s, self._apply_divergence(draws + self.seeds[:, s, None], s)
                    )
                    for s in range(case.n)
                ],
                axis=0,
            )
            if case.clusters:
                middle = np.mean(
                    [
                        self._effects_with_seed(plan, estimand, s, self._apply_divergence(self.values[:, s, None], s))[
                            :, 0
                        ]
                        for s in range(case.n)
                    ],
                    axis=0,
                )
                variance += ((mean - middle[:, None]) ** 2).sum(axis=1) * (case.units - 1) / case.units
            else:
                variance += mean.var(axis=1, ddof=1) * case.units / (case.units - 1)
        return variance, 1 / float((case.weights**2).sum()) - 1

    def _apply_divergence(self, values: Array, s: int) -> Array:
        """Return the cells, with 0 for diverged ones if the worst value counts."""
        if self.case.policy == "left out":
            return values
        return np.where(self.lost[:, s][:, None, [ARMS.index(place.arm) for place in self.places]], 0.0, values)

    def _effects_with_seed(self, plan: DataPlan, estimand: str, s: int, values: Array, dataset: str = "") -> Array:
        if "tuned(" not in estimand:
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
        values = drawn.compute_effects(plan, effect.estimand)
        over, freedom = (
            drawn.compute_sample_variance(plan, effect.estimand) if case.is_sampled else (np.zeros(drawn.count), 1.0)
        )
        clean = np.where(lost, np.nan, values)
        if case.policy == "left out":
            every &= _lower_ends(clean, over, freedom, level) > effect.smallest
            continue
        method, baseline = (
            np.where(drawn.lost[:, :, k], 0.0, drawn.values[:, :, [place.arm for place in drawn.places].index(arm)])
            for k, arm in enumerate(ARMS)
        )
        rates = np.array([compute_upper_rate(k, case.n, SIGNIFICANCE_LEVEL / 2) for k in range(case.n + 1)])
        rate = rates[drawn.lost[:, :, 0].sum(axis=1)][:, None]
        every &= (~lost).sum(axis=1) > 1
        every &= _lower_ends(method - baseline, over, freedom) > effect.smallest
        every &= (
            _lower_ends((1 - rate) * clean + rate * np.where(lost, np.nan, -baseline), over, freedom) > effect.smallest
        )
    return every


def _lower_ends(values: Array, over: Array, freedom: float, level: float = SIGNIFICANCE_LEVEL) -> Array:
    """Return the lower end of the interval of each row's mean; -inf with fewer than two values."""
    n = (~np.isnan(values)).sum(axis=1)
    low = np.full(len(values), -np.inf)
    for kept in set(n[n > 1].tolist()):
        rows = np.nanmean(values[n == kept], axis=1), np.nanvar(values[n == kept], axis=1, ddof=1)
        half = compute_t_quantile(1 - level / 2, kept - 1) ** 2 * rows[1] / kept + (
            compute_t_quantile(1 - level / 2, freedom) ** 2 * over[n == kept]
        )
        low[n == kept] = rows[0] - np.sqrt(half)
    return low


def check_one(plan: DataPlan, drawn: Confirmations, number: int) -> str:
    """Return the verdict on one confirmation, as in a run."""
    case, places = drawn.case, drawn.places
    runs: list[ReplicateValues] = []
    for s in range(case.n):
        gone = frozenset(place for place in places if drawn.lost[number, s, ARMS.index(place.arm)])
        kept, validation = (
            {(place.dataset, place.condition, "accuracy"): float(found[number, s, k]) for k, place in enumerate(places)}
            for found in (drawn.values, drawn.validation)
        )
        runs.append(
            ReplicateValues(
                s,
                f"n{s}",
                {
                    key: value
                    for key, value in kept.items()
                    if not any(key[:2] == (place.dataset, place.condition) for place in gone)
                },
                {"validation": validation},
                gone,
            )
        )
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
                drawn=draws,
                samples={use.name: SampleSize(case.units, worth) for use in plan.datasets},
            )
    return decide_from_runs(plan, runs, confirmed=True, find_resampled=over.get)[0].verdict


def compute_truths(case: Case) -> tuple[float, ...]:
    """Return the true value of each effect: its mean over very many seeds on all possible examples."""
    plan, rng = case.build_plan((1.0,) * len(FORMS[case.form])), np.random.default_rng(5)
    if case.policy == "worst value":  # of a difference
        method, baseline = (1 - rate for rate in case.diverges)
        return (method * MEANS["method"] - baseline * MEANS["baseline"],)
    many = Confirmations(
        replace(case, n=1, unit="seeds", clusters=0, diverges=(0, 0)), 500_000, rng, list_cells(plan, case)
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
        case.build_plan(compute_truths(case)),
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
            if unit != "datasets":
                yield from (replace(plain, n=n, policy="worst value") for n in (5, 20, 40))
    yield Case("difference", "seeds", 100, diverges=(0.02, 0.02), policy="worst value")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the JSON report")
    parser.add_argument("--confirmations", type=int, default=4000, help="confirmations per case")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="only cases whose unit or form contains this")
    parser.add_argument("--every", type=int, default=1, help="only one of so many cases")
    args = parser.parse_args()
    began = time.monotonic()
    every = [one for one in list_cases() if args.only in f"{one.form} {one.unit} {one.policy}"][:: args.every]
    work = [(one, args.confirmations, 0.05 / len(every)) for one in every]
    if args.processes > 1:
        with ProcessPoolExecutor(args.processes) as pool:
            found = list(pool.map(simulate, work))
    else:
        found = [simulate(one) for one in work]
    again = {
        place: {**simulate((one, 5 * args.confirmations, 0.05 / len(every))), "first": found[place]["supported"]}
        for place, one in enumerate(every)
        if not found[place]["holds"]
    }
    found = [again.get(place, one) for place, one in enumerate(found)]
    largest = max(one["supported"] for one in found)
    text = json.dumps(
        {
            "cases": found,
            "largest": largest,
            "holds": all(one["holds"] for one in found),
            "seconds": round(time.monotonic() - began, 1),
        },
        indent=1,
    )
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n")
    return 0 if all(one["holds"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
