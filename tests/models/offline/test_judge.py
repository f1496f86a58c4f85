"""The offline judge: a deterministic count over a record, labelled so, for runs of ours alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models.errors import CatalogueError
from labwright.models.offline.judgements import answer_judge, find_quote
from labwright.models.roles.judge import JudgeAnswer, JudgeInputs, RecordFacts
from labwright.review.judge import read_rubric
from labwright.review.judge.paper_reader import quote_is_in

PAPER = (
    "## Abstract\n\nThis paper was written by a program, version 0.1.0, and checked by nobody. We ask whether a margin "
    "penalty helps when there are few examples. It was run with five seeds and intervals are given. Drop et al. did "
    "so before.\n\n[[scientist: 900 characters left out here]]\n"
)
GOOD = RecordFacts(
    released=True,
    nodes=12,
    failed=3,
    doubted=0,
    replicates=5,
    replicates_failed=0,
    fewest_seeds=5,
    ablations=2,
    datasets=3,
    conditions=6,
    supported=1,
    for_method=4,
    for_other=1,
    unclear=3,
    grades=(("scored", 30),),
    bound_values=17,
    references=8,
    figures=2,
    pages=4,
    calls=40,
    usd=0.0,
    code_seconds=321.5,
)
INPUTS = JudgeInputs(rubric=read_rubric(), paper=PAPER, characters=len(PAPER), facts=GOOD)

counts = st.integers(0, 40)
anything = st.builds(
    RecordFacts,
    released=st.booleans(),
    nodes=counts,
    failed=counts,
    doubted=counts,
    replicates=counts,
    replicates_failed=counts,
    fewest_seeds=counts,
    ablations=counts,
    datasets=counts,
    conditions=counts,
    for_method=counts,
    for_other=counts,
    unclear=counts,
    supported=counts,
    refuted=counts,
    open=counts,
    bound_values=counts,
    references=counts,
    figures=counts,
    pages=st.none() | counts,
    calls=counts,
    usd=st.just(0.0),
    code_seconds=st.just(1.0),
    grades=st.lists(st.tuples(st.sampled_from(["scored", "computed", "logged"]), counts), max_size=3).map(tuple),
    limited=st.sampled_from(["", "the time limit was reached"]),
)


def scores(answer: JudgeAnswer) -> dict[str, int]:
    return {name: getattr(answer.scores, name).score for name in type(answer.scores).model_fields}


def with_facts(**changes: Any) -> JudgeInputs:
    return INPUTS.model_copy(update={"facts": GOOD.model_copy(update=changes)})


@given(anything)
def test_whatever_the_record_says_the_answer_fits_is_the_same_again_and_claims_little(facts: RecordFacts) -> None:
    inputs = INPUTS.model_copy(update={"facts": facts})
    answer = answer_judge(inputs)
    assert answer == answer_judge(inputs) and answer.heuristic and answer.confidence == 1
    found = scores(answer)
    assert found["overall"] <= 6 and found["novelty"] <= 4 and found["significance"] <= 5
    assert "Nobody read the paper" in answer.weaknesses[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"fewest_seeds": 2},
        {"ablations": 0},
        {"grades": (("computed", 1), ("scored", 29))},
        {"grades": (("logged", 30),)},
        {"replicates_failed": 1},
        {"open": 30},
        {"doubted": 6},
        {"released": False},
        {"limited": "the time limit was reached"},
    ],
)
def test_less_evidence_is_less_sound(changes: dict[str, Any]) -> None:
    assert scores(answer_judge(with_facts(**changes)))["soundness"] < scores(answer_judge(INPUTS))["soundness"]
    assert scores(answer_judge(with_facts(**changes)))["overall"] <= scores(answer_judge(INPUTS))["overall"]


def test_cost_and_size_of_the_search_buy_nothing() -> None:
    assert scores(answer_judge(with_facts(nodes=500, calls=9000, usd=800.0, code_seconds=1e6))) == scores(
        answer_judge(INPUTS)
    )


def test_its_quotes_stand_in_the_paper_and_the_reasons_name_the_facts() -> None:
    answer = answer_judge(INPUTS)
    for name in scores(answer):
        one = getattr(answer.scores, name)
        assert quote_is_in(one.quote, PAPER) and one.reason.startswith("Heuristic, counted from the record: ")
    assert "at least 5 seeds behind every value (+1)" in getattr(answer.scores, "soundness").reason  # noqa: B009
    assert getattr(answer.scores, "soundness").quote.startswith("It was run with five seeds")  # noqa: B009


def test_a_paper_without_a_sentence_still_gets_an_answer() -> None:
    assert len(find_quote("x", ("we",))) >= 12 and answer_judge(INPUTS.model_copy(update={"paper": "nothing here"}))


def test_a_paper_that_is_not_of_a_run_of_ours_is_refused() -> None:
    with pytest.raises(CatalogueError, match="--model PROVIDER:MODEL") as refused:
        answer_judge(INPUTS.model_copy(update={"facts": None}))
    assert "\n" not in str(refused.value)


def test_a_rubric_that_it_has_no_heuristic_for_is_refused() -> None:
    rubric = INPUTS.rubric
    other = rubric.dimensions[0].model_copy(update={"name": "fit"})
    with pytest.raises(CatalogueError, match="no heuristic for fit"):
        answer_judge(INPUTS.model_copy(update={"rubric": rubric.model_copy(update={"dimensions": (other,)})}))
    short = rubric.dimensions[0].model_copy(update={"bands": rubric.dimensions[0].bands[:2]})
    with pytest.raises(CatalogueError, match="no heuristic for clarity"):
        answer_judge(INPUTS.model_copy(update={"rubric": rubric.model_copy(update={"dimensions": (short,)})}))
