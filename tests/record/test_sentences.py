r"""What `\verdict` prints: estimate, interval, n and unit, then the verdict against the smallest effect."""

from __future__ import annotations

import pytest

from labwright.record.claims.hypothesis_tests import decide_from_runs
from labwright.record.claims.sentences import format_verdict_clauses
from labwright.record.events.run_events import RunStarted
from labwright.record.events.search_events import PlanPrepared
from labwright.record.reducers.event_fold import fold_events
from labwright.record.result_macros import ResultMacroUse, parse_results, render_results, to_plain_text
from labwright.record.schema.data_plan import DatasetFacts
from labwright.record.schema.hypotheses import Effect, Hypothesis
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
        "test data), which is above the smallest effect of interest, 0.03 (supported)"
    )


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(b, a) for a, b in GAINS], "below zero, where more than 0.03 was expected (opposite)"),
        (
            [(0.9, 0.89), (0.9, 0.88), (0.9, 0.895), (0.9, 0.885)],
            "above zero but below the smallest effect of interest",
        ),
        ([(0.9, 0.901), (0.9, 0.899), (0.9, 0.9005)], "within plus and minus the smallest effect of interest"),
        ([(0.9, 0.8), (0.9, 0.9), (0.9, 0.85)], "(undecided; about "),
        (
            [(0.9, 0.92), (0.9, 0.94), (0.9, 0.89), (0.9, 0.93)],
            "is below the smallest effect of interest, 0.03, and leaves open whether there is any (undecided",
        ),
        ([(0.9, 0.8)] * 3, "(undecided; every seed gave the same: the spread is unknown)"),
        ([], "was not measured (nothing was measured), which leaves it open (undecided)"),
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
    assert "(supported), and " in text and "a preview" in text
    assert text.endswith("(opposite), so that both together are opposite (holds in 1 of 2 declared alternatives)")


def test_while_a_part_is_open_all_together_are_not_called_what_another_is() -> None:
    pairs = [(0.80 + 0.03 + e, 0.80) for e in (0.004, -0.006, 0.0, 0.006, -0.004)]
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.028), Effect(estimand=f"{DIFFERENCE} - 0.03", smallest=0.01))
    )
    text = clause(both, pairs)
    assert "(undecided; about " in text and "would decide it as it stands)" in text and "(negligible)" in text
    assert text.endswith("so that both together are not supported, whatever is true of what is open (undecided)")


@pytest.mark.parametrize(
    ("diverged", "said"),
    [
        (
            "left out",
            "(95% interval, n = 5 seeds, test data; of 6 that ran, training diverged with 0 of sgd and 1 of adam, "
            "left out), which is above",
        ),
        (
            "worst value",
            "test data; of 6 that ran, training diverged with 0 of sgd and 1 of adam, counted as the worst "
            "value), which leaves it open",
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
    assert "where training diverged with some seeds)" in to_plain_text(texts[f"hypothesis/{one.id}.short"])


def test_a_bound_never_prints_as_the_smallest_effect_or_as_zero() -> None:
    text = clause(hypothesis(effects=(Effect(estimand=DIFFERENCE, smallest=0.0661),)), GAINS)
    assert "is 0.0660 [" in text


def test_the_short_form_has_the_estimate_and_the_verdict_alone() -> None:
    assert clause(hypothesis(DIFFERENCE), GAINS, short=True) == (
        "the effect on Fashion & more in accuracy is 0.066 (supported)"
    )
    assert clause(hypothesis(DIFFERENCE), GAINS, short=True, confirmed=False).endswith("(supported, a preview)")
    assert clause(hypothesis(DIFFERENCE), [], short=True).endswith("was not measured, which leaves it open (undecided)")
    both = hypothesis(
        effects=(Effect(estimand=DIFFERENCE, smallest=0.03), Effect(estimand="sgd@a0 - adam@a0", smallest=0.03))
    )
    assert clause(both, GAINS, short=True).endswith("(opposite), so that both together are opposite")
