"""Writer and reflector on a synthetic record, without TeX: outline, sections, rounds, and a run that is cut off."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labwright.models.backend import ModelRequest, Reply
from labwright.models.client import Models
from labwright.models.errors import BudgetSpent
from labwright.models.offline.judgements import answer_claim_reader, answer_setup_reader
from labwright.models.replay import ScriptedModel
from labwright.models.roles.claim_reader import ClaimReaderInputs, ComparedSentences, ReadSentences, SetupReaderInputs
from labwright.models.roles.paper_revision import CopyEdits, ReflectInputs, Reflection, SectionEdit, TextEdit
from labwright.models.roles.paper_writing import (
    OutlineInputs,
    PaperOutline,
    PlannedAbstract,
    PlannedSection,
    SectionInputs,
    Sections,
)
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import find_winner
from labwright.record.event_log import MemoryLog
from labwright.record.events import Event
from labwright.record.events.paper_events import DraftAssessed, FiguresDrawn
from labwright.record.events.run_events import CallAnswered
from labwright.record.run_folder import RunFolder, seal_source
from labwright.record.schema.paper import FinalFigure, PaperDraft, Section
from labwright.sandbox.job import JobOutcome
from labwright.search.settings import SearchSettings
from labwright.stages.paper import reflection
from labwright.stages.paper.paper_context import build_write_inputs
from labwright.stages.paper.paper_steps import write_draft
from labwright.stages.paper.reflection import build_reflect_inputs, reflect
from labwright.stages.paper.typesetting import build_paper_context, select_best
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.fake_executor import FakeExecutor
from tests.paper import synthetic_paper

pytestmark = pytest.mark.slow

TITLES = ("Introduction", "Method", "Results", "Conclusion")
UNTIED = "It gains 12 points."


@pytest.fixture(autouse=True)
def no_tex(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binder reads the source; what TeX finds is another test's."""
    monkeypatch.setenv("PATH", "")


def planned(inputs: OutlineInputs) -> PaperOutline:
    record, share = inputs.inputs, 1 / len(TITLES)
    told = tuple(one.id for one in record.statements)
    keys = tuple(line.key for line in record.results if line.key.startswith("diff/") and line.key.endswith(".ci"))
    return PaperOutline(
        title="Smoothing",
        sections=tuple(
            PlannedSection(title=title, claim="c", share=share)
            if title != "Results"
            else PlannedSection(
                title=title, claim="c", share=share, tells=told, figures=("loss",), tables=record.tables, keys=keys
            )
            for title in TITLES
        ),
        abstract=PlannedAbstract(claim="c", tells=tuple(one.id for one in record.statements if one.abstract)),
    )


def bodies(inputs: SectionInputs) -> Sections:
    """Sections that print every comparison; the conclusion holds an untied number."""
    shown = " ".join(f"\\result{{{one.key}}}" for one in inputs.results if one.key.endswith(".ci"))
    tables = "\n\n".join(f"\\papertable{{{name}}}" for name in inputs.tables)
    said = {
        "Results": f"We list {shown}.\n\n{tables}\n\n\\paperfigure{{loss}}",
        "Conclusion": f"It is open. {UNTIED} That is all.",
    }
    written = tuple(Section(title=one, body=said.get(one, f"On {one.lower()}.")) for one in inputs.asked)
    return Sections(
        sections=written,
        captions={one.name: "The loss." for one in inputs.figures},
        abstract="We ask." if inputs.abstract else "",
    )


def answers_of(*answers: Reflection) -> Callable[[ReflectInputs], Reflection]:
    """One answer after another, the last for ever."""
    given = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda _: next(given)


def edit(old: str, new: str, section: str = "Conclusion", *, done: bool = False) -> Reflection:
    return Reflection(done=done, edits=(TextEdit(section=section, old=old, new=new),))


