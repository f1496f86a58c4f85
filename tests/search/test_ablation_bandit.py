"""Which part of a repository is run next: first everything once, then sets together."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.search.ablation_bandit import (
    BanditArm,
    advise_budget,
    compute_pooled_sigma,
    find_harmful,
    find_helping,
    find_near_zero,
    run_group_test,
    split_budget,
)


def arms(**effects: float | tuple[float, ...]) -> list[BanditArm]:
    return [BanditArm(name, effects=value if isinstance(value, tuple) else (value,)) for name, value in effects.items()]


def searched(parts: str, shows: Callable[[set[str]], bool]) -> tuple[str, list[str]]:
    """What a group test returns, and the sets that it ran."""
    test, ran = run_group_test(tuple(parts)), list[str]()
    try:
        subset = next(test)
        while True:
            ran.append("".join(subset))
            subset = test.send(shows(set(subset)))
    except StopIteration as ended:
        return "".join(ended.value), ran


def test_the_spread_of_an_effect_is_pooled_over_repeats_and_the_baseline() -> None:
    assert compute_pooled_sigma([(0.1, 0.14), (0.02, 0.0, 0.01), (0.3,)], [0.8, 0.82, 0.81]) == pytest.approx(
        (0.016733201, 5)
    )
    assert compute_pooled_sigma([(0.1,)]) == (inf, 0), "nothing repeated: nothing known, which is not a spread of 0"


def test_a_budget_is_shared_and_an_advised_one_holds_everything_that_is_promised() -> None:
    assert split_budget(60, 40, k=5, baseline=1) == (3, 19, 19)
    assert split_budget(12, 60, k=5, baseline=1) == (5, 29, 12)
    assert split_budget(12, 3, k=5, baseline=1) == (0, 0, 0)
    assert advise_budget(12) == 113
    assert split_budget(12, 46, k=5, baseline=4) == (3, 22, 12)


def test_what_shows_nothing_alone_may_hide_another_and_what_harms_is_told_apart() -> None:
    seen = [
        *arms(big=0.4, some=0.1, third=0.025, slight=-0.005, bad=-0.2),
        BanditArm("still", 0.9, (0.0,), is_settled=True),
        BanditArm("none"),
    ]
    assert find_near_zero(seen, 0.01, k=2) == ["still", "slight", "third"] and find_harmful(seen, 0.01) == ["bad"]
    assert find_near_zero(seen, 0.01, k=3) == ["still", "slight"], "what is reported as found hides behind nothing"
    assert find_helping(seen, 3) == ["big", "some", "third"] and find_helping(seen, 9) == ["big", "some", "third"]


@given(st.sets(st.sampled_from("abcdefghij"), min_size=2, max_size=4))
def test_the_least_set_is_found_whatever_its_size_and_no_set_runs_twice(cause: set[str]) -> None:
    found, ran = searched("abcdefghij", lambda some: cause <= some)
    assert set(found) == cause and len(ran) == len(set(ran)) and all(len(one) > 1 for one in ran)
