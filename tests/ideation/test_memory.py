"""Ideas with records of earlier runs: what a run has settled is not proposed again, and a resume sees the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labwright.models.roles.ideation import IdeaMatch, IdeaMatchInputs
from labwright.record.claims.open_questions import hash_idea, keep_study
from labwright.record.events import Event
from labwright.record.events.run_events import StudiesRecalled
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.stages.prompt_inputs import recall_studies
from tests.ideation.scripted_ideation import IdeationWorld, draft_by_number, make_draft, make_idea_text, reflect
from tests.models.ideation_examples import EARLIER_STUDY, TOPIC

FIRST, SECOND = make_idea_text(0), make_idea_text(1)


def match(inputs: IdeaMatchInputs) -> IdeaMatch:
    """The reader finds that an idea about margins asks what the record of margins has settled."""
    same = inputs.studies[0].id if "margin" in inputs.idea.title.lower() else ""
    return IdeaMatch(same=same, reason="Both compare a margin with none.")


def open_world(tmp_path: Path, *studies: EarlierStudy, events: tuple[Event, ...] = (), **answers: Any) -> IdeationWorld:
    known: dict[str, Any] = {"idea": draft_by_number(FIRST, SECOND), "idea_reflect": reflect, "idea_match": match}
    world = IdeationWorld(known | answers, tmp_path / "found", events=events)
    for one in studies:
        keep_study(tmp_path / "memory", one)
    recall_studies(world.log, tmp_path / "memory", TOPIC)
    return world


def drafting_another(inputs: Any) -> Any:
    """A model that drafts another idea once the first was refused."""
    return make_draft(SECOND if inputs.complaints else FIRST)


def test_an_idea_that_a_run_settled_is_drafted_again(tmp_path: Path) -> None:
    world = open_world(tmp_path, EARLIER_STUDY, idea=drafting_another)
    world.find_ideas()
    assert world.idea.idea.title == SECOND.title
    asked = world.inputs_of_role("idea")
    assert asked[0].studies == (EARLIER_STUDY,) and not asked[0].complaints
    assert asked[1].complaints == (
        f"your idea {FIRST.title!r} repeats an earlier run (2026-01-02_margins, record 0123456789ab: H1 refuted; Both "
        "compare a margin with none): choose another question of the topic",
    )


@pytest.mark.parametrize("failed", [False, True])
def test_the_same_text_is_a_fact_that_nobody_is_asked_about(tmp_path: Path, failed: bool) -> None:
    changes: dict[str, Any] = {"idea_sha256": hash_idea(FIRST.idea)}
    changes |= {"failed": "no experiment works", "verdicts": (), "code": None} if failed else {}
    world = open_world(tmp_path, EARLIER_STUDY.model_copy(update=changes), idea=draft_by_number(FIRST))
    world.find_ideas()
    assert world.told[0].idea is None
    assert ("no experiment works" if failed else "H1 refuted") in world.told[0].reason
    assert "it has the same title and hypothesis" in world.told[0].reason and not world.inputs_of_role("idea_match")


def test_what_a_run_left_open_may_be_proposed(tmp_path: Path) -> None:
    left_open = EARLIER_STUDY.verdicts[0].model_copy(update={"verdict": "open"})
    world = open_world(tmp_path, EARLIER_STUDY.model_copy(update={"verdicts": (left_open,)}))
    world.find_ideas()
    assert world.idea.idea.title == FIRST.title and not world.inputs_of_role("idea_match")


def test_a_resume_sees_the_records_that_the_start_saw(tmp_path: Path) -> None:
    world = open_world(tmp_path, EARLIER_STUDY)
    (tmp_path / "memory" / f"{EARLIER_STUDY.id}.json").unlink()
    other = EARLIER_STUDY.model_copy(update={"id": "f" * 12})
    resumed = open_world(tmp_path, other, events=tuple(world.log.events))
    assert resumed.log.state.list_earlier_studies() == (EARLIER_STUDY,)
    found = [event for event in resumed.log.events if isinstance(event, StudiesRecalled)]
    assert len(found) == 1 and found[0].shown[0].why and found[0].left_out == 0
