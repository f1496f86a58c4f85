"""Metrics computed from submitted predictions, on the original examples or on many resamples at once.

For class probabilities (after a softmax for logits): accuracy, macro F1, AUROC, log loss, expected calibration error
and Brier score. For predicted classes: accuracy and macro F1. For regression: mean squared and absolute error, R².

scikit-learn has all of these except the calibration error, with `sample_weight`, and a test checks that the values are
equal. They are reimplemented because a bootstrap needs 2,000 weightings of the same examples: this takes a few array
operations here (0.1 s) but 2,000 calls with scikit-learn (30 s). A weighting is one row of `counts` (draws, examples)
and states how often each example was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import log
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from labwright.record.schema.data_plan import MetricSpec

Array = NDArray[Any]
Measure = Callable[[Array], Array]
"""Counts (draws, examples) -> values (draws,), NaN for a draw without a value."""

MIN_PROBABILITY = 1e-7
"""Probabilities are clipped to at least this value before taking the logarithm, so that one certain mistake costs
16.1."""
ECE_BINS = 15
MAX_CHUNK_VALUES = 2**22
"""Number of values of `counts` processed at a time: 32 MiB as floats."""

METRICS: Mapping[str, MetricSpec] = {
    name: MetricSpec(
        name=name,
        title=title,
        unit="nats" if name == "log_loss" else "",
        higher_is_better=higher,
        worst=low if higher else high,
        low=low,
        high=high,
    )
    for name, title, higher, low, high in (
        ("accuracy", "accuracy", True, 0.0, 1.0),
        ("macro_f1", "macro F1", True, 0.0, 1.0),
        ("auroc", "AUROC", True, 0.0, 1.0),
        ("log_loss", "log loss", False, 0.0, -log(MIN_PROBABILITY)),
        ("ece", "expected calibration error", False, 0.0, 1.0),
        ("brier", "Brier score", False, 0.0, 2.0),
        ("mse", "mean squared error", False, 0.0, None),
        ("mae", "mean absolute error", False, 0.0, None),
        ("r2", "R squared", True, None, 1.0),
    )
}
_REGRESSION_METRICS = frozenset({"mse", "mae", "r2"})


def list_computable(classes: int) -> frozenset[str]:
    """Return the metrics available for `classes` classes (0: regression)."""
    return frozenset(METRICS) - _REGRESSION_METRICS if classes else _REGRESSION_METRICS


def compute_scores(
    kind: str, values: Array, truth: Array, more: Mapping[str, Measure] | None = None
) -> dict[str, float]:
    """Compute every metric available for predictions of this kind, by name; metrics without a value are left out.

    `values` has shape (n,) for "predictions", otherwise (n, classes); `truth` has shape (n,), with integers for
    classes. `more` contains formulas of the plan (`sandbox.metric_formulas`). For huge values, metrics may not be
    finite.
    """
    once, extra = np.ones((1, len(truth))), more or {}
    with np.errstate(all="ignore"):
        scores = {
            name: float(measure(once)[0])
            for name, measure in {**build_metric_measures(kind, values, truth), **extra}.items()
        }
    return {name: value for name, value in scores.items() if name not in ("auroc", *extra) or not np.isnan(value)}


def compute_resampled_scores(
    kind: str,
    values: Array,
    truth: Array,
    *,
    counts: Array,
    names: Collection[str],
    more: Mapping[str, Measure] | None = None,
) -> dict[str, Array]:
    """Compute the metrics in `names` that `compute_scores` returns, on every resample: name -> (draws,).

    NaN for a draw without a value (AUROC with one class).
    """
    wanted = {name: measure for name, measure in (more or {}).items() if name in names}
    known = compute_scores(kind, values, truth, wanted).keys() & names
    measures = {
        name: measure
        for name, measure in {**build_metric_measures(kind, values, truth), **wanted}.items()
        if name in known
    }
    rows = max(1, MAX_CHUNK_VALUES // max(1, counts.shape[1]))
    chunks = [counts[start : start + rows].astype(float) for start in range(0, len(counts), rows)] if measures else []
    with np.errstate(all="ignore"):
        return {name: np.concatenate([measure(chunk) for chunk in chunks]) for name, measure in measures.items()}


def draw_counts(rng: Generator, draws: int, examples: int) -> Array:
    """Draw resamples of the whole set, and return how often each of them contains each example: (draws, examples),
    small integers.
    """
    counts = np.empty((draws, examples), dtype=np.uint8)
    for row in counts:
        row[:] = np.minimum(np.bincount(rng.integers(0, examples, size=examples), minlength=examples), 255)
    return counts


def count_passes(names: Collection[str], classes: int) -> int:
    """Estimate the cost of one resample of these metrics, in passes over the examples (about 4 ns each)."""
    several = {"macro_f1": classes, "auroc": 10 * classes, "ece": ECE_BINS, "r2": 3}
    return sum(several.get(name, 1) for name in names)


def compute_softmax(logits: Array) -> Array:
    """Convert rows of logits to rows of probabilities."""
    powers = np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def build_metric_measures(kind: str, values: Array, truth: Array) -> dict[str, Measure]:
    """Build the built-in measures for predictions of a kind."""
    if kind == "predictions" and truth.dtype.kind == "f":
        errors = values - truth
        return {"mse": _build_mean(errors**2), "mae": _build_mean(abs(errors)), "r2": _build_r2(errors, truth)}
    probabilities = compute_softmax(values) if kind == "logits" else values.astype(float)
    predicted = values if kind == "predictions" else probabilities.argmax(axis=1)
    of_classes = {
        "accuracy": _build_mean((predicted == truth).astype(float)),
        "macro_f1": _build_macro_f1(predicted, truth),
    }
    if kind == "predictions":
        return of_classes
    own = probabilities[np.arange(len(truth)), truth]
    return of_classes | {
        "auroc": _build_auroc(probabilities, truth),
        "log_loss": _build_mean(-np.log(np.clip(own, MIN_PROBABILITY, 1.0))),
        "ece": _build_ece(probabilities, truth),
        "brier": _build_mean(np.square(probabilities).sum(axis=1) - 2.0 * own + 1.0),
    }


def _build_mean(outcomes: Array) -> Measure:
    """Weighted mean of one number per example.

    It may be correctness, the error or its square, the log loss in nats, or the squared distance to the one-hot truth,
    from 0 to 2 (Source: Brier 1950, "Verification of forecasts expressed in terms of probability", eq. 2).
    """
    return lambda counts: (counts * outcomes).sum(axis=1) / counts.sum(axis=1)


def _build_macro_f1(predicted: Array, truth: Array) -> Measure:
    """Unweighted mean of F1 over the classes that occur in the truth or the predictions.

    Memory is proportional to examples plus classes, not to their product.
    """
    classes, numbers = np.unique(np.concatenate((predicted, truth)), return_inverse=True)
    chosen, true = np.split(numbers, [len(predicted)])
    right = chosen == true

    def of_class(number: Array, counts: Array) -> Array:
        return np.stack([np.bincount(number, weights=row, minlength=len(classes)) for row in counts])

    def measure(counts: Array) -> Array:
        totals = of_class(chosen, counts) + of_class(true, counts)
        shares = np.divide(2.0 * of_class(true, counts * right), totals, out=np.zeros_like(totals), where=totals > 0)
        return shares.sum(axis=1) / (totals > 0).sum(axis=1)

    return measure


def _build_ece(probabilities: Array, truth: Array) -> Measure:
    """Expected calibration error of the top class, with 15 equal-width bins, each open below and closed above.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3.
    """
    confidence = probabilities.max(axis=1)
    gaps = (probabilities.argmax(axis=1) == truth) - confidence
    bins = np.clip(np.ceil(confidence * ECE_BINS).astype(int) - 1, 0, ECE_BINS - 1)
    return lambda counts: (
        np.array([np.abs(np.bincount(bins, weights=gaps * row, minlength=ECE_BINS)).sum() for row in counts])
        / counts.sum(axis=1)
    )


def _build_r2(errors: Array, truth: Array) -> Measure:
    """Share of variance explained; 0 for predicting the mean, and 0 if the truth is constant."""
    squared, centred = errors**2, truth.astype(float) - truth.mean(dtype=float)

    def measure(counts: Array) -> Array:
        squares = counts @ centred**2
        spread = squares - (counts @ centred) ** 2 / counts.sum(axis=1)
        spread[spread <= 1e-12 * squares] = 0.0  # the values of a draw are equal, so the rest is rounding error
        return np.where(spread > 0, 1.0 - counts @ squared / np.where(spread > 0, spread, 1.0), 0.0)

    return measure


def _build_auroc(probabilities: Array, truth: Array) -> Measure:
    """Area under the ROC curve: of class 1 if there are two classes, otherwise the one-vs-rest mean over classes.

    Ties count half. Classes of no example or of all examples are left out; NaN if no class is left. Source: Hanley and
    McNeil 1982, "The meaning and use of the area under a ROC curve" (as a Wilcoxon statistic).
    """
    classes = (1,) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = [_compute_auc(probabilities[:, c], truth == c) for c in classes]

    def measure(counts: Array) -> Array:
        values = np.stack([area(counts) for area in areas], axis=1)
        known = ~np.isnan(values)
        total = np.where(known, values, 0.0).sum(axis=1)
        return np.divide(total, known.sum(axis=1), out=np.full(len(counts), np.nan), where=known.any(axis=1))

    return measure


def _compute_auc(scores: Array, positive: Array) -> Measure:
    """Share of pairs of a positive and a negative example that the scores order correctly; NaN without pairs."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan) != 0)
    own = positive[order]

    def measure(counts: Array) -> Array:
        ordered = counts[:, order]
        positives = np.add.reduceat(ordered * own, starts, axis=1)
        negatives = np.add.reduceat(ordered * ~own, starts, axis=1)
        below = negatives.cumsum(axis=1) - negatives / 2.0
        pairs = positives.sum(axis=1) * negatives.sum(axis=1)
        return np.divide((positives * below).sum(axis=1), pairs, out=np.full(len(counts), np.nan), where=pairs > 0)

    return measure
