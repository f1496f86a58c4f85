"""A study of a repository that a model plans: told what the repository is, its slips sent back, carried out."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.agent import run
from labwright.agent.cli import dry_run, main
from labwright.agent.plan_files import read_plan
from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import ModelRequest
from labwright.models.client import Models
from labwright.models.offline.researcher import ANSWER_FUNCTIONS
from labwright.models.replay import ScriptedModel
from labwright.models.roles.study_plan import ProtocolReview, ProtocolReviewInputs, RepositoryPlan, RepositoryPlanInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import Recorder, read_state
from labwright.record.events import Event
from labwright.record.events.search_events import PlanPrepared, StageWinnerChosen
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan, Hyperparameter
from labwright.record.schema.hypotheses import FindingAnswer, ProtocolFinding
from labwright.record.schema.idea import read_idea
from labwright.record.schema.repository import CommandSpace
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.agent.test_repository_study import IDEA, PLAN
from tests.plan_revisions import make_revision
from tests.repositories import make_repository

TRAIN = """
import argparse
import json
import random

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--lift", type=float, default=0.1, help="how much is added")
parser.add_argument("--no-bend", dest="bend", action="store_false")
opts = parser.parse_args()
quality = 0.5 + opts.lift + 0.01 * random.Random(opts.seed).random() - 0.3 * (not opts.bend)
with open("metrics.json", "w") as file:
    json.dump({"val": {"quality": quality}}, file)
