"""`scientist run` and `resume` where the program itself stumbles over what node after node leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent import run
from labwright.agent.cli import main, preflight
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.event_log import read_events, read_state
from labwright.stages.nodes import node_cells
from tests.stages.small_study import IDEA, make_small_model

pytestmark = pytest.mark.slow
QUICK = (
    "seed=3",
    "sandbox.isolation=none",
    "search.num_workers=3",
    "search.num_drafts=4",
    "search.preliminary.nodes=4",
    "search.num_seeds=0",
)


def stumbles(*_: object) -> None:
    """A fault of ours that no leavings are known to bring about; the known ones are mended."""
    raise LookupError("a fault of ours")


def scripted(_: ModelSettings) -> ScriptedModel:
    return make_small_model()


def command(name: str, *arguments: str) -> int:
    return main([name, *arguments, *(word for one in QUICK for word in ("--set", one))])


def test_the_same_traceback_in_three_nodes_is_exit_1_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("idea.json").write_text(IDEA.model_dump_json(by_alias=True))
    for module in (run, preflight):
        monkeypatch.setattr(module, "open_backend", scripted)
    with monkeypatch.context() as broken:
        broken.setattr(node_cells, "seal_folder", stumbles)
        assert command("run", "--idea", "idea.json", "--name", "r") == 1
    said = capsys.readouterr().out
    assert "failed (exit code 1)" in said and "LookupError < " in said and "scientist resume" in said
    assert not list(Path("runs/r").glob("crash-*")), "said in one line, and kept in the record"
    state = read_state(Path("runs/r"))
    stumbled = [one for one in state.nodes.values() if one.failure is not None and one.failure.ours]
    assert len(stumbled) >= 3 and all("in stumbles" in one.failure.traceback for one in stumbled if one.failure)
    events = len(read_events(Path("runs/r/events.jsonl")))
    assert main(["status", "runs/r", "--json"]) == 0
    assert "LookupError" in json.dumps(json.loads(capsys.readouterr().out)["diagnosis"]["errors"])
    command("resume", "runs/r", "--time-limit", "1s")  # the mended program goes on; what is left of the search is cut
    assert len(read_events(Path("runs/r/events.jsonl"))) > events + 2
    assert not read_state(Path("runs/r")).internal_faults
