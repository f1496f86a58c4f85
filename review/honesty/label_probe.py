"""Re-run the code behind the paper with one thing changed, and check which numbers move.

*Labels*: with permuted labels of train and dev, the advantage over chance must disappear. *Rows*: the
predictions of replaced rows must change, and no others.

A script of this program makes the change inside the kernel before the experiment code starts. Code that looks for a
probe can evade it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement, MetricSpec, parse_arm
from labwright.record.schema.nodes import HonestyFinding
from labwright.sandbox.scoring import SubmittedPredictions

PROBE_FILE = "probe.py"
UNINFORMED_ARM = re.compile(
    r"chance|random|uniform|guess|constant|dummy|majority|prior|null|naive|untrained|coin|frozen|init|zero-?shot"
    r"|no-?training",
    re.I,
)
"""Names and descriptions of arms that are deliberately uninformed or untrained."""
RETAINED_SHARE_THRESHOLD = 0.5
"""Maximum share of the advantage over chance that may remain with permuted labels."""

MIN_ADVANTAGE = 0.02
"""Minimum advantage over chance, as a share of the distance from chance to a perfect value (or of 1), for a verdict."""

MAX_PERMUTATIONS = 6
"""Number of permutations that must all leave the numbers unchanged; on small data a single one may do so by chance."""

_PROBE_SCRIPT = """\
import dataclasses
import functools

import lab
import numpy as np

_data = lab.data


@functools.cache
def changed(name):
    found = _data(name)
    if not hasattr(found, "train"):
        return found
    parts = {}
CHANGE
    return dataclasses.replace(found, **parts)


