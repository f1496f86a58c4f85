"""Vectorised metrics over resamples equal the scoring metrics on every resample."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference

from labwright.sandbox.metrics import METRICS, compute_resampled_scores, compute_scores, draw_counts

NAMES = frozenset(METRICS)
sk: Any = reference  # its signatures are only partly typed


def predictions(kind: str, seed: int, n: int, classes: int) -> tuple[Any, Any]:
    """Return values with many ties, and labels in which classes may be missing."""
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        return rng.normal(size=n).round(1), rng.normal(size=n).round(1)
    truth = rng.integers(0, classes, size=n)
    if kind == "predictions":
        return rng.integers(0, classes, size=n), truth
    p = rng.dirichlet(np.ones(classes) * 0.3, size=n).round(1) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    return (np.log(p) if kind == "logits" else p), truth


WEIGHTED: dict[str, Any] = {
    "accuracy": sk.accuracy_score,
    "macro_f1": partial(sk.f1_score, average="macro", zero_division=0.0),
    "mse": sk.mean_squared_error,
    "mae": sk.mean_absolute_error,
    "r2": sk.r2_score,
}


@pytest.mark.parametrize("kind", ["numbers", "predictions", "probabilities"])
def test_a_resample_is_what_scikit_learn_gives_with_weights(kind: str) -> None:
    values, truth = predictions(kind, 3, 60, 4)
    drawn = draw_counts(np.random.default_rng(3), 6, 60)
    found = compute_resampled_scores(
        "predictions" if kind == "numbers" else kind, values, truth, counts=drawn, names=NAMES
    )
    for k, weights in enumerate(drawn):
        expected = (
            {
                "log_loss": sk.log_loss(truth, values, sample_weight=weights),
                "brier": sk.brier_score_loss(truth, values, sample_weight=weights, scale_by_half=False),
                "auroc": np.mean([sk.roc_auc_score(truth == c, values[:, c], sample_weight=weights) for c in range(4)]),
            }
            if kind == "probabilities"
            else {}
        )
        said = values.argmax(axis=1) if kind == "probabilities" else values
        expected |= {
            name: metric(truth, said, sample_weight=weights) for name, metric in WEIGHTED.items() if name in found
        }
        assert {name: found[name][k] for name in expected} == pytest.approx(expected, abs=1e-9)
        assert found.keys() - expected.keys() <= {"ece"}, "which scikit-learn does not have"


def test_scoring_takes_memory_as_what_was_handed_in_and_not_as_its_square() -> None:
    """With as many classes as rows, tables of rows by classes would take 7 GB."""
    truth = np.arange(30_000)
    tracemalloc.start()
    found = compute_scores("predictions", np.roll(truth, 1), truth)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == {"accuracy": 0.0, "macro_f1": 0.0} and peak < 20e6
    assert compute_scores("predictions", truth, truth) == {"accuracy": 1.0, "macro_f1": 1.0}
