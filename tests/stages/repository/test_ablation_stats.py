"""Effects of ablations: pairs, intervals, verdicts, and the rows of the report."""

from __future__ import annotations

import pytest

from labwright.record.claims.estimates import adjust_p_values, compute_detectable_effect
from labwright.record.schema.repository import PartResult
from labwright.stages.repository.ablation_stats import (
    PartMeasurements,
    apply_floor_rule,
    build_results,
    classify_patch_run,
    compute_effect,
    compute_interaction,
    compute_paired_interval,
    compute_rank_agreement,
    compute_unpaired_interval,
    exceeds_sum,
    find_critical,
)

BASELINE = {11: 0.80, 12: 0.82, 13: 0.81, 14: 0.83, 15: 0.80}


def part(name: str, *effects: float | None, **more: object) -> PartMeasurements:
    """Build a component that loses the given amount at each seed; None: its run failed."""
    ablated = {
        seed: None if effect is None else value - effect
        for (seed, value), effect in zip(BASELINE.items(), effects, strict=False)
    }
    return PartMeasurements(name, baseline=BASELINE, ablated=ablated, **more)  # pyright: ignore[reportArgumentType]


def test_a_part_that_helps_has_a_positive_effect_whatever_the_direction() -> None:
    assert compute_effect("max", [0.8, 0.82], [0.7, 0.75]).mean == pytest.approx(0.085)
    assert compute_effect("min", [2.0, 2.2], [2.5, 2.0]).effects == pytest.approx((0.5, -0.2))


def test_a_run_that_failed_is_no_pair_and_no_zero() -> None:
    found = compute_effect("max", [0.8, 0.82, None], [0.7, None, 0.69])
    assert (found.n, found.mean, found.effects[1:]) == (1, pytest.approx(0.1), (None, None))
    assert compute_effect("max", [None], [None]) == ((None,), 0, None, None)


def test_what_reaches_the_share_is_critical_and_may_harm() -> None:
    assert find_critical(-0.5, {"a": 0.024, "b": 0.025, "c": -0.03}) == (("c", "b"), ("c",))


def test_rows_say_what_is_called_and_correct_for_each_other() -> None:
    rows = {
        row.part: row
        for row in build_results(
            [
                part("wide", 0.1, 0.11, 0.09, 0.1, 0.105),
                part("slight", 0.01, 0.011, 0.009, 0.01, 0.0105),
                part("harm", -0.05, -0.048, -0.061, -0.055, -0.052),
                part("noise", 0.01, -0.01, 0.004, -0.005, 0.002),
                part("same", 0.2, 0.2, 0.2, 0.2, 0.2),
                part("few", 0.1, 0.11, 0.09, None, None),
                part("still", gate="no effect"),
                part("apart", gate="not reached"),
                part("broken", gate="failed"),
            ],
            direction="max",
        )
    }
    assert {name: row.called for name, row in rows.items()} == {
        "wide": "critical",
        "slight": "helps",
        "harm": "harmful",
        "noise": "no measurable difference",
        "few": "unknown",
        "same": "unknown",
        "still": "no effect",
        "apart": "not reached",
        "broken": "not measured",
    }
    alone = compute_paired_interval([0.1, 0.11, 0.09, 0.1, 0.105])
    wide = rows["wide"]
    assert alone.p is not None and alone.sd is not None
    found = [
        compute_paired_interval(one).p
        for one in (
            (0.1, 0.11, 0.09, 0.1, 0.105),
            (0.01, 0.011, 0.009, 0.01, 0.0105),
            (-0.05, -0.048, -0.061, -0.055, -0.052),
            (0.01, -0.01, 0.004, -0.005, 0.002),
        )
    ]
    assert wide.p == pytest.approx(adjust_p_values(found)[0]), (
        "of the others nothing could be called, so nothing was tested"
    )
    assert wide.detectable == pytest.approx(compute_detectable_effect(5, alone.sd, 4))
    assert (wide.low, wide.n, wide.relative) == (pytest.approx(alone.low), 5, pytest.approx(0.101 / 0.812))
    assert (rows["still"].mean, rows["apart"].mean, rows["broken"].mean, rows["few"].n) == (0.0, None, None, 3)
    assert rows["broken"].p is None and rows["still"].n == 0


def test_seeds_that_change_nothing_give_an_effect_without_an_interval() -> None:
    baseline = dict.fromkeys(range(5), 0.75)
    (row,) = build_results(
        [PartMeasurements("a", baseline=baseline, ablated=dict.fromkeys(range(5), 0.5))], direction="max"
    )
    assert (row.mean, row.low, row.p, row.called, row.detectable) == (0.25, None, None, "unknown", None)


