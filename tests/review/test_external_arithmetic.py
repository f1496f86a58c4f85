"""Arithmetic of external papers: what no rounding reconciles is found, what some reading reconciles is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.review.external_papers.passages import extract_claims, extract_passages
from labwright.review.external_papers.verdicts import Contradiction, find_contradictions
from labwright.review.judge.paper_reader import Paper, PaperSection


def contradictions(text: str) -> list[Contradiction]:
    paper = Paper(Path("p.md"), "Markdown", "0", tuple(PaperSection(f"{n} Results", text) for n in (1,)))
    return list(find_contradictions(extract_claims(extract_passages(paper))))


@pytest.mark.parametrize(("sentence", "kind"), [("It is right on 17 of 20 items (80%).", "count")])
def test_a_sentence_that_cannot_be_right_is_found(sentence: str, kind: str) -> None:
    assert [one.kind for one in contradictions(f"We measure it. {sentence} It rains.")] == [kind]


@pytest.mark.parametrize("sentence", ["It is right on 17 of 20 items (85%).", "It is right on 2 of 3 items (66%)."])
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
