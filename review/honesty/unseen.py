"""Scores that the code says of rows whose labels it cannot have.

The labels of validation and test are withheld, so a metric that needs them, when the code itself logs it, was computed
on something else: on dev, on train, on copies. The rule is exact, and what was recorded is held to it.

Not guaranteed: a metric under a name of its own (`robust_accuracy`) is not looked at, nor a score of a folder dataset,
whose labels we do not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from labwright.record.nouns.data import DataPlan, DatasetFacts, Measurement
from labwright.record.nouns.nodes import Finding

OF_NUMBERS = frozenset({"mse", "mae", "r2", "rmse", "mean_squared_error", "mean_absolute_error", "r2_score"})
OF_CLASSES = frozenset(
    {
        "accuracy",
        "macro_f1",
        "auroc",
        "log_loss",
        "ece",
        "brier",
        "acc",
        "f1",
        "f1_macro",
        "auc",
        "roc_auc",
        "logloss",
        "brier_score",
        "error_rate",
        "balanced_accuracy",
        "top1_accuracy",
        "expected_calibration_error",
    }
)
"""Metrics that we score (sandbox.metrics), and other names of them."""
SPLIT = re.compile(r"^(validation|valid|val|test)_")
Withheld = Mapping[str, frozenset[str]]
"""By dataset: the metrics that take its withheld labels."""
KIND = "unseen labels"


def withheld(plan: DataPlan | None, facts: Iterable[DatasetFacts] | None = None) -> Withheld:
    """Of the plan's datasets. A reconstruction of images has an mse without labels, so the task tells what needs them.

    Without facts every metric is taken to need them.
    """
    if plan is None:
        return {}
    if facts is None:
        return {use.name: OF_CLASSES | OF_NUMBERS for use in plan.datasets}
    planned = {use.name for use in plan.datasets}
    return {
        one.name: OF_CLASSES if one.classes else OF_NUMBERS
        for one in facts
        if one.name in planned and one.task != "none"
    }


def unseen_in_record(measurements: Sequence[Measurement], hidden: Withheld) -> tuple[Finding, ...]:
    """Of recorded values, each quantity once."""
    logged = dict.fromkeys(
        (one.name, one.dataset, one.split) for one in measurements if one.grade == "logged" and one.step is None
    )
    return tuple(Finding(kind=KIND, why=_why(*one)) for one in logged if _unseen(*one, hidden))


def _unseen(metric: object, dataset: object, split: object, hidden: Withheld) -> bool:
    if not isinstance(metric, str) or not isinstance(dataset, str) or split not in ("validation", "test"):
        return False
    plain = SPLIT.sub("", re.sub(r"\W+", "_", metric.strip().lower()))
    return plain in hidden.get(dataset, frozenset[str]())


def _why(metric: object, dataset: object, split: object) -> str:
    return (
        f"{metric!r} of {dataset!r} on {split} is said by the code, which cannot have the labels of these rows: "
        'hand in predictions with lab.submit, or name what it is (dev_accuracy, split="dev")'
    )
