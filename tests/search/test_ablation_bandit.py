"""Which part of a repository is run next: first everything once, then the edge of the best, then sets together."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.evals.ablatecell.published_policy import run_algorithm_one
from labwright.search.ablation_bandit import (
    BanditArm,
    advise_budget,
    compute_pooled_sigma,
    find_harmful,
    find_helping,
    find_near_zero,
    order_sweep,
    pick_arm,
    rank_arms,
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


def test_every_arm_is_measured_once_in_the_order_of_priors_before_any_is_repeated() -> None:
    priors = {"a": 0.2, "b": 0.9, "c": 0.9, "d": 0.1}
    seen = [BanditArm(name, prior) for name, prior in priors.items()]
    order = list[str]()
    while (one := pick_arm(seen, sigma=0.01, k=2).next) is not None and len(order) < 4:
        order.append(one)
        seen = [BanditArm(arm.name, arm.prior, (0.1,)) if arm.name == one else arm for arm in seen]
    assert order == order_sweep(priors) == ["b", "c", "a", "d"]


def test_an_arm_without_a_value_is_tried_again_after_the_others_and_given_up_in_the_end() -> None:
    failing = BanditArm("x", 0.9, failed_runs=1)
    assert pick_arm([failing, BanditArm("y", 0.1)], sigma=0.1, k=1).next == "y"
    assert pick_arm([failing, *arms(y=0.1, z=0.2)], sigma=0.1, k=1).next == "x"
    given_up = pick_arm([BanditArm("x", 0.9, failed_runs=3), *arms(y=0.1, z=0.2)], sigma=0.1, k=1)
    assert given_up.next in ("y", "z") and "x" not in given_up.radius


def test_nothing_is_repeated_while_a_first_value_is_under_way() -> None:
    assert pick_arm([BanditArm("x", in_flight=1), *arms(y=0.1, z=0.2)], sigma=0.1, k=1) == (None, None, None, False, {})


def test_runs_go_to_the_edge_of_the_best_whatever_their_sign() -> None:
    found = pick_arm(arms(a=0.3, b=-0.12, c=(0.07, 0.07), d=0.05, e=0.01), sigma=0.02, k=3)
    assert (found.inside, found.outside, found.next, found.separated) == ("c", "d", "d", False)
    assert found.radius["c"] == pytest.approx(0.02 * sqrt(2 * log(7) / 2))


def test_an_arm_that_moved_no_digit_takes_no_further_run() -> None:
    seen = [*arms(a=0.3, b=0.001), BanditArm("z", effects=(0.0,), is_settled=True)]
    found = pick_arm(seen, sigma=0.1, k=2)
    assert (found.outside, found.next, found.radius["z"]) == ("z", "b", 0.0)
    assert pick_arm(seen[1:], sigma=0.0, k=1).separated


def test_fewer_arms_than_are_looked_for_are_all_found() -> None:
    assert pick_arm(arms(a=0.3, b=0.1), sigma=0.1, k=5)[:4] == (None, None, None, True)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=9),
    st.integers(1, 5),
    st.floats(0, 0.2),
)
def test_a_pick_is_one_of_the_arms_or_everything_is_known(
    rows: list[tuple[float, int, int]], k: int, sigma: float
) -> None:
    seen = [BanditArm(f"p{n}", effects=(value,) * runs, in_flight=busy) for n, (value, runs, busy) in enumerate(rows)]
    found = pick_arm(seen, sigma=sigma, k=k)
    assert (found.next is None) == (len(seen) <= k)
    if found.next is not None:
        order = [one.name for one in rank_arms(seen)]
        assert found.inside in order[:k] and found.outside in order[k:] and found.next in (found.inside, found.outside)
    assert found == pick_arm([*reversed(seen)], sigma=sigma, k=k), "the order in which runs came back changes nothing"


def test_the_spread_of_an_effect_is_pooled_over_repeats_and_the_baseline() -> None:
    assert compute_pooled_sigma([(0.1, 0.14), (0.02, 0.0, 0.01), (0.3,)], [0.8, 0.82, 0.81]) == pytest.approx(
        (0.016733201, 5)
    )
    assert compute_pooled_sigma([(0.1,)]) == (inf, 0), "nothing repeated: nothing known, which is not a spread of 0"


def test_a_budget_is_shared_and_an_advised_one_holds_everything_that_is_promised() -> None:
    assert split_budget(60, 40, k=5) == (3, 19, 19)
    assert split_budget(12, 60, k=5) == (5, 29, 12)
    assert split_budget(12, 3, k=5) == (0, 0, 0)
    assert advise_budget(12) == 113
    assert split_budget(12, 65, k=5, baseline=4, reserved=9 + 10) == (5, 12, 12)


def test_what_shows_nothing_alone_may_hide_another_and_what_harms_is_told_apart() -> None:
    seen = [
        *arms(big=0.4, some=0.1, third=0.025, slight=-0.005, bad=-0.2),
        BanditArm("still", 0.9, (0.0,), is_settled=True),
        BanditArm("none"),
    ]
    assert find_near_zero(seen, 0.01, k=2) == ["still", "slight", "third"] and find_harmful(seen, 0.01) == ["bad"]
    assert find_near_zero(seen, 0.01, k=3) == ["still", "slight"], "what is reported as found hides behind nothing"
    assert find_helping(seen, 3) == ["big", "some", "third"] and find_helping(seen, 9) == ["big", "some", "third"]


def test_a_pair_that_hides_each_other_is_halved_out_of_the_rest() -> None:
    assert searched("abcdefgh", lambda some: {"b", "f"} <= some) == (
        "bf",
        ["abcdefgh", "abcd", "efgh", "abefgh", "aefgh", "befgh", "abcdef", "abcde", "abcdf"],
    )
    assert searched("abcdefgh", lambda some: False) == ("", ["abcdefgh"])
    assert searched("a", lambda some: True) == ("", [])


@given(st.sets(st.sampled_from("abcdefghij"), min_size=2, max_size=4))
def test_the_least_set_is_found_whatever_its_size_and_no_set_runs_twice(cause: set[str]) -> None:
    found, ran = searched("abcdefghij", lambda some: cause <= some)
    assert set(found) == cause and len(ran) == len(set(ran)) and all(len(one) > 1 for one in ran)


def test_the_printed_algorithm_never_uses_its_index_where_arms_fill_the_rounds() -> None:
    priors = {name: place / 7 for place, name in enumerate("abcdefg")}
    done = run_algorithm_one(priors, lambda arm: 0.1, rounds=5, size=5)
    assert done.arms == list("gfedc") and done.ucb_decisions == 0
    budget = iter([0.1] * 7)
    assert run_algorithm_one(priors, lambda arm: next(budget, None), rounds=5, size=5).runs == {"g": 5, "f": 2}
