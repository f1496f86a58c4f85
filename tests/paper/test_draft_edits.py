"""Edits of a draft: possible edits are applied, and refused ones are reported with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models.roles.paper_revision import Reflection, SectionEdit, TextEdit
from labwright.record.schema.paper import PaperDraft, Section
from labwright.stages.paper.reflection import apply_edits

BODY = "The loss is \\result{a.mean}.\nIt is the\nloss again.\n\n\\paperfigure{loss}\n\nSee Figure~\\ref{fig:loss}."
DRAFT = PaperDraft(
    title="On losses",
    abstract="We ask.",
    captions={"loss": "The loss."},
    sections=(Section(title="Introduction", body="A sentence."), Section(title="Results", body=BODY)),
)


def made_by(
    answer: Reflection, draft: PaperDraft = DRAFT, *, rewritable: tuple[str, ...] = ()
) -> tuple[PaperDraft, int, str]:
    found = apply_edits(draft, answer, figures={"loss"}, rewritable=rewritable)
    return found.draft, len(found.applied), " | ".join(found.refused)


def text(edit: TextEdit) -> Reflection:
    return Reflection(done=False, edits=(edit,))


def test_a_passage_is_found_however_its_lines_are_wrapped_and_what_it_leaves_is_tidied() -> None:
    draft, made, refused = made_by(text(TextEdit(section="Results", old="It is the loss again.", new="")))
    assert (made, refused) == (1, "")
    assert draft.sections[1].body.startswith("The loss is \\result{a.mean}.\n\n\\paperfigure")
    draft, _, _ = made_by(text(TextEdit(section="abstract", old="We ask.", new="We ask whether it falls.")))
    assert draft.abstract == "We ask whether it falls." and draft.sections == DRAFT.sections


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (text(TextEdit(section="Results", old="nowhere", new="x")), "does not occur"),
        (text(TextEdit(section="Results", old="loss", new="x")), "occurs 4 times: quote more of it"),
        (text(TextEdit(section="Conclusion", old="loss", new="x")), "there is no section 'Conclusion'"),
        (text(TextEdit(section="Results", old=" \n", new="x")), "the old passage is empty"),
        (text(TextEdit(section="Results", old="It is the", new="It is the")), "it would change nothing"),
        (text(TextEdit(section="title", old="On losses", new=" ")), "leave the title empty"),
        (
            Reflection(done=False, rewrites=(SectionEdit(title="Results", body="New."),)),
            "may not be rewritten as a whole",
        ),
        (Reflection(done=False, rewrites=(SectionEdit(title="None", body="New."),)), "there is no such section"),
        (Reflection(done=False, captions={"other": "C"}), "caption of other: there is no such figure"),
        (Reflection(done=False, captions={"loss": "The loss."}), "empty or unchanged"),
        (Reflection(done=False, placements={"other": "appendix"}), "other to the appendix: there is no such figure"),
    ],
)
def test_what_cannot_be_made_is_reported_and_leaves_the_draft(answer: Reflection, why: str) -> None:
    draft, made, refused = made_by(answer)
    assert draft == DRAFT and made == 0 and why in refused


def test_headings_captions_and_paragraph_titles_are_edited_under_the_names_of_violations() -> None:
    body = "\\paragraph{Erasing always helps} At high noise it helps."
    draft = DRAFT.model_copy(update={"sections": (DRAFT.sections[0], Section(title="Erasing wins", body=body))})
    for where, old, new in (
        ("title of section 'Erasing wins'", "wins", "and noise"),
        ("caption of loss", "The loss", "The log loss"),
        ("section 'Erasing wins'", "Erasing always helps", "Erasing at high noise"),
    ):
        made, applied, refused = made_by(text(TextEdit(section=where, old=old, new=new)), draft)
        assert (applied, refused) == (1, "")
        assert any(new in one for one in made.texts) and not any(old in one for one in made.texts), where
    for new, why in (("", "leave the title empty"), ("Introduction", "another section has this title")):
        edit = TextEdit(section="title of section 'Erasing wins'", old="Erasing wins", new=new)
        assert why in made_by(text(edit), draft)[2]


def test_edits_are_made_in_order_and_one_refusal_stops_no_other() -> None:
    draft, made, refused = made_by(
        Reflection(
            done=False,
            edits=(
                TextEdit(section="Introduction", old="A sentence.", new="Another."),
                TextEdit(section="Introduction", old="A sentence.", new="Lost."),
                TextEdit(section="Introduction", old="Another.", new="A third."),
            ),
        )
    )
    assert draft.sections[0].body == "A third." and made == 2 and refused.count("does not occur") == 1


def test_a_section_that_is_open_to_it_is_rewritten_as_a_whole() -> None:
    answer = Reflection(done=False, rewrites=(SectionEdit(title="Introduction", body="All new."),))
    draft, made, refused = made_by(answer, rewritable=("Introduction",))
    assert draft.sections[0].body == "All new." and (made, refused) == (1, "")


def test_no_edit_takes_out_a_table_that_decides() -> None:
    body = "See it.\n\n\\papertable{ablation}"
    draft = DRAFT.model_copy(update={"sections": (DRAFT.sections[0], Section(title="Results", body=body))})
    less = TextEdit(section="Results", old="\\papertable{ablation}", new="")
    made, applied, refused = made_by(text(less), draft)
    assert made.sections[1].body == "See it.\n\n\\papertable{ablation}" and applied == 1
    assert refused == "Results: the table ablation taken out: it has what decides, so it stays"
    moved = (TextEdit(section="Introduction", old="A sentence.", new="A sentence.\n\n\\papertable{ablation}"), less)
    made, _, refused = made_by(Reflection(done=False, edits=moved), draft)
    assert "ablation" in made.sections[0].body and made.sections[1].body == "See it." and not refused


def test_the_caption_of_a_figure_by_the_program_is_not_edited() -> None:
    _, applied, refused = made_by(Reflection(done=False, captions={"decided": "C"}))
    assert applied == 0 and "the program writes the caption" in refused


def test_a_figure_that_moves_to_the_appendix_leaves_its_place_and_stays_referred_to() -> None:
    answer = Reflection(done=False, placements={"loss": "appendix"}, captions={"loss": "Closer."})
    draft, made, refused = made_by(answer)
    assert "\\paperfigure" not in draft.sections[1].body
    assert "\\ref{fig:loss}" in draft.sections[1].body and draft.captions["loss"] == "Closer."
    assert (made, refused) == (2, "")
    again, _, refused = made_by(Reflection(done=False, placements={"loss": "appendix"}), draft)
    assert again == draft and "it is already there" in refused


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(["Results", "title", "abstract", "x"]))
def test_no_edit_is_dropped_in_silence(old: str, new: str, section: str) -> None:
    found = apply_edits(DRAFT, text(TextEdit(section=section, old=old, new=new)), figures=())
    assert len(found.applied) + len(found.refused) == 1
    assert found.applied or found.draft == DRAFT