def test_only_seeds_of_both_are_pairs() -> None:
    (row,) = build_results(
        [PartMeasurements("a", baseline={1: 0.9, 2: 0.8}, ablated={2: 0.7, 3: 0.1})], direction="max"
    )
    assert (row.n, row.mean) == (1, pytest.approx(0.1))


def test_without_a_seed_means_are_compared() -> None:
    one, other = (0.8, 0.82, 0.81, 0.83, 0.80), (0.70, 0.75, 0.71, None, 0.72, 0.69)
    found = compute_unpaired_interval("max", one, other)
    # scipy 1.17: ttest_ind((.8,.82,.81,.83,.8), (.7,.75,.71,.72,.69), equal_var=False)
    assert (found.n, found.mean) == (5, pytest.approx(0.098))
    assert found.p == pytest.approx(0.000126762466) and found.low == pytest.approx(0.06940628)
    (row,) = build_results([part("a", 0.1, 0.11, 0.09, 0.1, 0.105)], direction="max", paired=False)
    assert row.called == "critical" and row.low is not None and row.low < 0.09
    assert compute_unpaired_interval("min", [1.0, 1.0], [2.0, 2.0]).verdict == "unknown"


def test_twins_do_together_what_none_does_alone() -> None:
    assert compute_interaction([0.001, -0.002], 0.15, sigma=0.01).is_joint
    assert compute_interaction([0.05, 0.07], 0.125, sigma=0.01) == (
        pytest.approx(0.005),
        pytest.approx(0.051961524),
        False,
    )
    assert exceeds_sum([0.02] * 6, 0.2, sigma=0.01) and not exceeds_sum([0.02] * 6, 0.12, sigma=0.01)
    assert not exceeds_sum([-0.01] * 6, 0.0, sigma=0.01)


def test_a_cheap_command_is_told_by_how_alike_it_ranks() -> None:
    full = {"a": 0.4, "b": -0.3, "c": 0.2, "d": 0.1, "e": 0.0}
    assert compute_rank_agreement({name: value / 9 for name, value in full.items()}, full) == 1.0
    # scipy 1.17: kendalltau([4, 3, 2, 1, 1], [.4, .3, .1, .2, .0])
    assert compute_rank_agreement({"a": 4, "b": 3, "d": 2, "c": 1, "e": 1, "x": 9}, full) == pytest.approx(0.7378648)
    assert compute_rank_agreement({"a": 4, "b": 3, "c": 2, "d": 1}, full) is None, "four parts say nothing"
    assert compute_rank_agreement(dict.fromkeys(full, 0.1), full) is None


def test_a_removal_that_ends_where_nothing_works_is_tried_another_way() -> None:
    found = apply_floor_rule("max", 0.72, 0.015, [("zero", 0.7), ("identity:p", 0.0)])
    assert (found.ranked, found.effect, found.at_floor, found.flag) == ("identity:p", 0.0, (True, False), "")
    found = apply_floor_rule("min", 0.535, 1.0, [("zero", 0.46), ("identity:x", 0.4525)])
    assert (found.ranked, found.effect, found.flag) == ("identity:x", 0.4525, "at the floor")
    assert apply_floor_rule("max", 0.5, 0.5, [("zero", 0.0)]).at_floor == (False,), (
        "a floor that is no lower says nothing"
    )
    assert apply_floor_rule("max", 0.5, 0.1, []).ranked is None


@pytest.mark.parametrize(
    ("ablated", "reached", "repeatable", "gate"),
    [
        (0.7, True, True, "no effect"),
        (0.7, False, True, "not reached"),
        (0.7, None, True, "no effect"),
        (0.6, True, True, "moved"),
        (0.6, None, True, "moved"),
        (0.6, False, True, "moved"),
        (0.6, False, False, "not reached"),
        (0.6, True, False, "moved"),
    ],
)
def test_whether_a_patch_did_anything(ablated: float, reached: bool | None, repeatable: bool, gate: str) -> None:
    assert classify_patch_run(0.7, ablated, reached=reached, repeatable=repeatable) == gate


def test_a_row_is_what_the_record_keeps() -> None:
    (row,) = build_results(
        [part("a", 0.1, 0.11, 0.09, 0.1, 0.105, mutation="zero", location="m.py:3", runs=("x", "y"))], direction="max"
    )
    assert PartResult.model_validate_json(row.model_dump_json()) == row
    assert (row.mutation, row.where, row.runs) == ("zero", "m.py:3", ("x", "y"))
