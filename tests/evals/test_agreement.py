"""Agreement of a judge with people: planted judges, invariances, the rules of pairs, files that cannot be used."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labwright.evals.agreement.report import DimensionAgreement, build_agreement
from labwright.evals.agreement.scores import NoPairsError, TableError

pytestmark = pytest.mark.slow

HUMAN = ("reviewer_id", "model_name", "workshop_name", "Overall")
JUDGE = ("workshop_name", "model_name", "model", "Overall")
Rows = list[tuple[object, ...]]


def file(path: Path, header: tuple[str, ...], rows: Rows) -> Path:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([header, *rows])
    return path


def measured(folder: Path, humans: Rows, judge: Rows) -> DimensionAgreement:
    found = build_agreement(file(folder / "h.csv", HUMAN, humans), file(folder / "j.csv", JUDGE, judge))
    return found.dimensions[0]


def people(seed: int = 0, papers: int = 24, noise: int = 1) -> tuple[Rows, dict[str, float]]:
    """Two reviews of each paper, near its true worth, and that worth by paper; people of another pair each time."""
    rng = random.Random(seed)
    worth = {f"t{index:02d}": float(2 + index % 7) for index in range(papers)}

    def given(task: str) -> float:
        return min(10.0, max(1.0, worth[task] + rng.randint(-noise, noise)))

    rows: Rows = [
        (f"r{2 * (index % 4) + side}", "m", task, given(task)) for index, task in enumerate(worth) for side in (0, 1)
    ]
    return rows, worth


def judged(scores: dict[str, float]) -> Rows:
    return [(task, "m", "A", score) for task, score in scores.items()]


# --- planted judges -------------------------------------------------------------------------------------------------


def test_a_judge_that_knows_the_worth_passes_everything(tmp_path: Path) -> None:
    humans, worth = people()
    one = measured(tmp_path, humans, judged(worth))
    assert one.is_passing and one.spearman is not None and one.spearman.value > 0.8 and one.shuffled.p < 0.001
    assert one.best_constant.distance > one.judge_human and one.excess < 0 and one.humans.p < 0.001
    assert [line.split(" (")[0] for line in one.findings] == [
        "the judge is closer to humans than humans are to one another"
    ]


def test_a_constant_judge_passes_u_among_people_who_differ_and_is_named(tmp_path: Path) -> None:
    """The hole in the U test that the controls are for."""
    humans, worth = people(noise=4, papers=12)
    one = measured(tmp_path, humans, judged(dict.fromkeys(worth, 5.0)))
    assert one.u.p >= 0.05 and one.spearman is None and one.kendall is None
    assert one.shuffled.p == 1.0, "every deal of a constant is the same judge"
    said = " ".join(one.findings)
    assert "a judge that always answers" in said and " 5" in said and "not shown to follow" in said
    five = next(constant for constant in one.constants if constant.score == 5)
    assert five.distance == pytest.approx(one.judge_human) and five.p == pytest.approx(one.u.p)


def test_a_far_judge_fails_and_a_bias_of_the_detectable_size_matters(tmp_path: Path) -> None:
    humans, worth = people()
    one = measured(tmp_path, humans, judged(dict.fromkeys(worth, 10.0)))
    assert one.u.p < 0.001 and one.bias > 3 and one.bias_interval.low > 2
    assert any("further from humans than humans" in line for line in one.findings)
    assert one.detectable is not None and 0.5 <= one.detectable <= 2.5


# --- figures against hand and scipy ----------------------------------------------------------------------------------


def test_figures_by_hand(tmp_path: Path) -> None:
    humans: Rows = [("a", "m", "x", 4), ("b", "m", "x", 6), ("a", "m", "y", 2), ("b", "m", "y", 3)]
    one = measured(tmp_path, humans, judged({"x": 7, "y": 2}))
    assert (one.judge_human, one.human_human, one.excess) == (pytest.approx(5 / 4), 1.5, pytest.approx(-0.25))
    assert (one.judge_human_pairs, one.human_human_pairs) == (4, 2) and one.bias == pytest.approx(3 / 4)
    # distances 3, 1, 0, 1 against 2, 1: U counts pairs that the first wins, ties as halves
    assert one.u.value == 1 + 1 + 0.5 + 0 + 0 + 0.5 + 0
    # one-way: group means 5 and 2.5, between 2 * 3.125, within (2 + 0.5) / 2
    assert one.humans.icc == pytest.approx((6.25 - 1.25) / (6.25 + 1.25))


def test_the_least_that_can_be_compared(tmp_path: Path) -> None:
    one = measured(tmp_path, [("a", "m", "x", 4), ("b", "m", "x", 6)], judged({"x": 7}))
    assert (one.judge_human, one.human_human) == (2.0, 2.0) and one.spearman is None and one.humans.icc is None
    assert one.humans.p == 1.0 and one.shuffled.p == 1.0 and one.detectable is None


# --- invariances ------------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.integers(0, 10**6))
def test_order_of_rows_and_names_of_reviewers_change_nothing(tmp_path: Path, order: int) -> None:
    humans, worth = people(papers=8)
    rows = judged({task: 11 - score for task, score in worth.items()})
    before = measured(tmp_path, humans, rows)
    rng = random.Random(order)
    names = dict(zip(sorted({str(row[0]) for row in humans}), rng.sample(range(1000), 8), strict=True))
    other: Rows = [(names[str(row[0])], *row[1:]) for row in humans]
    rng.shuffle(other)
    rng.shuffle(rows)
    assert measured(tmp_path, other, rows) == before


# --- the rules of pairs -----------------------------------------------------------------------------------------------


def test_unequal_and_doubled_reviews_leave_the_human_set_by_name(tmp_path: Path) -> None:
    humans: Rows = [
        ("a", "m", "x", 4),
        ("b", "m", "x", 6),
        ("a", "m", "y", 2),
        ("b", "m", "y", 3),
        ("a", "m", "one", 5),
        ("a", "m", "three", 5),
        ("b", "m", "three", 5),
        ("c", "m", "three", 9),
        ("a", "m", "same", 5),
        ("a", "m", "same", 6),
        ("a", "m", "x", 4),
        ("a", "m", "unjudged", 4),
    ]
    rows = judged(dict.fromkeys(("x", "y", "one", "three", "same", "unread"), 5.0))
    found = build_agreement(file(tmp_path / "h.csv", HUMAN, humans), file(tmp_path / "j.csv", JUDGE, rows))
    one = found.dimensions[0]
    assert (found.papers, found.paired, found.usual, found.reviews, found.reviewers) == (5, 2, 2, 10, 3)
    assert (one.judge_human_pairs, one.human_human_pairs) == (10, 2) and one.human_human == 1.5
    said = "\n".join(found.warnings)
    for words in (
        "one/m is excluded from the human-human set: it has 1 review, not 2",
        "three/m is excluded",
        "same/m is excluded from the human-human set: reviewer a reviewed it more than once (rows 10, 11)",
        "row 12 of the human reviews is identical to row 2",
        "unjudged/m has 1 reviews but no score",
        "1 papers that the judge scored have no review and are ignored: unread/m",
    ):
        assert words in said, said


# --- files that cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("humans", "judge", "words"),
    [
        ("", "", "has no rows below the header"),
        ("a,b\n1,2\n", "", "has no column 'reviewer_id', only a, b"),
        ("reviewer_id,model_name,workshop_name\n1,m,t\n", "", "has no column with scores"),
        ("H1,m,t,x\n", "", "row 2: overall is 'x', which is not a number"),
        ("H1,m,t,\n", "", "is '', which is not"),
        ("H1,m,t,11\n", "", "is 11, outside the scale 1-10"),
        ("H1,m,t,nan\n", "", "is nan, outside the scale"),
        ("H1,m,,5\n", "", "row 2: workshop_name is empty"),
        ("H1,m,t\n", "", "row 2 has 3 cells for 4 columns"),
        ("reviewer_id,model_name,workshop_name,A,a\n1,m,t,1,1\n", "", "has the column 'a' twice"),
        ('H1,m,"t,5\n', "", "is not CSV"),
        ("H1,m,t,5\n2,m,t,6\n", "workshop_name,model_name\nt,m\n", "has no column 'overall'"),
        ("H1,m,t,5\n2,m,t,6\n", "Jt,m,5\nt,m,6\n", "rows 2 and 3 both score t/m"),
        ("H1,m,t,5\n2,m,t,6\n", "Ju,m,5\n", "no paper is in both files: the humans have t/m, the judge u/m"),
        ("H1,m,t,5\n", "Jt,m,5\n", "there is no paper on which two reviewers can be compared: t/m it has 1 review"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(tmp_path: Path, humans: str, judge: str, words: str) -> None:
    heads = {"H": "reviewer_id,model_name,workshop_name,Overall\n", "J": "workshop_name,model_name,Overall\n"}
    for name, text in (("h.csv", humans), ("j.csv", judge)):
        (tmp_path / name).write_text(heads.get(text[:1], "") + (text[1:] if text[:1] in heads else text))
    with pytest.raises((TableError, NoPairsError)) as caught:
        build_agreement(tmp_path / "h.csv", tmp_path / "j.csv")
    assert words in str(caught.value) and "\n" not in str(caught.value)
