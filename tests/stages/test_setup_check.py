"""Sentences on the set-up: which are compared with the facts, which comparisons count, what is cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labwright.models.client import Models
from labwright.models.offline.judgements import answer_setup_reader
from labwright.models.replay import ScriptedModel
from labwright.models.roles.claim_reader import ComparedSentences, SetupReaderInputs
from labwright.models.roles.paper_revision import ReflectInputs, Reflection
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.schema.claims import ComparedSentence, SentenceLabel, SentenceReading, SetupReading
from labwright.review.claims.rules import UNREAD
from labwright.review.claims.sentences import PaperSentence
from labwright.stages.paper.claim_check import CUT_NOTE
from labwright.stages.paper.paper_steps import release_paper, write_draft
from labwright.stages.paper.reflection import reflect
from labwright.stages.paper.setup_check import StudyFacts, check_setup, read_setup
from labwright.stages.paper.typesetting import select_best
from tests.stages.test_claim_check import finish, written
from tests.stages.test_paper_writing import UNTIED, Desk, answers_of, edit, scripted

pytestmark = pytest.mark.usefixtures("placeholder_pdf")
FACTS = StudyFacts(
    planned=("Hypotheses: 3.",), run=("Not tuned for themselves: plain.",), code="model = Ridge(alpha=1)"
)
Compare = Callable[[SetupReaderInputs], ComparedSentences]


def sentence(text: str, *, where: str = "section 'Method'", twice: bool = False) -> PaperSentence:
    return PaperSentence(where, 0, 0, len(text), text, text, (), twice, text)


def label(*names: SentenceLabel, also_setup: bool = False) -> SentenceReading:
    return SentenceReading(sha256="", labels=names, also_setup=also_setup)


def refuse(number: int = 1, **changes: object) -> ComparedSentence:
    whole = ComparedSentence(
        number=number,
        verdict="contradicted",
        quote="arms were tuned",
        fact=2,
        fact_quote="Not tuned for themselves",
        correction="Plain was not tuned.",
    )
    return whole.model_copy(update=changes)


async def read(
    text: str, *answers: ComparedSentence, known: dict[str, SetupReading] | None = None
) -> tuple[tuple[SetupReading, ...], list[SetupReaderInputs]]:
    """Return the readings of one sentence labelled set-up, and the questions; each question gets the next answer."""
    asked: list[SetupReaderInputs] = []

    def answer(inputs: SetupReaderInputs) -> ComparedSentences:
        asked.append(inputs)
        return ComparedSentences(sentences=(answers[len(asked) - 1],))

    models = Models(ScriptedModel.from_role_functions(setup_reader=answer), MemoryLog(), ModelSettings(), lambda: 0.0)
    one = sentence(text)
    found = await read_setup(models.make_client(1, 0), [one], {one.sha256: label("setup")}, known or {}, FACTS)
    return found, asked


async def test_a_contradiction_names_the_wrong_words_the_fact_and_what_the_record_has() -> None:
    one = sentence("All arms were tuned.")
    found, _ = await read(one.text, refuse())
    readings = {one.sha256: label("setup")}
    [(_, violation)] = check_setup([one], readings, {each.sha256: each for each in found}, FACTS)
    assert violation.fix == (
        "'arms were tuned' is not what was done: Plain was not tuned. The record: Not tuned for themselves: plain."
    )
    [(_, unread)] = check_setup([one], readings, {}, FACTS)
    assert unread.fix == UNREAD
    others = FACTS._replace(run=("Every arm was tuned.",))
    [(_, stale)] = check_setup([one], readings, {each.sha256: each for each in found}, others)
    assert stale.fix == UNREAD, "a comparison counts for the facts with which it was made"


@pytest.mark.parametrize(
    "broken",
    [
        {"quote": "arms were never tuned"},
        {"quote": "tuned"},
        {"fact_quote": "Every arm was tuned"},
        {"fact": 1},
        {"fact": 7},
        {"fact": None},
        {"correction": " "},
    ],
)
async def test_a_contradiction_whose_quotes_do_not_stand_is_asked_once_more_and_counts_for_nothing(
    broken: dict[str, object],
) -> None:
    found, asked = await read(
        "All arms were tuned.", refuse().model_copy(update=broken), refuse().model_copy(update=broken)
    )
    assert found == () and len(asked) == 2
    found, _ = await read("All arms were tuned.", refuse().model_copy(update=broken), refuse())
    assert [one.verdict for one in found] == ["contradicted"]


async def test_support_needs_a_quote_of_its_fact_which_may_be_the_code() -> None:
    supported = refuse(
        verdict="supported", quote="ridge regression", fact=3, fact_quote="Ridge(alpha=1)", correction=""
    )
    [reading], [asked] = await read("We used ridge regression.", supported)
    assert (reading.verdict, reading.fact) == ("supported", FACTS.code)
    assert asked.facts == ("Hypotheses: 3.", "Not tuned for themselves: plain.") and asked.code == FACTS.code
    [reading], _ = await read("We used ridge regression.", supported.model_copy(update={"fact_quote": "Lasso(alpha"}))
    assert (reading.verdict, reading.fact) == ("not in the facts", "")
    again, asked = await read("We used ridge regression.", known={reading.sha256: reading})
    assert again == () and asked == []


def test_compared_are_set_up_mixed_outcomes_and_what_a_summary_finds() -> None:
    sentences = [
        sentence("We trained it."),
        sentence("With the same settings, A wins."),
        sentence("A wins."),
        sentence("A wins again.", where="abstract", twice=True),
        sentence("Is A better?", where="abstract", twice=True),
        sentence("Nobody read this."),
        sentence("Tuning alike."),
    ]
    labels = [
        label("setup"),
        label("outcome", also_setup=True),
        label("outcome"),
        label("outcome", "outcome"),
        label("question", "question"),
        None,
        label("setup"),
    ]
    readings = {one.sha256: each for one, each in zip(sentences, labels, strict=True) if each is not None}
    found = [one.text for one, _ in check_setup(sentences, readings, {}, FACTS)]
    assert found == ["We trained it.", "With the same settings, A wins.", "A wins again."]


# --- whole papers -----------------------------------------------------------------------------------------------------


def contradicting(words: str) -> Compare:
    """Find nothing in the facts, but contradict the sentences with these words."""

    def compare(inputs: SetupReaderInputs) -> ComparedSentences:
        texts = {one.number: one.text for part in inputs.paragraphs for one in part.sentences}
        return ComparedSentences(
            sentences=tuple(
                refuse(one.number, quote=words, fact=1, fact_quote=" ".join(inputs.facts[0].split()[:3]))
                if words in texts[one.number]
                else one
                for one in answer_setup_reader(inputs).sentences
            )
        )

    return compare


@pytest.mark.slow
async def test_a_wrong_set_up_goes_to_the_reflector_and_is_cut_at_release(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def revise(inputs: ReflectInputs) -> Reflection:
        seen.append(inputs.violations)
        return Reflection(done=True)

    write = written("We ask.", "It is open. All arms were tuned. That is all.")
    desk = Desk(tmp_path, scripted(revise, sections=write, compare=contradicting("arms were tuned")))
    await finish(desk)
    [line] = [one for one in seen[0] if "arms were tuned" in one]
    assert line.startswith(
        "[claim] section 'Conclusion': 'All arms were tuned.': 'arms were tuned' is not what was done"
    )
    best = select_best(desk.log.state.paper.drafts)
    assert best.draft.sections[-1].body == "It is open. That is all."
    assert [one for one in best.edits if one.endswith(CUT_NOTE)]
    assert not desk.log.state.paper.claims_read[best.round].violations


@pytest.mark.slow
async def test_a_wrong_set_up_in_the_abstract_leaves_a_draft(tmp_path: Path) -> None:
    write = written("We ask. All arms were tuned.", "It ends.")
    desk = Desk(tmp_path, scripted(sections=write, compare=contradicting("arms were tuned")))
    ended = await finish(desk)
    assert not ended.released and any(
        one.startswith("[claim] abstract: 'All arms were tuned.'") for one in ended.reasons
    )
    assert select_best(desk.log.state.paper.drafts).draft.abstract == "We ask. All arms were tuned."


@pytest.mark.slow
async def test_a_later_round_compares_only_changed_sentences(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scripted(answers_of(edit(UNTIED, "It ends here."), Reflection(done=True))))
    await write_draft(desk.bench)
    await reflect(desk.bench)
    first, second = (
        [sentence.text for part in one.inputs.paragraphs for sentence in part.sentences if sentence.number is not None]
        for one in desk.model.requests
        if isinstance(one.inputs, SetupReaderInputs)
    )
    assert "It is open." in first and "Smoothing" not in first and second == ["It ends here.", "That is all."]


@pytest.mark.slow
async def test_without_a_usable_comparison_there_is_no_release(tmp_path: Path) -> None:
    def answer(_: SetupReaderInputs) -> ComparedSentences:
        return ComparedSentences(sentences=())

    desk = Desk(tmp_path, scripted(compare=answer))
    await write_draft(desk.bench)
    await release_paper(desk.bench)
    released = desk.log.state.paper.released
    assert released is not None and not released.released
    assert any("have no usable reading" in one for one in released.reasons)
    assert "On method." in [one.body for one in select_best(desk.log.state.paper.drafts).draft.sections], (
        "nothing is cut"
    )
