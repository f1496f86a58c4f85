"""Scores of AblationBench: every worked case, and what only a few of them say."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.evals.ablationbench.judge_eval import LabelAgreement, build_judge_table, build_labels, count_agreement
from labwright.evals.ablationbench.papers import (
    PlannedAblation,
    entries_to_lines,
    is_same_change,
    read_plan,
    split_repeats,
)
from labwright.evals.ablationbench.scores import (
    compute_author_score,
    compute_paired_difference,
    count_one_to_one,
    find_majority,
)
from labwright.evals.intervals import compute_mean, resample_sums
from tests.evals.ablationbench_golden import COMPUTE, find_disagreements

SHARED = Path(__file__).parents[3] / "shared" / "benchmarks" / "ablationbench"
CASES: list[dict[str, Any]] = [
    {
        "id": "twice",
        "kind": "author",
        "input": {
            "gold": ["a", "b", "c"],
            "plan": ["x", "y"],
            "top_k": None,
            "rows": [{"name_in_paper": "a", "name_in_plan": "x"}, {"name_in_paper": ["b"], "name_in_plan": ["x", "z"]}],
        },
        "upstream": {"precision": 0.0},
        "definition": {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3},
    },
    {
        "id": "few",
        "kind": "reviewer_majority",
        "input": {"plan": ["p"], "count": 1, "judges": [[{"name_in_plan": "p", "appears_in_review": True}], None]},
        "upstream": {"f1": 1.0},
        "definition": {"not_judged": "1 of 2 judges answered"},
    },
]


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/benchmarks is not there")
def test_all_worked_cases_agree() -> None:
    cases = json.loads((SHARED / "golden.json").read_text())["cases"]
    assert find_disagreements(cases) == [] and len(cases) >= 151


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/benchmarks is not there")
@pytest.mark.parametrize("name", ["hybrik", "eg-sat", "figure-5"])
def test_the_worked_papers_score_as_they_say(name: str) -> None:
    case = json.loads((SHARED / "data" / "worked" / f"{name}.json").read_text())
    given = case | {"count": case.get("num_ablation_suggestions"), "rows": case.get("rows", case.get("answer"))}
    for side in ("gold", "plan"):
        given[side] = [one["name"] if isinstance(one, dict) else one for one in given.get(side, [])]  # pyrefly: ignore
    kind = "author_sides" if "gold_side" in case else case["task"]
    assert (
        find_disagreements(
            [
                {
                    "id": name,
                    "kind": kind,
                    "input": given,
                    "definition": {key: case["expected"][key] for key in ("precision", "recall", "f1")},
                }
            ]
        )
        == []
    )


def test_what_does_not_agree_is_told_case_by_case() -> None:
    wrong = copy.deepcopy(CASES)
    wrong[0]["definition"]["precision"] = 1.0
    wrong.append({"id": "new", "kind": "magic", "input": {}, "upstream": {}})
    assert find_disagreements(wrong) == [
        f"twice: precision is {2 / 3!r}, not 1.0",
        "new: there is no implementation for 'magic'",
    ]
    assert find_disagreements(CASES) == [] and len(COMPUTE) == 11


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
    assert kept == (first, other) and repeats == ("B = A",)
    bare = PlannedAblation(name="Ablation 1", ablated_part="gate", action="REPLACE")
    assert not is_same_change(bare, bare.model_copy(update={"ablated_part": "norm"}))


def test_a_judge_is_held_against_people() -> None:
    plans = [
        build_labels("author", [{"name_in_paper": "a", "name_in_plan": "x"}, {"name_in_paper": "b"}], rows, ["x", "y"])
        for rows in ([{"name_in_paper": "a", "name_in_plan": "y"}], [{"name_in_paper": "b", "name_in_plan": "q"}], None)
    ]
    plans.append(build_labels("author", [{"name_in_paper": "a"}], [{"name_in_paper": "a", "name_in_plan": "x"}], ["x"]))
    found = build_judge_table("author", "m", plans)
    assert (found.items, found.left_out, found.not_judged) == (5, 1, 1)
    assert (found.precision.value, found.sensitivity.value, found.specificity.value) == (0.5, 0.5, pytest.approx(2 / 3))
    assert (found.macro_precision, found.macro_f1) == (0.5, 0.5) and build_judge_table("author", "m", []).items == 0
    assert count_agreement([1, 1], [1, 1]).kappa is None and LabelAgreement().specificity is None


def test_intervals_and_differences() -> None:
    found = compute_mean([0.2, 0.4, 0.6])
    assert found is not None and found.low is not None and found.high is not None
    assert 0.2 <= found.low < found.mean < found.high <= 0.6 and compute_mean([]) is None
    assert compute_mean([0.2, 0.4, 0.6]) == found
    same = compute_paired_difference("a", "b", "f1", [(0.5, 0.4), (0.3, 0.2)])
    assert same.p is None and same.difference.mean == pytest.approx(0.1)
    drawn = resample_sums(np.array([[1.0, 5.0], [1.0, 7.0]]), np.random.default_rng(0))
    assert set(drawn[:, 0]) == {2.0} and set(drawn[:, 1]) == {10.0, 12.0, 14.0}, "papers are drawn whole"
