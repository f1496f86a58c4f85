"""Planted studies of known truth, as `benchmarks.tuning` carries them out: two that are worked examples."""

from __future__ import annotations

import pytest

from benchmarks.planted_tuning import HOME, read
from benchmarks.tuning import measure, truth

EXAMPLES = [read(path) for path in sorted((HOME / "examples").glob("*.yaml"))]


def test_a_label_that_is_not_true_is_seen() -> None:
    assert all(truth(one)["label_holds"] for one in EXAMPLES)
    other = {"gain": "undertuned", "undertuned": "gain"}
    assert not any(truth(one.model_copy(update={"label": other[one.label]}))["label_holds"] for one in EXAMPLES)


@pytest.mark.slow
def test_an_under_tuned_baseline_is_no_gain_and_a_true_gain_is_one() -> None:
    found = measure(EXAMPLES)
    assert found["goals_met"] and found["of"] == {"undertuned": 1, "gain": 1}
    for one in found["studies"]:
        assert one["efforts"]["ratio"] == 1.0 and one["settings"]["baseline"]["learning_rate"] != 0.001
