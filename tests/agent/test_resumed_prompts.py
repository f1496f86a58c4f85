"""A run that is resumed on another machine or with other limits keeps what was answered, and says what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.inspector.web.calls import DRIFTED, opened
from labwright.inspector.web.watched import Watched
from labwright.record.events import Event
from labwright.record.fold.state import RunState
from tests.agent.scripted_runs import Killed, World, answered

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def written(world: World) -> None:
    """A run that was killed right after the code of its first node was answered."""
    world.kill = answered("code")
    with pytest.raises(Killed):
        world.run(sandbox__timeout=60)
    world.kill = lambda event: event.type == "executed"


def test_a_longer_time_limit_keeps_the_code_that_was_written(world: World) -> None:
    written(world)
    with pytest.raises(Killed):
        world.resume("--set", "sandbox.timeout=120")
    assert world.asked.count("code") == 1


def test_another_device_keeps_the_code_that_was_written(world: World) -> None:
    written(world)
    world.device = "GPUs: one H200 of 141 GB"
    with pytest.raises(Killed):
        world.resume()
    assert world.asked.count("code") == 1


def test_an_added_package_keeps_the_code_that_was_written(world: World) -> None:
    written(world)
    world.packages += ("scipy 1.15",)
    with pytest.raises(Killed):
        world.resume()
    assert world.asked.count("code") == 1


def limited(world: World, **settings: object) -> None:
    """A run whose time was up before its paper was begun, killed when the outline and two sections were there."""

    def late(event: Event, state: RunState) -> float:
        return 5000.0 if event.type == "figures_made" else 0.0

    world.tick = late
    world.kill = answered("write")
    with pytest.raises(Killed):
        world.run(time_limit=4000, paper__sections_per_call=1, **settings)
    assert world.state.limited is not None
    world.kill = answered("write", 1)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="the same limit", marks=pytest.mark.bench),
        pytest.param(("--time-limit", "12h"), id="a longer one"),
    ],
)
def test_a_kill_while_writing_after_the_time_limit_keeps_what_was_written(world: World, more: tuple[str, ...]) -> None:
    limited(world)
    before = world.state.answers
    with pytest.raises(Killed):
        world.resume(*more)
    assert world.asked.count("outline") == 1 and world.asked.count("write") == 2
    assert before.items() <= world.state.answers.items() and not world.state.drifted
    asked = next(one.prompt for one in world.model.requests if one.role.name == "outline")
    assert "ended early" in asked.system + asked.user


def test_what_has_drifted_is_shown(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    written(world)
    world.device, world.packages = "GPUs: one H200 of 141 GB", ("numpy 2.0", "scipy 1.15")
    with pytest.raises(Killed):
        world.resume("--set", "sandbox.timeout=120")
    with pytest.raises(Killed):
        world.kill = lambda event: event.type == "judged"
        world.resume()
    said = capsys.readouterr().out
    assert said.count("answer 2.0.code.0 kept, although the machine or the limits have changed since") == 1
    for command in ("status", "why"):
        assert world.main(command, str(world.folder / "run")) == 0
        assert "kept, although the machine or the limits have changed since: 2.0.code.0" in capsys.readouterr().out
    page = opened(seen(world), "2.0.code.0")
    assert page is not None and page.call.note == DRIFTED


def seen(world: World) -> Watched:
    watched = Watched(world.folder / "run", "run")
    watched.look()
    return watched


def test_another_question_is_asked_anew_and_both_answers_stay(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.kill = answered("write")
    with pytest.raises(Killed):
        world.run(paper__sections_per_call=1, paper__template="workshop")
    ran = len(world.ran)
    world.kill = answered("write", 1)
    with pytest.raises(Killed):
        world.resume("--set", "paper.template=conference")
    state = world.state
    assert world.asked.count("outline") == 2 and world.asked.count("write") == 3 and len(world.ran) == ran
    assert [one.key.role for one in state.superseded] == ["outline", "write"]
    assert state.usage["outline"].calls == 2 and state.usage["write"].calls == 3
    assert "outline.0 asked again: its question has changed" in capsys.readouterr().out
    assert world.main("status", str(world.folder / "run")) == 0
    assert "asked again, since plan, code, results or question changed" in capsys.readouterr().out
