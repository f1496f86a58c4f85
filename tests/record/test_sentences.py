"""Outcomes of hypotheses in words: direction and claim, what the record supports, why a claim is open, lost seeds."""

from __future__ import annotations

import pytest

from labwright.record.claims.hypothesis_tests import decide_from_runs
from labwright.record.claims.sentences import (
    describe_need,
    describe_outcome,
    describe_support,
    describe_units,
    format_lost_seeds,
)
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis, HypothesisDecision
from tests.record.test_decisions import DIFFERENCE, runs_of, without
from tests.record.test_estimands import hypothesis, plan

GAINS = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]


def decide(one: Hypothesis, pairs: list[tuple[float, float]]) -> HypothesisDecision:
    [found] = decide_from_runs(plan(one), runs_of(pairs), confirmed=True)
    return found


@pytest.mark.parametrize(
    ("pairs", "outcome", "support"),
    [
        (GAINS, "positive; at least 0.03: supported", "it is above zero; it is at least 0.03"),
        ([(b, a) for a, b in GAINS], "negative; at least 0.03: refuted", "it is below zero; it is not at least 0.03"),
        (
            [(0.9, 0.901), (0.9, 0.899), (0.9, 0.9005)],
            "equivalent to zero within plus and minus 0.03; at least 0.03: refuted",
            "it is within plus and minus 0.03, too small to matter; it is not at least 0.03",
        ),
        (
            [(0.91, 0.9), (0.912, 0.9), (0.911, 0.9)],
            "positive; at least 0.03: refuted",
            "it is above zero, and within plus and minus 0.03, too small to matter; it is not at least 0.03",
        ),
        (
            [(0.9, 0.8), (0.9, 0.9), (0.9, 0.85)],
            "open in sign; at least 0.03: open",
            "its sign is open, which is not evidence of no effect; open whether it is at least 0.03",
        ),
        ([], "at least 0.03: open", "not measured (nothing was measured)"),
    ],
)
def test_direction_and_claim_are_worded(pairs: list[tuple[float, float]], outcome: str, support: str) -> None:
    [part] = decide(hypothesis(DIFFERENCE), pairs).parts
    assert (describe_outcome(part), describe_support(part)) == (outcome, support)


def test_a_share_has_a_claim_and_no_direction() -> None:
    share = hypothesis(effects=(Effect(estimand="adam@a0 / sgd@a0", smallest=0.1, claim="at most", bound=0.5),))
    [part] = decide(share, [(0.3, 0.8), (0.31, 0.82), (0.29, 0.79)]).parts
    assert describe_outcome(part) == "at most 0.5: supported" and describe_support(part) == "it is at most 0.5"
    sign = hypothesis(effects=(Effect(estimand=DIFFERENCE, smallest=0.03, claim="positive"),))
    assert describe_support(decide(sign, GAINS).parts[0]) == "it is above zero"


def test_an_open_claim_says_what_would_decide_it() -> None:
    [part] = decide(hypothesis(DIFFERENCE), [(0.9, 0.8), (0.9, 0.9), (0.9, 0.85)]).parts
    assert "seeds would measure it to plus and minus 0.01" in describe_need(part)
    wide = EffectDecision(
        effect=Effect(estimand=DIFFERENCE, smallest=0.03), values=(0.0, 0.1), mean=0.05, low=0.0, high=0.1, floor=0.02
    )
    assert describe_need(wide) == "the test examples alone leave plus and minus 0.02, whatever the number of seeds"


def test_the_divergence_of_each_arm_is_stated() -> None:
    one = hypothesis(DIFFERENCE)
    runs = runs_of([*GAINS, (0.9, 0.8)])
    [found] = decide_from_runs(plan(one), [*runs[:5], without(runs[5], "adam")], confirmed=True)
    [text] = format_lost_seeds(found.parts[0])
    assert text == "of 6 that ran, training diverged with 0 of sgd and 1 of adam, left out"
    assert describe_units(found, found.parts[0]).endswith(" seeds")