class Desk:
    """A run whose search is over, with a scripted model."""

    def __init__(self, folder: Path, model: ScriptedModel, log: MemoryLog | None = None, **settings: object) -> None:
        self.model = model
        self.log = log or MemoryLog(
            [
                *synthetic_paper.make_events(),
                FiguresDrawn(
                    figures={}, descriptions={}, arrays=(), placed=(FinalFigure(name="loss", description="the loss"),)
                ),
            ]
        )
        run = RunFolder(folder)
        best = find_winner(self.log.state) or ""
        if not run.get_source_path(best).exists():
            seal_source(run.get_source_path(best), {"experiment.py": "EPOCHS = 40\n"})
        self.bench = RunContext(
            recorder=self.log,
            folder=run,
            models=Models(model, self.log, ModelSettings(), lambda: 0.0),
            executor=FakeExecutor(lambda job: (0, JobOutcome(seconds=0))),
            search=SearchSettings(),
            paper=PaperSettings.model_validate(settings),
            node_seconds=60,
        )

    def roles(self) -> list[str]:
        return [one.role.name for one in self.model.requests]


def all_well(_: ReflectInputs) -> Reflection:
    return Reflection(done=True)


def scripted(
    reflections: Callable[[ReflectInputs], Reflection] = all_well,
    *,
    outline: Callable[[OutlineInputs], PaperOutline] = planned,
    sections: Callable[[SectionInputs], Sections] = bodies,
    read: Callable[[ClaimReaderInputs], ReadSentences] = answer_claim_reader,
    read_again: Callable[[ClaimReaderInputs], ReadSentences] | None = None,
    compare: Callable[[SetupReaderInputs], ComparedSentences] = answer_setup_reader,
) -> ScriptedModel:
    return ScriptedModel.from_role_functions(
        outline=outline,
        write=sections,
        reflect=reflections,
        claim_reader=read,
        second_claim_reader=read_again or read,
        setup_reader=compare,
        copy_edit=lambda _: CopyEdits(),
    )


# --- outline and sections ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "calls"), [(0, 1), (1, 4), (3, 2), (4, 1)])
async def test_sections_are_written_in_groups_the_abstract_with_the_last(tmp_path: Path, size: int, calls: int) -> None:
    desk = Desk(tmp_path, scripted(), sections_per_call=size)
    await write_draft(desk.bench)
    assert desk.roles() == ["outline", *["write"] * calls]
    asked = [one.inputs for one in desk.model.requests if isinstance(one.inputs, SectionInputs)]
    assert tuple(title for one in asked for title in one.asked) == TITLES
    assert [one.abstract for one in asked] == [*[False] * (calls - 1), True]
    assert [len(one.written) for one in asked] == [len(one) for one in (TITLES[:k] for k in range(0, 4, size or 4))]
    [drafted] = desk.log.state.paper.drafts
    titles = (TITLES[0], "Related work", *TITLES[1:])
    assert [one.title for one in drafted.draft.sections] == list(titles) and drafted.draft.abstract == "We ask."
    assert drafted.draft.captions == {"loss": "The loss."} and any("12" in one for one in drafted.violations)
    assert drafted.complaints == ()


async def test_an_outline_that_leaves_the_primary_comparison_out_is_refused_and_then_mended(tmp_path: Path) -> None:
    def silent(inputs: OutlineInputs) -> PaperOutline:
        whole = planned(inputs)
        return whole.model_copy(
            update={
                "abstract": PlannedAbstract(claim="c"),
                "sections": tuple(one.model_copy(update={"tells": ()}) for one in whole.sections),
            }
        )

    desk = Desk(tmp_path, scripted(outline=silent))
    await write_draft(desk.bench)
    first, second, *_ = [one.inputs for one in desk.model.requests]
    assert isinstance(first, OutlineInputs) and isinstance(second, OutlineInputs)
    assert first.complaints == () and any(
        "'primary-digits-method-baseline' is reported in no section" in one for one in second.complaints
    )
    assert "primary-digits-method-baseline" in desk.model.requests[1].prompt.user and second.previous is not None
    last = desk.model.requests[-1].inputs
    assert isinstance(last, SectionInputs) and "primary-digits-method-baseline" in {one.id for one in last.statements}


async def test_a_section_that_was_not_written_is_empty_and_may_be_rewritten(tmp_path: Path) -> None:
    def lazy(inputs: SectionInputs) -> Sections:
        whole = bodies(inputs)
        return whole.model_copy(update={"sections": tuple(one for one in whole.sections if one.title != "Method")})

    mends = Reflection(
        done=False,
        rewrites=(SectionEdit(title="Method", body="What was done."), SectionEdit(title="Introduction", body="Other.")),
    )
    desk = Desk(tmp_path, scripted(answers_of(mends, Reflection(done=True)), sections=lazy))
    await write_draft(desk.bench)
    assert "section 'Method' is empty: write it" in desk.log.state.paper.drafts[0].complaints
    await reflect(desk.bench)
    after = desk.log.state.paper.drafts[1]
    assert after.draft.sections[2].body == "What was done." and after.complaints == ()
    assert after.refused == ("Introduction, as a whole: it may not be rewritten as a whole: edit its passages",)


