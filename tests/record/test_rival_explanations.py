"""What came of the measurement on which a rival explanation disagrees."""

from __future__ import annotations

import pytest

from labwright.record.claims.hypothesis_tests import decide_from_runs, list_estimated_effects
from labwright.record.schema.hypotheses import RivalExplanation
from tests.record.test_decisions import DIFFERENCE, runs_of
from tests.record.test_estimands import hypothesis, plan


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        ((0.051, 0.049, 0.05, 0.052, 0.048), "above zero"),
        ((-0.051, -0.049, -0.05, -0.052, -0.048), "below zero"),
        ((0.001, -0.001, 0.002, 0.0, -0.002), "near zero"),
        ((0.2, -0.2, 0.1, -0.1, 0.15), None),
    ],
)
def test_its_sign_is_read_off_its_interval_and_near_zero_has_the_width_of_the_smallest_effect(
    spread: tuple[float, ...], found: str | None
) -> None:
    rival = RivalExplanation(
        statement="the marks", estimand="adam-rotated@a0 - sgd@a0", ours="near zero", theirs="above zero"
    )
    one = hypothesis(DIFFERENCE, rival=rival)
    rotated = {f"s{seed}": {"adam-rotated@a0": 0.8 + off} for seed, off in enumerate(spread)}
    [decided] = decide_from_runs(
        plan(one), runs_of([(0.9 + k / 1000, 0.8) for k in range(5)], **rotated), confirmed=True
    )
    assert decided.rival is not None and decided.rival.values == pytest.approx(spread)
    assert decided.rival_sign == found and decided.verdict == "supported"
    assert [each.estimand for each in list_estimated_effects(one)] == [DIFFERENCE, rival.estimand]


def test_a_rival_that_was_not_measured_is_open_and_changes_no_verdict() -> None:
    [decided] = decide_from_runs(
        plan(hypothesis(DIFFERENCE)), runs_of([(0.9, 0.8), (0.91, 0.8), (0.9, 0.81)]), confirmed=True
    )
    assert decided.rival_sign is None and decided.rival is not None
    assert "was not measured" in decided.rival.why and decided.verdict == "supported"