"""
LIFT = Hyperparameter(
    name="lift", kind="linear", low=0, high=0.2, default=0.1, source="train.py", word="--lift {value}"
)
FINDING = ProtocolFinding(
    kind="scope", severity="could", where="untested", what="One repository is not all.", mend="Say so."
)


class Planner:
    """Gets the words wrong, the number of metrics, then nothing; takes a finding up."""

    def __init__(self) -> None:
        self.asked: list[RepositoryPlanInputs] = []
        self.reviewed: list[ProtocolReviewInputs] = []

    def __call__(self, request: ModelRequest) -> BaseModel:
        inputs = request.inputs
        if isinstance(inputs, ProtocolReviewInputs):
            self.reviewed.append(inputs)
            return ProtocolReview(findings=() if inputs.answered else (FINDING,))
        if not isinstance(inputs, RepositoryPlanInputs):
            return ANSWER_FUNCTIONS[request.role.name](inputs)
        self.asked.append(inputs)
        told: dict[str, Any] = PLAN | {"datasets": [{"name": inputs.dataset}], "tuning": {"budget": 2}}
        if len(self.asked) == 1:
            told |= {
                "arms": [
                    {"name": "baseline", "role": "baseline"},
                    {"name": "flat", "role": "method", "words": ["--no-bent"]},
                ]
            }
        if len(self.asked) == 2:
            told |= {"metrics": [{"name": name, "higher_is_better": True} for name in ("quality", "speed")]}
        answers = (FindingAnswer(finding=1, changed=True, reason="It says so."),) if inputs.findings else ()
        plan = RepositoryPlan.model_validate(told | ({"untested": ["other repositories"]} if answers else {}))
        return plan if inputs.before is None else make_revision(inputs.before, plan, *answers)


def settings(code: Path, *, space: CommandSpace | None = None) -> Settings:
    made = compose_settings(
        flags={
            "models.name": "openai:some-model",
            "code.repository": str(code),
            "code.metric": "metrics.json:val.quality",
            "code.command": "python train.py --seed {seed}",
            "search.num_seeds": 1,
            "search.max_seeds": 2,
            "paper.reflections": 0,
            "search.num_workers": 2,
        },
        environment={},
    )
    return made.model_copy(update={"code": made.code.model_copy(update={"space": space or CommandSpace()})})


@pytest.mark.slow
@pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here")
def test_a_model_plans_it_and_the_plan_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, planner = make_repository(tmp_path / "fit", {"train.py": TRAIN, "README.md": "# A fit"}), Planner()
    (tmp_path / "idea.json").write_text(IDEA)
    idea, kills = read_idea(tmp_path / "idea.json", None), [PlanPrepared, StageWinnerChosen]

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(planner)

    def listen(event: Event, _: RunState) -> None:
        if kills and isinstance(event, kills[0]):
            kills.pop(0)
            raise InterruptedError("killed")

    monkeypatch.setattr(run, "open_backend", opened)
    space = CommandSpace(hyperparameters=(LIFT,))
    with pytest.raises(InterruptedError):
        run.start_study(idea, settings(code, space=space), runs=tmp_path, name="run", listener=listen)
    with pytest.raises(InterruptedError):
        run.resume_run(tmp_path / "run", {}, listener=listen)

    first, second, third, amending = planner.asked
    assert (
        re.match(
            r"metrics.json:val.quality 0\.60\d+ over three seeds \(sample deviation 0\.00\d+\), in ",
            first.repository.as_it_is,
        )
        and first.repository.shown[0].path == "README.md"
    )
    assert first.options[1] == "--lift, default 0.1 (train.py:8): how much is added"
    assert second.complaints == (
        "arm 'flat' has the words --no-bent: the command has no option --no-bent, but --no-bend",
    )
    assert third.complaints == ("the repository gives one number per run: remove speed",)
    assert amending.findings == (FINDING,) and planner.reviewed[0].catalogue[0].command
    state = read_state(tmp_path / "run")
    plan = state.search.data_plan
    assert plan is not None and plan.space == (LIFT,) and plan.untested == ("other repositories",)
    assert {one.unit for one in plan.hypotheses} == {"seeds"} and type(plan) is DataPlan
    drafts = [node for node in state.nodes.values() if node.kind == "draft"]
    assert len(drafts) == 1 == state.read_setting("search.num_drafts"), (
        "words make every arm: one program measures them"
    )


@pytest.mark.slow
def test_a_dry_run_writes_the_plan_without_running_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_repository(tmp_path / "fit", {"train.py": "raise SystemExit(3)\n" + TRAIN})
    (tmp_path / "idea.json").write_text(IDEA)
    planner = Planner()

    def opened(settings: ModelSettings, log: Recorder) -> Models:
        return Models(ScriptedModel(planner), log, settings, time.monotonic)

    monkeypatch.setattr(dry_run, "open_model", opened)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    assert (
        main(
            [
                "run",
                "--idea",
                str(tmp_path / "idea.json"),
                "--code",
                str(tmp_path / "fit"),
                "--dry-run",
                "--command",
                "python train.py --seed {seed}",
                "--metric",
                "metrics.json:val.quality",
                "--model",
                "openai:some-model",
                "--set",
                "literature.sources=[]",
                "--out",
                str(tmp_path / "plan.yaml"),
            ]
        )
        == 0
    )
    assert "requesting a plan and a review from openai:some-model" in capsys.readouterr().out
    assert len(planner.asked) == 4 and not planner.asked[0].repository.as_it_is
    assert read_plan(tmp_path / "plan.yaml").arms[1].words == ("--no-bend",)


def test_without_a_plan_or_a_model_that_plans_it_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_repository(tmp_path / "fit", {"train.py": TRAIN})
    (tmp_path / "idea.json").write_text(IDEA)
    assert (
        main(
            [
                "run",
                "--idea",
                str(tmp_path / "idea.json"),
                "--code",
                str(tmp_path / "fit"),
                "--model",
                "offline",
                "--command",
                "python train.py --seed {seed}",
                "--metric",
                "metrics.json:val.quality",
                "--runs",
                str(tmp_path / "runs"),
            ]
        )
        == 2
    )
    said = capsys.readouterr().err
    assert "cannot plan a study of a repository: give --model, or a --plan" in said and said.count("\n") == 1
    assert not (tmp_path / "runs").exists()