@pytest.mark.parametrize(("spent_at", "written"), [("outline", ()), ("write", ("Introduction",))])
async def test_without_room_for_the_writer_the_program_reports_what_is_recorded(
    tmp_path: Path, spent_at: str, written: tuple[str, ...]
) -> None:
    class Broke(ScriptedModel):
        """Has no room for a role, or for the second group of sections."""

        async def answer(self, request: ModelRequest) -> Reply:
            late = isinstance(request.inputs, SectionInputs) and bool(request.inputs.written)
            if request.role.name == spent_at and (spent_at == "outline" or late):
                raise BudgetSpent("the budget of $2.00: no room")
            return await model.answer(request)

    model = scripted()
    desk = Desk(tmp_path, Broke(lambda _: Reflection(done=True)), sections_per_call=1)
    await write_draft(desk.bench)
    [version] = desk.log.state.paper.drafts
    assert [one.title for one in version.draft.sections] == [*written, "Recorded results"]
    assert version.left_out == () and version.complaints[1:] == ()
    assert not [one for one in version.violations if "12" not in one], "what the program wrote is bound"
    body = version.draft.sections[-1].body
    assert r"\papertable{" in body and r"\paperfigure{loss}" in body
    await write_draft(desk.bench)
    assert len(desk.log.state.paper.drafts) == 1


@pytest.mark.parametrize(
    "answered", [pytest.param(1, marks=pytest.mark.bench), 2, pytest.param(4, marks=pytest.mark.bench), 7]
)
async def test_cut_off_after_any_call_no_call_is_made_again(tmp_path: Path, answered: int) -> None:
    mends = answers_of(edit(UNTIED, ""), Reflection(done=True))
    whole = Desk(tmp_path / "whole", scripted(mends), sections_per_call=2)
    await write_draft(whole.bench)
    await reflect(whole.bench)
    readers = ["claim_reader", "second_claim_reader", "setup_reader"]
    assert whole.roles() == ["outline", "write", "write", *readers, "reflect", *readers, "reflect"]
    kept = list(_until(whole.log, answered))
    left = Desk(
        tmp_path / "left",
        scripted(answers_of(*[edit(UNTIED, "")] * (answered < 7), Reflection(done=True))),
        MemoryLog(kept),
        sections_per_call=2,
    )
    await write_draft(left.bench)
    await reflect(left.bench)
    assert left.roles() == whole.roles()[answered:]
    assert left.log.state.paper.drafts == whole.log.state.paper.drafts
    assert left.log.state.calls.answers.keys() == whole.log.state.calls.answers.keys()


def _until(log: MemoryLog, answered: int) -> Iterator[Event]:
    """The events of a log up to so many answers."""
    for event in log.events:
        yield event
        answered -= isinstance(event, CallAnswered)
        if not answered:
            return


# --- rounds -----------------------------------------------------------------------------------------------------------


async def reflected(desk: Desk) -> list[ReflectInputs]:
    await write_draft(desk.bench)
    await reflect(desk.bench)
    return [one.inputs for one in desk.model.requests if isinstance(one.inputs, ReflectInputs)]


async def test_a_round_that_makes_it_worse_is_taken_back_and_the_next_is_told(tmp_path: Path) -> None:
    worse = edit("It is open.", "It is open. It gains 13 points, or 14.")
    desk = Desk(tmp_path, scripted(answers_of(worse, edit(UNTIED, "", done=False), Reflection(done=True))))
    asked = await reflected(desk)
    first, second, third = asked
    assert second.draft == first.draft and "13" not in str(third.draft) and UNTIED not in str(third.draft)
    [told] = second.tried
    assert told.outcome.startswith("reverted because it made the draft worse: [number] section")
    assert "'13'" in told.outcome and "'14'" in told.outcome
    assert "13" in told.edits[0] and [one.outcome for one in third.tried][1] == "kept"
    prompts = [one.prompt.user for one in desk.model.requests if one.role.name == "reflect"]
    assert "reverted because it made the draft worse" in prompts[1]
    last = desk.log.state.paper.drafts[-1]
    assert last.done and last == select_best(desk.log.state.paper.drafts) and last.round == 2 and last.violations == ()


