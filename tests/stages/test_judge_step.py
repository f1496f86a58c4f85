"""The last step of a run: judged once, recorded, never in the way of the release."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.models.backend import Backend
from labwright.models.client import Models
from labwright.models.errors import ModelOutputInvalid, ModelRefused, ModelUnavailable
from labwright.models.offline.researcher import OfflineResearcher
from labwright.models.replay import ScriptedModel
from labwright.models.roles.judge import JUDGE, Influence, InfluenceInputs, JudgeInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import EventLog, read_state
from labwright.record.events.paper_events import PaperJudged
from labwright.record.events.run_events import CallAnswered, LimitReached, ProcessEnded, RunResumed
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import RunFolder, hash_file
from labwright.record.schema.paper import Judgement
from labwright.review.judge.attachments import collect_record_facts
from labwright.search.settings import SearchSettings
from labwright.stages.paper.appendix import render_appendix
from labwright.stages.paper.disclosure import build_supplement_tables
from labwright.stages.paper.paper_steps import judge_paper, write_judgement
from labwright.stages.run_context import RunContext
from labwright.stages.settings import PaperSettings
from tests.fake_executor import FakeExecutor
from tests.paper import synthetic_paper
from tests.stages import finished_run

pytestmark = pytest.mark.slow

FIGURES: dict[str, Any] = {
    "text_alone": {"reason": "it reads well", "score": 7},
    "results": {"details": "counted", "quote": finished_run.QUOTE, "answer": "measured"},
}
QUOTES = {"overall": "the paper says nothing of the kind"}


def reader(**changes: Any) -> ScriptedModel:
    """A model that reads: sixes, with one quote of its own invention."""

    def answer(inputs: JudgeInputs) -> BaseModel:
        scores = {
            one.name: {"score": 6, "reason": "clear", "quote": QUOTES.get(one.name, finished_run.QUOTE)}
            for one in inputs.rubric.dimensions
        }
        return JUDGE.get_output_type(inputs).model_validate(
            {"scores": scores, "confidence": 4, "strengths": ["s"], "weaknesses": ["w"], **FIGURES, **changes}
        )

    return ScriptedModel.from_role_functions(judge=answer, influence=lambda _: Influence())


def failing(error: Exception) -> ScriptedModel:
    def script(_: object) -> BaseModel:
        raise error

    return ScriptedModel(script)


async def judged(root: Path, backend: Backend, *, paper: PaperSettings | None = None) -> RunState:
    """The state after the step, by a process of its own."""
    folder = RunFolder(root)
    with closing(EventLog(folder.events)) as log:
        bench = RunContext(
            recorder=log,
            folder=folder,
            executor=FakeExecutor(lambda job: pytest.fail("nothing is executed")),
            models=Models(backend, log, ModelSettings(), lambda: 0.0),
            search=SearchSettings(),
            paper=paper or PaperSettings(),
            node_seconds=1.0,
        )
        assert log.state.phase == "judge"
        await judge_paper(bench)
        assert log.state.phase == "done"
    return read_state(root)


def judgement_in(state: RunState) -> Judgement:
    assert state.paper.judged is not None and state.paper.judged.judgement is not None
    return state.paper.judged.judgement


async def test_a_judgement_is_recorded_written_and_listed_with_its_hash(tmp_path: Path) -> None:
    state = await judged(finished_run.write_run(tmp_path / "run"), reader())
    found = judgement_in(state)
    assert [(one.score, one.quoted) for one in found.scores] == [(6, True)] * 4 + [(6, False)]
    assert (found.paper, found.model, found.heuristic, found.confidence) == ("paper/paper.tex", "scripted", False, 4)
    report = tmp_path / "run" / "review" / "judge.json"
    assert Judgement.model_validate_json(report.read_text()) == found
    assert (report, hash_file(report)) in list(list_recorded_files(state, RunFolder(tmp_path / "run")))
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert listed["review/judge.json"] == hash_file(report) and "paper/paper.tex" in listed
    assert state.calls.usage_by_role["judge"].calls == 1 and state.is_task_done("judge")


async def test_the_judge_is_shown_the_paper_and_the_facts_of_the_record(tmp_path: Path) -> None:
    model = reader()
    await judged(finished_run.write_run(tmp_path / "run"), model)
    read, request = model.requests
    assert isinstance(read.inputs, InfluenceInputs) and finished_run.QUOTE in read.prompt.user
    assert finished_run.QUOTE in request.prompt.user and request.temperature == 0.0
    assert "Fewest seeds behind any value: 5" in request.prompt.user
    assert isinstance(request.inputs, JudgeInputs) and request.inputs.facts is not None
    facts = request.inputs.facts
    assert (facts.nodes, facts.failed, facts.replicates, facts.replicates_failed) == (8, 1, 5, 0)
    assert (facts.ablations, facts.datasets, facts.fewest_seeds, facts.released) == (1, 2, 5, True)
    assert facts.for_method + facts.for_other + facts.unclear > 0
    assert dict(facts.grades).keys() == {"computed"} and facts.bound_values > 5 and facts.figures == 3


async def test_the_offline_model_judges_nothing_and_says_so(tmp_path: Path) -> None:
    found = (await judged(finished_run.write_run(tmp_path / "a"), OfflineResearcher())).paper.judged
    assert found is not None and found.judgement is None and "cannot read papers" in found.why


@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("no answer within 600 s"), ModelRefused("the key is not valid"), ModelOutputInvalid("no schema")],
)
async def test_a_model_that_fails_leaves_a_reason_and_the_release(tmp_path: Path, error: Exception) -> None:
    state = await judged(finished_run.write_run(tmp_path / "run"), failing(error))
    assert (
        state.paper.judged == PaperJudged(why=str(error))
        and state.paper.released is not None
        and state.paper.released.released
    )
    assert not list((tmp_path / "run" / "review").iterdir()), "nothing stands for a judgement that there is not"


async def test_a_fault_of_ours_is_not_hidden_as_a_missing_judgement(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        await judged(finished_run.write_run(tmp_path / "run"), failing(ZeroDivisionError("ours")))


async def test_a_paper_that_is_gone_or_a_judge_that_is_off_are_reasons_too(tmp_path: Path) -> None:
    root = finished_run.write_run(tmp_path / "gone")
    (root / "paper" / "paper.tex").unlink()
    gone = await judged(root, reader())
    assert gone.paper.judged is not None and "No such file" in gone.paper.judged.why
    model = reader()
    off = await judged(finished_run.write_run(tmp_path / "off"), model, paper=PaperSettings(judge=False))
    assert off.paper.judged == PaperJudged(why="judging is disabled (paper.judge)") and not model.requests


async def test_killed_anywhere_in_the_step_and_resumed_it_asks_once_and_ends_alike(tmp_path: Path) -> None:
    """After each event of the step, with the files that come before the next one there already, and once without."""
    whole = finished_run.write_run(tmp_path / "whole")
    before = read_state(whole).event_count
    reference = judgement_in(await judged(whole, reader()))
    last = read_state(whole).event_count
    assert last == before + 5, "decided, read, answered, assessed, done"
    for cut in range(before, before + 5):
        run = tmp_path / f"cut{cut}"
        shutil.copytree(whole, run)
        _truncate(run, cut)
        model = reader()
        if cut == before + 3 and read_state(run).phase == "judge":
            _without_files(run)  # killed after the answer, before the report
        state = read_state(run) if read_state(run).phase == "done" else await judged(run, model)
        assert judgement_in(state) == reference and len(model.requests) == (2, 2, 1, 0, 0)[cut - before]
        assert [one.name for one in (run / "review").iterdir()] == ["judge.json"]
        assert sum(isinstance(event, CallAnswered) for event in _events(run)) == 2


async def test_a_resume_with_the_answer_kept_renders_the_same_question(tmp_path: Path) -> None:
    """The judge's own call is in the record by then; its cost must not be among the facts that it is shown."""
    root = finished_run.write_run(tmp_path / "run")
    before = read_state(root)
    after = await judged(root, reader())
    assert after.calls.total_usage.calls == before.calls.total_usage.calls + 2
    assert collect_record_facts(after, synthetic_paper.DRAFT) == collect_record_facts(before, synthetic_paper.DRAFT)
    claims = synthetic_paper.make_claims(before)
    assert render_appendix(after, claims) == render_appendix(before, claims), (
        "a released paper does not change by being judged"
    )
    assert [one.to_csv() for one in build_supplement_tables(after, claims)] == [
        one.to_csv() for one in build_supplement_tables(before, claims)
    ]


