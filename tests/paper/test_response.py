"""The list of changes in the response to reviewers, and which words of a model it takes over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.models.roles.paper_revision import RESPOND, RespondInputs, WrittenAnswer, WrittenAnswers
from labwright.record.schema.paper import PaperDraft, RequestAnswer, Section
from labwright.stages.paper.response import TextChange, describe_text_change, list_changes
from tests.models.examples import INPUTS


def draft(*bodies: str, title: str = "T", abstract: str = "A.") -> PaperDraft:
    return PaperDraft(
        title=title,
        abstract=abstract,
        sections=tuple(Section(title=f"S{at}", body=body) for at, body in enumerate(bodies)),
    )


def test_changes_are_runs_of_words_by_section_and_unchanged_parts_are_left_out() -> None:
    before = draft("It is good.\n\nIt stays.", "Old section.", abstract="We ask.")
    after = draft("It is very good.\n\nIt stays.\n\nIt is new.", abstract="We ask.")
    assert list_changes(before, after) == (
        TextChange("S0", ((" ", "It is"), ("+", "very"), (" ", "good. It stays."), ("+", "It is new."))),
        TextChange("S1", (("-", "Old section."),)),
    )
    assert list_changes(before, before) == ()
    assert str(list_changes(before, after)[0]) == "S0: It is [added: very] good. It stays. [added: It is new.]"


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_kept_and_removed_words_are_the_old_text_and_kept_and_added_the_new_one(old: list[str], new: list[str]) -> None:
    changes = list_changes(draft(" ".join(["x", *old])), draft(" ".join(["x", *new])))
    assert bool(changes) == (old != new)
    for one in changes:
        for mark, words in (("-", old), ("+", new)):
            assert " ".join(text for sign, text in one.words if sign in (" ", mark)).split() == ["x", *words]


def test_a_passage_that_the_reviewed_text_had_is_no_change() -> None:
    before = draft("It is good,  as\nwe said.")
    said = {
        quote: describe_text_change(before, RequestAnswer(request="R1", quote=quote))
        for quote in ("", "is good, as we", "It is bad.")
    }
    assert list(said.values()) == [
        "Nothing was measured; see the response.",
        "The passage below is unchanged.",
        "The text was changed.",
    ]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((("R1", "Done."),), "give each of R1, R2 exactly once"),
        ((("R1", "Done."), ("R1", "Done."), ("R2", "Yes.")), "exactly once"),
        ((("R1", "It fell by 0.02."), ("R2", "Yes.")), "R1 has a number"),
        ((("R1", "As for R2, it fell."), ("R2", "Yes.")), ""),
    ],
)
def test_each_request_is_answered_once_and_in_words(answers: tuple[tuple[str, str], ...], said: str) -> None:
    inputs = INPUTS["respond"]
    assert isinstance(inputs, RespondInputs)
    given = WrittenAnswers(answers=tuple(WrittenAnswer(request=name, answer=text) for name, text in answers))
    if not said:
        RESPOND.check_answer(inputs, given)
        return
    with pytest.raises(ValueError, match=said):
        RESPOND.check_answer(inputs, given)
