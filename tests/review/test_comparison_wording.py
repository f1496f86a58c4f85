"""Comparisons in a writer's own words: what needs a verdict, what may stand beside one, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import check_draft, find_unbound_comparisons, scan
from tests.paper import synthetic_paper

KEY = "diff/digits/log_loss/method@noise20~baseline@noise20"
EVIDENCE = synthetic_paper.make_evidence(synthetic_paper.make_state())
MEAN = r"\result{test/digits/log_loss/%s@noise20.mean}"


def refused(text: str, outcome: str = "positive") -> list[str]:
    return [one.why for one in find_unbound_comparisons(scan(text), replace(EVIDENCE, outcome_words={KEY: (outcome,)}))]


@pytest.mark.parametrize(
    "text",
    [
        "Label smoothing outperforms cross-entropy.",
        "The method is better than the baseline.",
        "As expected, our method wins on every dataset.",
        "Smoothing lowers the log loss on Optical digits.",
        "The baseline has the highest calibration error.",
        "Both arms reach the same accuracy.",
        "There is no measurable difference between the two arms.",
        "Without the schedule, the log loss drops.",
        f"The method reaches {MEAN % 'method'}, against {MEAN % 'baseline'} for the baseline.",
        r"The difference is \result{" + KEY + ".ci}.",
        "Label smoothing was found to improve the log loss.",
        "We study label smoothing. It is clearly superior.",
        "We report that label smoothing has a lower log loss.",
        "The hypothesis is supported.",
        "\\begin{itemize}\\item Wine is small.\\item Label smoothing helps.\\end{itemize}",
    ],
)
def test_a_comparison_without_its_verdict_is_sent_back(text: str) -> None:
    assert len(refused(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "We ask whether label smoothing improves on cross-entropy.",
        "Does label smoothing lower the log loss?",
        r"\citet{lukasik2020does} report that label smoothing outperforms loss correction.",
        "Label smoothing mixes the targets with the uniform distribution to reduce the log loss on wrong labels.",
        "Both arms were tuned with the same number of trials.",
        "Both arms have the same architecture and see the same seeds.",
        "For each arm we keep the checkpoint with the best accuracy on validation data.",
        "For each seed we take the difference in log loss between label smoothing and cross-entropy.",
        "Figure~\\ref{fig:loss} shows the log loss of both arms (lower is better).",
        f"The method reaches {MEAN % 'method'} on Optical digits.",
        "We hypothesised that label smoothing would lower the log loss.",
        "The idea behind label smoothing is simple, and a smaller network would do.",
        "The baseline as well as the method are trained with Adam.",
        "A lower learning rate is used for cross-entropy.",
        "The record holds no comparison of the two arms, so no effect is claimed.",
        "Calibration is worse on larger networks, some say.",
    ],
)
def test_designs_questions_and_the_findings_of_others_are_left_alone(text: str) -> None:
    assert refused(text) == []


@pytest.mark.parametrize(
    ("text", "outcome", "fine"),
    [
        (rf"Under noise, we find that \verdict{{{KEY}}}.", "positive", True),
        (rf"Without noise, we find that \verdict{{{KEY}}}.", "equivalent", True),
        (rf"It is not the case that \verdict{{{KEY}}}.", "positive", False),
        (rf"It is not true, by any seed, that \verdict{{{KEY}}}.", "positive", False),
        (rf"It is open whether \verdict{{{KEY}}}.", "positive", False),
        (rf"Although no seed diverged, we find that \verdict{{{KEY}}}.", "positive", True),
        (rf"We find that \verdict{{{KEY}}}, which is wrong.", "positive", False),
        (rf"Smoothing outperforms the baseline: \verdict{{{KEY}}}.", "positive", True),
        (rf"Smoothing outperforms the baseline: \verdict{{{KEY}}}.", "open", False),
        (rf"Smoothing outperforms the baseline: \verdict{{{KEY}}}.", "exploratory", False),
        (rf"Smoothing has no effect, since \verdict{{{KEY}}}.", "open", False),
        (rf"Smoothing has no effect, since \verdict{{{KEY}}}.", "exploratory", False),
        (rf"Smoothing has no effect, since \verdict{{{KEY}}}.", "equivalent", True),
    ],
)
def test_words_beside_a_verdict_say_no_more_than_it_does(text: str, outcome: str, fine: bool) -> None:
    assert (refused(text, outcome) == []) is fine


def test_what_is_found_covers_the_whole_sentence_and_nothing_else() -> None:
    text = "It is small. Label smoothing beats the baseline. It ends."
    assert [text[one.start : one.end] for one in find_unbound_comparisons(scan(text), EVIDENCE)] == [
        "Label smoothing beats the baseline."
    ]


def test_a_key_of_a_verdict_is_one_of_the_record_and_its_clause_stands_in_no_other_macro() -> None:
    draft = PaperDraft(
        title="T",
        abstract="A.",
        sections=(Section(title="B", body=(r"We find that \verdict{diff/none} and \result{" + KEY + "}.")),),
    )
    bare = replace(EVIDENCE, figures=frozenset(), tables=frozenset())
    assert [one.excerpt for one in check_draft(draft, bare)][:2] == [r"\verdict{diff/none}", rf"\result{{{KEY}}}"]
