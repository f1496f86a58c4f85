"""The offline model's part in ideation: typed, the same twice, from its catalogue or refused in one line."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from labwright.models.backend import ModelRequest
from labwright.models.client import render
from labwright.models.errors import CatalogueError
from labwright.models.offline.researcher import OfflineResearcher
from labwright.models.offline.study import find_study_by_idea, load_study
from labwright.models.roles import ROLES
from labwright.models.roles.ideation import (
    DigestAnswer,
    FollowUpDraft,
    FollowUpReflection,
    IdeaDraft,
    IdeaFromText,
    IdeaFromTextInputs,
    IdeaInputs,
    IdeaMatch,
    IdeaReflection,
    Proposal,
    RelatedWork,
)
from labwright.review.judge.paper_reader import quote_is_in
from tests.models.ideation_examples import INPUTS, MEANS, STUDY, WORK

ANSWERS: dict[str, type[BaseModel]] = {
    "idea": IdeaDraft,
    "idea_reflect": FollowUpReflection,
    "idea_match": IdeaMatch,
    "related_work": RelatedWork,
    "proposal": Proposal,
    "idea_of": IdeaFromText,
    "digest": DigestAnswer,
}
KNOWN = IdeaInputs(topic="Label noise and calibration.", means=MEANS)


def ask(role: str, inputs: BaseModel) -> BaseModel:
    request = ModelRequest(
        role=ROLES[role], inputs=inputs, prompt=render(ROLES[role], inputs), output_type=ANSWERS[role]
    )
    return asyncio.run(OfflineResearcher().answer(request)).output


@pytest.mark.parametrize("role", [role for role in ROLES if role in ANSWERS])
def test_every_role_answers_with_its_type_and_twice_the_same(role: str) -> None:
    inputs = KNOWN if role == "idea" else INPUTS[role]
    first, second = ask(role, inputs), ask(role, inputs)
    assert first == second == ANSWERS[role].model_validate(first.model_dump())


def test_the_study_is_an_idea_that_is_recognised() -> None:
    draft = ask("idea", KNOWN)
    assert isinstance(draft, IdeaDraft) and find_study_by_idea(draft.idea.idea) is load_study()


def test_a_topic_that_names_no_study_is_refused_in_one_line() -> None:
    with pytest.raises(CatalogueError, match="no idea for this topic") as refused:
        ask("idea", KNOWN.model_copy(update={"topic": "The migration of birds."}))
    assert "\n" not in str(refused.value)
    found = ask("idea_of", IdeaFromTextInputs(text="The migration of birds.", file="x.md"))
    assert isinstance(found, IdeaFromText) and found.idea is None and found.missing


def test_its_closest_papers_rest_on_their_abstracts() -> None:
    answer = ask("idea_reflect", INPUTS["idea_reflect"])
    assert isinstance(answer, IdeaReflection)
    assert quote_is_in(answer.closest[0].quote, WORK.abstract)


def test_a_study_is_followed_with_a_reason_for_each_of_its_findings() -> None:
    inputs = KNOWN.model_copy(update={"study": STUDY})
    draft = ask("idea", inputs)
    assert isinstance(draft, FollowUpDraft)
    assert [(one.key, one.verdict) for one in draft.reasons] == [(one.key, one.verdict) for one in STUDY.findings]
    assert STUDY.findings[0].quote in draft.idea.experiments[0]
    ROLES["idea"].check_answer(inputs, draft)
