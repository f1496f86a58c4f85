"""What cannot hold in a plan's spaces, tuning and anchors is said to the planner, one sentence each."""

from __future__ import annotations

from typing import Any

import pytest

from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    MetricSpec,
    PublishedAnchor,
    TuningPlan,
)
from labwright.record.schema.idea import UserAnchor
from labwright.stages.difference_tables import find_tuning_faults

RATE: dict[str, Any] = {"name": "rate", "kind": "log", "low": 1e-4, "high": 0.1, "default": 0.003, "source": "Adam's"}
OPTIMISER: dict[str, Any] = {
    "name": "optimiser",
    "kind": "choice",
    "options": ("sgd", "adam"),
    "default": "adam",
    "source": "common",
}
MOMENTUM: dict[str, Any] = {
    "name": "momentum",
    "kind": "linear",
    "low": 0,
    "high": 0.99,
    "default": 0.9,
    "source": "common",
    "given": "optimiser",
    "among": ("sgd",),
}
ASKED = UserAnchor(
    Baseline="Ridge regression", Dataset="UCI wine", Metric="Acc.", Value=0.97, Tolerance=0.02, Source="Ann 2001"
)
ANCHOR = PublishedAnchor(arm="plain", dataset="wine", metric="accuracy", value=0.97, tolerance=0.02, source="Ann 2001")


def planned(*space: dict[str, Any], **changes: Any) -> DataPlan:
    made = DataPlan(
        task="t",
        datasets=(DatasetUse(name="digits"), DatasetUse(name="wine")),
        expected_seconds=1,
        metrics=(MetricSpec(name="accuracy", higher_is_better=True), MetricSpec(name="ece", higher_is_better=False)),
        arms=(Arm(name="plain", role="baseline"), Arm(name="new", role="method"), Arm(name="less", role="ablation")),
        space=tuple(Hyperparameter(**one) for one in space or (RATE,)),
    )
    return made.model_copy(update=changes)


def tuned(**changes: Any) -> DataPlan:
    return planned(tuning=TuningPlan(**changes))


def faults(plan: DataPlan, *given: UserAnchor) -> list[str]:
    return list(find_tuning_faults(plan, given))


def test_what_holds_has_no_fault() -> None:
    assert faults(planned(RATE, OPTIMISER, MOMENTUM)) == []
    assert faults(tuned(budget=2, metric="ece", datasets=("wine",))) == []
    alone = planned(
        RATE | {"arms": ("new",)},
        {
            **OPTIMISER,
            "name": "units",
            "kind": "integer",
            "options": (),
            "low": 8,
            "high": 512,
            "default": 64,
            "arms": ("plain",),
        },
    )
    assert faults(alone) == [] and alone.find_defaults("plain") == {"units": 64}
    assert faults(planned(anchors=(ANCHOR,)), ASKED) == []
    assert faults(planned(untested=("the anchor of Ann 2001, for want of ridge regression",)), ASKED) == []


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (planned(RATE, RATE), "hyperparameter 'rate' is defined twice"),
        (planned(RATE | {"low": 0.1, "high": 1e-4}), "low must be below high, not 0.1 and 0.0001"),
        (planned(RATE | {"low": 0}), "a log-scale range must be positive, but low is 0"),
        (planned(RATE | {"default": "low"}), "its default 'low' is not between"),
        (planned(RATE | {"options": (1, 2)}), "`options` are only allowed for a choice"),
        (planned(OPTIMISER | {"options": ("adam",)}), "a choice needs at least two distinct options, not ['adam']"),
        (planned(OPTIMISER | {"default": "lion"}), "its default 'lion' is not one of its options ['sgd', 'adam']"),
        (planned(RATE, OPTIMISER | {"arms": ("less",)}), "there is no arm 'less'; available: "),
        (planned(RATE, MOMENTUM | {"given": "rate"}), "`given` is 'rate', which is not a choice"),
        (planned(RATE, MOMENTUM | {"given": ""}), "`among` requires `given`"),
        (planned(RATE | {"arms": ("new",)}), "arm 'plain' has neither a hyperparameter in `space` nor a reason"),
        (
            planned(arms=(Arm(name="plain", role="baseline", untuned="it counts"), Arm(name="new", role="method"))),
            "arm 'plain' has both a reason in `untuned` and the hyperparameter 'rate' in `space`",
        ),
        (tuned(metric="f1"), "tuning: there is no metric 'f1'; available: accuracy, ece"),
        (tuned(levels=("n50",)), "tuning: there is no level 'n50'; available: none"),
        (tuned(budget=1e6), "tuning.budget 1e+06 must be from 2 to 200 trials"),
    ],
)
def test_what_cannot_hold_is_one_sentence(plan: DataPlan, words: str) -> None:
    found = faults(plan, *([ASKED] if plan.anchors else []))
    assert len(found) == 1 and words in found[0]


def test_anchors_are_those_of_the_idea_and_no_others() -> None:
    assert "the idea has no anchor of 0.97 within 0.02 from 'Ann 2001'" in faults(planned(anchors=(ANCHOR,)))[0]
    assert "the idea's anchor of 0.97 within 0.02 from 'Ann 2001' is missing" in faults(planned(), ASKED)[0]
    wider = planned(anchors=(ANCHOR.model_copy(update={"tolerance": 0.5}),))
    assert len(faults(wider, ASKED)) == 2, "one that was made up, and one that is missing"
