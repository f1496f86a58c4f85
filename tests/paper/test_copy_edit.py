"""Copy edits: what changes the content of a draft is refused, and an edit that changes a claim is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.models.offline.judgements import answer_claim_reader, answer_setup_reader
from labwright.models.replay import ScriptedModel
from labwright.models.roles.paper_revision import CopyEdits, Reflection, TextEdit
from labwright.models.roles.paper_writing import SectionInputs, Sections
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence
from labwright.stages.paper.copy_edit import apply_copy_edits, copy_edit
from labwright.stages.paper.paper_steps import write_draft
from labwright.stages.paper.typesetting import select_best
from tests.stages.test_claim_check import reading
from tests.stages.test_paper_writing import Desk, bodies, planned

EVIDENCE = Evidence(
    results={},
    names=("plain", "margin", "digits", "temperature", "temperature and rate", "branch at half"),
    statements=(r"On \setup{data.digits.title}, trees win.",),
)
BODY = (
    r"The plain arm has \result{a.mean} and the margin arm \result{b.mean} on digits \citep{vapnik}. It can be seen "
    r"from Table~\ref{tab:main} that there is a gain, where $x_1 > 0$, in all three cases. On \setup{data.digits.title}"
    ", trees win. Margins may help.\n\n\\papertable{main}"
)
DRAFT = PaperDraft(
    title="Margins",
    abstract="We asks it.",
    sections=(Section(title="Results", body=BODY),),
    captions={"loss": "The loss by by level."},
)


def edited(old: str, new: str, section: str = "Results") -> tuple[PaperDraft, str]:
    found = apply_copy_edits(DRAFT, [TextEdit(section=section, old=old, new=new)], EVIDENCE)
    assert len(found.applied) + len(found.refused) == 1 and bool(found.applied) == (found.draft != DRAFT)
    return found.draft, "".join(found.refused)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"It can be seen from Table~\ref{tab:main} that there is a gain", r"Table~\ref{tab:main} shows a gain"),
        (r"The plain arm has \result{a.mean} and the margin", r"The plain arm reaches \result{a.mean}, and the margin"),
        (r"arm \result{b.mean} on digits \citep{vapnik}", r"arm \result{b.mean} \citep{vapnik}"),
        ("Margins may help.", "Margins may help on digits."),
        ("Margins may help.", "Branch at half may help."),
        (r"win. Margins may help.", "win."),
    ],
)
def test_an_edit_of_the_language_is_applied(old: str, new: str) -> None:
    draft, refused = edited(old, new)
    assert refused == "" and draft.sections[0].body.count("\\") == BODY.count("\\")


def test_captions_and_the_abstract_are_edited_too() -> None:
    assert edited("We asks", "We ask", "abstract")[0].abstract == "We ask it."
    assert edited("by by level", "by level", "caption of loss")[0].captions == {"loss": "The loss by level."}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (r"has \result{a.mean} and", "wins and", "a macro"),
        (r"\result{b.mean}", r"\result{a.mean}", "a macro"),
        (r" \citep{vapnik}", "", "a citation"),
        (r"from Table~\ref{tab:main} ", "", "a reference"),
        ("\\papertable{main}", "", "so it stays"),
        ("there is a gain", "there is a gain of 3", "a number"),
        ("in all three cases", "in all four cases", "a number"),
        ("in all three cases", "in all cases", "a number"),
        ("Margins may help.", "Margins may help by half.", "a number"),
        ("$x_1 > 0$", "$x_1 < 0$", "a formula"),
        ("Margins may help.", "Margins may help, \\textbf{so.", "never closed"),
        ("trees win", "trees are best", "a required statement"),
        ("The plain arm has", "The margin arm has", "a name"),
        (
            r"The plain arm has \result{a.mean} and the margin arm",
            r"The margin arm has \result{a.mean} and the plain arm",
            "a name",
        ),
        ("on digits", "with temperature on digits", "a name"),
        ("nowhere", "x", "does not occur"),
    ],
)
def test_an_edit_of_the_content_is_refused(old: str, new: str, why: str) -> None:
    assert why in edited(old, new)[1]


def test_a_refused_edit_leaves_the_others_and_a_long_name_counts_as_one() -> None:
    draft = DRAFT.model_copy(
        update={"sections": (Section(title="Results", body=r"Temperature and rate gives \result{a.mean}. So."),)}
    )
    edits = (
        TextEdit(section="Results", old="Temperature and rate gives", new="Temperature gives"),
        TextEdit(section="Results", old=" So.", new=""),
    )
    found = apply_copy_edits(draft, edits, EVIDENCE)
    assert found.draft.sections[0].body == r"Temperature and rate gives \result{a.mean}." and len(found.refused) == 1


# --- in a run ---------------------------------------------------------------------------------------------------------


def wordy(inputs: SectionInputs) -> Sections:
    answer = bodies(inputs)
    return answer.model_copy(
        update={
            "sections": (*answer.sections[:-1], Section(title="Conclusion", body="It are open. That is all of it."))
        }
    )


def desk(folder: Path, *edits: TextEdit) -> Desk:
    model = ScriptedModel.from_role_functions(
        outline=planned,
        write=wordy,
        reflect=lambda _: Reflection(done=True),
        claim_reader=reading("proves all"),
        second_claim_reader=answer_claim_reader,
        setup_reader=answer_setup_reader,
        copy_edit=lambda _: CopyEdits(edits=edits),
    )
    return Desk(folder, model)


GRAMMAR = TextEdit(section="Conclusion", old="It are open.", new="It is open.")
CLAIM = TextEdit(section="Conclusion", old="That is all of it.", new="That proves all of it.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edits", "text", "versions"),
    [
        ((), "It are open. That is all of it.", 1),
        ((GRAMMAR,), "It is open. That is all of it.", 2),
        ((GRAMMAR, CLAIM), "It is open. That is all of it.", 2),
        ((CLAIM,), "It are open. That is all of it.", 2),
    ],
)
async def test_an_edit_that_changes_a_claim_is_undone_and_the_others_stay(
    edits: tuple[TextEdit, ...], text: str, versions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # without TeX
    at = desk(tmp_path, *edits)
    await write_draft(at.bench)
    await copy_edit(at.bench)
    drafts = at.log.state.paper.drafts
    best = select_best(drafts)
    assert best.draft.sections[-1].body == text and len(drafts) == versions and best is drafts[-1]
    assert len({str(one.draft) for one in drafts}) == 1 + (GRAMMAR in edits), "kept edits make another text"
    assert any("changes a claim" in line for line in best.refused) == (CLAIM in edits)
    asked = at.roles()
    await copy_edit(at.bench)
    assert at.roles() == asked, "it is done once"