lab.data = changed
exec(compile(open("experiment.py", encoding="utf-8").read(), "experiment.py", "exec"))
"""
_PERMUTED_LABELS = """\
    rng = np.random.default_rng([lab.seed, NUMBER])
    for part in ("train", "dev"):
        parts[part] = dataclasses.replace(getattr(found, part), y=rng.permutation(getattr(found, part).y))"""
_REPLACED_ROWS = """\
    rng = np.random.default_rng(7919)
    for split in ("validation", "test"):
        x = np.array(getattr(found, split).x[:])
        places = np.arange(1, len(x), 2)
        x[places] = found.train.x[np.sort(rng.integers(len(found.train.x), size=len(places)))]
        parts[split] = dataclasses.replace(getattr(found, split), x=x)"""
ROW_PROBE_SCRIPT = _PROBE_SCRIPT.replace("CHANGE", _REPLACED_ROWS)
"""Runs experiment.py with every second row of validation and test replaced by a training row."""


def build_probe_script(number: int = 0) -> str:
    """Return the script that runs experiment.py with the labels of train and dev permuted: what it then reaches comes
    from something else. `number` selects the permutation."""
    return _PROBE_SCRIPT.replace("CHANGE", _PERMUTED_LABELS).replace("NUMBER", str(7919 + number))


DatasetArm = tuple[str, str]
"""Dataset and condition."""


def is_uninformed_arm(arm: str, plan: DataPlan) -> bool:
    """Return whether an arm is deliberately uninformed or untrained."""
    return UNINFORMED_ARM.search(_get_arm_words(arm, plan)) is not None


def _get_arm_words(arm: str, plan: DataPlan) -> str:
    return " ".join((arm, *(f"{one.title} {one.description}" for one in plan.arms if one.name == arm)))


class ProbeResult(NamedTuple):
    """Outcome of a probe: one word, and a sentence."""

    outcome: Literal["moved", "still", "unclear"]
    why: str


def judge_label_permutation(
    before: Sequence[Measurement], after: Sequence[Measurement], *, metric: MetricSpec, chance: Mapping[str, float]
) -> ProbeResult:
    """Judge whether the advantage over chance disappeared.

    `chance` is the metric of predicting the class shares (the mean), by dataset.
    """
    first, second = values_by_cell(before, metric), values_by_cell(after, metric)
    kept = [
        share
        for cell in first.keys() & second.keys()
        if cell[0] in chance
        and (share := _retained_advantage(first[cell], second[cell], chance[cell[0]], metric)) is not None
    ]
    if not kept:
        return ProbeResult("unclear", "no arm is measurably better than chance, so the probe cannot decide")
    share = median(kept)
    text = (
        f"with permuted training labels, {100 * max(0.0, share):.0f} % of the advantage over chance in "
        f"{metric.name} remains (median of {len(kept)})"
    )
    if share < RETAINED_SHARE_THRESHOLD:
        return ProbeResult("moved", text)
    return ProbeResult("still", f"{text}: it does not come from the labels")


LABEL_FREE_ARM = re.compile(r"unsupervis|heuristic|rule|threshold|cluster|zero|pre-?trained|closed.form", re.I)
"""Words for arms that need no labels."""


def find_arms_ignoring_labels(
    before: Sequence[SubmittedPredictions], after: Sequence[SubmittedPredictions], plan: DataPlan
) -> tuple[str, ...]:
    """Return the arms whose predictions vary between rows and are identical with permuted labels."""
    known = {(one.dataset, one.condition): one for one in after}
    found: dict[str, list[bool]] = {}
    for one in before:
        again, arm = known.get((one.dataset, one.condition)), parse_arm(one.condition)
        if again is not None and len(np.unique(one.values, axis=0)) > 1:
            found.setdefault(arm, []).append(np.array_equal(one.values, again.values))
    return tuple(
        arm
        for arm, equal in found.items()
        if all(equal) and not is_uninformed_arm(arm, plan) and not LABEL_FREE_ARM.search(_get_arm_words(arm, plan))
    )


def values_by_cell(values: Sequence[Measurement], metric: MetricSpec) -> dict[DatasetArm, float]:
    return {
        (one.dataset, one.condition): one.value
        for one in values
        if one.name == metric.name and one.step is None and one.split == "validation"
    }


def _retained_advantage(before: float, after: float, chance: float, metric: MetricSpec) -> float | None:
    """Return the share of the advantage that remains; None if there was none."""
    sign = 1.0 if metric.higher_is_better else -1.0
    gap = sign * (before - chance)
    room = abs(chance) if not metric.higher_is_better else max(abs(1.0 - chance), abs(chance))
    return sign * (after - chance) / gap if gap > MIN_ADVANTAGE * room else None


# Probe whether a prediction depends on its own row and on no other validation or test row. Every second row of
# validation and test is replaced by a training row, inside the kernel and before the experiment code starts; the
# predictions of replaced rows must change, and no others.

Array = NDArray[Any]

TRANSDUCTIVE_WORDS = re.compile(
    r"transduct|semi-?supervis|unlabel|test-time|domain adapt|self-train|pseudo-?label", re.I
)
MAX_SAME_DIFFERENCE = 1e-3
"""Maximum change of an unchanged prediction, as a share of the spread of all predictions."""
MAX_STRAY_SHARE = 0.02
"""Share of predictions that may change although they should not: labels near a tie."""


def find_same_rows(before: Array, after: Array) -> NDArray[np.bool_]:
    """Return for each row whether the predictions agree within the tolerance.

    Shapes: (rows,) or (rows, classes).
    """
    if before.shape != after.shape:
        return np.zeros(len(before), dtype=bool)
    first, second = (np.asarray(one, dtype=float).reshape(len(one), -1) for one in (before, after))
    near: NDArray[np.bool_] = np.abs(first - second) <= MAX_SAME_DIFFERENCE * max(float(first.std()), 1e-12)
    return np.logical_and.reduce(near, axis=1)


def judge_row_replacement(
    before: Sequence[SubmittedPredictions], after: Sequence[SubmittedPredictions], plan: DataPlan, *, words: str = ""
) -> ProbeResult:
    """Judge whether the predictions of replaced rows changed, and no others.

    Predictions that are equal for all rows, and deliberately uninformed arms, are ignored. `words` is the plan's
    text, which may say that an arm is transductive.
    """
    known, why, count = {(one.dataset, one.condition): one for one in after}, list[str](), 0
    for one in before:
        again = known.get((one.dataset, one.condition))
        if again is None or len(one.values) < MIN_ROWS or len(again.values) != len(one.values):
            continue
        equal, count = find_same_rows(one.values, again.values), count + 1
        stray, varied = 1.0 - float(equal[0::2].mean()), len(np.unique(one.values, axis=0)) > 1
        where = f"{one.condition!r} on {one.dataset}"
        if stray > MAX_STRAY_SHARE and not TRANSDUCTIVE_WORDS.search(words):
            why.append(
                f"{100 * stray:.0f} % of the predictions of {where} for unchanged rows changed when "
                "other rows were replaced: they depend on other rows to predict"
            )
        elif varied and equal[1::2].all() and not is_uninformed_arm(parse_arm(one.condition), plan):
            why.append(
                f"the predictions of {where} vary between rows, and none changed when its row was replaced: "
                "they do not come from the rows"
            )
    if why:
        return ProbeResult("still", "; ".join(why))
    return (
        ProbeResult("moved", f"replacing rows changed only their own predictions ({count} cells)")
        if count
        else ProbeResult("unclear", "no predictions can be compared")
    )


MIN_ROWS = 20
"""Minimum rows to predict for a verdict."""


# Find scores that code reports on rows whose labels it cannot have. The labels of validation and test are withheld.
# If the code itself logs a metric that needs them, the metric was computed on something else: dev, train or copies.
# The rule is exact and is applied to recorded measurements. Limits: a metric with a custom name (`robust_accuracy`)
# is not checked, and neither are folder datasets, whose labels are unknown.

NUMERIC_METRICS = frozenset({"mse", "mae", "r2", "rmse", "mean_squared_error", "mean_absolute_error", "r2_score"})
CLASS_METRICS = frozenset(
    "accuracy macro_f1 auroc log_loss ece brier acc f1 f1_macro auc roc_auc logloss brier_score error_rate "
    "balanced_accuracy top1_accuracy expected_calibration_error".split()
)
"""Metrics that the host computes (sandbox.metrics), and other names for them."""
SPLIT_PREFIX = re.compile(r"^(validation|valid|val|test)_")
WithheldMetrics = Mapping[str, frozenset[str]]
"""For each dataset, the metrics that need its withheld labels."""
FINDING_KIND = "unseen labels"


def list_withheld_metrics(plan: DataPlan, facts: Iterable[DatasetFacts]) -> WithheldMetrics:
    """Return the metrics that need withheld labels for the plan's datasets.

    This depends on the task: a reconstruction of images has an mse without labels.
    """
    planned = {use.name for use in plan.datasets}
    return {
        one.name: CLASS_METRICS if one.classes else NUMERIC_METRICS
        for one in facts
        if one.name in planned and one.task != "none"
    }


def find_impossible_scores(measurements: Sequence[Measurement], hidden: WithheldMetrics) -> tuple[HonestyFinding, ...]:
    """Return the findings on recorded values, each quantity once."""
    logged = dict.fromkeys(
        (one.name, one.dataset, one.split) for one in measurements if one.grade == "logged" and one.step is None
    )
    return tuple(
        HonestyFinding(
            kind=FINDING_KIND,
            why=f"the code reports {metric!r} of {dataset!r} on {split}, but it cannot have the labels of these rows: "
            'submit predictions with lab.submit, or name what it is (dev_accuracy, split="dev")',
        )
        for metric, dataset, split in logged
        if split in ("validation", "test")
        and SPLIT_PREFIX.sub("", re.sub(r"\W+", "_", metric.strip().lower())) in hidden.get(dataset, ())
    )
