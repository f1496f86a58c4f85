"""A whole run whose primary metric is what a scorer of the user's own gives for policies: flag to paper."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from labwright.agent.audit import audit_run
from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.models.roles.study_plan import PlanInputs
from labwright.record.schema.data_plan import DataPlan, DatasetUse, MetricSpec
from labwright.sandbox.job import DatasetError
from tests.programs import program_files
from tests.sandbox.test_evaluation import WALK
from tests.stages.small_study import IDEA, make_small_model, plots_code
from tests.stages.test_user_data import LEAST, one_works, ran

POLICIES = """
import lab
import numpy as np

SHRINKAGE = 0.2
ROUNDS = 6


def steps(policy, fields):
    place = taken = 0
    while place < fields - 1 and taken < 30:
        place = max(0, place + (1 if np.random.rand() < policy[place] else -1))
        taken += 1
    return taken


lab.seed_everything()
fields = int((lab.data("grid").path / "map.txt").read_text().split()[0])
curves = []
for condition, pace in (("plain", 0.02), ("shrunk", SHRINKAGE)):
    policy, curve = np.full(fields, 0.5), []
    for step in range(ROUNDS):
        tried = np.clip(policy + pace * np.random.rand(fields), 0.0, 1.0)
        before, after = (np.mean([steps(one, fields) for _ in range(20)]) for one in (policy, tried))
        policy = tried if after <= before else policy
        curve.append(min(before, after))
    curves.append(curve[-1])
    for split in ("validation", "test"):
        lab.submit_artifact("grid", split, condition, policy)
lab.save("loss", np.array(curves))
"""


class Walker(Backend):
    """The small study's model, its plan turned to walks on a grid and its code to policies."""

    def __init__(self) -> None:
        super().__init__("scripted")
        self.base = make_small_model()
        self.planned: list[PlanInputs] = []
        self.coded: list[CodeInputs] = []

    async def answer(self, request: ModelRequest) -> Reply:
        reply = await self.base.answer(request)
        if isinstance(request.inputs, PlanInputs):
            self.planned.append(request.inputs)
        if isinstance(request.inputs, CodeInputs):
            self.coded.append(request.inputs)
        if isinstance(reply.output, DataPlan):
            return replace(
                reply,
                output=reply.output.model_copy(
                    update={
                        "datasets": (DatasetUse(name="grid"),),
                        "metrics": (MetricSpec(name="steps", title="steps to the goal", higher_is_better=False),),
                    }
                ),
            )
        if isinstance(reply.output, Program):
            return replace(
                reply, output=reply.output.model_copy(update={"files": program_files(POLICIES, plots_code())})
            )
        return reply


def with_scorer(folder: Path) -> Settings:
    """A run on a grid in this folder, with a scorer of the user's own."""
    (folder / "world").mkdir()
    (folder / "world" / "map.txt").write_text("5 fields")
    (folder / "grid.py").write_text(WALK)
    return compose_settings(
        environment={},
        flags=LEAST
        | {
            "search.ablation.num_seeds": 0,
            "paper.missing_ablations": 0,
            "paper.citation_rounds": 0,
            "data": [f"grid={folder / 'world'},task=none"],
            "sandbox.scorers": f"grid={folder / 'grid.py'}:walk",
        },
    )


@pytest.mark.slow
def test_policies_are_measured_by_the_scorer_that_the_flag_names(tmp_path: Path) -> None:
    model = Walker()
    state = ran(tmp_path, model, with_scorer(tmp_path), until=one_works)
    assert {"episode_return", "steps"} < set(model.planned[0].metrics)
    assert "five chances" in next(one for one in model.planned[0].catalogue if one.name == "grid").scorer
    assert "five chances" in model.coded[0].facts[0].scorer
    [scorer] = state.search.scorers
    assert (tmp_path / "own" / "data" / "scorers" / "grid.py").read_text() == WALK and scorer.takes == "artifact"
    found = [one for node in state.nodes.values() for one in node.measurements]
    assert {one.name for one in found} == {"episode_return", "steps"} and {one.split for one in found} == {"validation"}
    assert {one.grade for one in found} <= {"evaluated", "computed"} and not state.search.test_measurements


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")
def test_policies_go_from_the_flag_to_the_paper(tmp_path: Path) -> None:
    state = ran(tmp_path, Walker(), with_scorer(tmp_path))
    assert state.process_end is not None and state.process_end.exit_code == 0, state.process_end
    tests = [one for found in state.search.test_measurements.values() for one in found]
    assert tests and {one.name for one in tests} == {"episode_return", "steps"} and not state.search.scoring_failures
    assert {one.grade for one in tests} <= {"evaluated", "computed"}
    appendix = (tmp_path / "own" / "paper" / "appendix.tex").read_text()
    assert "Scorer of grid" in appendix and str(tmp_path) not in appendix
    report = audit_run(tmp_path / "own")
    assert not report.findings, report.findings
    assert report.counts["values of frozen scorers"] >= len(tests)
    _changed(tmp_path / "own", *[name for name, found in state.search.test_measurements.items() if found][:2])


def _changed(run: Path, first: str, second: str) -> None:
    """An artifact of one node and a value of another that are not what the record says are found."""
    attempt, other = (next((run / "nodes" / node).rglob("sealed")).parent for node in (first, second))
    next(attempt.glob("sealed/*.bin")).write_bytes(b"other")
    values = other / "measurements.jsonl"
    values.write_bytes(values.read_bytes().replace(b'"name":"steps"', b'"name":"stops"'))
    found = [one.where for one in audit_run(run).findings if one.kind == "score"]
    assert all(any(node in where for where in found) for node in (first, second)), found


def test_a_scorer_that_cannot_be_used_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    from labwright.agent import run

    (tmp_path / "grid.py").write_text(WALK.replace("METRICS", "NUMBERS"))
    settings = compose_settings(
        environment={}, flags=LEAST | {"sandbox.scorers": f"digits={tmp_path / 'grid.py'}:walk"}
    )
    with pytest.raises(
        DatasetError, match=r"scorer of 'digits': cannot use .*grid.py:walk: it needs a literal METRICS"
    ):
        run.start_study(IDEA, settings, runs=tmp_path, name="own", listener=lambda event, state: None)
    assert not (tmp_path / "own").exists()
