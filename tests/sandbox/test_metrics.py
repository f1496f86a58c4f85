"""Vectorised metrics over resamples equal the scoring metrics on every resample."""

from __future__ import annotations

import math
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import example, given
from hypothesis import strategies as st

from labwright.sandbox import metrics
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


@given(
    kind=st.sampled_from(["numbers", "predictions", "probabilities", "logits"]),
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    classes=st.integers(2, 5),
)
@example(kind="numbers", seed=0, n=3, classes=2)  # three copies of one number, whose mean differs from it
def test_every_metric_on_every_draw_is_what_scoring_the_drawn_examples_gives(
    kind: str, seed: int, n: int, classes: int
) -> None:
    values, truth = predictions(kind, seed, n, classes)
    named = "predictions" if kind == "numbers" else kind
    drawn = draw_counts(np.random.default_rng(seed), 8, n)
    found = compute_resampled_scores(named, values, truth, counts=drawn, names=NAMES)
    assert set(found) == set(compute_scores(named, values, truth))
    for k, row in enumerate(drawn):
        rows = np.repeat(np.arange(n), row)
        expected = compute_scores(named, values[rows], truth[rows])
        for name, over in found.items():
            if name in expected:
                assert over[k] == pytest.approx(expected[name], abs=1e-8)
            else:
                assert math.isnan(over[k]), "as if all examples had one class"


def test_each_draw_is_of_the_whole_set_and_work_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_counts(np.random.default_rng(1), 50, 30)
    assert drawn.shape == (50, 30) and (drawn.sum(axis=1) == 30).all() and len({row.tobytes() for row in drawn}) == 50
    values, truth = predictions("probabilities", 1, 30, 3)
    whole = compute_resampled_scores("probabilities", values, truth, counts=drawn, names=NAMES)
    monkeypatch.setattr(metrics, "MAX_CHUNK_VALUES", 90)
    parts = compute_resampled_scores("probabilities", values, truth, counts=drawn, names=NAMES)
    assert all(np.allclose(whole[name], parts[name], rtol=0, atol=1e-12) for name in whole)


def test_only_what_is_asked_for_is_computed() -> None:
    values, truth = predictions("probabilities", 1, 30, 3)
    drawn = draw_counts(np.random.default_rng(1), 5, 30)
    assert set(compute_resampled_scores("probabilities", values, truth, counts=drawn, names={"ece", "mse"})) == {"ece"}


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
