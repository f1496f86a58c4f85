"""One role whose answers cannot be used costs its own step, never the run nor experiments under way: over the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from labwright.models.backend import ModelRequest, Reply
from labwright.models.errors import ModelOutputInvalid
from labwright.models.replay import ScriptedModel
from labwright.record.events import Event
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import STAGES
from labwright.stages.paper import paper_steps
from tests.agent.scripted_runs import Killed, RunWorld
from tests.stages.small_study import make_small_model

pytestmark = pytest.mark.slow


class Nonsense(ScriptedModel):
    """The small study's model, whose first answers as one role are prose."""

    def __init__(self, role: str, times: int = 99) -> None:
        super().__init__(_never)
        self._small, self._role, self.left = make_small_model(), role, times

    async def answer(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        if request.role.name == self._role and self.left > 0:
            self.left -= 1
            raise ModelOutputInvalid("scripted: it answered in prose")
        return await self._small.answer(request)


def _never(_: ModelRequest) -> BaseModel:
    raise AssertionError("another model answers")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWorld:
    return RunWorld(tmp_path, monkeypatch)


def told(world: RunWorld) -> list[tuple[str, str]]:
    return [(one.key.role, one.then) for one in world.state.calls.unanswered_calls.values()]


def unmarred(state: RunState) -> bool:
    """Whether the search came to its end with nodes that worked, and none was cancelled."""
    return all(state.search.stages[stage].summary for stage in STAGES) and not any(
        node.status == "cancelled" for node in state.nodes.values()
    )


def reports(state: RunState) -> bool:
    found = [state.search.stages[stage].summary for stage in STAGES]
    reported = [one for one in found if one is not None and "from the record alone" in one.tried]
    return len(reported) == len(STAGES) and all(one.numbers for one in reported[1:])


def plan_asked_again(state: RunState) -> bool:
    return sum(key.role == "plan" for key in state.calls.answers) == 1 and state.search.data_plan is not None


SEARCH: dict[str, tuple[int, list[str], Callable[[RunState], bool]]] = {
    "plan": (1, ["plan"], plan_asked_again),
    "code": (1, [], lambda state: state.nodes["n0002"].status == "buggy"),
    "plot": (1, [], lambda state: [n.status for n in state.nodes.values() if n.kind == "aggregate"] == ["buggy"]),
    "vision": (
        99,
        ["vision"],
        lambda state: all(not one.looked for node in state.nodes.values() for one in node.plottings),
    ),
    "feedback": (1, [], lambda state: state.nodes["n0002"].status == "buggy"),
    "summary": (99, ["summary"], reports),
    "ablation_plan": (
        99,
        [],
        lambda state: (
            state.search.planned_ablations is not None and "no usable plan" in state.search.planned_ablations.why
        ),
    ),
    "figures": (99, ["figures"], lambda state: state.paper.figures is not None and not state.paper.figures.figures),
}
"""Role -> how often it answers nonsense, the roles that are told to be without an answer, and what came of it."""


@pytest.mark.parametrize(
    "role",
    [role if role in ("code", "ablation_plan") else pytest.param(role, marks=pytest.mark.bench) for role in SEARCH],
)
def test_the_search_goes_on_without_the_answer(role: str, world: RunWorld) -> None:
    times, lacking, came = SEARCH[role]
    world.model = Nonsense(role, times)
    world.kill = lambda event: event.type == "figures_made"
    with pytest.raises(Killed):
        world.run(search__preliminary__nodes=4)
    state = world.state
    assert came(state) and unmarred(state)
    assert sorted({one for one, _ in told(world)}) == lacking


def test_without_a_plan_it_is_told_why_none_came(world: RunWorld) -> None:
    world.model = Nonsense("plan")
    assert world.run() == 2
    ended = world.state.process_end
    assert ended is not None and "it answered in prose" in ended.reason and "could not be read" not in ended.reason


@pytest.mark.parametrize("role", ["outline", pytest.param("write", marks=pytest.mark.bench)])
def test_a_writer_is_asked_once_more(role: str, world: RunWorld) -> None:
    world.model = Nonsense(role, 1)
    world.kill = lambda event: event.type == "drafted"
    with pytest.raises(Killed):
        world.run()
    again = [one.prompt.user for one in world.model.requests if one.role.name == role]
    assert len(again) == 2 and "was unusable" in again[1] and "was unusable" not in again[0]
    assert told(world) == [(role, paper_steps.RETRY_NOTE)]


@pytest.mark.parametrize(
    ("role", "taken_up"),
    [
        ("outline", ("write", "--set", "models.name=offline")),
        pytest.param("write", ("resume",), marks=pytest.mark.bench),
    ],
)
def test_without_a_draft_the_experiments_are_kept_and_another_model_writes(
    role: str, taken_up: tuple[str, ...], world: RunWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.model = Nonsense(role)
    assert world.run() == 4
    state, ran = world.state, list(world.ran)
    assert (
        state.process_end is not None and f"gave no usable response as {role} in 2 attempts" in state.process_end.reason
    )
    assert unmarred(state) and world.asked_roles.count(role) == 2
    capsys.readouterr()
    assert world.main("status", str(world.folder / "run")) == 0
    said = capsys.readouterr().out
    assert "invalid: " in said and f"{role}.0" in said and "continue with: scientist resume" in said
    world.model = make_small_model()
    command, *more = taken_up
    world.main(command, str(world.folder / "run"), *more)
    assert world.state.paper.drafts and world.ran == ran, "no experiment ran again"
    assert told(world) == []


def test_a_kill_after_an_unusable_answer_does_not_pay_for_it_again(world: RunWorld) -> None:
    def after(event: Event) -> bool:
        return event.type == "unanswered"

    world.model, world.kill = Nonsense("outline", 1), after
    with pytest.raises(Killed):
        world.run()
    world.kill = lambda event: event.type == "drafted"
    with pytest.raises(Killed):
        world.resume()
    assert world.asked_roles.count("outline") == 2
