"""Simulated portfolios: what the policies of the benchmark share with the program, and what pilots may change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.portfolios import confirm, draw_portfolio, measure_policies


def test_pilots_decide_what_is_tested_but_not_the_verdict() -> None:
    ideas, seeds = draw_portfolio(0), {"false0": 40, "false1": 40, "true0": 40}
    found = confirm(ideas, seeds)
    lucky = {name: replace(one, pilot=one.pilot + 100.0) for name, one in ideas.items()}
    assert confirm(lucky, seeds) == found
    assert confirm(ideas, seeds, reused=True) != confirm(lucky, seeds, reused=True), "here the pilot is in the test"


def test_claims_are_corrected_over_those_that_are_confirmed() -> None:
    ideas = draw_portfolio(1)
    assert confirm(ideas, {"true1": 20}) == ["true1"]
    every = dict.fromkeys(ideas, 20)
    assert "true1" not in confirm(ideas, every) and "true0" in confirm(ideas, every)
    assert "true1" in confirm(ideas, every, corrected=False)


@pytest.mark.slow
def test_the_program_confirms_fewer_false_claims_than_the_naive_policy_in_less_time_than_all() -> None:
    found = measure_policies(40)
    assert found["portfolio"]["false confirmations"] < found["naive"]["false confirmations"]
    assert found["portfolio"]["compute hours per portfolio"] < found["all"]["compute hours per portfolio"] / 3
