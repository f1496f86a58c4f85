"""A run that is resumed on another machine or with other limits keeps what was answered, and says what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.inspector.web.node_panel import KEPT_NOTE, open_call
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.events import Event
from labwright.record.reducers.run_state import RunState
from tests.agent.scripted_runs import Killed, RunWorld, is_answer_to

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWorld:
    return RunWorld(tmp_path, monkeypatch)


def written(world: RunWorld) -> None:
    """A run that was killed right after the code of its first node was answered."""
    world.kill = is_answer_to("code")
    with pytest.raises(Killed):
        world.run(sandbox__timeout=60)
    world.kill = lambda event: event.type == "executed"


def test_a_longer_time_limit_keeps_the_code_that_was_written(world: RunWorld) -> None:
    written(world)
    with pytest.raises(Killed):
        world.resume("--set", "sandbox.timeout=120")
    assert world.asked_roles.count("code") == 1


def limited(world: RunWorld, **settings: object) -> None:
    """A run whose time was up before its paper was begun, killed when the outline and two sections were there."""

    def late(event: Event, state: RunState) -> float:
        return 5000.0 if event.type == "figures_made" else 0.0

    world.tick = late
    world.kill = is_answer_to("write")
    with pytest.raises(Killed):
        world.run(time_limit=4000, paper__sections_per_call=1, **settings)
    assert world.state.limit_reason is not None
    world.kill = is_answer_to("write", 1)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="the same limit", marks=pytest.mark.bench),
        pytest.param(("--time-limit", "12h"), id="a longer one"),
    ],
)
def test_a_kill_while_writing_after_the_time_limit_keeps_what_was_written(
    world: RunWorld, more: tuple[str, ...]
) -> None:
    limited(world)
    before = world.state.calls.answers
    with pytest.raises(Killed):
        world.resume(*more)
    assert world.asked_roles.count("outline") == 1 and world.asked_roles.count("write") == 2
    assert before.items() <= world.state.calls.answers.items() and not world.state.calls.changed_prompts
    asked = next(one.prompt for one in world.model.requests if one.role.name == "outline")
    assert "ended the run early" in asked.system + asked.user


def test_what_has_drifted_is_shown(world: RunWorld, capsys: pytest.CaptureFixture[str]) -> None:
    written(world)
    world.device, world.packages = "GPUs: one H200 of 141 GB", ("numpy 2.0", "scipy 1.15")
    with pytest.raises(Killed):
        world.resume("--set", "sandbox.timeout=120")
    with pytest.raises(Killed):
        world.kill = lambda event: event.type == "judged"
        world.resume()
    said = capsys.readouterr().out
    assert said.count("answer 2.0.code.0 reused although the machine or the limits have changed") == 1
    assert world.main("status", str(world.folder / "run")) == 0
    assert "reused although the machine or the limits have changed: 2.0.code.0" in capsys.readouterr().out
    page = open_call(seen(world), "2.0.code.0")
    assert page is not None and page.call.note == KEPT_NOTE


def seen(world: RunWorld) -> CachedRun:
    watched = CachedRun(world.folder / "run", "run")
    watched.refresh()
    return watched


def test_another_question_is_asked_anew_and_both_answers_stay(
    world: RunWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.kill = is_answer_to("write")
    with pytest.raises(Killed):
        world.run(paper__sections_per_call=1, paper__template="workshop")
    ran = len(world.ran)
    world.kill = is_answer_to("write", 1)
    with pytest.raises(Killed):
        world.resume("--set", "paper.template=conference")
    state = world.state
    assert world.asked_roles.count("outline") == 2 and world.asked_roles.count("write") == 3 and len(world.ran) == ran
    assert [one.key.role for one in state.calls.superseded_answers] == ["outline", "write"]
    assert state.calls.usage_by_role["outline"].calls == 2 and state.calls.usage_by_role["write"].calls == 3
    assert "outline.0 repeated: its prompt has changed" in capsys.readouterr().out
    assert world.main("status", str(world.folder / "run")) == 0
    assert "repeated because plan, code, results or prompt changed" in capsys.readouterr().out
