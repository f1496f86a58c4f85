"""Gathering citations for a draft, and the library of a run: real HTTP on loopback, a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.literature import LibraryError
from labwright.literature.bibtex import format_bibtex
from labwright.literature.catalogue_client import CATALOGUE_NAMES, CatalogueCredentials, LiteratureSettings
from labwright.literature.lookup import open_literature, read_verification
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.paper_revision import (
    ChosenWork,
    CiteAskInputs,
    CiteQueries,
    CiteQuery,
    CiteSelectInputs,
    CiteSelection,
    Reflection,
)
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import find_winner
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn, WorksChosen, WorksFound
from labwright.record.events.run_events import CallAnswered, RunStarted
from labwright.record.events.search_events import DecisionMade, StageSummarised, TaskDone
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import STAGES, StageSummary
from labwright.record.schema.paper import FinalFigure, PaperDraft, Section
from labwright.sandbox.job import JobOutcome
from labwright.search.settings import SearchSettings
from labwright.stages.paper import citations
from labwright.stages.paper.citations import check_library, gather_citations
from labwright.stages.paper.paper_context import read_run_library
from labwright.stages.paper.reflection import build_reflect_inputs
from labwright.stages.paper.typesetting import build_paper_context
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.fake_executor import FakeExecutor
from tests.literature.catalogues import Catalogues, fail_unavailable
from tests.literature.reference_sets import FALSE_ENTRIES, TRUE_ENTRIES, WORLD
from tests.paper import synthetic_paper

pytestmark = pytest.mark.slow

SENTENCE = "Modern networks are badly calibrated."
DRAFT = PaperDraft(
    title="T",
    abstract="We ask.",
    sections=(
        Section(title="Introduction", body=f"{SENTENCE}  We measure how\nbadly."),
        Section(title="Results", body="Open."),
    ),
)
CALIBRATION = CiteQuery(sentence=SENTENCE, query="calibration of modern neural networks")
MARGINS = CiteQuery(sentence="We measure how badly.", query="Miracle Cure of Overfitting by Tea")
Ask = Callable[[CiteAskInputs], CiteQueries]
Select = Callable[[CiteSelectInputs], CiteSelection]


def asks(*rounds: Sequence[CiteQuery]) -> Ask:
    """Queries round by round, told apart by what was asked before; then none."""
    made = [sum(map(len, rounds[:n])) for n in range(len(rounds))]

    def ask(inputs: CiteAskInputs) -> CiteQueries:
        now = next((one for count, one in zip(made, rounds, strict=True) if count == len(inputs.before)), ())
        return CiteQueries(queries=tuple(now))

    return ask


def first_of_each(inputs: CiteSelectInputs) -> CiteSelection:
    return CiteSelection(
        chosen=tuple(
            ChosenWork(number=one.found[0], search=n, reason="its title says so")
            for n, one in enumerate(inputs.searches, 1)
            if one.found
        )
    )


class World:
    """A run with one draft, before its citations."""

    def __init__(
        self,
        folder: Path,
        catalogues: Catalogues | None,
        *,
        ask: Ask,
        select: Select = first_of_each,
        log: list[Event] | None = None,
        **settings: Any,
    ) -> None:
        wanted = LiteratureSettings() if catalogues is None else catalogues.settings()
        started, *rest = synthetic_paper.make_events()
        assert isinstance(started, RunStarted)
        set_ = {"literature": wanted.model_dump(mode="json"), "paper": {"citation_rounds": 3}}
        self.log = MemoryLog(
            log
            or [
                started.model_copy(update={"settings": set_}),
                *rest,
                *(StageSummarised(k=0, summary=StageSummary(stage=stage, tried="t", found="f")) for stage in STAGES),
                DecisionMade(k=900, action=RunTask(task="score tests")),
                TaskDone(k=900),
                FiguresDrawn(
                    figures={}, descriptions={}, arrays=(), placed=(FinalFigure(name="loss", description="the loss"),)
                ),
                DraftAssessed(round=0, draft=DRAFT),
            ]
        )
        self.model = ScriptedModel.from_role_functions(
            cite_ask=ask, cite_select=select, reflect=lambda _: Reflection(done=True)
        )
        run = RunFolder(folder)
        run.create_folders()
        if not run.get_source_path(find_winner(self.log.state) or "").exists():
            seal_source(run.get_source_path(find_winner(self.log.state) or ""), {"experiment.py": "EPOCHS = 40\n"})
        self.bench = RunContext(
            recorder=self.log,
            folder=run,
            models=Models(self.model, self.log, ModelSettings(), lambda: 0.0),
            executor=FakeExecutor(lambda job: (0, JobOutcome(seconds=0))),
            search=SearchSettings(),
            paper=PaperSettings.model_validate(settings),
            node_seconds=60,
            literature=None if catalogues is None else lambda: open_literature(wanted, CatalogueCredentials()),
        )

    @property
    def keys(self) -> list[str]:
        return [one.key for one in read_run_library(self.log.state, self.bench.folder)]

    def inputs(self, kind: type[Any]) -> list[Any]:
        return [one.inputs for one in self.model.requests if isinstance(one.inputs, kind)]


@pytest.fixture
def catalogues() -> Generator[Catalogues]:
    with Catalogues(WORLD) as found:
        yield found


async def test_a_chosen_work_is_verified_and_offered_with_its_abstract(tmp_path: Path, catalogues: Catalogues) -> None:
    world = World(tmp_path, catalogues, ask=asks([CALIBRATION]))
    await gather_citations(world.bench)
    state = world.log.state
    assert world.keys == ["guo2017calibration"] and world.log.state.paper.works_chosen[0].refused == {}
    [entry] = read_run_library(state, world.bench.folder)
    assert read_verification(entry) and entry.arxiv == "1706.04599"
    assert "agreed: title, authors, year, arXiv" in entry.fields["verified"]
    told = build_reflect_inputs(world.bench, state.paper.drafts, 0)
    assert [(one.key, one.sentence) for one in told.supports] == [("guo2017calibration", SENTENCE)]
    assert told.inputs.references[0].abstract == "We study something, and find that it holds."
    assert "guo2017calibration" in build_paper_context(world.bench).evidence.cites
    assert any("literature" in str(path) for path, _ in list_recorded_files(state, world.bench.folder))
    second = world.inputs(CiteAskInputs)[1]
    assert [one.key for one in second.references] == ["guo2017calibration"] and len(second.before) == 1


async def test_without_a_usable_answer_no_more_is_gathered_and_it_is_told(
    tmp_path: Path, catalogues: Catalogues
) -> None:
    for role in ("cite_ask", "cite_select"):
        world = World(tmp_path / role, catalogues, ask=asks([CALIBRATION]))
        nonsense: Callable[[Any], BaseModel] = lambda _: Reflection(done=True)  # noqa: E731
        scripted: dict[str, Callable[[Any], BaseModel]] = {"cite_ask": asks([CALIBRATION]), role: nonsense}
        world.bench = replace(
            world.bench,
            models=Models(ScriptedModel.from_role_functions(**scripted), world.log, ModelSettings(), lambda: 0.0),
        )
        await gather_citations(world.bench)
        state = world.log.state
        assert [one.key.role for one in state.calls.unanswered_calls.values()] == [role] and world.keys == []
        assert state.is_task_done("cite")


async def test_a_retracted_or_unknown_choice_is_refused_and_said(tmp_path: Path, catalogues: Catalogues) -> None:
    def select(inputs: CiteSelectInputs) -> CiteSelection:
        return CiteSelection(
            chosen=(
                *first_of_each(inputs).chosen,
                ChosenWork(number=99, search=1, reason="r"),
                ChosenWork(number=1, search=9, reason="r"),
            )
        )

    world = World(tmp_path, catalogues, ask=asks([MARGINS]), select=select)
    await gather_citations(world.bench)
    assert world.keys == [] and world.log.state.paper.works_chosen[0].refused == {
        "Miracle Cure of Overfitting by Tea": "it is retracted",
        "work 99": "there is no such work or search",
        "work 1": "there is no such work or search",
    }


async def test_rounds_and_queries_are_bounded_and_must_name_a_sentence(
    tmp_path: Path, catalogues: Catalogues, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(inputs: CiteAskInputs) -> CiteQueries:
        number = len(inputs.before)
        return CiteQueries(
            queries=(
                CiteQuery(sentence="That stands nowhere.", query="x"),
                *(
                    CiteQuery(sentence=SENTENCE, query=query)
                    for query in (f"margins {number}", f"Margins  {number}", "survey of margins", f"trees {number}")
                ),
            )
        )

    world = World(tmp_path, catalogues, ask=ask, citation_rounds=2)
    monkeypatch.setattr(citations, "MAX_CITATION_QUERIES", 2)
    await gather_citations(world.bench)
    assert [[one.query for one in found.searches] for found in world.log.state.paper.works_found] == [
        ["margins 0", "survey of margins"],
        ["margins 2", "trees 2"],
    ]
    assert len(world.inputs(CiteAskInputs)) == 2


async def test_a_work_that_the_library_has_is_not_taken_twice(tmp_path: Path, catalogues: Catalogues) -> None:
    world = World(tmp_path, catalogues, ask=asks([CALIBRATION]), log=None)
    world.bench.folder.library.write_text(format_bibtex(TRUE_ENTRIES[:2]))
    await check_library(world.bench)
    await gather_citations(world.bench)
    assert world.keys == ["guo", "muller"]
    assert [one.key for one in world.log.state.paper.works_chosen[0].supports] == ["guo"]


async def test_without_a_network_nothing_changes_and_it_is_said(tmp_path: Path) -> None:
    with Catalogues(WORLD, dict.fromkeys(CATALOGUE_NAMES, fail_unavailable)) as nowhere:
        world = World(tmp_path / "down", nowhere, ask=asks([CALIBRATION]))
        await gather_citations(world.bench)
    [found] = world.log.state.paper.works_found
    assert len(found.searches[0].outages) == 4 and not found.works and not world.inputs(CiteSelectInputs)
    assert world.log.state.phase == "reflect"
    offline = World(tmp_path / "none", None, ask=asks([CALIBRATION]))
    await gather_citations(offline.bench)
    assert offline.model.requests == [] and offline.log.state.is_task_done("cite")


@pytest.mark.parametrize("kept", [1, 2, 3, 4, 5])
async def test_cut_off_anywhere_no_call_and_no_finished_search_is_made_again(
    tmp_path: Path, catalogues: Catalogues, kept: int
) -> None:
    whole = World(tmp_path, catalogues, ask=asks([CALIBRATION], [MARGINS]))
    await gather_citations(whole.bench)
    marks = [n for n, one in enumerate(whole.log.events, 1) if isinstance(one, CallAnswered | WorksFound | WorksChosen)]
    left = World(tmp_path, catalogues, ask=asks([CALIBRATION], [MARGINS]), log=whole.log.events[: marks[kept - 1]])
    assert left.log.state.phase == "cite"
    if kept > 1:
        catalogues.world.works.insert(0, catalogues.world.works[5])  # the catalogues' answers change meanwhile
    await gather_citations(left.bench)
    assert list(left.log.state.calls.answers) == list(whole.log.state.calls.answers)
    assert left.log.state.paper.works_chosen == whole.log.state.paper.works_chosen and left.log.state.phase == "reflect"
    answered = sum(isinstance(one, CallAnswered) for one in whole.log.events[: marks[kept - 1]])
    assert len(left.model.requests) == len(whole.model.requests) - answered


async def test_a_file_of_the_run_that_was_changed_is_refused(tmp_path: Path, catalogues: Catalogues) -> None:
    world = World(tmp_path, catalogues, ask=asks([CALIBRATION]))
    await gather_citations(world.bench)
    path = world.bench.folder.get_gathered_path(1, 1)
    path.write_text(path.read_text().replace("2017", "2018"))
    with pytest.raises(LibraryError, match="was changed since it was recorded"):
        read_run_library(world.log.state, RunFolder(tmp_path))


async def test_of_a_given_library_only_what_is_true_may_be_cited(tmp_path: Path, catalogues: Catalogues) -> None:
    world = World(tmp_path, catalogues, ask=asks())
    world.bench.folder.library.write_text(format_bibtex((*TRUE_ENTRIES[:3], *FALSE_ENTRIES[:3])))
    await check_library(world.bench)
    await check_library(world.bench)
    assert world.keys == ["guo", "muller", "smote"] and world.log.state.paper.library is not None
    assert [bool(one.why) for one in world.log.state.paper.library.entries] == [False] * 3 + [True] * 3
    offline = World(tmp_path / "none", None, ask=asks())
    offline.bench.folder.library.write_text(
        format_bibtex((*read_run_library(world.log.state, world.bench.folder), *TRUE_ENTRIES[3:5]))
    )
    await check_library(offline.bench)
    assert offline.keys == ["guo", "muller", "smote"]
