"""Without a catalogue or a reference on the topic, the related work is two sentences, and page one says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.models.roles.paper_writing import OutlineInputs, PaperOutline, SectionInputs
from labwright.record.events.paper_events import PriorWorkRead, WorksFound
from labwright.record.reducers.run_state import PaperState, RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.paper import CitationSearch, PaperDraft, Section
from labwright.record.schema.prior_work import PriorPaper
from labwright.review.evidence import check_draft
from labwright.stages.paper.appendix import render_notice
from labwright.stages.paper.citations import UNCHECKED_NOVELTY_TEXT, is_novelty_unchecked, reduce_related_work
from labwright.stages.paper.paper_context import PaperContext, build_paper_parts
from labwright.stages.paper.paper_steps import write_draft
from labwright.stages.paper.typesetting import build_paper_context
from labwright.stages.settings import PaperSettings
from tests.paper import synthetic_paper
from tests.stages.test_paper_writing import Desk, planned, scripted


def draft(related: str, **sections: str) -> PaperDraft:
    named = {"Introduction": "We ask.", "Related work": related, "Method": r"We use it \citep{tool}.", **sections}
    return PaperDraft(
        title="T", abstract="A.", sections=tuple(Section(title=one, body=text) for one, text in named.items() if text)
    )


def searched(*, found: tuple[int, ...] = (), outages: tuple[str, ...] = ()) -> WorksFound:
    return WorksFound(round=1, searches=(CitationSearch(sentence="s", query="q", found=found, outages=outages),))


def test_novelty_is_unchecked_if_nothing_published_was_in_reach() -> None:
    alone, cited = draft("Much is known."), draft(r"It was shown \citep{vapnik}.")
    assert is_novelty_unchecked(RunState(), alone) and not is_novelty_unchecked(RunState(), cited)
    assert not is_novelty_unchecked(RunState(), draft("")), "without such a section, any citation counts"
    down, up = searched(outages=("OpenAlex: timed out",)), searched()
    assert is_novelty_unchecked(RunState(paper=PaperState(works_found=[down])), alone)
    assert not is_novelty_unchecked(RunState(paper=PaperState(works_found=[down, up])), alone)
    papers = (PriorPaper(title="p", file="p.pdf", stored="p", sha256="0"),)
    assert not is_novelty_unchecked(RunState(paper=PaperState(prior_work=PriorWorkRead(papers=papers))), alone)
    assert is_novelty_unchecked(RunState(paper=PaperState(prior_work=PriorWorkRead(queries=("q",)))), alone)


def test_the_program_writes_the_related_work_if_no_catalogue_answered(tmp_path: Path) -> None:
    state = synthetic_paper.make_state()

    def is_by_program(
        *refused: str, papers: tuple[PriorPaper, ...] = (), sources: tuple[str, ...] = ("a", "b")
    ) -> bool:
        state.overrides["literature.sources"] = sources
        state.paper.prior_work = PriorWorkRead(queries=("q",), refused=refused, papers=papers)
        return PaperContext(state, RunFolder(tmp_path), PaperSettings()).has_no_published_work

    down = ("'q': a cannot be reached", "'q': b cannot be reached")
    assert is_by_program(*down) and is_by_program(sources=())
    assert not is_by_program(down[0]) and not is_by_program("arXiv:1: no answer", down[1])
    assert not is_by_program(*down, papers=(PriorPaper(title="p", file="p.pdf", stored="p", sha256="0"),))


def test_the_related_work_is_two_sentences_that_the_binder_accepts() -> None:
    for one in (draft("Much is known. " * 30), draft("")):
        found = reduce_related_work(one)
        assert [section.title for section in found.sections] == ["Introduction", "Related work", "Method"]
        assert found.sections[1].body == UNCHECKED_NOVELTY_TEXT and reduce_related_work(found) == found
        assert UNCHECKED_NOVELTY_TEXT.count(". ") == 1
    evidence = synthetic_paper.make_short_paper(Path(), "x").evidence
    assert check_draft(reduce_related_work(draft("", Method="We train.")), evidence) == ()


@pytest.mark.slow
@pytest.mark.parametrize("title", ["Related Work", "Method"])
async def test_the_program_writes_the_section_and_page_one_says_so(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # without TeX

    def outline(inputs: OutlineInputs) -> PaperOutline:
        whole = planned(inputs)
        renamed = [one.model_copy(update={"title": title}) if one.title == "Method" else one for one in whole.sections]
        return whole.model_copy(update={"sections": tuple(renamed)})

    desk = Desk(tmp_path, scripted(outline=outline))
    await write_draft(desk.bench)
    written = desk.log.state.paper.drafts[0].draft
    assert written.sections[1] == Section(title="Related work", body=UNCHECKED_NOVELTY_TEXT)
    asked = [one.inputs for one in desk.model.requests if isinstance(one.inputs, SectionInputs)]
    assert all("Related Work" not in one.asked and one.inputs.related_work_by_program for one in asked)
    assert desk.roles().count("outline") == (2 if title == "Related Work" else 1), "it is refused with a reason"
    parts = build_paper_parts(build_paper_context(desk.bench), written)
    assert (
        parts.notice == render_notice(novelty_unchecked=True)
        and "Whether the study is new is unchecked" in parts.notice
    )
    assert parts.appendix.count(r"\label{app:disclosure}") == 1
