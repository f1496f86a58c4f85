"""A study of a repository whose method is a patch that a model writes: seen, refused, mended, improved, ablated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from labwright.agent import run as runs
from labwright.agent.cli import main
from labwright.agent.settings import Settings, compose_settings
from labwright.models.backend import ModelRequest
from labwright.models.conversation import ToolCall
from labwright.models.offline.researcher import ANSWER_FUNCTIONS
from labwright.models.replay import ScriptedModel
from labwright.models.roles.repository import ArmPatch, Patches, PatchingInputs
from labwright.models.settings import ModelSettings
from labwright.record.event_log import read_state
from labwright.record.events import Event
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import Idea
from labwright.record.schema.repository import RepositoryEdit
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from labwright.stages.nodes import node_cells
from tests.inspector.web_server import running_server
from tests.repositories import run_git

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]
TRAIN = """
import argparse
import json

from fit.model import worth

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
opts = parser.parse_args()
value = worth(opts.seed)
with open("metrics.json", "w") as file:
    json.dump({"val": {"quality": value}}, file)
"""
MODEL = """
import random


def worth(seed):
    rng = random.Random(seed)
    return 0.5 + 0.01 * rng.random()
"""
IDEA = Idea.model_validate(
    {
        "Name": "lift",
        "Title": "What a Lift Is Worth",
        "Short Hypothesis": "A lift raises the quality.",
        "Related Work": "",
        "Abstract": "We ask what a lift is worth.",
        "Experiments": ["Add a lift."],
        "Risk Factors and Limitations": ["One repository."],
    }
)
PLAN = DataPlan.model_validate(
    {
        "task": "a fit",
        "objective": "improve",
        "metrics": [{"name": "quality", "higher_is_better": True}],
        "datasets": [{"name": "code"}],
        "arms": [
            {"name": "baseline", "role": "baseline", "untuned": "as it is"},
            {"name": "lifted", "role": "method", "description": "a lift is added, by --lift"},
        ],
        "space": [
            {
                "name": "lift",
                "kind": "linear",
                "low": 0.1,
                "high": 0.4,
                "default": 0.2,
                "arms": ["lifted"],
                "word": "--lift {value}",
                "source": "ours",
            }
        ],
        "tuning": {"budget": 3},
        "expected_seconds": 2,
        "hypotheses": [
            {
                "id": "lift",
                "statement": "The lift raises the quality.",
                "reason": "a tenth is seen",
                "unit": "seeds",
                "effects": [{"estimand": "lifted - baseline", "smallest": 0.05}],
                "rival": {
                    "statement": "It is worth nothing.",
                    "estimand": "lifted - baseline",
                    "ours": "above zero",
                    "theirs": "near zero",
                },
            }
        ],
    }
)
RETURN = "    return 0.5 + 0.01 * rng.random()\n"


OPTION = ('parser.add_argument("--seed", type=int, default=0)\n', 'parser.add_argument("--lift", type=float)\n')


def edited(find: str, replace: str, arm: str = "lifted", path: str = "fit/model.py") -> tuple[ArmPatch, ...]:
    return (ArmPatch(arms=(arm,), edits=(RepositoryEdit(path=path, old=find, new=replace),)),)


def lifted() -> tuple[ArmPatch, ...]:
    """Two files; one name is not there."""
    return (
        ArmPatch(
            arms=("lifted",),
            edits=(
                RepositoryEdit(path="fit/model.py", old="def worth(seed):", new="def worth(seed, lift):"),
                RepositoryEdit(
                    path="fit/model.py",
                    old=RETURN,
                    new="    bonus = 0.05\n    return 0.5 + LIFT + bonus + 0.01 * rng.random()\n",
                ),
                RepositoryEdit(path="train.py", old=OPTION[0], new="".join(OPTION)),
                RepositoryEdit(path="train.py", old="worth(opts.seed)", new="worth(opts.seed, opts.lift)"),
            ),
        ),
    )


def hand_in(*patches: ArmPatch, arms: tuple[str, ...] = ()) -> ToolCall:
    made = Patches(title="a lift", plan="A lift is added.", varies="a lift", reasons="r", patches=patches, arms=arms)
    return ToolCall(tool="hand_in", arguments=made.model_dump(mode="json"))


CALLS: dict[str, tuple[ToolCall, ...]] = {
    "draft": (
        ToolCall(tool="read", arguments={"path": "fit/model.py"}),
        hand_in(*edited('"quality": value', '"quality": 1 + value', path="train.py")),
        hand_in(*edited(RETURN, RETURN.replace("0.5", "0.7"), arm="baseline")),
        hand_in(*lifted()),
    ),
    "debug": (hand_in(*edited("LIFT", "lift")),),
    "improve": (
        ToolCall(tool="edit", arguments={"path": "fit/model.py", "old": "+ lift", "new": "+ 1.5 * lift"}),
        hand_in(ArmPatch(arms=("lifted",), scratch=True)),
    ),
    "ablate": (
        hand_in(*edited("1.5", "1.6"), arms=("without-bonus",)),
        hand_in(*edited("+ bonus ", "", arm="without-bonus"), arms=("without-bonus",)),
    ),
}
"""A read file; a touched metric, then a touched baseline, then a mistake; its repair; an improvement; an ablation."""


class Author:
    """Makes the calls for the kind of node, and keeps what it was asked and shown."""

    def __init__(self) -> None:
        self.asked: dict[str, PatchingInputs] = {}
        self.results: dict[str, list[str]] = {}

    def __call__(self, request: ModelRequest) -> ToolCall:
        inputs, conversation = request.inputs, request.conversation
        assert isinstance(inputs, PatchingInputs) and conversation is not None
        self.asked[inputs.kind] = inputs
        self.results[inputs.kind] = [one.result for one in conversation.exchanges]
        return CALLS[inputs.kind][len(conversation.exchanges)]


def silent(event: Event, state: RunState) -> None:
    """Nobody looks."""


def settings(code: Path) -> Settings:
    return compose_settings(
        flags={
            "models.name": "openai:some-model",
            "code.repository": str(code),
            "code.metric": "metrics.json:val.quality",
            "code.command": "python train.py --seed {seed}",
            "code.frozen": ["data/*"],
            "search.num_drafts": 1,
            "search.num_seeds": 1,
            "search.max_seeds": 2,
            "search.ladder": False,
            "search.planned_ablations": 0,
            "search.preliminary.nodes": 2,
            "search.tuning.nodes": 1,
            "search.agenda.nodes": 1,
            "search.ablation.nodes": 1,
            "search.num_workers": 2,
            "paper.reflections": 0,
        },
        environment={},
    )


@pytest.mark.usefixtures("placeholder_pdf")
def test_a_method_is_written_as_a_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, author = tmp_path / "code", Author()
    (code / "fit").mkdir(parents=True)
    (code / "train.py").write_text(TRAIN)
    (code / "fit" / "model.py").write_text(MODEL)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        run_git(code, *words)

    def script(request: ModelRequest) -> BaseModel:
        if isinstance(request.inputs, PatchingInputs):
            return author(request)
        return ANSWER_FUNCTIONS[request.role.name](request.inputs)

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(script)

    monkeypatch.setattr(runs, "open_backend", opened)
    monkeypatch.setattr(node_cells, "RECHECK_INTERVAL", 2**64)  # by chance no cell is measured twice
    run = tmp_path / "run"
    assert runs.start_study(IDEA, settings(code), runs=tmp_path, name="run", listener=silent, plan=PLAN) == 0

    state = read_state(run)
    done = {node.kind: node for node in state.nodes.values() if node.kind not in ("replicate", "aggregate")}
    assert {kind: node.status for kind, node in done.items()} == {
        "draft": "buggy",
        "debug": "good",
        "trial": "good",
        "tune": "good",
        "improve": "good",
        "ablate": "good",
    }
    source = read_source(RunFolder(run).get_source_path(done["improve"].id))
    assert "+    return 0.5 + 1.5 * lift + bonus + 0.01 * rng.random()" in source["arms/lifted.diff"].splitlines()
    assert "arms/baseline.diff" not in source
    values = {one.condition: one.value for kind in ("improve", "ablate") for one in done[kind].measurements}
    best = max(one.setting["lift"] for one in state.search.trials.values())
    lift = values["lifted"] - values["baseline"]
    assert lift == pytest.approx(1.5 * float(best) + 0.05), "the setting that trials chose reaches the patched option"
    assert values["without-bonus"] == pytest.approx(values["lifted"] - 0.05)
    seeds = [
        line.cell.seed
        for node in state.nodes.values()
        for attempt in node.attempts
        for line in attempt.cells
        if line.cell.arm == "baseline" and line.outcome == "measured"
    ]
    assert len(seeds) == len(set(seeds))  # the baseline is the same in all nodes: each seed runs once

    assert "  worth(seed)" in author.asked["draft"].repository.map
    read, measured, baseline = author.results["draft"]
    assert "def worth(seed)" in read
    assert "changes a line that writes the result" in measured
    assert "is the baseline" in baseline
    debug = author.asked["debug"]
    ((name, made),) = [(name, one) for name, one in debug.made.items() if one.patch]
    assert name == debug.start == "lifted" and "LIFT" in made.patch
    assert "must not change lifted" in author.results["ablate"][0]
    assert main(["audit", str(run)]) == 0 and "clean: 0 unbound" in capsys.readouterr().out
    with running_server(tmp_path) as web:
        page = web.get(f"/runs/run/nodes/{done['improve'].id}").text
    assert "<b>lifted</b>" in page and "the unmodified repository" in page and "<h3>arms/lifted.json" not in page
    assert '<span class="add">+    return 0.5 + 1.5 * lift' in page
    assert "Author's steps" in page and "2 calls of tools" in page and "text at line" in page
