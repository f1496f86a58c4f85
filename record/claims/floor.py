"""Whether the arms of a hypothesis are better than a prediction that ignores the inputs, or as good as can be.

Arms that are all at the floor differ by chance, whatever the number of seeds: their comparison decides nothing. The
floor is the value of a constant prediction (the class frequencies, or the mean label) on the validation labels. An arm
is above it if the lower end of one of its intervals is: over examples, for a metric from 0 to 1 (Clopper and Pearson
1934), or over seeds, both at a level that is divided by the number of cells read. Without either, its value counts.

Limits: a metric for which a constant prediction is ideal, such as calibration error, or which does not rate predictions
(a gap between groups, agreement with a column, a flip rate), has no floor. A score from 0 to 1
that is not a share of examples (AUROC, macro F1) is treated as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from labwright.record.claims.differences import estimate_mean
from labwright.record.claims.estimates import SIGNIFICANCE_LEVEL, compute_upper_rate
from labwright.record.estimands import CellRef, EstimandError, find_effect_metric, list_cells_read
from labwright.record.float_compare import differs_beyond_rounding
from labwright.record.schema.data_plan import DataPlan, MetricSpec
from labwright.record.schema.hypotheses import Hypothesis

MAX_DISTANCE_FROM_BEST = 1e-9
"""Maximum distance of a value that counts as the best possible one: a constant's calibration error is not quite 0."""
MIN_SEEDS_FOR_INTERVAL = 3
"""Minimum number of seeds for an interval over seeds."""


class ConstantScores(NamedTuple):
    """What a constant prediction reaches on validation data."""

    values: Mapping[str, Mapping[str, float]] = {}
    """Metric -> dataset -> value."""
    examples: Mapping[str, int] = {}
    """Dataset -> number of validation examples."""


NO_SCORES = ConstantScores()
"""Nothing is known of constant predictions, so no hypothesis is at the floor."""


class Floored(NamedTuple):
    """The best of the arms that a hypothesis reads, none of which is better than a constant prediction."""

    hypothesis: str
    metric: str
    cell: CellRef
    value: float
    constant: float

    @property
    def reason(self) -> str:
        return (
            f"no arm is better than a constant prediction ({self.metric} on validation: at best {self.value:.4g}, "
            f"constant {self.constant:.4g})"
        )

    @property
    def line(self) -> str:
        """One sentence for the judge and the author of code."""
        return (
            f"Hypothesis `{self.hypothesis}`: no arm that it compares is better than a constant prediction. Validation "
            f"{self.metric} on {self.cell.dataset} is {self.value:.4g} at best ({self.cell.condition}), and "
            f"{self.constant:.4g} if every prediction is the same."
        )


def find_floored(
    plan: DataPlan, scores: ConstantScores, runs: Sequence[Mapping[tuple[str, str, str], float]]
) -> dict[str, Floored]:
    """Return the hypotheses of which no arm is above the floor in any measured cell that they read, by id.

    `runs`: validation values by (dataset, condition, metric), one mapping for each seed. A hypothesis without a
    measured cell, or with one whose floor is unknown, is left out.
    """
    found: dict[str, Floored] = {}
    for one in plan.hypotheses if scores.values else ():
        lines: list[Floored] = []
        read = _list_cells(plan, one)
        for cell, metric in read:
            values = [run[key] for run in runs if (key := (cell.dataset, cell.condition, metric.name)) in run]
            floor = scores.values.get(metric.name, {}).get(cell.dataset)
            if not values:
                continue
            if floor is None or _is_best(floor, metric):
                break
            share = SIGNIFICANCE_LEVEL / 2 / len(read)
            if _is_above(values, floor, metric, scores.examples.get(cell.dataset, 0), share):
                break
            lines.append(Floored(one.id, metric.name, cell, fmean(values), floor))
        else:
            signs = {metric.name: 1 if metric.higher_is_better else -1 for _, metric in read}
            if lines:
                found[one.id] = max(lines, key=lambda line: signs[line.metric] * (line.value - line.constant))
    return found


def explain_saturation(
    plan: DataPlan, hypothesis: Hypothesis, runs: Sequence[Mapping[tuple[str, str, str], float]]
) -> str:
    """Return that every cell that a hypothesis reads has the best possible value in every run, or ""."""
    read = _list_cells(plan, hypothesis)
    values = [(run.get((cell.dataset, cell.condition, metric.name)), metric) for run in runs for cell, metric in read]
    if not values or not all(value is not None and _is_best(value, metric) for value, metric in values):
        return ""
    return f"every arm is at the best possible {values[0][1].name} with every seed: they are equal by saturation"


def _list_cells(plan: DataPlan, one: Hypothesis) -> list[tuple[CellRef, MetricSpec]]:
    """Return the cells that the effects of a hypothesis read, each with its metric; none if an estimand is invalid."""
    try:
        metrics = [(effect.estimand, find_effect_metric(effect, plan)) for effect in one.effects]
        cells = [(cell, metric) for text, metric in metrics for cell in list_cells_read(text, plan, metric)]
    except EstimandError:
        return []
    return list(dict.fromkeys((cell, metric) for cell, metric in cells if not cell.selection_split))


def _is_best(value: float, metric: MetricSpec) -> bool:
    best = metric.high if metric.higher_is_better else metric.low
    return best is not None and abs(value - best) <= MAX_DISTANCE_FROM_BEST


def _is_above(values: Sequence[float], floor: float, metric: MetricSpec, examples: int, share: float) -> bool:
    """Return whether values over seeds are better than the floor; `share` is the error of each interval."""
    mean = fmean(values)
    if (mean <= floor if metric.higher_is_better else mean >= floor) or not differs_beyond_rounding((mean, floor)):
        return False
    is_share = (metric.low, metric.high) == (0.0, 1.0) and examples > 0
    if is_share:
        gain, least = (mean, floor) if metric.higher_is_better else (1 - mean, 1 - floor)
        if 1 - compute_upper_rate(examples - round(gain * examples), examples, share) > least:
            return True
    if len(values) < MIN_SEEDS_FOR_INTERVAL:
        return not is_share
    estimate = estimate_mean(values)
    if not estimate.spread.is_known:
        return not is_share
    low, high = estimate.compute_interval(2 * share)
    return low > floor if metric.higher_is_better else high < floor
