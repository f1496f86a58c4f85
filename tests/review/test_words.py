"""Words against the ledger: sentences that contradict it are refused, honest ones pass, and each refusal says why.

`sentences/tuning.toml` is what the rules were made on; `sentences/held_out.toml` was written before them and measures
them: its recall and false alarms are printed with Wilson intervals.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import cast

import pytest

from record.claims.differences import differences
from record.claims.means import paper_claims
from record.nouns.papers import Draft, Section
from review.evidence import Evidence, Value, check_draft, claims_in
from review.evidence.bold import bold_wrong
from stages.paper.tables import tables
from tests.paper import synthetic
from tests.review.sentences.ledger import evidence

EVIDENCE = evidence()
RESULT = "\\result{test/digits/%s.mean}"


def styles(name: str) -> list[dict[str, list[str]]]:
    text = (Path(__file__).parent / "sentences" / f"{name}.toml").read_text()
    return cast("list[dict[str, list[str]]]", tomllib.loads(text)["style"])


def sentences(name: str, which: str) -> list[str]:
    return [sentence for style in styles(name) for sentence in style[which]]


def refusals(text: str, known: Evidence = EVIDENCE) -> list[str]:
    """What the words of a sentence are refused for."""
    draft = Draft(title="A Title", abstract="Short.", sections=(Section(title="Body", body=text),))
    return [str(one) for one in check_draft(draft, known) if one.kind in ("claim", "word")]


@pytest.mark.parametrize("sentence", sentences("tuning", "contradicting"))
def test_a_sentence_that_contradicts_the_ledger_is_refused_with_what_may_be_written(sentence: str):
    found = refusals(sentence)
    assert found
    mends = ("write that", "take the key", "turn the word", "name it", "print it")
    assert any(mend in " ".join(found) for mend in mends)


@pytest.mark.parametrize("sentence", sentences("tuning", "honest"))
def test_an_honest_sentence_passes(sentence: str):
    assert refusals(sentence) == []


def test_held_out_sentences_are_told_apart(capsys: pytest.CaptureFixture[str]):
    """The measure of the rules; nobody looks at which ones failed."""
    caught = [bool(refusals(one)) for one in sentences("held_out", "contradicting")]
    alarmed = [bool(refusals(one)) for one in sentences("held_out", "honest")]
    with capsys.disabled():
        print(f"\nheld out: recall {_share(caught)}, false alarms {_share(alarmed)}")
    assert sum(caught) >= 0.9 * len(caught) and sum(alarmed) <= 0.1 * len(alarmed)
    assert len(caught) + len(sentences("tuning", "contradicting")) >= 60 <= len(alarmed) * 2


def _share(hits: list[bool]) -> str:
    """A share with its 95 % Wilson interval. Source: Wilson 1927."""
    n, z = len(hits), 1.96
    share = sum(hits) / n
    middle, half = share + z * z / (2 * n), z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return f"{sum(hits)}/{n} = {share:.3f} [{low:.3f}, {high:.3f}]"


def test_a_worsened_verdict_carries_worse_and_not_better():
    turned = tuple(one.model_copy(update={"verdict": "worsened", "condition": one.worse})
                   if one.verdict == "improved" else one for one in EVIDENCE.comparisons)
    known = replace(EVIDENCE, comparisons=turned)
    assert refusals("Label smoothing makes the log loss worse on Wine cultivars without noise.", known) == []
    assert refusals("Label smoothing makes the log loss worse on Wine cultivars at 40\\% noise.", known)


@pytest.mark.parametrize(("text", "refused"), [
    ("On Optical digits, label smoothing improved the log loss at 40\\% noise; no difference is measurable elsewhere.",
     True),
    ("On Optical digits we look at 40\\% noise first. Label smoothing improved the log loss there.", False),
    ("On Wine cultivars we look at 20\\% noise first. Label smoothing improved the log loss there. It helps.", True),
    ("Stopping the training early improved the log loss on Optical digits at 40\\% noise.", True),
    ("Stopping the training early makes the log loss worse on Optical digits at 40\\% noise.", False),
    ("A higher noise rate and a lower learning rate were tried; training was stopped when nothing improved.", False),
    ("The calibration error falls from " + RESULT % "ece/baseline@noise40" + " to " + RESULT % "ece/method@noise40"
     + ", the lowest calibration error on Optical digits at 40\\% noise.", False),
    ("The baseline's accuracy falls with the noise rate, from " + RESULT % "accuracy/baseline@noise00" + " to "
     + RESULT % "accuracy/baseline@noise40" + ".", False),
    ("The baseline's accuracy rises from " + RESULT % "accuracy/baseline@noise00" + " to "
     + RESULT % "accuracy/baseline@noise40" + ".", True),
    ("Its interval, \\result{diff/digits/accuracy/method@noise20~baseline@noise20.ci}, excludes zero.", True),
    ("Its interval, \\result{diff/digits/accuracy/method@noise40~baseline@noise40.ci}, excludes zero.", False),
    ("The calibration error of the baseline, " + RESULT % "ece/baseline@noise40" + ", is three times that of the "
     "method.", True),
])
def test_context_trends_and_printed_values(text: str, refused: bool):
    assert bool(refusals(text)) is refused


def test_a_ratio_in_words_stands_only_where_two_values_of_its_sentence_support_it():
    key = "test/digits/ece/baseline@noise40"
    text = "The value " + RESULT % "ece/baseline@noise40" + " is twice " + RESULT % "ece/method@noise40" + "."
    assert refusals(text)
    doubled = replace(EVIDENCE, values={**EVIDENCE.values, key: Value(mean=0.08, low=0.075, high=0.085)})
    assert refusals(text, doubled) == []
    assert refusals("The calibration error is twice as large.", doubled)


@pytest.mark.parametrize(("text", "refused"), [
    ("\\textbf{" + RESULT % "log_loss/method@noise40" + "}", False),
    ("\\textbf{" + RESULT % "log_loss/baseline@noise40" + "}", True),
    ("\\textbf{" + RESULT % "log_loss/method@noise00" + "}", True),
    ("$\\mathbf{" + RESULT % "accuracy/method@noise20" + "}$", True),
    ("\\textbf{Results} " + RESULT % "log_loss/method@noise00", False),
])
def test_bold_is_for_winners_that_are_called(text: str, refused: bool):
    assert bool([one for one in refusals(text) if "bold" in one]) is refused


def test_tables_bold_what_is_called_and_the_check_reads_them():
    state = synthetic.state()
    claims = paper_claims(state)
    found = differences(state, claims)
    made = tables(claims, synthetic.PLAN, synthetic.FACTS, differences=found)
    known = replace(EVIDENCE, values={one.key: Value(mean=one.mean) for one in (*claims, *found)}, comparisons=tuple(
        EVIDENCE.comparisons[0].model_copy(update={
            "key": one.key, "dataset": one.dataset, "metric": one.name, "verdict": one.called, "better": one.better,
            "worse": one.other if one.better == one.condition else one.condition}) for one in found))
    text = "\n".join(table.tabular for table in made)
    bold = [line for line in text.splitlines() if "\\textbf" in line]
    assert bold and "Bold: called better" in made[0].caption and list(bold_wrong(text, known, "t")) == []
    assert "\\textbf" not in "".join(one.tabular for one in tables(claims, synthetic.PLAN, synthetic.FACTS))
    everything = text.replace("\\textbf{", "{").replace("\\result{", "\\bfseries\\result{")
    assert len(list(bold_wrong(everything, known, "t"))) >= len(claims_in(text)) // 2


def test_the_abstract_prints_what_the_body_shows_and_on_the_same_split():
    tabled = {"main": frozenset(key for key in EVIDENCE.values if "/log_loss/" in key),
              "metrics": frozenset[str](), "ablation": frozenset[str]()}
    known = replace(EVIDENCE, tabled=tabled, results={
        **EVIDENCE.results, "validation/digits/log_loss/method@noise20.mean": "0.4"})
    draft = synthetic.with_body("\\papertable{main}")

    def found(abstract: str) -> list[str]:
        return [one.fix for one in check_draft(draft.model_copy(update={"abstract": abstract}), known)
                if one.where == "abstract"]

    assert found("It is " + RESULT % "log_loss/method@noise20" + ".") == []
    assert "no table" in found("It is " + RESULT % "accuracy/method@noise20" + ".")[0]
    assert "validation data" in found("It is \\result{validation/digits/log_loss/method@noise20.mean}.")[0]
    ending = Section(title="Conclusion", body="It is " + RESULT % "accuracy/method@noise20" + ".")
    ended = draft.model_copy(update={"abstract": "", "sections": (*draft.sections, ending)})
    assert [one.where for one in check_draft(ended, known) if "no table" in one.fix] == ["section 'Conclusion'"]
