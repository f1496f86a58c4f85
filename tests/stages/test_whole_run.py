"""A whole run on a small study: real kernels, real record, real TeX; the model is a script."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import zipfile
from pathlib import Path

import pytest

from benchmarks.prompt_sharing import read_calls
from labwright.agent.audit import audit_run
from labwright.agent.settings import Settings, compose_settings
from labwright.inspector.archive import pack_run
from labwright.inspector.number_tracer import NumberTracer
from labwright.models.replay import ScriptedModel
from labwright.models.roles.paper_revision import (
    AddendumPlan,
    FoundRequest,
    PlannedMeasure,
    RespondInputs,
    ReviewerRequests,
    WrittenAnswer,
    WrittenAnswers,
)
from labwright.models.settings import ModelSettings
from labwright.record.claims.estimates import compute_test_claims, find_trusted_replicates, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import read_rows, read_state
from labwright.record.events import Event
from labwright.record.events.search_events import SealedTestScored
from labwright.record.line_store import write_rows
from labwright.record.llm_calls import find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.data_plan import TuningPlan
from labwright.record.schema.paper import EstimateRequest
from tests.execution_cache import reusing_executions_between_runs
from tests.models.test_shared_prefixes import DRAWN, STUDY, common
from tests.stages.small_study import IDEA, PLAN, make_ablation, make_small_model

SMALL = {
    "seed": 3,
    "sandbox.timeout": 60,
    "sandbox.isolation": "auto",
    "search.order": "ticket",
    "search.window": 4,
    "search.num_workers": 2,
    "search.num_drafts": 2,
    "search.num_seeds": 2,
    "search.max_seeds": 2,
    "search.preliminary.nodes": 3,
    "search.tuning.nodes": 1,
    "search.agenda.nodes": 1,
    "search.ablation.nodes": 1,
    "search.ladder": False,
    "paper.reflections": 1,
}


def small_settings(**changes: object) -> Settings:
    return compose_settings(
        flags=SMALL | {key.replace("__", "."): value for key, value in changes.items()}, environment={}
    )


def _scripted(_: ModelSettings) -> ScriptedModel:
    """The small study, with few settings for the ladder to try."""
    return make_small_model(plan=lambda _: PLAN.model_copy(update={"tuning": TuningPlan(budget=3)}))


def start(runs: Path, name: str, settings: Settings) -> int:
    """A run with the scripted model instead of the configured one."""
    from labwright.agent import run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", _scripted)
        return run.start_study(IDEA, settings, runs=runs, name=name, listener=lambda event, state: None)


def resume(run_folder: Path) -> int:
    from labwright.agent import run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "open_backend", _scripted)
        return run.resume_run(run_folder, {}, listener=lambda event, state: None)


def tree(state: RunState) -> list[tuple[object, ...]]:
    return [
        (
            n.id,
            n.parent,
            n.kind,
            n.seed,
            n.status,
            n.varies,
            n.source_sha256,
            n.measurements,
            state.search.test_measurements.get(n.id),
        )
        for n in state.nodes.values()
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    with reusing_executions_between_runs():
        code = start(runs, "whole", small_settings(search__ladder=True))
    assert code == 0, read_state(runs / "whole").process_end
    return runs / "whole"


pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]


def test_the_tree_has_every_kind_and_both_repairs(whole: Path) -> None:
    state = read_state(whole)
    nodes = list(state.nodes.values())
    assert {node.kind for node in nodes} == {"draft", "debug", "improve", "ablate", "replicate", "aggregate", "rung"}
    debug = next(node for node in nodes if node.kind == "debug")
    mended = state.nodes[debug.parent or ""]
    assert debug.status == "good" and mended.status == "buggy"
    assert mended.varies == "draft 0" and debug.varies.startswith("draft 0; fixed: ")
    replotted = next(node for node in nodes if node.plot_count > 1)
    assert replotted.status == "good" and any(
        "label" in issue for r in replotted.plottings[0].reviews or () for issue in r.issues
    )
    seeds = [one.seed for one in find_trusted_replicates(state, find_winner(state) or "")]
    assert len(seeds) == len(set(seeds)) >= 2 and 3 not in seeds


def test_the_ladder_ran_beside_the_search_with_the_seeds_of_the_replicates(whole: Path) -> None:
    state = read_state(whole)
    first, *others = [one for one in state.nodes.values() if one.kind == "rung"]
    assert first.status == "good" and not first.measurements and first.id not in state.search.test_measurements
    assert [one.seed for one in others] == [
        one.seed for one in find_trusted_replicates(state, find_winner(state) or "")
    ]
    assert {one.condition for node in others for one in state.search.test_measurements[node.id]} == {
        "trivial",
        "off-the-shelf",
    }
    assert "; off-the-shelf " in (whole / "paper" / "floats.tex").read_text()


def test_the_test_set_is_scored_once_after_the_search(whole: Path) -> None:
    from labwright.record.event_log import read_events

    events = [event for event, _ in read_events(whole / "events.jsonl")]
    kinds = [event.type for event in events]
    scored = [event.node for event in events if isinstance(event, SealedTestScored)]
    assert len(scored) == len(set(scored)) and kinds.index("unsealed") > kinds.index("locked")
    searched = max(i for i, kind in enumerate(kinds) if kind in ("judged", "summarised"))
    state = read_state(whole)
    early = [event.node for event in events[:searched] if isinstance(event, SealedTestScored)]
    assert [state.nodes[name].seed for name in early] == [*state.search.looks[-1].seeds], (
        "during the search only for looks"
    )
    assert all(one.split != "test" for node in state.nodes.values() for one in node.measurements)
    assert {claim.condition for claim in compute_test_claims(state)} == {"plain", "shrunk", "without-shrinkage"}


def test_the_reflector_mended_what_the_binder_refused(whole: Path) -> None:
    state = read_state(whole)
    assert any("12.5" in violation for violation in state.paper.drafts[0].violations)
    assert state.paper.released is not None and state.paper.released.released
    assert (whole / "paper" / "paper.pdf").stat().st_size > 10_000


@pytest.mark.parametrize(("with_data", "found"), [(True, []), (False, [("not checked", "data")])])
def test_a_copy_on_another_machine_audits_like_the_run(
    whole: Path, tmp_path: Path, with_data: bool, found: list[tuple[str, str]]
) -> None:
    with open(tmp_path / "run.zip", "wb") as target:
        pack_run(whole, target, with_data=with_data)
    with zipfile.ZipFile(tmp_path / "run.zip") as packed:
        packed.extractall(tmp_path / "elsewhere")
    report = audit_run(tmp_path / "elsewhere" / whole.name)
    assert [(one.kind, one.where) for one in report.findings] == found
    assert ("scores" in report.counts) == with_data


def test_an_audit_finds_nothing_and_then_what_was_altered(whole: Path, tmp_path: Path) -> None:
    report = audit_run(whole)
    assert report.findings == [] and report.counts["bound values"] >= 4 and report.counts["scores"] > 20
    assert report.counts["disclosure"] == 1 and report.counts["datasets"] == 1
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    best = find_winner(read_state(whole)) or ""
    copied = find_trusted_replicates(read_state(whole), best)[0].id
    array = next((copy / "nodes").glob("*/attempt1/arrays/loss.npy"))
    array.write_bytes(array.read_bytes()[:-1] + b"\x01")
    for name, old, new in (
        ("paper/results.tex", "0.", "0.9"),
        ("paper/paper.tex", "\\section", "\\section "),
        (f"nodes/{best}/source/experiment.py", "SHRINKAGE = 0", "SHRINKAGE = 1"),
        (f"nodes/{copied}/attempt1/node.ipynb", "SHRINKAGE = 0", "SHRINKAGE = 1"),
        ("review/disclosure.json", '"status": "buggy"', '"status": "good"'),
    ):
        text = (copy / name).read_text()
        assert old in text, name
        (copy / name).write_text(text.replace(old, new, 1))
    found = audit_run(copy)
    where = {finding.where for finding in found.findings}
    assert {
        "paper/results.tex",
        "paper/paper.tex",
        f"nodes/{best}/source",
        f"nodes/{copied}/attempt1/node.ipynb",
        "review/disclosure.json",
        str(array.relative_to(copy)),
    } <= where
    assert found.unbound_count >= 1


def test_every_question_was_kept_as_it_was_asked(whole: Path) -> None:
    answers = read_state(whole).calls.answers.values()
    assert not_kept(whole) == [] and len(answers) > 30
    assert {one.name for one in (whole / "prompts").iterdir()} == {f"{one.request_sha256}.json.gz" for one in answers}


def not_kept(run: Path) -> list[str]:
    """The calls whose question is not there as the record has it."""
    found = {str(key): find_prompt(run, one) for key, one in read_state(run).calls.answers.items()}
    return [key for key, kept in found.items() if kept is None or kept.asked is None or kept.changed]


def test_everything_that_was_tried_is_disclosed_and_listed(whole: Path) -> None:
    state = read_state(whole)
    told = json.loads((whole / "review" / "disclosure.json").read_text())
    assert "review/disclosure.json" in json.loads((whole / "manifest.json").read_text())
    assert [one["id"] for one in told["nodes"]] == list(state.nodes)
    assert {one["id"]: one["failure"] is not None for one in told["nodes"]} == {
        node.id: node.failure is not None for node in state.nodes.values()
    }
    assert [one["k"] for one in told["decisions"]] == [k for k in state.decisions if k <= told["decisions"][-1]["k"]]
    measured = [each for one in told["nodes"] for attempt in one["attempts"] for each in attempt["measurements"]]
    assert {one["name"] for one in measured} >= {"log_loss", "accuracy"}
    assert [one["best"] for one in told["stages"]] == [state.search.stages[one["stage"]].best for one in told["stages"]]
    assert told["reported"] == find_winner(state) and "judge" not in told["cost"]
    assert told["machines"][0]["packages"]["numpy"] and told["isolation"] == list(state.isolations)
    assert sum(one["released"] for one in told["drafts"]) == 1


def test_the_paper_was_judged_last_and_its_quotes_were_looked_up(whole: Path) -> None:
    from labwright.record.event_log import read_events

    kinds = [event.type for event, _ in read_events(whole / "events.jsonl")]
    assert kinds[-7:] == ["work_done", "decided", "answered", "answered", "assessed", "work_done", "ended"], (
        "it was read for passages that address a judge, then judged"
    )
    assessed = read_state(whole).paper.judged
    assert assessed is not None and assessed.judgement is not None, assessed
    assert [(one.dimension, one.quoted) for one in assessed.judgement.scores] == [
        ("clarity", True),
        ("novelty", False),
        ("soundness", True),
        ("significance", True),
        ("overall", True),
    ]
    assert assessed.judgement.paper == "paper/paper.pdf" and (whole / "review" / "judge.json").is_file()


def test_cut_off_before_the_judge_and_resumed_it_is_judged_and_released_as_before(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "cut"
    shutil.copytree(whole, run)
    rows = read_rows(run / "events.jsonl")
    released = next(n for n, (_, body) in enumerate(rows, 1) if '"type":"released"' in body)
    write_rows(run / "events.jsonl", "run", rows[:released])
    assert read_state(run).phase == "judge"
    assert resume(run) == 0 and resume(run) == 0
    state = read_state(run)
    assert state.phase == "done" and state.paper.judged == read_state(whole).paper.judged
    assert audit_run(run).findings == []


REVIEW = "It may be the weight. Please run half the weight. Two seeds are few: use n ≥ 5. Explain the class means."
REQUESTS = (
    FoundRequest(review=1, kind="new control", request="Run half the weight.", quote="Please run half the weight."),
    FoundRequest(review=1, kind="more seeds", request="Run more seeds.", quote="Two seeds are few: use n ≥ 5."),
    FoundRequest(review=1, kind="clearer text", request="Explain them.", quote="Explain the class means."),
)
HALF = EstimateRequest(name="half", estimand="half-weight - shrunk", purpose="what the other half adds")


def _answer_respond(inputs: RespondInputs) -> WrittenAnswers:
    text = " ".join(section.body for section in inputs.draft.sections)
    (report,) = [one for one in re.split(r"(?<=[.?!])\s+", text) if one.startswith("Reviewers of an earlier")]
    quotes = (report if one.values else "" for one in inputs.outcomes)
    return WrittenAnswers(
        answers=tuple(
            WrittenAnswer(request=one.request.id, answer="Thank you.", quote=quote[:150])
            for one, quote in zip(inputs.outcomes, quotes, strict=True)
        )
    )


def _revising(_: ModelSettings) -> ScriptedModel:
    measures = (
        PlannedMeasure(request="R1", ablation=make_ablation("half-weight"), estimates=(HALF,)),
        PlannedMeasure(request="R2", seeds=2),
    )
    return make_small_model(
        plan=lambda _: PLAN.model_copy(update={"tuning": TuningPlan(budget=3)}),
        reviewer_requests=lambda _: ReviewerRequests(requests=REQUESTS),
        addendum=lambda _: AddendumPlan(measures=measures),
        respond=_answer_respond,
    )


def test_a_paper_is_revised_for_its_reviewers_across_a_stop_and_audits_clean(whole: Path, tmp_path: Path) -> None:
    from labwright.agent import run as running

    run = tmp_path / "revised"
    shutil.copytree(whole, run)
    first = {path: path.read_bytes() for path in (run / "paper").rglob("*") if path.is_file()}
    before = read_state(run)

    def stop(event: Event, state: RunState) -> None:
        if event.type == "addendum_registered":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch, reusing_executions_between_runs():
        patch.setattr(running, "open_backend", _revising)
        review = running.ReviewText("review.md", REVIEW)
        assert running.rewrite_paper(run, {"time_limit": 1200.0}, listener=stop, reviews=[review]) == 130
        assert read_state(run).phase == "addendum"
        assert running.resume_run(run, {}, listener=lambda event, state: None) == 0
    state = read_state(run)
    assert state.phase == "done" and state.paper.version == 2 and len(state.search.addenda) == 1
    assert state.paper.released is not None and state.paper.released.released, state.paper.released
    assert {path: path.read_bytes() for path in first} == first, "the reviewed paper stays"
    assert state.search.current_lock == before.search.current_lock and decide_hypotheses(state) == decide_hypotheses(
        before
    )
    assert {key: state.search.test_measurements[key] for key in before.search.test_measurements} == (
        before.search.test_measurements
    )
    paper = run / "paper" / "v2"
    assert state.paper.figures is not None and state.paper.figures.version == 2
    assert (paper / "figures" / "source" / "decided.py").is_file(), "drawn with the code of today"
    text = " ".join((paper / "paper.tex").read_text().split())
    assert "Reviewers of an earlier version asked for" in text and r"\ref{tab:addendum}" in text
    assert r"\section{Addendum for reviewers}" in (paper / "appendix.tex").read_text()
    answered = state.paper.answered
    assert answered is not None and set(answered.files) == {"paper/v2/response.md"}
    response = (paper / "response.md").read_text()
    assert all(f"> {one.quote}" in response for one in REQUESTS)
    assert (
        "Measured as half-weight with 2 seeds, as an addendum" in response and "2 of 2 further seeds worked" in response
    )
    assert "[added: Reviewers of an earlier version" in response
    assert audit_run(run).findings == []
    tracer = NumberTracer(state, RunFolder(run, 2), run="run")
    traced = tracer.trace_key("estimate/v2-r2-added-1-1.mean")
    assert traced is not None and {one.seed for one in traced.candidates[0].origins} >= set(state.search.added_seeds)


def test_what_the_calls_of_the_run_share_comes_first(whole: Path) -> None:
    """No two calls of a role differ in `system`, and all roles that know the study begin with it, byte for byte."""
    calls, lost = read_calls(whole)
    systems = {
        call.asked.role: {one.asked.system for one in calls if one.asked.role == call.asked.role} for call in calls
    }
    assert not lost and {role: len(found) for role, found in systems.items()} == dict.fromkeys(systems, 1)
    state = read_state(whole)
    assert state.search.data_plan is not None
    for roles, last in ((STUDY, state.search.datasets[-1].source), (DRAWN, state.search.data_plan.arms[-1].name)):
        texts = [call.sent_text for call in calls if call.asked.role in roles]
        assert len(texts) > 3 and last in common(texts) and len(common(texts)) > 900
