r"""What `\verdict` prints: estimate, interval, n and unit, then the direction and whether the claim holds."""

from __future__ import annotations

import pytest

from labwright.record.claims.hypothesis_tests import decide_from_runs
from labwright.record.claims.sentences import describe_need, format_verdict_clauses
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.event_fold import fold_events
from labwright.record.result_macros import ResultMacroUse, parse_results, render_results, to_plain_text
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.hypotheses import Effect, EffectDecision, Hypothesis
from labwright.record.schema.idea import Idea
from tests.record.test_decisions import DIFFERENCE, runs_of, without
from tests.record.test_estimands import hypothesis, plan

GAINS = [(0.86, 0.80), (0.90, 0.82), (0.88, 0.83), (0.87, 0.80), (0.91, 0.84)]


def clause(one: Hypothesis, pairs: list[tuple[float, float]], *, confirmed: bool = True, short: bool = False) -> str:
    asked = plan(one)
    facts = DatasetFacts(
        name="fashion", title="Fashion & more", source="s", features=1, classes=2, sizes={}, fingerprint="ab", seed=1
    )
    state = fold_events(
        [
            (
                RunStarted(
                    idea=Idea(Name="n", Title="T", Experiments=("e",)),
                    settings={},
                    seed=1,
                    version="0",
                    model="offline",
                ),
                0.0,
            ),
            (PlanPrepared(data_plan=asked, datasets=(facts,)), 1.0),
        ]
    )
    use = ResultMacroUse("verdict", f"hypothesis/{one.id}{'.short' * short}")
    value = format_verdict_clauses(state, decide_from_runs(asked, runs_of(pairs), confirmed=confirmed), ())[use.key]
    assert parse_results(render_results({use: value})) == {use: value.tex}, "results.tex gives it back"
    return to_plain_text(value)


def test_a_supported_hypothesis_is_told_in_the_fixed_order() -> None:
    text = clause(hypothesis(DIFFERENCE), GAINS)
    assert text.endswith(
        ", in accuracy on Fashion & more, is 0.066 [0.052, 0.080] (95% interval, n = 5 seeds, "
        "test data), which is positive; at least 0.03: supported"
    )


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(b, a) for a, b in GAINS], "which is negative; at least 0.03: refuted"),
        ([(0.9, 0.89), (0.9, 0.88), (0.9, 0.895), (0.9, 0.885)], "which is positive; at least 0.03: refuted"),
        (
            [(0.9, 0.901), (0.9, 0.899), (0.9, 0.9005)],
            "which is equivalent to zero within plus and minus 0.03; at least 0.03: refuted",
        ),
        ([(0.9, 0.8), (0.9, 0.9), (0.9, 0.85)], "which is open in sign; at least 0.03: open (about "),
        ([(0.9, 0.8), (0.9, 0.9), (0.9, 0.85)], " seeds would measure it to plus and minus 0.01)"),
        ([(0.9, 0.92), (0.9, 0.94), (0.9, 0.89), (0.9, 0.93)], "which is open in sign; at least 0.03: refuted"),
        ([(0.9, 0.8)] * 3, "at least 0.03: open (every seed gave the same: the spread is unknown)"),
        ([], "was not measured (nothing was measured); at least 0.03: open"),
    ],
)
def test_every_verdict_has_its_words(pairs: list[tuple[float, float]], said: str) -> None:
    assert said in clause(hypothesis(DIFFERENCE), pairs)


def test_both_parts_alternatives_and_a_preview_are_told() -> None:
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="sgd@a0 - adam@a0", smallest=0.03)),
        alternatives=(Effect(estimand=DIFFERENCE, smallest=0.01), Effect(estimand=DIFFERENCE, smallest=0.5)),
    )
    text = clause(both, GAINS, confirmed=False)
    assert "at least 0.03: supported, and " in text and "a preview" in text
    assert text.endswith(
        "which is negative; at least 0.03: refuted, so that both together are refuted "
        "(holds in 1 of 2 declared alternatives)"
    )


def test_a_share_has_no_direction_but_its_claim() -> None:
    share = hypothesis(effects=(Effect(estimand="adam@a0 / sgd@a0", smallest=0.1, claim="at most", bound=0.5),))
    assert clause(share, [(0.3, 0.8), (0.31, 0.82), (0.29, 0.79)]).endswith("test data); at most 0.5: supported")
    assert clause(share, [(0.3, 0.8), (0.31, 0.82)], short=True).endswith("(at most 0.5: supported)")


def test_what_the_test_examples_leave_open_is_told_in_place_of_a_number_of_seeds() -> None:
    part = EffectDecision(
        effect=Effect(estimand=DIFFERENCE, smallest=0.03), values=(0.0, 0.1), mean=0.05, low=0.0, high=0.1, floor=0.02
    )
    assert describe_need(part) == "the test examples alone leave plus and minus 0.02, whatever the number of seeds"


@pytest.mark.parametrize(
    ("diverged", "said"),
    [
        (
            "left out",
            "(95% interval, n = 5 seeds, test data; of 6 that ran, training diverged with 0 of sgd and 1 of adam, "
            "left out), which is positive; at least 0.03: supported",
        ),
        (
            "worst value",
            "test data; of 6 that ran, training diverged with 0 of sgd and 1 of adam, counted as the worst "
            "value), which is open in sign; at least 0.03: open",
        ),
    ],
)
def test_the_rate_of_divergence_of_each_arm_stands_beside_the_estimate(diverged: str, said: str) -> None:
    one = hypothesis(DIFFERENCE, diverged=diverged)
    runs = runs_of([*GAINS, (0.9, 0.8)])
    asked = plan(one)
    [found] = decide_from_runs(asked, [*runs[:5], without(runs[5], "adam")], confirmed=True)
    state = fold_events(
        [
            (
                RunStarted(
                    idea=Idea(Name="n", Title="T", Experiments=("e",)),
                    settings={},
                    seed=1,
                    version="0",
                    model="offline",
                ),
                0.0,
            ),
            (PlanPrepared(data_plan=asked, datasets=()), 1.0),
        ]
    )
    texts = format_verdict_clauses(state, [found], ())
    assert said in to_plain_text(texts[f"hypothesis/{one.id}"])
    assert "; training diverged with some seeds)" in to_plain_text(texts[f"hypothesis/{one.id}.short"])


def test_a_bound_never_prints_as_the_smallest_effect_or_as_zero() -> None:
    text = clause(hypothesis(effects=(Effect(estimand=DIFFERENCE, smallest=0.0661),)), GAINS)
    assert "is 0.0660 [" in text


def test_the_short_form_has_the_estimate_and_the_verdict_alone() -> None:
    assert clause(hypothesis(DIFFERENCE), GAINS, short=True) == (
        "the effect on Fashion & more in accuracy is 0.066 (positive; at least 0.03: supported)"
    )
    assert clause(hypothesis(DIFFERENCE), GAINS, short=True, confirmed=False).endswith("supported; a preview)")
    assert clause(hypothesis(DIFFERENCE), [], short=True).endswith("was not measured (at least 0.03: open)")
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="sgd@a0 - adam@a0", smallest=0.03))
    )
    assert clause(both, GAINS, short=True).endswith("refuted), so that both together are refuted")
