"""The planners' answers over the wire: one in a form that is none is refused, and asked for again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from labwright.models import roles
from labwright.models.client import Models, render
from labwright.models.retry import open_backend
from labwright.models.roles import ROLES
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from tests.models.examples import ABLATION, CODE, INPUTS
from tests.models.openai_server import OpenAIServer, answer_by_tool


@pytest.mark.slow
@pytest.mark.usefixtures("local_requests", "no_waits")
def test_an_unknown_action_and_one_without_replacement_are_refused_and_asked_again() -> None:
    good = ABLATION.model_dump(mode="json")
    wrong: list[dict[str, Any]] = [{**good, "action": "weaken"}, {**good, "replacement": " "}]
    answers = [answer_by_tool({"ablations": [one], "why": "They need it."}) for one in (*wrong, good)]
    with OpenAIServer(answers) as server:
        settings = ModelSettings(name="openai:m", base_url=server.url, output_retries=2)
        desk = Models(open_backend(settings), MemoryLog(), settings, lambda: 0.0).make_client(1, 0)
        found = asyncio.run(desk.ask(ROLES["missing_ablations"], INPUTS["missing_ablations"]))
    assert found.ablations == (ABLATION,) and len(server.requests) == 3
    told = [str(body["messages"]) for body in server.requests]
    assert "needs a replacement" in told[2] and "needs a replacement" not in told[1]


def test_a_node_is_told_its_planned_ablation_and_to_make_no_other_change() -> None:
    ablate = CODE.model_copy(
        update={"stage": "ablation", "kind": "ablate", "item": ABLATION.item_text, "ablation": ABLATION}
    )
    user = " ".join(render(roles.CODE, ablate).user.split())
    assert (
        "describes it as follows: - replace: the warm-up of the penalty - replacement: the full penalty at once" in user
    )
    assert "Its arm is `sudden-penalty`." in user and "`sudden-penalty@n50` and so on" in user
    assert "Make this change and no other" in user and "without-<part>" not in user
    assert "rank the remaining parts" not in user
