"""Reading of a draft's claims: who is asked about which sentence, what is cut, and what leaves a DRAFT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labwright.models.offline.judgements import answer_claim_reader
from labwright.models.roles.claim_reader import ClaimReaderInputs, PrintedSentence, ReadSentences
from labwright.models.roles.paper_revision import ReflectInputs, Reflection
from labwright.models.roles.paper_writing import RequiredStatement, SectionInputs, Sections
from labwright.record.events.event import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn, PaperReleased
from labwright.record.events.search_events import TaskDone
from labwright.record.run_folder import RunFolder
from labwright.record.schema.claims import ReadClaim, ReadSentence
from labwright.record.schema.paper import FinalFigure, PaperDraft, Section
from labwright.stages.paper import paper_context, paper_steps, reflection, typesetting
from labwright.stages.paper.claim_check import CUT_NOTE, list_sentences
from labwright.stages.paper.hypothesis_figures import PROGRAM_FIGURES
from labwright.stages.paper.paper_steps import release_paper, write_draft
from labwright.stages.paper.reflection import reflect
from labwright.stages.paper.required_statements import complete_draft
from labwright.stages.paper.typesetting import check_abstract, select_best
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.paper import synthetic_paper
from tests.stages.test_paper_writing import UNTIED, Desk, answers_of, bodies, edit, scripted

pytestmark = pytest.mark.usefixtures("placeholder_pdf")
EVIDENCE = synthetic_paper.make_evidence(synthetic_paper.make_state())
BY_PROGRAM = "The settings may explain it."
OVERCLAIM = ReadClaim(kind="generality", certainty="shown")


class Killed(BaseException):
    """Stands for a kill at this moment."""


Read = Callable[[ClaimReaderInputs], ReadSentences]


def list_asked(inputs: ClaimReaderInputs) -> list[PrintedSentence]:
    return [one for part in inputs.paragraphs for one in part.sentences if one.number is not None]


def reading(*overclaims: str, broken: str = "", makes_point: str = "") -> Read:
    """Read as the offline model does, but these sentences as overclaims; `broken` gets a false quote, and `makes_point`
    makes all points."""

    def read(inputs: ClaimReaderInputs) -> ReadSentences:
        found = answer_claim_reader(inputs)
        texts = {one.number: one.text for one in list_asked(inputs)}
        changed: list[ReadSentence] = []
        for one in found.sentences:
            text = texts[one.number]
            if any(each in text for each in overclaims):
                one = one.model_copy(update={"label": "outcome", "claims": (OVERCLAIM,)})
            if broken and broken in text:
                one = one.model_copy(update={"quote": "words of somebody else"})
            if makes_point and makes_point in text:
                one = one.model_copy(update={"points": tuple(name for name, _ in inputs.vocabulary.points)})
            changed.append(one)
        return ReadSentences(sentences=tuple(changed))

    return read


def written(abstract: str, conclusion: str) -> Callable[[SectionInputs], Sections]:
    def write(inputs: SectionInputs) -> Sections:
        whole = bodies(inputs)
        return whole.model_copy(
            update={
                "abstract": abstract if inputs.abstract else "",
                "sections": tuple(
                    Section(title=one.title, body=conclusion) if one.title == "Conclusion" else one
                    for one in whole.sections
                ),
            }
        )

    return write


async def finish(desk: Desk) -> PaperReleased:
    await write_draft(desk.bench)
    await reflect(desk.bench)
    await release_paper(desk.bench)
    assert desk.log.state.paper.released is not None
    return desk.log.state.paper.released


def requests(desk: Desk, role: str) -> list[ClaimReaderInputs]:
    return [
        one.inputs for one in desk.model.requests if one.role.name == role and isinstance(one.inputs, ClaimReaderInputs)
    ]


@pytest.mark.slow
async def test_a_later_round_asks_only_about_changed_paragraphs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scripted(answers_of(edit(UNTIED, "It ends."), Reflection(done=True))))
    await write_draft(desk.bench)
    await reflect(desk.bench)
    first, second = ([one.text for one in list_asked(inputs)] for inputs in requests(desk, "claim_reader"))
    assert {"Smoothing", "We ask.", "On method.", "It is open.", "The loss."} < set(first)
    assert second == ["It ends.", "That is all."]
    twice = [one.text for one in list_asked(requests(desk, "second_claim_reader")[0])]
    assert {"Smoothing", "We ask.", "It is open."} < set(twice) and "On method." not in twice
    assert not any(one.references for inputs in requests(desk, "second_claim_reader") for one in list_asked(inputs))


@pytest.mark.slow
async def test_an_overclaim_goes_to_the_reflector_and_is_cut_at_release(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def revise(inputs: ReflectInputs) -> Reflection:
        seen.append(inputs.violations)
        return Reflection(done=True)

    write = written("We ask.", "It is open. Smoothing is a safe default. That is all.")
    desk = Desk(tmp_path, scripted(revise, sections=write, read=reading("safe default")))
    await finish(desk)
    [line] = [one for one in seen[0] if "safe default" in one]
    assert line.startswith("[claim] section 'Conclusion': 'Smoothing is a safe default.': read as generality")
    best = select_best(desk.log.state.paper.drafts)
    assert best.draft.sections[-1].body == "It is open. That is all." and best.anew
    assert [one for one in best.edits if one.endswith(CUT_NOTE)]
    assert not desk.log.state.paper.claims_read[best.round].violations
    last = [one.text for one in list_asked(requests(desk, "claim_reader")[-1])]
    assert last == ["That is all."], "what follows a cut is read again"


@pytest.mark.slow
@pytest.mark.parametrize("shortens", [True, False])
async def test_before_a_figure_moves_that_a_section_refers_to_the_writer_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortens: bool
) -> None:
    news: list[tuple[str, ...]] = []
    killed: list[Event] = []
    real = typesetting.assess_new_draft

    async def assess(context: RunContext, draft: PaperDraft, *, number: int) -> DraftAssessed:
        version = await real(context, draft, number=number)
        text = "".join(one.body for one in draft.sections)
        is_long = "and on" in text and "\\paperfigure" in text
        return version.model_copy(update={"over": 0.05 if is_long else 0.0})

    def revise(inputs: ReflectInputs) -> Reflection:
        news.append(inputs.news)
        if not inputs.news:
            return Reflection(done=True)
        return edit(" and on", "") if shortens else edit("It goes", "It still goes")

    for module in (typesetting, reflection, paper_steps):
        monkeypatch.setattr(module, "assess_new_draft", assess)
    write = written("We ask.", "It goes on and on, as Figure~\\ref{fig:loss} shows.\n\n\\paperfigure{spare}")
    desk = Desk(tmp_path, scripted(revise, sections=write))
    figures = tuple(FinalFigure(name=name, description=name) for name in ("loss", "spare"))
    desk.log.append(FiguresDrawn(figures={}, descriptions={}, arrays=(), placed=figures))
    real_append = desk.log.append

    def append(event: Event) -> None:
        if isinstance(event, TaskDone) and news and news[-1] and len(killed) < 1:
            killed.append(event)
            raise Killed
        real_append(event)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(desk.log, "append", append)
        await finish(desk)
    await release_paper(desk.bench)
    assert (
        [bool(one) for one in news] == [False, True]
        and "by about 3 lines." in news[1][0]
        and "program moves `loss`" in news[1][0]
    )
    best = select_best(desk.log.state.paper.drafts)
    assert best.over == 0 and ("\\paperfigure{loss}" in best.draft.sections[-2].body) == shortens
    assert "\\paperfigure{spare}" not in best.draft.sections[-1].body
    moved = any("loss moved to the appendix, by the program" in line for line in best.edits)
    assert moved != shortens


@pytest.mark.slow
@pytest.mark.parametrize("where", ["title", "abstract"])
async def test_an_overclaim_in_title_or_abstract_leaves_a_draft(tmp_path: Path, where: str) -> None:
    said = "Smoothing" if where == "title" else "It is a safe default"
    desk = Desk(tmp_path, scripted(sections=written("We ask. It is a safe default.", "It ends."), read=reading(said)))
    ended = await finish(desk)
    assert not ended.released and any(one.startswith(f"[claim] {where}: ") for one in ended.reasons)
    assert select_best(desk.log.state.paper.drafts).draft.abstract == "We ask. It is a safe default."


@pytest.mark.slow
async def test_a_claim_that_only_the_second_reader_finds_counts(tmp_path: Path) -> None:
    write = written("We ask. It is handy.", "It ends.")
    desk = Desk(tmp_path, scripted(sections=write, read_again=reading("It is handy")))
    ended = await finish(desk)
    assert any("It is handy." in one for one in ended.reasons)


@pytest.mark.slow
async def test_a_sentence_without_a_usable_reading_is_asked_once_more_and_then_blocks(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scripted(sections=written("We ask.", "It ends here."), read=reading(broken="It ends here")))
    ended = await finish(desk)
    assert not ended.released
    assert "1 sentences have no usable reading, the first 'It ends here.': write again" in ended.reasons
    assert [one.unread for one in desk.log.state.paper.claims_read.values()][-1] == 1
    asked = [[one.text for one in list_asked(inputs)] for inputs in requests(desk, "claim_reader")]
    assert asked[1] == ["It ends here."]
    assert select_best(desk.log.state.paper.drafts).draft.sections[-1].body == "It ends here.", "it is not cut"


@pytest.mark.slow
async def test_a_draft_that_leaves_out_a_required_statement_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untold(draft: PaperDraft, *rest: Any, **named: Any) -> tuple[tuple[str, ...], PaperDraft]:
        return complete_draft(draft, *rest, **named)[0], draft

    require_point(monkeypatch)
    for module in (paper_steps, reflection):  # the program adds what a writer leaves out: here it does not
        monkeypatch.setattr(module, "complete_draft", untold)
    desk = Desk(tmp_path, scripted())
    ended = await finish(desk)
    assert not ended.released
    assert any(line.startswith("no section says that settings may explain it (settings-x)") for line in ended.reasons)
    assert "settings-x" in (desk.bench.folder.paper_folder / "paper.tex").read_text()


def require_point(monkeypatch: pytest.MonkeyPatch) -> None:
    item = RequiredStatement(id="settings-x", point="settings may explain it", text=BY_PROGRAM, sentences=(BY_PROGRAM,))

    def list_items(*_: object) -> tuple[RequiredStatement, ...]:
        return (item,)

    monkeypatch.setattr(paper_context, "list_required_statements", list_items)


@pytest.mark.slow
@pytest.mark.parametrize("stated", [True, False])
async def test_a_point_is_made_in_words_of_the_writer_or_added_by_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    require_point(monkeypatch)
    complaints: list[tuple[str, ...]] = []

    def revise(inputs: ReflectInputs) -> Reflection:
        complaints.append(inputs.complaints)
        return Reflection(done=True)

    own = "It is open. Each arm has its own rate."
    read = reading(makes_point="Each arm has its own rate." if stated else "")
    desk = Desk(tmp_path, scripted(revise, sections=written("We ask.", own), read=read))
    ended = await finish(desk)
    assert not any("settings-x" in line for line in ended.reasons)
    assert any("settings may explain it" in line for line in complaints[0]) != stated
    texts = " ".join(one.body for one in select_best(desk.log.state.paper.drafts).draft.sections)
    assert (BY_PROGRAM in texts) != stated and own in texts


def test_a_caption_by_the_program_or_of_a_figure_outside_of_the_paper_is_not_read(tmp_path: Path) -> None:
    material = paper_context.PaperContext(synthetic_paper.make_state(), RunFolder(tmp_path), PaperSettings())
    own = sorted(PROGRAM_FIGURES)[0]
    draft = PaperDraft(
        title="Smoothing",
        abstract="We ask.",
        sections=(Section(title="End", body=f"It ends.\n\n\\paperfigure{{{own}}}\n\n\\paperfigure{{loss}}"),),
        captions={own: "It helps.", "loss": "Loss.", "curves": "No text refers to it."},
    )
    sentences = list_sentences(material, draft)
    assert [one.text for one in sentences] == ["Smoothing", "We ask.", "End", "It ends.", "Loss."]


def test_an_abstract_has_six_sentences_and_four_numbers_at_most() -> None:
    value = r"\result{test/digits/log_loss/method@noise20.mean}"
    assert check_abstract("We ask. " * 6, EVIDENCE) == ()
    assert check_abstract("We ask. " * 7, EVIDENCE)[0].startswith("the abstract has 7 sentences: use at most 6")
    assert check_abstract(f"It is {', '.join([value] * 4)} at 20\\% noise.", EVIDENCE) == ()
    levels = "At 20\\% or 40\\% noise, with \\setup{margin.gain.1} points and \\setup{level.noise20}"
    assert check_abstract(f"{levels}, it is {', '.join([value] * 4)}.", EVIDENCE) == ()
    asked = r"With \setup{run.seeds} seeds and \setup{data.digits.train} rows"
    assert check_abstract(f"{asked}, it is {', '.join([value] * 4)}.", EVIDENCE) == (), "what was asked is no result"
    [line] = check_abstract(f"It is {', '.join([value] * 5)}.", EVIDENCE)
    assert "prints 5 numbers" in line and "at most 4" in line