def test_later_judgements_stand_beside_the_first(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    one = Judgement.model_validate(
        {
            "paper": "p",
            "paper_sha256": "0",
            "rubric": "r",
            "rubric_sha256": "0",
            "model": "m",
            "confidence": 1,
            "most_confidence": 5,
            "scores": [
                {"dimension": "d", "score": 1, "lowest": 1, "highest": 2, "reason": "r", "quote": "q", "quoted": False}
            ],
        }
    )
    other = one.model_copy(update={"model": "n"})
    assert [write_judgement(folder, found).name for found in (one, other, one, other)] == [
        "judge.json",
        "judge-2.json",
        "judge.json",
        "judge-2.json",
    ]


# --- the phase ------------------------------------------------------------------------------------------------------


def phase(*more: Any) -> str:
    return fold_events((event, 0.0) for event in (*finished_run.make_events(), *more)).phase


def test_a_run_cut_off_between_release_and_judge_goes_on_with_the_judge() -> None:
    assert phase() == "judge" and phase(ProcessEnded(exit_code=130, reason="stopped")) == "judge"
    assert phase(RunResumed()) == "judge" and phase(PaperJudged(why="x")) == "done"
    assert phase(PaperJudged(why="x"), RunResumed()) == "done"


def test_a_resume_for_the_judge_changes_nothing_that_the_paper_says_of_its_origin() -> None:
    limited = LimitReached(reason="the time limit of 60 s was reached")
    story = finished_run.make_events()
    before = fold_events((event, 0.0) for event in (*story[:-1], limited, story[-1]))
    after = fold_events((event, 0.0) for event in (*story[:-1], limited, story[-1], RunResumed(model="another:model")))
    assert (after.limit_reason, after.models) == (before.limit_reason, before.models) == (limited.reason, ("offline",))
    earlier = fold_events((event, 0.0) for event in (*story[:-1], limited, RunResumed(model="another:model")))
    assert (earlier.limit_reason, earlier.models) == (None, ("offline", "another:model"))


def _events(run: Path) -> list[object]:
    from labwright.record.event_log import read_events

    return [event for event, _ in read_events(run / "events.jsonl")]


def _truncate(run: Path, count: int) -> None:
    """Keep the first events of a log, as a kill would."""
    kept = _events(run)[:count]
    for path in run.glob("events.jsonl*"):
        path.unlink()
    times = iter(range(1, 10_000))
    log = EventLog(run / "events.jsonl", clock=lambda: float(next(times)))
    for event in kept:
        log.append(event)  # pyrefly: ignore
    log.close()


def _without_files(run: Path) -> None:
    (run / "review" / "judge.json").unlink()
    (run / "manifest.json").unlink()
