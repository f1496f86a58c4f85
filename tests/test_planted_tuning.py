"""Planted studies with known truth from `benchmarks.tuning`: the worked examples."""

from __future__ import annotations

import pytest

from benchmarks.planted_tuning import HOME, read
from benchmarks.tuning import describe_result, describe_truth, measure_studies

EXAMPLES = read(HOME / "examples.tar.gz")


@pytest.mark.slow
def test_a_label_that_is_not_true_is_seen() -> None:
    """With several levels, only larger gains are found, because there are more comparisons."""
    assert all(describe_truth(one)["label_holds"] for one in EXAMPLES)
    other = {"gain": "undertuned", "undertuned": "gain"}
    assert not any(
        describe_truth(one.model_copy(update={"label": other[one.label]}))["label_holds"] for one in EXAMPLES
    )
    alone, two = (describe_truth(EXAMPLES[0].model_copy(update={"levels": levels})) for levels in ((), (0.0, -0.1)))
    assert two["detectable"] > alone["detectable"] and two["gain_tuned"] == alone["gain_tuned"]


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.parametrize("name", ["rate_ten_times_off", "gain_with_momentum"])
def test_an_under_tuned_baseline_is_no_gain_and_a_true_gain_is_one(name: str) -> None:
    """The second arm's choice is at the edge of a conditional dimension."""
    found = describe_result(next(one for one in EXAMPLES if one.name == name))
    assert (found["called"] == "improved") == (found["label"] == "gain"), found
    assert found["untuned"] == "improved" and found["efforts"]["ratio"] == 1.0
    assert found["settings"]["baseline"]["learning_rate"] != 0.001


@pytest.mark.slow
@pytest.mark.bench
def test_goals_are_met_by_the_examples_with_any_number_of_slots() -> None:
    found = measure_studies(
        [one.model_copy(update={"levels": (0.0, -0.1)}) if one.name == "true_gain" else one for one in EXAMPLES]
    )
    assert found["goals_met"] and found["same_by_slots"] and found["of"] == {"undertuned": 3, "gain": 3}, found
