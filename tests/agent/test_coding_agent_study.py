"""Whole studies whose only model is a command-line coding agent, by stand-ins of the programs.

`benchmarks.coding_agents` runs the same with the programs themselves.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from labwright.models import command_line_agent
from labwright.models.backend import ModelRequest, Reply
from labwright.models.replay import ScriptedModel
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from labwright.record.events.run_events import ProviderOutage, ProviderRecovered
from tests.agent.scripted_runs import RunWorld
from tests.models.agent_stand_in import (
    LOOK_UP,
    StandIn,
    claude_error,
    claude_init,
    claude_result,
    codex_end,
    codex_error,
)
from tests.models.agent_stand_in import codex_message as say
from tests.stages.small_study import make_small_model

pytestmark = pytest.mark.slow


class StandInModel:
    """The backend of a program; what the stand-in is to say is noted before it is started."""

    def __init__(self, name: str, program: StandIn) -> None:
        self._backend = cast(Any, open_backend(ModelSettings(name=f"cli:{name}", output_retries=1)))
        self._model, self._program = make_small_model(), program
        self.answers = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def answer(self, request: ModelRequest) -> Reply:
        answer = (await self._model.answer(request)).output.model_dump(mode="json", by_alias=True)
        self._program.add_answer(request.prompt.user, answer)
        reply = await self._backend.answer(request)
        self.answers += 1
        return reply


def quota(name: str) -> list[Any]:
    """What a program prints while its window is used up."""
    if name == "codex":
        return codex_error("You've hit your usage limit. Try again in 1 second.")
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": time.time() + 1}}
    return [limit, *claude_error("You've hit your session limit", 429)]


def prose(name: str) -> list[Any]:
    words = "I would rather explain: it depends."
    return [say(words), codex_end()] if name == "codex" else [claude_init(), claude_result(text=words)]


@pytest.mark.parametrize("name", ["claude", pytest.param("codex", marks=pytest.mark.bench)])
def test_a_study_reaches_its_lock_and_paper_with_a_coding_agent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer is prose, one half a JSON, and once the window is used up."""
    monkeypatch.setattr(command_line_agent, "_MIN_QUOTA_SECONDS", 0.1)
    half = [say('{"task": "class'), codex_end()] if name == "codex" else [claude_init(), claude_result(text='{"task"')]
    good: list[Any] = [LOOK_UP]
    program = StandIn(name, tmp_path, monkeypatch, good, good, prose(name), good, half, good, quota(name), good)
    model = StandInModel(name, program)
    world = RunWorld(tmp_path, monkeypatch)
    world.model = cast(ScriptedModel, model)
    assert world.run() == 0
    state = world.state
    assert state.search.locks and state.search.scored_at is not None and state.paper.released is not None
    assert {one.model.rpartition(":")[0] for one in state.calls.answers.values()} == {f"cli:{name}"}
    assert len(state.calls.answers) == model.answers == len(program.runs) - 3
    assert sum(one.retries for one in state.calls.answers.values()) == 2
    kinds = [type(one) for one in world.events if isinstance(one, ProviderOutage | ProviderRecovered)]
    assert kinds == [ProviderOutage, ProviderRecovered]
