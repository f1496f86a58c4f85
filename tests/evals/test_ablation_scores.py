"""Scores of AblationBench: every worked case, and what only a few of them say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.evals.ablationbench.agreement import LabelAgreement, build_labels, compute_judge_figures, count_agreement
from labwright.evals.ablationbench.papers import (
    PlannedAblation,
    entries_to_lines,
    is_same_change,
    read_plan,
    split_repeats,
)
from labwright.evals.ablationbench.scores import (
    bootstrap_groups,
    compute_author_score,
    compute_mean,
    compute_paired_difference,
    count_one_to_one,
    find_majority,
)


def test_one_entry_for_everything_is_one_find_where_each_may_have_one() -> None:
    all_by_one = frozenset((gold, 0) for gold in range(4))
    score = compute_author_score(4, 1, all_by_one)
    assert (score.f1, score.f1_one_to_one) == (1.0, pytest.approx(2 / 5))


@given(st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_a_matching_shares_nothing_and_cannot_grow(pairs: frozenset[tuple[int, int]]) -> None:
    most = count_one_to_one(pairs)
    assert most <= min(len({one for one, _ in pairs}), len({one for _, one in pairs}))
    assert all(count_one_to_one(pairs - {pair}) in (most, most - 1) for pair in pairs)
    assert most == max(
        [
            0,
            *(
                1 + count_one_to_one(frozenset(other for other in pairs if other[0] != gold and other[1] != entry))
                for gold, entry in pairs
            ),
        ]
    )


def test_votes_are_on_pairs() -> None:
    said = [frozenset({(0, 0), (0, 1)}), frozenset({(0, 0)}), frozenset({(1, 1)})]
    assert (
        find_majority(said) == {(0, 0)}
        and find_majority([*said[:2], None]) == {(0, 0)}
        and find_majority([said[0], None]) is None
    )


def test_a_bad_line_costs_that_line() -> None:
    plan = read_plan(['{"name": 7, "action": "add", "replacement": {"rate": 1}}', "[]", "{", '{"name": "x"}', ""])
    assert plan.entries == (PlannedAblation(name="7", action="ADD", replacement=("rate: 1",)),)
    assert [fault.split(":")[0] for fault in plan.faults] == ["line 2", "line 3", "line 4"]
    assert read_plan(entries_to_lines(plan.entries).splitlines()).entries == plan.entries


def test_equal_entries_are_found_by_what_they_change() -> None:
    first = PlannedAblation(
        name="A", ablated_part="the mixing gate", action="REPLACE", replacement=("held open", "0.5")
    )
    turned = first.model_copy(update={"name": "B", "ablated_part": "mixing gates", "replacement": ("0.5", "held open")})
    other = first.model_copy(update={"replacement": ("random",)})
    kept, repeats = split_repeats((first, turned, other))
    assert kept == (first, other) and [(one.entry.name, one.like) for one in repeats] == [("B", "A")]
    bare = PlannedAblation(name="Ablation 1", ablated_part="gate", action="REPLACE")
    assert not is_same_change(bare, bare.model_copy(update={"ablated_part": "norm"}))


def test_a_judge_is_held_against_people() -> None:
    plans = [
        build_labels("author", [{"name_in_paper": "a", "name_in_plan": "x"}, {"name_in_paper": "b"}], rows, ["x", "y"])
        for rows in ([{"name_in_paper": "a", "name_in_plan": "y"}], [{"name_in_paper": "b", "name_in_plan": "q"}], None)
    ]
    plans.append(build_labels("author", [{"name_in_paper": "a"}], [{"name_in_paper": "a", "name_in_plan": "x"}], ["x"]))
    found = compute_judge_figures("author", plans)
    assert found.pooled == LabelAgreement(tp=1, fp=1, fn=1, tn=2) and (found.left_out, found.not_judged) == (1, 1)
    assert (found.precision, found.f1) == (0.5, 0.5)
    assert count_agreement([1, 1], [1, 1]).kappa is None and LabelAgreement().specificity is None


def test_intervals_and_differences() -> None:
    found = compute_mean([0.2, 0.4, 0.6])
    assert found is not None and found.low is not None and found.high is not None
    assert 0.2 <= found.low < found.mean < found.high <= 0.6 and compute_mean([]) is None
    assert compute_mean([0.2, 0.4, 0.6]) == found
    same = compute_paired_difference("a", "b", "f1", [(0.5, 0.4), (0.3, 0.2)])
    assert same.p is None and same.difference.mean == pytest.approx(0.1)
    assert bootstrap_groups([[1], [1]], lambda drawn: float(len(drawn))) == (2.0, 2.0)
    assert bootstrap_groups([[1]], lambda drawn: 1.0) == (None, None)
