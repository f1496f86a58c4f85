"""A process that waits at each gate, is killed there (SIGKILL) and resumed, and goes on with changes of a person; once
it is killed amid its work, right after an execution. tests/faults/test_kills.py kills runs without gates."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from labwright.agent.audit import audit_run
from labwright.agent.cli import main
from labwright.inspector.live_view import find_process
from labwright.record.event_log import read_events, read_state
from labwright.record.llm_calls import find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import GateName
from labwright.record.yaml_text import load_yaml
from tests.faults.http_study import make_study_script
from tests.faults.run_killer import LIMIT_SECONDS, KilledRun, wait_for_end
from tests.models.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
    pytest.mark.usefixtures("reusing_executions"),
]


def test_gates_hold_over_kills_and_take_the_changes_of_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STUDY_GATES", "plan,lock,paper")
    run, noted = tmp_path / "run", tmp_path / "noted"
    with OpenAIServer(make_study_script(noted)) as server:
        killed = KilledRun(run, server, noted)

        def approve(edit: Path, gate: GateName, wait: float = 2.0, until: str = "gate_reached") -> str | None:
            """Resume the process, let it wait at its gate, approve with changes, and kill it at the next gate, or right
            after another event."""
            before = len(read_events(run / "events.jsonl"))

            def act(child: subprocess.Popen[bytes]) -> None:
                end = time.monotonic() + LIMIT_SECONDS
                while not has_resumed(run, before) and child.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                time.sleep(wait)  # nothing happens meanwhile
                assert child.poll() is None
                gate_of(read_state(run), gate)
                assert main(["approve", str(run), "--edit", str(edit), "--reason", f"mine at {gate}"]) == 0
                wait_for_end(child)

            return killed.kill_after_acting((until,), act)

        assert killed.kill_after(("gate_reached",)) == "gate_reached"
        gate_of(read_state(run), "plan")
        assert not read_state(run).nodes
        plan = json.loads((run / "data_plan.json").read_text()) | {"notes": "The rows are those of a person."}
        mine = tmp_path / "plan.yaml"
        mine.write_text(json.dumps(plan))
        assert approve(mine, "plan", until="executed") == "executed"
        assert killed.kill_after(("gate_reached",)) == "gate_reached"

        state = read_state(run)
        gate_of(state, "lock")
        assert state.search.data_plan is not None and state.search.data_plan.notes == plan["notes"]
        assert state.search.current_lock is None and state.search.stages["tuning"].is_settled
        mine.write_text(state.search.data_plan.model_copy(update={"untested": ("other data",)}).model_dump_json())
        worked = state.active_seconds
        assert approve(mine, "lock", wait=5.0) == "gate_reached"

        state = read_state(run)
        gate_of(state, "paper")
        assert state.search.current_lock is not None and state.search.current_lock.amendments == 1
        approved = next(one.received_at for one in state.user_commands if one.command.target == "lock")
        waited = approved - state.gates["lock"].at
        spent = state.active_seconds - worked
        assert waited > 5.0 and spent < state.last_event_at - state.gates["lock"].at - waited + 1.0
        text = load_yaml((run / "paper" / "rounds" / "text.yaml").read_text())
        text["title"] = "What shrinking the means of classes does"
        mine.write_text(json.dumps(text))
        assert approve(mine, "paper") is None, "it ended"
    state = read_state(run)
    assert state.process_end is not None and state.process_end.exit_code == 0
    assert state.paper.released is not None and state.paper.released.released
    assert state.paper.drafts[-1].draft.title == text["title"]
    paper = " ".join((run / "paper" / "paper.tex").read_text().split())
    assert "Written by a program and edited by a person" in paper and text["title"] in paper
    appendix = " ".join((run / "paper" / "appendix.tex").read_text().split())
    for said in (
        "A person changed the data plan before any experiment ran",
        "A person amended the data plan before it was locked",
        "A person edited the text of this paper before it was released",
        "mine at plan",
        "mine at paper",
    ):
        assert said in appendix, said
    assert not audit_run(run).findings
    assert killed.kills == ["gate_reached", "executed", "gate_reached", "gate_reached"]
    assert not killed.find_repeated() and not killed.damaged and not killed.count_repeated_requests()
    assert not killed.list_running()
    kept = [find_prompt(run, one) for one in state.calls.answers.values()]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)
    capsys.readouterr()
    assert main(["status", str(run)]) == 0
    assert "approve the paper with changes" in capsys.readouterr().out


def has_resumed(run: Path, before: int) -> bool:
    """Whether another process took the run up and recorded so."""
    found = [event.type for event, _ in read_events(run / "events.jsonl")[before:]]
    return "resumed" in found and find_process(run) is not None


def gate_of(state: RunState, gate: GateName) -> None:
    """Check that the run waits at a gate, with what comes next and its cost."""
    assert state.open_gate is not None and state.is_paused
    assert state.open_gate.reached.gate == gate and state.open_gate.reached.comes_next and state.open_gate.reached.cost
