"""Whole studies of known truth: each policy follows its rules of time, on the same random numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.hours import POLICIES, FormerRun, OracleRun, build_report, carry_out, carry_out_at_boundary
from benchmarks.study_world import STRATA, draw_study, drive
from labwright.record.schema.decisions import build_look_sizes

CLEAR = replace(
    draw_study(0), claim="at least", effect=3.0, sd=0.3, examples=0.0, gap=0.0, failing=0.0, hours=200.0, slots=2
)
"""Three margins where one is claimed, with little noise and time enough."""


def test_a_clear_effect_is_rightly_decided_by_every_policy_and_its_negation_by_none() -> None:
    found = carry_out(CLEAR)
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


@pytest.mark.parametrize(("hours", "limited"), [(20.0, True), (250.0, False)])
def test_the_former_policy_had_five_seeds_where_time_refused_a_node(hours: float, limited: bool) -> None:
    run = FormerRun(replace(CLEAR, sd=1.0, hours=hours))
    found = run.carry_out()
    assert run.is_limited is limited and (found.seeds == 5) is limited and found.seeds <= 20


@pytest.mark.slow
def test_the_report_counts_success_by_hours() -> None:
    studies = [replace(CLEAR, number=number, stratum=name) for number, name in enumerate(STRATA)]
    report = build_report(studies, [carry_out(one) for one in studies], [carry_out_at_boundary(one) for one in studies])
    assert [report[name]["current"]["studies"] for name in ("all", *STRATA)] == [3, 1, 1, 1]
    assert all(report["short"][policy]["success"] == 1 for policy in POLICIES)
    assert report["boundary"]["studies"] == 3 and len(report["goals"]) == 4
