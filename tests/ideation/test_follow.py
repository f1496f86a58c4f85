"""`scientist follow`: what a study leaves to a next one, reasons that the record must agree with, and its idea file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.models.errors import ModelOutputInvalid
from labwright.models.roles.ideation import IDEA, IdeaDraft, IdeaInputs, IdeaReflectInputs, IdeaReflection
from labwright.record.claims.hypothesis_tests import decide_from_runs
from labwright.record.claims.open_questions import find_open_verdicts, find_surprises, list_open_verdicts
from labwright.record.event_log import read_state
from labwright.record.events.paper_events import IdeationStarted
from labwright.record.ideation import IdeaReason, StudyFinding
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.hypotheses import Effect, HypothesisDecision, RivalExplanation
from labwright.record.schema.idea import read_idea
from tests.agent.test_cli_bad_input import refused
from tests.ideation.ideas_of_the_study import add_ideas
from tests.ideation.scripted_ideation import IdeationWorld, make_draft, make_idea_text, reflect
from tests.models.ideation_examples import MEANS, REASON, STUDY, TOPIC
from tests.record.test_decisions import DIFFERENCE, runs_of
from tests.record.test_estimands import hypothesis, plan
from tests.recorded_run import RECORDED, recorded_run

# --- findings ---------------------------------------------------------------------------------------------------------


def decide(values: list[tuple[float, float]], **changes: Any) -> HypothesisDecision:
    one = hypothesis(DIFFERENCE, **changes)
    rotated = {f"s{seed}": {"adam-rotated@a0": 0.85 + seed / 1000} for seed in range(len(values))}
    [found] = decide_from_runs(plan(one), runs_of(values, **rotated), confirmed=True)
    return found


def test_a_refuted_claim_is_a_surprise_and_an_open_one_a_question() -> None:
    refuted = decide([(0.8 + k / 1000, 0.8) for k in range(5)])
    [surprise] = find_surprises(refuted)
    assert (surprise.key, surprise.verdict) == (refuted.key, "refuted") and not list(find_open_verdicts(refuted))
    part = refuted.parts[0]
    assert f"{part.mean:.4g} [{part.low:.4g}, {part.high:.4g}], 5 seeds" in surprise.quote
    unclear = decide([(0.9, 0.8), (0.8, 0.8), (0.95, 0.8)])
    [question] = find_open_verdicts(unclear)
    assert question.verdict == "open" and not list(find_surprises(unclear))
    assert f"about {unclear.parts[0].needed} seeds would measure it" in question.quote


def test_a_rival_that_is_right_is_a_surprise_of_a_supported_claim() -> None:
    values, estimand = [(0.9 + k / 1000, 0.8) for k in range(5)], "adam-rotated@a0 - sgd@a0"
    right = RivalExplanation(statement="It is the marks.", estimand=estimand, ours="near zero", theirs="above zero")
    [surprise] = find_surprises(decide(values, rival=right))
    assert surprise.key.endswith("/rival") and surprise.verdict == "above zero"
    assert surprise.quote.endswith("as the rival explanation says: It is the marks.")
    wrong = right.model_copy(update={"ours": "above zero", "theirs": "near zero"})
    assert not list(find_surprises(decide(values, rival=wrong)))


def test_another_form_in_which_a_supported_claim_does_not_hold_is_a_question() -> None:
    other = Effect(estimand="sgd@a0 - adam@a0", smallest=0.03)
    [question] = find_open_verdicts(decide([(0.9 + k / 1000, 0.8) for k in range(5)], alternatives=(other,)))
    assert question.key.endswith("/alternative-1") and question.verdict == "refuted"


# --- reasons ----------------------------------------------------------------------------------------------------------


def make_world(folder: Path, *reasons: IdeaReason) -> IdeationWorld:
    """An ideation that follows a study, with these reasons in the draft."""

    def draft(inputs: IdeaInputs) -> IdeaDraft:
        assert inputs.study == STUDY
        return make_draft(make_idea_text()).model_copy(update={"reasons": reasons})

    def return_draft(inputs: IdeaReflectInputs) -> IdeaReflection:
        return reflect(inputs, reasons=inputs.draft.reasons)

    began = IdeationStarted(topic=TOPIC, sha256="0", means=MEANS, study=STUDY, rounds=1, version="0", model="scripted")
    return IdeationWorld({"idea": draft, "idea_reflect": return_draft}, folder, events=(began,))


def test_the_idea_file_quotes_the_record_for_each_reason(tmp_path: Path) -> None:
    make_world(tmp_path, REASON).find_ideas()
    [found] = json.loads((tmp_path / "ideas.json").read_text())
    finding = STUDY.findings[0]
    assert found["origin"] == {
        "run": "small-sets",
        "reasons": [[{"key": finding.key, "verdict": "refuted", "quote": finding.quote}, REASON.why]],
    }
    assert read_idea(tmp_path / "ideas.json").name == "margin_small_data", "a run starts from it"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"verdict": "supported"}, "the verdict of hypothesis/drop is 'refuted', not 'supported'"),
        ({"key": "hypothesis/none"}, "the record has no finding 'hypothesis/none': use one of hypothesis/drop"),
    ],
)
def test_a_reason_that_the_record_does_not_have_is_refused(tmp_path: Path, changes: dict[str, str], fault: str) -> None:
    wrong = REASON.model_copy(update=changes)
    with pytest.raises(ValueError, match=fault):
        STUDY.find_finding(wrong)
    with pytest.raises(ModelOutputInvalid, match=fault):
        make_world(tmp_path, wrong).find_ideas()
    assert not (tmp_path / "ideas.json").exists()


def test_an_idea_that_follows_a_study_needs_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelOutputInvalid, match="name at least one finding"):
        make_world(tmp_path).find_ideas()


def test_an_idea_that_follows_no_study_has_no_reason() -> None:
    answer = make_draft(make_idea_text()).model_copy(update={"reasons": (REASON,)})
    with pytest.raises(ValueError, match="leave them out, since the idea follows no study"):
        IDEA.check_answer(IdeaInputs(topic=TOPIC, means=MEANS), answer)


# --- the command ------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    add_ideas(monkeypatch)
    assert main(["follow", str(RECORDED), "--out", "next", "--set", "literature.sources=[]"]) == 0
    capsys.readouterr()
    [found] = json.loads(Path("next/ideas.json").read_text())
    known = list_open_verdicts(read_state(recorded_run()))
    told = [StudyFinding(**finding) for finding, _ in found["origin"]["reasons"]]
    assert told == list(known) and "open" in {one.verdict for one in told}
    assert main(["run", "--idea", "next/ideas.json", "--dry-run"]) == 0


def test_a_run_that_leaves_nothing_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    state = read_state(recorded_run())
    empty = replace(state, search=replace(state.search, data_plan=None))

    def read_empty(folder: Path) -> RunState:
        return empty

    monkeypatch.setattr("labwright.agent.cli.idea.read_run_state", read_empty)
    assert "has neither a surprise nor an open verdict" in refused(capsys, "follow", str(RECORDED))
    assert "should be greater than or equal to 1" in refused(capsys, "follow", str(RECORDED), "--rounds", "0")
