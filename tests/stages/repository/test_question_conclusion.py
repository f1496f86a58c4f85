"""Numbers of a conclusion are printed by the program; typed ones must be part of the question."""

from __future__ import annotations

import pytest

from labwright.models.roles.repository import ConclusionAnswer
from labwright.record.claims.question_results import QuestionResults, plan_fresh_seeds
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.idea import (
    DesignedArm,
    DesignedMetric,
    ExperimentDesign,
    ExperimentVariable,
    ResearchQuestion,
)
from labwright.record.schema.nodes import Attempt, Node
from labwright.stages.repository.question import find_conclusion_faults, summarize_results

VALUES = {
    "accuracy": {"plain": [0.66, 0.68, 0.67, 0.69, 0.65], "wide_net2": [0.86, 0.89, 0.87, 0.88, 0.85]},
    "loss": {"plain": [0.95, 0.93, 0.94, 0.92, 0.96], "wide_net2": [0.94, 0.94, 0.93, 0.93, 0.95]},
}
WIDE = "validation/lib/accuracy/wide_net2"
GAIN = "diff/lib/accuracy/wide_net2~plain"


def results(values: dict[str, dict[str, list[float]]] = VALUES, margin: float | None = None) -> QuestionResults:
    seeds = max(len(one) for arms in values.values() for one in arms.values())
    design = ExperimentDesign(
        varied=(ExperimentVariable(name="width", value="64 and 512"),),
        arms=tuple(DesignedArm(name=name, what=name) for name in next(iter(values.values()))),
        metrics=tuple(DesignedMetric(name=name, higher_is_better=True, what=name, margin=margin) for name in values),
        seeds=seeds,
        hypothesis="Wider is better.",
        rule="accuracy",
    )
    return QuestionResults(RunState(), build_node(values), design)


def build_node(values: dict[str, dict[str, list[float]]]) -> Node:
    measured = tuple(
        Measurement(
            name=metric, value=value, condition=arm, dataset="lib", split="validation", seed=seed, grade="logged"
        )
        for metric, arms in values.items()
        for arm, found in arms.items()
        for seed, value in enumerate(found)
    )
    attempt = Attempt(number=1, limit=60.0, measurements=measured)
    return Node(id="n0001", decision=1, parent=None, stage="preliminary", kind="draft", seed=0, attempts=(attempt,))


def faults(conclusion: str, *directions: dict[str, str], asked: str = "Is a wide net better?") -> list[str]:
    answer = ConclusionAnswer.model_validate({"conclusion": conclusion, "directions": directions})
    return list(find_conclusion_faults(answer, results(), ResearchQuestion(question=asked)))


@pytest.mark.parametrize(
    "conclusion",
    [
        rf"wide_net2 gains \result{{{GAIN}.mean}}, 95 % interval {{{GAIN}.ci}}, or {{{GAIN}.percent}} %.",
        "With widths of {setting/width}, wide_net2 wins.",
    ],
)
def test_listed_values_are_printed(conclusion: str) -> None:
    assert faults(conclusion, {"metric": "accuracy", "arm": "wide_net2", "against": "plain", "is": "higher"}) == []
    printed = results().print_text(conclusion)
    assert "{" not in printed and "\\result" not in printed


def test_the_program_prints_what_it_measured() -> None:
    printed = results().print_text(
        f"{{{WIDE}.mean}}, {{{GAIN}.mean}}, {{{GAIN}.percent}}, {{setting/width}}, {{{WIDE}.n}}"
    )
    assert printed == "0.870, 0.200, 29.9, 64 and 512, 5"
    summary = results().print_text(summarize_results(results()))
    assert "accuracy: wide_net2 against plain: higher; the difference is 0.200, 95 % interval [" in summary
    assert "loss: wide_net2 against plain: open" in summary


@pytest.mark.parametrize(
    ("conclusion", "words"),
    [
        ("The wide net is roughly 30 % better than the published 0.91 of Smith et al.", "30 % is typed"),
        ("The gain is {diff/lib/accuracy/wide_net2~plain.sum}.", "sum} is not a listed key"),
        ("The wide net is twice as good.", "'twice' is a number in words"),
        ("Over seven seeds the wide net is better.", "'seven' is a number in words"),
    ],
)
def test_typed_numbers_are_refused(conclusion: str, words: str) -> None:
    assert any(words in one for one in faults(conclusion))


def test_a_published_number_may_be_quoted_where_the_question_has_it() -> None:
    said = f"The wide net reaches {{{WIDE}.mean}}, below the published 0.91."
    wider = {"metric": "accuracy", "arm": "wide_net2", "against": "plain", "is": "higher"}
    assert faults(said, wider, asked="Smith et al. publish 0.91: does a wide net reach it?") == []
    assert faults(said, wider) == ["0.91 is typed, and the question does not have it: print a listed value by its key"]


@pytest.mark.parametrize(
    ("metric", "stated", "right"),
    [("accuracy", "higher", True), ("accuracy", "open", False), ("loss", "open", True), ("loss", "lower", False)],
)
def test_a_direction_is_that_of_the_interval(metric: str, stated: str, right: bool) -> None:
    found = faults("It is so.", {"metric": metric, "arm": "wide_net2", "against": "plain", "is": stated})
    assert (found == []) == right, found
    other = {"higher": "lower", "lower": "higher"}.get(stated, stated)
    assert (faults("It is so.", {"metric": metric, "arm": "plain", "against": "wide_net2", "is": other}) == []) == right
    assert faults("It is so.", {"metric": metric, "arm": "plain", "against": "deep", "is": "open"}) == [
        f"{metric} of plain against deep was not compared: use the names of the design"
    ]


@pytest.mark.parametrize(("first", "second", "shows"), [([0.5], [0.7], "higher"), ([0.1, 0.4], [0.3, 0.2], "open")])
def test_what_few_runs_show(first: list[float], second: list[float], shows: str) -> None:
    found = results({"score": {"a": first, "b": second}}).pairs[0]
    assert found.shows == shows
    assert (" (one run each)" in str(found)) == (len(first) == 1)


@pytest.mark.parametrize(
    ("gains", "shows"),
    [([0.01, 0.02, 0.0, 0.01], "the same"), ([-0.5, -0.52, -0.48, -0.5], "lower"), ([0.3, -0.2, 0.1, 0.0], "open")],
)
def test_no_difference_is_shown_by_an_interval_within_the_margin(gains: list[float], shows: str) -> None:
    found = results({"score": {"a": [0.0] * 4, "b": gains}}, margin=0.1).pairs[0]
    assert found.shows == shows and "(differences below 0.1 do not matter)" in str(found)


@pytest.mark.parametrize(
    ("gains", "margin", "seconds_left", "planned"),
    [
        ([0.5, 0.6, 0.4], 0.3, 1000.0, 30),
        ([0.5, 0.6, 0.4], 0.3, 4.9, 4),
        ([0.5, 0.6, 0.4], 0.3, 2.9, 0),
        ([0.5, 0.6, 0.4], 0.05, 1000.0, 200),
        ([0.5, 0.6, 0.4], None, 40.0, 10),
        ([0.5, 0.5, 0.5], 0.3, 1000.0, 30),
        ([0.5], 0.3, 20.0, 20),
        ([0.5], 0.3, 0.5, 0),
    ],
)
def test_fresh_seeds_follow_from_the_spread_the_margin_and_the_time(
    gains: list[float], margin: float | None, seconds_left: float, planned: int
) -> None:
    first = results({"score": {"a": [0.0] * len(gains), "b": gains}}, margin=margin)
    assert plan_fresh_seeds(first, 1.0, seconds_left) == planned
