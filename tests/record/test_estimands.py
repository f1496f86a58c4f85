"""Estimands: what is read, what is refused in one line, and values checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labwright.record.estimands import (
    CellRef,
    describe_estimand,
    evaluate_estimand,
    find_hypothesis_faults,
    list_cells_read,
    list_main_arms,
    list_registered_cells,
)
from labwright.record.schema.data_plan import Arm, DataPlan, DatasetUse, Level, MetricSpec, OmittedCells
from labwright.record.schema.hypotheses import Effect, Hypothesis, RivalExplanation

EXCESS = "mean(drop(adam, from=a0) - drop(sgd, from=a0), over=[a0.1, a0.3])"
VALUES = {
    ("adam", "a0"): 0.86,
    ("adam", "a0.1"): 0.80,
    ("adam", "a0.3"): 0.70,
    ("sgd", "a0"): 0.85,
    ("sgd", "a0.1"): 0.83,
    ("sgd", "a0.3"): 0.78,
    ("adam-rotated", "a0"): 0.84,
    ("adam-rotated", "a0.1"): 0.82,
    ("adam-rotated", "a0.3"): 0.80,
}


def hypothesis(estimand: str = EXCESS, **fields: Any) -> Hypothesis:
    effect = {name: fields.pop(name) for name in ("smallest", "claim", "bound") if name in fields}
    return Hypothesis.model_validate(
        {
            "id": "excess-drop",
            "statement": "Adam loses more",
            "reason": "less is within noise",
            "effects": (Effect.model_validate({"estimand": estimand, "smallest": 0.03, **effect}),),
            "rival": RivalExplanation(
                statement="the marks are easier for any adaptive rate",
                estimand="adam@a0.3 - adam-rotated@a0.3",
                ours="below zero",
                theirs="near zero",
            ),
            **fields,
        }
    )


def plan(*hypotheses: Hypothesis, **fields: Any) -> DataPlan:
    return DataPlan.model_validate(
        {
            "task": "t",
            "datasets": (DatasetUse(name="fashion"), DatasetUse(name="digits")),
            "metrics": (
                MetricSpec(name="accuracy", higher_is_better=True, worst=0.0, low=0.0, high=1.0),
                MetricSpec(name="log_loss", higher_is_better=False, low=0.0),
            ),
            "arms": (
                Arm(name="sgd", role="baseline", title="SGD"),
                Arm(name="adam", role="method", title="Adam"),
                Arm(name="adam-rotated", role="ablation", title="Adam, rotated"),
                Arm(name="spare", role="ablation"),
            ),
            "levels": (Level(name="a0", value=0.0), Level(name="a0.1", value=0.1), Level(name="a0.3", value=0.3)),
            "factor": "amplitude",
            "expected_seconds": 1.0,
            "hypotheses": hypotheses,
            **fields,
        }
    )


def read(place: CellRef) -> float:
    found = VALUES[place.arm, place.level] - 0.1 * (place.dataset == "digits")
    return found if not place.selection_split else {"a0": 0.1, "a0.1": 0.9, "a0.3": 0.5}[place.level]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("adam@a0 - sgd@a0", 0.01),
        ("adam@a0.3 / sgd@a0.3", 0.70 / 0.78),
        ("change(adam@a0.3, sgd@a0.3)", -0.08 / 0.78),
        (EXCESS, ((0.06 - 0.02) + (0.16 - 0.07)) / 2),
        ("drop(adam@a0.3, from=a0)", 0.0),
        ("mean(adam, over=levels)", (0.86 + 0.80 + 0.70) / 3),
        ("max(sgd - adam, over=levels)", 0.08),
        ("min(adam, over=[a0, a0.1])", 0.80),
        ("worst(adam@a0, over=datasets)", 0.76),
        ("mean(adam@a0, over=datasets)", 0.81),
        ("on(adam@a0 - 0.5 * sgd@a0, digits)", 0.76 - 0.375),
        ("slope(adam, over=[a0.1, a0.3])", -0.5),
        ("tuned(adam, over=levels, by=dev) - sgd@a0.1", -0.03),
        ("-adam@a0 + 1", 0.14),
    ],
)
def test_values_by_hand(text: str, value: float) -> None:
    found = plan()
    assert evaluate_estimand(text, found, found.primary_metric, read) == pytest.approx(value)


def test_slope_over_all_levels_is_that_of_least_squares() -> None:
    found = plan()
    expected = np.polyfit([0.0, 0.1, 0.3], [0.86, 0.80, 0.70], 1)[0]
    assert evaluate_estimand("slope(adam, over=levels)", found, found.primary_metric, read) == pytest.approx(expected)


def test_resamples_are_evaluated_elementwise_as_numbers_are() -> None:
    rng, found = np.random.default_rng(0), plan()
    text = f"{EXCESS} - max(sgd, over=levels)"
    drawn = {place: rng.normal(size=7) for place in list_cells_read(text, found, found.primary_metric)}
    whole = evaluate_estimand(text, found, found.primary_metric, drawn.__getitem__)
    each = [
        evaluate_estimand(text, found, found.primary_metric, lambda place, k=k: float(drawn[place][k]))
        for k in range(7)
    ]
    np.testing.assert_allclose(whole, each)


def test_worst_is_the_largest_loss_and_the_least_difference() -> None:
    found = plan()
    loss = found.metrics[1]
    assert evaluate_estimand("worst(adam@a0, over=datasets)", found, loss, read) == pytest.approx(0.86)
    assert evaluate_estimand("worst(adam@a0.3 - sgd@a0, over=datasets)", found, loss, read) == pytest.approx(-0.15)


def test_what_a_choice_reads_is_needed_too() -> None:
    found = plan()
    assert {
        str(one)
        for one in list_cells_read("tuned(adam, over=[a0, a0.1], by=dev)", found, found.primary_metric)
        if not one.selection_split
    } == {"adam@a0 on fashion", "adam@a0.1 on fashion"}


def test_registered_arms_run_with_the_main_ones() -> None:
    excess = EXCESS.replace("sgd", "adam-rotated")
    assert list_main_arms(plan()) == ("sgd", "adam")
    assert list_main_arms(plan(hypothesis(excess))) == ("sgd", "adam", "adam-rotated")
    assert list_main_arms(plan(hypothesis(excess, confirmatory=False))) == ("sgd", "adam")
    assert CellRef("fashion", "adam-rotated", "a0.3") in list_registered_cells(plan(hypothesis(excess)))


@pytest.mark.parametrize(
    ("estimand", "fields", "why"),
    [
        ("adam - sgd", {}, "has no level"),
        ("adam@a9 - sgd@a0", {}, "no level 'a9'"),
        ("lion@a0 - sgd@a0", {}, "no arm 'lion'"),
        ("adam@a0 - adam@a0", {}, "its value is always the same"),
        ("1 - 2", {}, "reads no cell"),
        ("adam@a0 -", {}, "is not a valid expression"),
        ("__import__('os')", {}, "is not a valid expression"),
        ("median(adam, over=levels)", {}, "no function 'median'"),
        ("mean(adam)", {}, "takes 1 expression and over="),
        ("adam@a0 - sgd@a0", {"smallest": 3.0}, "check the unit"),
        ("100 + adam@a0", {}, "no measurement can refute it"),
        ("worst(adam@a0, over=groups)", {}, "is not a valid range"),
        ("tuned(adam@a0, over=levels, by=dev)", {}, "takes an arm"),
        ("on(adam@a0, mnist)", {}, "no dataset 'mnist'"),
        ("slope(adam@a0, over=datasets)", {}, "numeric values"),
        ("adam@a0 ** 2", {}, "is not allowed in an estimand"),
        ("mean(adam, over=[a0, digits])", {}, "no level 'digits'"),
        ("(" * 300 + "adam@a0" + ")" * 300, {}, "is not a valid expression"),
        ("adam@a0 + " * 120 + "adam@a0", {}, "more than"),
        ("adam@a0 / (sgd@a0 - sgd@a0)", {}, "always divides by zero"),
        ("adam@a0 - sgd@a0", {"claim": "positive", "bound": 0.1}, "takes no bound"),
        ("adam@a0 - sgd@a0", {"claim": "within", "bound": 0.1}, "takes no bound"),
        ("adam@a0 - sgd@a0", {"claim": "at most"}, "needs its `bound`"),
        ("adam@a0 - sgd@a0", {"claim": "at most", "bound": 1.5}, "its bound of 1.5"),
        ("adam@a0 - sgd@a0", {"claim": "within", "smallest": 2.0}, "no measurement can refute it"),
        ("adam@a0 / sgd@a0", {}, "is compared with a bound"),
        ("mean(adam / sgd, over=levels)", {"claim": "positive"}, "is compared with a bound"),
        ("0.5 * (adam@a0 - sgd@a0) - (adam-rotated@a0 - sgd@a0)", {}, "is written as a ratio"),
    ],
)
def test_what_cannot_be_decided_is_said_in_one_line(estimand: str, fields: dict[str, Any], why: str) -> None:
    found = list(find_hypothesis_faults(plan(hypothesis(estimand, **fields))))
    assert len(found) == 1
    assert why in found[0]
    assert "\n" not in found[0]


def test_what_a_hypothesis_presupposes_must_be_decided_before_it() -> None:
    first, second = hypothesis(), hypothesis(id="half", presupposes="excess-drop")
    assert list(find_hypothesis_faults(plan(first, second))) == []

    def fault(*hypotheses: Hypothesis) -> str:
        return next(find_hypothesis_faults(plan(*hypotheses)))

    assert "not a hypothesis of the plan: leave it empty" in fault(second)
    assert "excess-drop <- half" in fault(hypothesis(presupposes="half"), second)
    assert "exploratory" in fault(hypothesis(confirmatory=False), second)
    assert "presupposes it in turn" in fault(hypothesis(presupposes="excess-drop"))


def test_left_out_cells_levels_without_numbers_and_bad_rivals_are_refused() -> None:
    left = plan(hypothesis(), left_out=(OmittedCells(arm="sgd", level="a0.3", reason="costly"),))
    assert any("excluded from the plan" in one for one in find_hypothesis_faults(left))
    bare = plan(hypothesis("slope(adam, over=levels)", smallest=0.1), levels=(Level(name="a0"), Level(name="a0.3")))
    assert any("numeric values" in one for one in find_hypothesis_faults(bare))
    alike = hypothesis(rival=RivalExplanation(statement="s", estimand="adam@a0", ours="near zero", theirs="near zero"))
    assert ["does not distinguish them" in one for one in find_hypothesis_faults(plan(alike))] == [True]
    assert any("no rival" in one for one in find_hypothesis_faults(plan(hypothesis(rival=None))))
    assert any("no hypothesis is confirmatory" in one for one in find_hypothesis_faults(plan()))
    twice = list(find_hypothesis_faults(plan(hypothesis(), hypothesis())))
    assert twice == ["hypothesis 'excess-drop' is defined twice"]
    assert any("use at least three" in one for one in find_hypothesis_faults(plan(hypothesis(unit="datasets"))))
    assert list(find_hypothesis_faults(plan(hypothesis()))) == []


def test_words_name_arms_and_levels_by_their_titles() -> None:
    assert describe_estimand(EXCESS, plan()) == (
        "the mean over a0.1 and a0.3 of (the drop of Adam from a0 minus the drop of SGD from a0)"
    )
    assert describe_estimand("change(adam@a0, sgd@a0)", plan()) == "the relative change from SGD to Adam, at a0"
    assert describe_estimand("(adam@a0 - sgd@a0) - (adam@a0.1 - sgd@a0.1)", plan()) == (
        "(Adam minus SGD, at a0) minus (Adam minus SGD, at a0.1)"
    )
