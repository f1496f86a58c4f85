"""Whole studies of known truth: each policy follows its rules of time, on the same random numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import pytest

from benchmarks.hours import POLICIES, FormerRun, OracleRun, build_report, carry_out, carry_out_at_boundary
from benchmarks.study_world import STRATA, StudyWorld, draw_study, drive
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import compute_test_claims, select_whole_replicates
from labwright.record.claims.formatting import format_setups
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.claims.setting_controls import find_registered_estimates
from labwright.record.schema.decisions import build_look_sizes
from labwright.record.schema.hypotheses import Effect
from labwright.search.hours import TimeLimits
from tests.search import virtual_time
from tests.search.scripted_search import new_log, run_search

CLEAR = replace(
    draw_study(0), claim="at least", effect=3.0, sd=0.3, examples=0.0, gap=0.0, failing=0.0, hours=200.0, slots=2
)
"""Three margins where one is claimed, with little noise and time enough."""
carry_out_clear = cache(partial(carry_out, CLEAR))


def test_a_clear_effect_is_rightly_decided_by_every_policy_and_its_negation_by_none() -> None:
    found = carry_out_clear()
    assert {one.verdict for one in found.values()} == {"supported"} and found.keys() == set(POLICIES)
    assert all(one.is_success(CLEAR) and one.seeds >= 5 for one in found.values())
    assert not any(one.is_success(replace(CLEAR, effect=0.0)) for one in found.values())


def test_the_program_reads_as_many_seeds_as_its_table_of_looks_and_time_allow() -> None:
    noisy = replace(CLEAR, effect=1.0, sd=2.0, hours=30.0)
    found = drive(noisy, is_biased=True)
    assert found.verdict == "open" and found.seeds in {size for n in range(3, 30) for size in build_look_sizes(n, 30)}
    assert 6 < found.seeds <= 0.6 * noisy.hours and found.share >= found.seeds / noisy.hours
    free = OracleRun(noisy)
    assert found.seeds < free.carry_out(looking=False).seeds < noisy.hours


def test_seeds_beyond_the_planned_ones_run_only_the_arms_of_a_claim_that_no_look_decided() -> None:
    study = replace(CLEAR, arms=4, objective="measure", hours=120.0)
    [first] = study.build_plan().hypotheses
    second = first.model_copy(
        update={
            "id": "g",
            "effects": (Effect(estimand="control2 - control3", smallest=1.0),),
        }  # always 0: never decided
    )
    plan = study.build_plan().model_copy(update={"hypotheses": (first, second)})
    log = new_log(plan=plan)
    world = StudyWorld(log, study, is_biased=False)
    world.plan = plan
    virtual_time.run(run_search(log, world, world.settings, limits=TimeLimits(seconds=48.0, run_seconds=60.0)))
    state, lock = log.state, log.state.search.current_lock
    assert lock is not None and state.limit_reason is None
    looks = state.search.looks
    assert looks[0].undecided == looks[-1].undecided == ("g",) and len(looks[-1].seeds) > lock.n
    fresh = [one for one in state.nodes.values() if one.parent == lock.winner and lock.is_fresh_seed(one.seed)]
    arms = {one.seed: {line.cell.measured_arm for line in one.attempts[-1].cells} for one in fresh if one.is_finished}
    assert all(arms[seed] >= set(study.arm_names) for seed in lock.seeds)
    assert all(found == {"control2", "control3"} for seed, found in arms.items() if seed not in lock.seeds)
    h, g = decide_hypotheses(state)
    assert h.verdict == "supported" and g.verdict == "open" and (h.look, g.look) == (0, looks[-1].look)
    assert h.parts[0].seeds == looks[0].seeds and h.parts[0].optimistic, "a decided claim is not looked at again"
    assert h.parts[0].left_out == g.parts[0].left_out == ()
    n = {one.condition: one.n for one in compute_test_claims(state)}
    assert n["method"] == n["baseline"] == lock.n < n["control2"] == n["control3"] == len(looks[-1].seeds)
    [pair] = (one for one in compute_differences(state, compute_test_claims(state)) if one.other == "control2")
    assert pair.seeds == lock.seeds, "arms are paired over the seeds of both"
    assert find_registered_estimates(plan, [*compute_differences(state, compute_test_claims(state))], (h, g))
    assert [one.seed for one in select_whole_replicates(state, fresh)] == [*lock.seeds]
    assert "run.seeds" not in format_setups(state), "arms differ in their number of seeds"


@pytest.mark.parametrize(("hours", "swapped"), [(20.0, False), (200.0, True)])
def test_fresh_seeds_measure_arms_at_each_others_setting_only_where_the_lock_found_time(
    hours: float, swapped: bool
) -> None:
    study = replace(CLEAR, arms=2, sd=2.0, gap=1.0, hours=hours, objective="measure")
    log = new_log(plan=study.build_plan())
    world = StudyWorld(log, study, is_biased=False)
    limits = TimeLimits(seconds=0.4 * study.seconds, run_seconds=study.seconds)
    virtual_time.run(run_search(log, world, world.settings, limits=limits))
    lock = log.state.search.current_lock
    assert lock is not None and lock.swapped is swapped
    fresh = [one for one in log.state.nodes.values() if lock.is_confirming(one) and one.seed in lock.seeds]
    cells = {len(one.attempts[-1].cells) for one in fresh if one.is_finished}
    assert cells == ({4} if swapped else {2}) and log.state.search.looks[0].seeds == lock.seeds[: lock.looks[0]]


@pytest.mark.parametrize(("hours", "limited"), [(20.0, True), (250.0, False)])
def test_the_former_policy_had_five_seeds_where_time_refused_a_node(hours: float, limited: bool) -> None:
    run = FormerRun(replace(CLEAR, sd=1.0, hours=hours))
    found = run.carry_out()
    assert run.is_limited is limited and (found.seeds == 5) is limited and found.seeds <= 20


@pytest.mark.slow
def test_the_report_counts_success_by_hours() -> None:
    studies = [replace(CLEAR, stratum=name) for name in STRATA]
    report = build_report(studies, [carry_out_clear()] * 3, [carry_out_at_boundary(CLEAR)] * 3)
    assert [report[name]["current"]["studies"] for name in ("all", *STRATA)] == [3, 1, 1, 1]
    assert all(report["short"][policy]["success"] == 1 for policy in POLICIES)
    assert report["boundary"]["studies"] == 3 and len(report["goals"]) == 4
