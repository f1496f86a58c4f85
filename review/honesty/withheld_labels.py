"""Find scores that code reports on rows whose labels it cannot have.

The labels of validation and test are withheld. If the code itself logs a metric that needs them, the metric was
computed on something else: dev, train or copies. The rule is exact and is applied to recorded measurements. Limits: a
metric with a custom name (`robust_accuracy`) is not checked, and neither are folder datasets, whose labels are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from labwright.record.schema.data_plan import DataPlan, DatasetFacts, Measurement
from labwright.record.schema.nodes import HonestyFinding

NUMERIC_METRICS = frozenset({"mse", "mae", "r2", "rmse", "mean_squared_error", "mean_absolute_error", "r2_score"})
CLASS_METRICS = frozenset(
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
"""Metrics that the host computes (sandbox.metrics), and other names for them."""
SPLIT_PREFIX = re.compile(r"^(validation|valid|val|test)_")
WithheldMetrics = Mapping[str, frozenset[str]]
"""For each dataset, the metrics that need its withheld labels."""
FINDING_KIND = "unseen labels"


def list_withheld_metrics(plan: DataPlan | None, facts: Iterable[DatasetFacts] | None = None) -> WithheldMetrics:
    """Return the metrics that need withheld labels for the plan's datasets.

    This depends on the task: a reconstruction of images has an mse without labels. Without facts, every metric is
    assumed to need them.
    """
    if plan is None:
        return {}
    if facts is None:
        return {use.name: CLASS_METRICS | NUMERIC_METRICS for use in plan.datasets}
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
        HonestyFinding(kind=FINDING_KIND, why=_explain(*one)) for one in logged if _needs_withheld_labels(*one, hidden)
    )


def _needs_withheld_labels(metric: object, dataset: object, split: object, hidden: WithheldMetrics) -> bool:
    if not isinstance(metric, str) or not isinstance(dataset, str) or split not in ("validation", "test"):
        return False
    plain = SPLIT_PREFIX.sub("", re.sub(r"\W+", "_", metric.strip().lower()))
    return plain in hidden.get(dataset, frozenset[str]())


def _explain(metric: object, dataset: object, split: object) -> str:
    return (
        f"the code reports {metric!r} of {dataset!r} on {split}, but it cannot have the labels of these rows: "
        'submit predictions with lab.submit, or name what it is (dev_accuracy, split="dev")'
    )