async def test_edits_that_cannot_be_made_are_told_and_two_idle_rounds_end_it(tmp_path: Path) -> None:
    nonsense = Reflection(
        done=False,
        edits=(
            TextEdit(section="Nowhere", old="a", new="b"),
            TextEdit(section="Results", old="never written", new="c"),
        ),
    )
    desk = Desk(tmp_path, scripted(answers_of(nonsense)), reflections=9)
    asked = await reflected(desk)
    assert len(asked) == 2 and asked[1].tried[0].outcome == "nothing changed"
    assert len(asked[1].tried[0].refused) == 2 and "does not occur" in asked[1].tried[0].refused[1]
    assert "never written" in desk.model.requests[-1].prompt.user
    assert [one.draft for one in desk.log.state.paper.drafts] == [asked[0].draft] * 4


async def test_edits_that_loop_are_ended(tmp_path: Path) -> None:
    there, back = edit("It is open.", "Open it is."), edit("Open it is.", "It is open.")
    desk = Desk(tmp_path, scripted(answers_of(there, back, there, back)), reflections=9)
    asked = await reflected(desk)
    assert len(asked) == 3 and asked[2].tried[1].outcome == "same text as round 0: not kept"
    assert sorted(path.name for path in (tmp_path / "paper" / "rounds").iterdir()) == ["round0", "round1"]


async def test_a_reflector_that_is_done_with_its_last_edits_is_not_asked_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scripted(answers_of(edit(UNTIED, "", done=True))))
    asked = await reflected(desk)
    # Without TeX something is left to mend after every round, so it is asked once more, and cannot do the same again.
    assert len(asked) == 3 and asked[1].violations == () and asked[1].compile_findings


async def test_rounds_are_bounded_and_none_may_be_wanted(tmp_path: Path) -> None:
    fresh = (edit("On method.", "On method!"), edit("On method!", "On methods."), edit("On methods.", "On it."))
    assert len(await reflected(Desk(tmp_path / "a", scripted(answers_of(*fresh)), reflections=2))) == 2
    none = Desk(tmp_path / "b", scripted(answers_of(*fresh)), reflections=0)
    assert await reflected(none) == [] and none.log.state.paper.drafts[-1].done


async def test_what_was_run_since_is_told_to_the_reflector(tmp_path: Path) -> None:
    desk = Desk(tmp_path, scripted())
    await write_draft(desk.bench)
    inputs = build_reflect_inputs(desk.bench, desk.log.state.paper.drafts, 0, results=("without-warmup ran",))
    assert (
        inputs.news == ("without-warmup ran",)
        and inputs.lengths
        and inputs.inputs == build_write_inputs(build_paper_context(desk.bench))
    )


async def test_of_a_round_that_is_too_long_the_edits_that_add_most_are_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reflection.assess_new_draft

    async def assess(context: RunContext, draft: PaperDraft, *, number: int) -> DraftAssessed:
        version = await real(context, draft, number=number)
        words = sum(len(one.body.split()) for one in draft.sections)
        return version.model_copy(update={"over": 0.05 if words > 100 else 0.0})

    monkeypatch.setattr(reflection, "assess_new_draft", assess)
    long = f"It is open{' and long' * 60}."
    both = Reflection(
        done=True,
        edits=(
            TextEdit(section="Conclusion", old="It is open.", new=long),
            TextEdit(section="Conclusion", old="That is all.", new="That is all of it."),
        ),
    )
    desk = Desk(tmp_path, scripted(answers_of(both, Reflection(done=True)), sections=conclude))
    await reflected(desk)
    best = select_best(desk.log.state.paper.drafts)
    assert best.over == 0 and best.draft.sections[-1].body == "It is open. That is all of it."
    assert any("undone, since the text would exceed its page limit" in one for one in best.refused)


def conclude(inputs: SectionInputs) -> Sections:
    found = bodies(inputs)
    sections = tuple(
        one.model_copy(update={"body": "It is open. That is all."}) if one.title == "Conclusion" else one
        for one in found.sections
    )
    return found.model_copy(update={"sections": sections})
