"""Gates: a run waits for a person at them, survives a kill and a stop there, and takes changes that pass its checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.alerts import classify_event
from labwright.agent.cli import main
from labwright.agent.environment import paper_notice
from labwright.inspector.event_text import describe_event
from labwright.record.control_files import find_refusal, send_command
from labwright.record.event_log import read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CommandReceived, GateEditRefused, GateReached
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import GateName
from labwright.record.yaml_text import load_yaml
from labwright.stages.paper.appendix import list_disclosures, render_incidents
from tests.agent.scripted_runs import Killed, RunWorld

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWorld:
    return RunWorld(tmp_path, monkeypatch)


def wait_killed(world: RunWorld, gate: GateName, *, resume: bool = False) -> RunState:
    """The state of a run that is killed at a gate."""
    world.kill = lambda event: isinstance(event, GateReached) and event.gate == gate
    with pytest.raises(Killed):
        _ = world.resume() if resume else world.run(gates=gate)
    world.kill = lambda _: False
    state = world.state
    assert state.open_gate is not None and state.open_gate.reached.gate == gate and state.is_paused
    return state


def test_a_plan_changed_at_its_gate_is_carried_out_and_disclosed(
    world: RunWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    state = wait_killed(world, "plan")
    assert state.search.data_plan is None and not world.ran, "nothing started"
    gate = state.open_gate
    assert gate is not None and gate.reached.plan is not None and "calls" in gate.reached.cost
    assert classify_event(gate.reached) == "pause"
    line = describe_event(gate.reached, state)
    assert line is not None and "waits at the gate plan" in line and gate.reached.cost in line
    main(["status", str(run)])
    out = capsys.readouterr().out
    assert "at the gate plan, next: the data of the plan" in out and "scientist approve" in out
    plan = json.loads((run / "data_plan.json").read_text())
    edited = tmp_path / "mine.yaml"
    edited.write_text(json.dumps(plan | {"note": "one word is wrong"}))
    assert world.main("approve", str(run), "--edit", str(edited)) == 2
    assert "note: Extra inputs are not permitted" in capsys.readouterr().err
    plan["datasets"][0]["name"] = "nowhere"
    edited.write_text(json.dumps(plan))
    assert world.main("approve", str(run), "--edit", str(edited)) == 2
    assert "there is no dataset 'nowhere'" in capsys.readouterr().err
    plan["datasets"][0]["name"] = "iris"
    plan["notes"] = "Both arms get the same rows."
    edited.write_text(json.dumps(plan))
    assert world.main("approve", str(run), "--edit", str(edited), "--reason", "rows must be equal") == 0
    assert "saved for the next 'scientist resume" in capsys.readouterr().out
    asked = world.asked_roles.count("plan")
    assert world.resume() == 0
    state = world.state
    assert world.asked_roles.count("plan") == asked, "the plan is not requested again"
    assert state.search.data_plan is not None and state.search.data_plan.notes == "Both arms get the same rows."
    disclosed = json.loads((run / "review" / "disclosure.json").read_text())
    [steered] = disclosed["steering"]
    assert (steered["target"], steered["text"]) == ("plan", "rows must be equal") and steered["plan"]["notes"]
    assert "A person changed the data plan before any experiment ran; the appendix says why." in list_disclosures(
        state, ()
    )
    assert "rows must be equal" in render_incidents(state)
    assert "A person wrote or edited the data plan and approved the plan before" in paper_notice(state)


def test_a_change_that_the_run_refuses_leaves_it_at_the_gate(world: RunWorld, tmp_path: Path) -> None:
    run = tmp_path / "run"
    state = wait_killed(world, "plan")
    assert state.open_gate is not None and state.open_gate.reached.plan is not None
    plan = state.open_gate.reached.plan
    bad = plan.model_copy(update={"datasets": (plan.datasets[0].model_copy(update={"name": "nowhere"}),)})
    send_command(run, CommandReceived(verb="approve", plan=bad))  # the command line would have refused it

    def tick(event: Event, _: RunState) -> float:
        if event.type == "gate_edit_refused":
            send_command(run, CommandReceived(verb="approve", by="Ada"))
        return 0.0

    world.tick = tick
    assert world.resume() == 0
    refused = [one for one in world.events if isinstance(one, GateEditRefused)]
    assert len(refused) == 1 and "nowhere" in refused[0].reasons[0]
    assert world.state.search.data_plan == plan, "approved as it was"


def test_the_plan_may_be_amended_at_the_lock_and_nothing_else(
    world: RunWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    state = wait_killed(world, "lock")
    assert state.search.current_lock is None and state.search.data_plan is not None
    plan = state.search.data_plan
    edited = tmp_path / "mine.yaml"
    edited.write_text(plan.model_copy(update={"task": "another"}).model_dump_json())
    assert world.main("approve", str(run), "--edit", str(edited)) == 2
    assert "task of the plan cannot change" in capsys.readouterr().err
    changed = plan.model_copy(update={"untested": ("other data",)})
    edited.write_text(changed.model_dump_json())
    assert world.main("approve", str(run), "--edit", str(edited), "--reason", "scope") == 0
    assert world.resume() == 0
    state = world.state
    assert [one.why for one in state.search.amendments] == ["scope"] and state.search.current_lock is not None
    assert state.search.current_lock.plan == state.search.plan_hash and state.search.current_lock.amendments == 1
    assert not state.search.amendments[0].by.startswith("the program")


def test_a_text_changed_by_a_person_passes_the_same_checks(
    world: RunWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    wait_killed(world, "paper")
    source = run / "paper" / "rounds" / "text.yaml"
    text = load_yaml(source.read_text())
    mine = tmp_path / "mine.yaml"
    text["sections"][0]["body"] += "\nThe accuracy is 93.7 on every set.\n"
    mine.write_text(json.dumps(text))
    assert world.main("approve", str(run), "--edit", str(mine)) == 0
    text["sections"][0]["body"] = text["sections"][0]["body"].replace("The accuracy is 93.7 on every set.", "")
    text["title"] = "Shrinking the means of classes"
    good = tmp_path / "good.yaml"
    good.write_text(json.dumps(text))

    def tick(event: Event, _: RunState) -> float:
        if event.type == "gate_edit_refused":
            assert main(["approve", str(run), "--edit", str(good), "--reason", "a plainer title"]) == 0
        return 0.0

    world.tick = tick
    assert world.resume() == 0
    refused = [one for one in world.events if isinstance(one, GateEditRefused)]
    assert len(refused) == 1 and "'93.7' is typed" in refused[0].reasons[0]
    state = world.state
    assert state.paper.drafts[-1].draft.title == "Shrinking the means of classes"
    assert any("changed by a person at the gate" in line for one in state.paper.drafts for line in one.edits)
    assert "A person edited the text of this paper before it was released." in list_disclosures(state, ())
    assert "a plainer title" in render_incidents(state)
    assert "A person edited the text and approved the paper" in paper_notice(state)


def test_a_stop_ends_a_run_at_its_gate_and_waiting_costs_no_time(world: RunWorld, tmp_path: Path) -> None:
    run = tmp_path / "run"
    hours = 3600.0

    def tick(event: Event, _: RunState) -> float:
        if event.type == "gate_reached":
            send_command(run, CommandReceived(verb="stop", text="for today"))
        return 0.0

    world.tick = tick
    assert world.run(gates="plan,paper", time_limit=hours) == 130
    state = world.state
    assert state.process_end is not None and "for today" in state.process_end.reason
    assert state.open_gate is not None and state.limit_reason is None
    world.tick = lambda event, _: 2 * hours if event.type == "gate_reached" else 0.0
    assert world.main("approve", str(run)) == 0
    world.kill = lambda event: event.type == "gate_reached"
    with pytest.raises(Killed):
        world.resume()
    assert world.state.open_gate is not None and world.state.open_gate.reached.gate == "paper"


def test_what_is_refused(world: RunWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    state = wait_killed(world, "plan")
    for verb in ("resume", "pause"):
        why = find_refusal(state, CommandReceived(verb=verb), is_running=True)
        assert why == "the run waits at the gate plan: continue it with 'scientist approve RUN'"
    plan = DataPlan.model_validate_json((tmp_path / "run" / "data_plan.json").read_text())
    assert find_refusal(state, CommandReceived(verb="approve", target="lock", plan=plan), is_running=True)
    assert find_refusal(state, CommandReceived(verb="stop"), is_running=True) is None
    assert world.resume("--set", "gates=[]") == 0, "a gate that is taken away holds nobody"
    capsys.readouterr()
    assert world.main("approve", run) == 2
    assert "the run has finished" in capsys.readouterr().err
    assert world.main("run", "--idea", str(tmp_path / "idea.json"), "--gate", "door", "--name", "b") == 2
    assert "'gates.0' (on the command line) should be 'plan', 'lock' or 'paper', not 'door'" in capsys.readouterr().err
    assert not [one for one in read_state(tmp_path / "run").gates.values() if one.approval], "nobody approved"
