"""Arithmetic of external papers: what no rounding reconciles is found, what some reading reconciles is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.review.external_papers.arithmetic import Contradiction, find_contradictions
from labwright.review.external_papers.passages import extract_claims, extract_passages
from labwright.review.judge.paper_reader import Paper, PaperSection


def contradictions(text: str) -> list[Contradiction]:
    paper = Paper(Path("p.md"), "Markdown", "0", tuple(PaperSection(f"{n} Results", text) for n in (1,)))
    return list(find_contradictions(extract_claims(extract_passages(paper))))


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("It falls from 12.63 to 4.18 ms, a 71.2% reduction.", "change"),
        ("It is right on 17 of 20 items (80%).", "count"),
    ],
)
def test_a_sentence_that_cannot_be_right_is_found(sentence: str, kind: str) -> None:
    assert [one.kind for one in contradictions(f"We measure it. {sentence} It rains.")] == [kind]


@pytest.mark.parametrize(
    "sentence",
    [
        "It falls from 12.63 to 4.18 ms, a 66.9% reduction.",
        "It falls from 12.63 to 4.18 ms, over 60% less.",
        "Accuracy rises from 0.848 to 0.917 with 3 seeds and a 12.5% reduction of memory and a 40% drop of time.",
        "It is right on 17 of 20 items (85%).",
        "It is right on 2 of 3 items (66%).",
    ],
)
def test_a_sentence_that_may_be_right_is_not(sentence: str) -> None:
    assert contradictions(f"We measure it. {sentence} It rains.") == []


def table(heads: str, *rows: str) -> str:
    return "\n".join([f"| {heads} |", "|" + "---|" * (heads.count("|") + 1), *(f"| {row} |" for row in rows)])


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (table("Method | Precision | Recall | F1", "net | 0.93 | 0.90 | 0.95"), ["scores"]),
        (table("Method | Precision | Recall | F1", "net | 0.93 | 0.90 | 0.91", "tree | 0.5 | 0.1 | 0.30"), []),
    ],
)
def test_f1_is_at_most_the_mean_of_precision_and_recall(text: str, kinds: list[str]) -> None:
    assert [one.kind for one in contradictions(text)] == kinds


def test_changes_are_compared_where_the_other_rows_show_how_they_are_made() -> None:
    rows = ["a | 0.80 | 0.88 | 10.0%", "b | 0.50 | 0.60 | 20.0%", "c | 0.40 | 0.50 | 25.0%"]
    assert contradictions(table("Metric | Tree | Net | Improvement", *rows)) == []
    [found] = contradictions(table("Metric | Tree | Net | Improvement", *rows, "d | 0.20 | 0.30 | 70.0%"))
    assert (found.kind, found.where) == ("change", "table 1, d / Improvement") and "0.20 and 0.30" in found.description
    alone = table("Metric | Tree | Net | Improvement", "d | 0.20 | 0.30 | 70.0%")
    assert contradictions(alone) == [], "the paper does not say of what"
