"""The provider backend with its real client, against a local server that answers, and fails, by a script."""

from __future__ import annotations

import asyncio
import base64
import gzip
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, Field

from labwright.models import roles
from labwright.models.backend import Image, ModelRequest, Prompt
from labwright.models.client import Models, render
from labwright.models.errors import (
    AccessLost,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
    QuotaSpent,
)
from labwright.models.prices import estimate_tokens
from labwright.models.providers import ProviderModel, open_model
from labwright.models.retry import open_backend
from labwright.models.roles.experiment_code import Program
from labwright.models.settings import ModelSettings, locate_model
from labwright.record.event_log import MemoryLog
from labwright.record.llm_calls import store_prompt
from labwright.record.source_tree import SourceEdit
from tests.models.examples import CODE, PROGRAM
from tests.models.openai_server import (
    Choose,
    Exchange,
    OpenAIServer,
    Step,
    answer_by_tool,
    answer_error,
    answer_html,
    drop_connection,
    stall,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("local_requests")]


class Count(BaseModel):
    """A count."""

    value: int = Field(ge=0, le=9)


def request(**changes: object) -> ModelRequest:
    fields: dict[str, object] = {
        "role": roles.CODE,
        "inputs": CODE,
        "prompt": Prompt("Count.", "How many?"),
        "output_type": Count,
        "temperature": 0.5,
        "max_tokens": 100,
    }
    return ModelRequest(**{**fields, **changes})  # pyrefly: ignore


def at(server: OpenAIServer, *, timeout: float = 10.0, waits: list[float] | None = None) -> ProviderModel:
    """A provider that notes its waits instead of waiting."""
    settings = ModelSettings(name="openai:some-model", base_url=server.url, timeout=timeout)
    address = locate_model(settings.name, settings.base_url, {})

    async def sleep(seconds: float) -> None:
        (waits if waits is not None else []).append(seconds)

    return ProviderModel(open_model(address), address, settings, sleep)


async def failing(steps: list[Step], timeout: float = 10.0) -> tuple[ModelError, OpenAIServer]:
    with OpenAIServer(steps) as server, pytest.raises(ModelError) as caught:
        await at(server, timeout=timeout).answer(request())
    assert "\n" not in str(caught.value)
    return caught.value, server


@pytest.mark.asyncio
async def test_a_tracer_of_the_process_gets_spans_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("pydantic_ai.models.instrumented.get_tracer_provider", lambda: provider)
    picture = Image(b"planted picture")
    with OpenAIServer([answer_by_tool({"value": 12}), answer_by_tool({"value": 3})]) as server:
        await at(server).answer(request(images=(picture,), prompt=Prompt("PLANTED", "PLANTED")))
    with OpenAIServer([answer_error(400, "PLANTED")]) as server, pytest.raises(ModelError):
        await at(server).answer(request())
    text = " ".join(one.to_json() for one in spans.get_finished_spans())
    assert text.count('"name": "chat some-model"') == 3 and '"invoke_agent code"' in text
    assert "PLANTED" not in text and base64.b64encode(picture.data).decode() not in text


@pytest.mark.asyncio
async def test_an_answer_comes_through_the_output_tool() -> None:
    with OpenAIServer([answer_by_tool({"value": 3})]) as server:
        reply = await at(server).answer(request())
    assert reply.output == Count(value=3)
    assert reply.model == "openai-chat:served-model"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.usd) == (100, 20, 0.0)
    assert reply.retries == 0
    (sent,) = server.requests
    assert server.paths == ["/v1/chat/completions"]
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert "Count." in str(sent["messages"][0]) and "How many?" in str(sent["messages"][1])
    assert sent["tools"][0]["function"]["name"] == "answer"
    assert sent["tools"][0]["function"]["parameters"]["properties"]["value"]["type"] == "integer"
    assert sent["temperature"] == 0.5
    assert 100 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


@pytest.mark.asyncio
async def test_no_key_is_in_what_is_kept_of_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    ledger = MemoryLog()
    with OpenAIServer([answer_by_tool(PROGRAM.model_dump())]) as server:
        settings = ModelSettings(name="openai:some-model", base_url=server.url, context_tokens=100_000)
        models = Models(open_backend(settings), ledger, settings, time.monotonic, keep=partial(store_prompt, tmp_path))
        await models.make_client(1, 1).ask(roles.CODE, CODE)
    [file] = (tmp_path / "prompts").iterdir()
    text = gzip.decompress(file.read_bytes()).decode()
    assert CODE.goal in text and "sk-planted" not in text and server.url not in text


@pytest.mark.asyncio
async def test_an_edit_that_misses_is_shown_the_nearest_lines_and_mended_within_the_question() -> None:
    wrong, right = (
        PROGRAM.model_copy(
            update={
                "files": (),
                "edits": (SourceEdit(path="experiment.py", find=find, replace="LEARNING_RATE = 0.003"),),
            }
        )
        for find in ("LEARNING_RATE = 0.1\n", "LEARNING_RATE = 0.01")
    )
    with OpenAIServer([answer_by_tool(wrong.model_dump()), answer_by_tool(right.model_dump())]) as server:
        reply = await at(server).answer(request(output_type=Program))
    assert reply.output == right and reply.retries == 1
    said = str(server.requests[1]["messages"][-1])
    assert "edit 1 of experiment.py: find does not occur" in said and "3| LEARNING_RATE = 0.01" in said
    with OpenAIServer([answer_by_tool(wrong.model_dump())]) as server, pytest.raises(ModelOutputInvalid) as caught:
        await at(server).answer(request(output_type=Program))
    assert len(server.requests) == 3
    assert "edit 1 of experiment.py" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.asyncio
async def test_retry_after_is_honoured() -> None:
    waits: list[float] = []
    steps = [answer_error(429, retry_after="7"), answer_error(429, retry_after="60"), answer_by_tool({"value": 3})]
    with OpenAIServer(steps) as server:
        reply = await at(server, waits=waits).answer(request())
    assert reply.output == Count(value=3)
    assert waits == [7.0, 60.0]
    assert reply.retries == 2
    assert len(server.requests) == 3


@pytest.mark.asyncio
async def test_a_quota_window_is_no_rush_and_is_told_at_once() -> None:
    error, server = await failing([answer_error(429, retry_after="3600")])
    assert isinstance(error, QuotaSpent) and error.seconds == 3600
    assert len(server.requests) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "fault", [answer_error(500), answer_error(503), answer_error(529), drop_connection(), answer_html()]
)
async def test_a_passing_fault_is_waited_out(fault: Step) -> None:
    waits: list[float] = []
    with OpenAIServer([fault, fault, answer_by_tool({"value": 3})]) as server:
        reply = await at(server, waits=waits).answer(request())
    assert reply.output == Count(value=3)
    assert waits == [2.0, 4.0]


@pytest.mark.asyncio
@pytest.mark.parametrize("fault", [answer_error(500, "out of order"), drop_connection(), answer_html()])
async def test_a_lasting_fault_is_one_clear_error(fault: Step) -> None:
    error, server = await failing([fault])
    assert isinstance(error, ModelUnavailable)
    assert str(error).startswith(f"openai:some-model: no answer after 3 tries at {server.url}; resume later: ")
    assert len(server.requests) == 3


@pytest.mark.asyncio
async def test_a_page_in_place_of_an_answer_is_told_as_one() -> None:
    error, _ = await failing([answer_html("<!DOCTYPE html><html>please log in</html>")])
    assert isinstance(error, ModelUnavailable) and "an HTML page instead of an answer" in str(error)


@pytest.mark.asyncio
async def test_a_server_that_sends_requests_on_is_told_with_the_place_and_not_waited_for() -> None:
    def moved(exchange: Exchange) -> None:
        exchange.send(307, b"", location="/elsewhere/v1/chat/completions")

    error, server = await failing([moved])
    assert isinstance(error, ModelConfigError) and len(server.requests) == 1
    assert f"{server.url.removesuffix('/v1')}/elsewhere/v1; if that is right, set models.base_url" in str(error)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_stalled_request_ends_at_its_limit_and_is_tried_once_more() -> None:
    began = time.monotonic()
    error, server = await failing([stall(200)], timeout=3.0)  # a loaded machine takes a second to send it
    assert isinstance(error, ModelUnavailable)
    assert "no answer within 3 s (models.timeout)" in str(error)
    assert len(server.requests) == 2
    assert time.monotonic() - began < 100


@pytest.mark.asyncio
async def test_cancelling_an_answer_ends_at_once() -> None:
    with OpenAIServer([stall(200)]) as server:
        task = asyncio.create_task(at(server).answer(request()))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(100):
                await task


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "kind", "mend"),
    [
        (401, ModelConfigError, "check the API key"),
        (404, ModelConfigError, "check models.name and models.base_url"),
        (400, ModelRefused, "models.vision=false"),
    ],
)
async def test_what_no_retry_can_mend_is_not_retried(code: int, kind: type[ModelError], mend: str) -> None:
    error, server = await failing([answer_error(code)])
    assert isinstance(error, kind)
    assert mend in str(error)
    assert len(server.requests) == 1


GONE = [
    (401, "Incorrect API key provided", AccessLost, "the key is no longer accepted"),
    (403, "your key has no rights to this model", ModelUnavailable, "the key is no longer accepted"),
    (402, "credit used up", QuotaSpent, "the quota or the account's credit is used up"),
    (404, "The model `some-model` has been withdrawn", AccessLost, "the model or its address no longer exists"),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("code", "said", "kind", "words"), GONE)
async def test_what_has_worked_in_this_process_and_is_refused_now_is_an_outage(
    code: int, said: str, kind: type[ModelError], words: str
) -> None:
    with OpenAIServer([answer_by_tool({"value": 3}), answer_error(code, said)]) as server:
        model = at(server)
        await model.answer(request())
        with pytest.raises(ModelUnavailable) as caught:
            await model.answer(request())
    assert type(caught.value) is kind and words in str(caught.value) and said in str(caught.value)
    assert len(server.requests) == 2 and not caught.value.billed


@pytest.mark.asyncio
async def test_a_server_that_is_gone_is_an_outage_from_the_first_request_on() -> None:
    with OpenAIServer([answer_by_tool({"value": 3})]) as server:
        model = at(server)
        await model.answer(request())
    with pytest.raises(ModelUnavailable, match="no answer after 3 tries"):
        await model.answer(request())
    lost = ModelSettings(name="openai:m", base_url="http://no-such-host.invalid/v1", retries=0, context_tokens=100_000)
    with pytest.raises(ModelUnavailable, match="no answer after 1 try"):
        await open_backend(lost).answer(request())


# --- answers that are cut -------------------------------------------------------------------------------------------


def asking(server: OpenAIServer, **settings: object) -> Models:
    told = ModelSettings.model_validate(
        {
            "name": "openai:some-model",
            "base_url": server.url,
            "roles": {"code": {"max_tokens": 1000}},
            "context_tokens": 100_000,
            **settings,
        }
    )
    return Models(open_backend(told), MemoryLog(), told, time.monotonic)


def limits(server: OpenAIServer) -> list[int]:
    return [one["max_completion_tokens"] for one in server.requests]


ASKED = ModelRequest(role=roles.CODE, inputs=CODE, prompt=render(roles.CODE, CODE), output_type=Program)
FULL = estimate_tokens(ASKED) + 1000
"""A context that has room for an answer of 1000 tokens and no more."""


def long_answer(tokens: int, most: int = 1_000_000) -> Choose:
    """A server whose answer is cut where a request gives it fewer tokens, and that takes no request for too many."""

    def choose(number: int, body: dict[str, Any]) -> Step:
        if body["max_completion_tokens"] > most:
            return answer_error(400, f"max_tokens is too large. This model supports at most {most} completion tokens")
        whole = body["max_completion_tokens"] >= tokens
        return answer_by_tool(PROGRAM.model_dump()) if whole else answer_by_tool('{"title": "half', finish="length")

    return choose


@pytest.mark.asyncio
async def test_an_answer_that_is_cut_is_asked_for_with_twice_the_room_and_its_role_keeps_it() -> None:
    with OpenAIServer(long_answer(3000)) as server:
        models = asking(server)
        await models.make_client(1, 1).ask(roles.CODE, CODE)
        assert limits(server) == [1000, 2000, 4000]
        assert all(len(one["messages"]) == 2 for one in server.requests), "the half answer is not sent back"
        await models.make_client(2, 1).ask(roles.CODE, CODE)
        assert limits(server) == [1000, 2000, 4000, 4000]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("needed", "most", "context", "asked", "why"),
    [
        (10_000, 100_000, 100_000, [1000, 2000, 4000], "truncated at 4000 tokens .role code., the last of 3 answers"),
        (10_000, 1500, 100_000, [1000, 1500], "truncated at 1500 tokens .role code., the maximum of the model"),
        (10_000, 100_000, FULL, [1000], "the maximum of the model"),
    ],
)
async def test_what_is_cut_at_the_most_that_can_be_had_says_so_in_one_line(
    needed: int, most: int, context: int, asked: list[int], why: str
) -> None:
    with OpenAIServer(long_answer(needed, most)) as server, pytest.raises(ModelOutputInvalid, match=why) as caught:
        await asking(server, context_tokens=context).make_client(1, 1).ask(roles.CODE, CODE)
    assert [one for one in limits(server) if one <= most] == asked
    assert "raise models.roles.code.max_tokens" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.asyncio
async def test_no_key_stands_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "zz-very-secret-value")
    error, _ = await failing([answer_error(401, "bad key zz-very-secret-value or sk-abcdef1234567890")])
    assert "zz-very" not in str(error) and "abcdef" not in str(error)
    assert "[key]" in str(error)
    assert error.__cause__ is None


@pytest.mark.asyncio
async def test_images_are_sent() -> None:
    picture = b"\x89PNG\r\n\x1a\n and more"
    with OpenAIServer([answer_by_tool({"value": 3})]) as server:
        await at(server).answer(request(images=(Image(picture), Image(b"jpeg", "image/jpeg"))))
    parts = server.requests[0]["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "image_url"]
    assert parts[1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(picture).decode()
    assert parts[2]["image_url"]["url"].startswith("data:image/jpeg;base64,")


@pytest.mark.asyncio
async def test_requests_side_by_side_keep_their_own_counts() -> None:
    with OpenAIServer([answer_error(500), answer_by_tool({"value": 3})]) as server:
        model = at(server)
        replies = await asyncio.gather(*(model.answer(request()) for _ in range(4)))
    assert sorted(reply.retries for reply in replies) == [0, 0, 0, 1]


@pytest.mark.asyncio
async def test_the_address_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer([answer_by_tool({"value": 3})]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        backend = open_backend(ModelSettings(name="openai:m"))
        reply = await backend.answer(request())
    assert reply.output == Count(value=3)
    assert server.paths == ["/v1/chat/completions"]


@pytest.mark.asyncio
async def test_a_known_model_at_its_own_provider_has_a_price() -> None:
    with OpenAIServer([answer_by_tool({"value": 3}, model="gpt-4o")]) as server:
        settings = ModelSettings(name="openai:gpt-4o", base_url=server.url)
        elsewhere = locate_model(settings.name, settings.base_url, {})
        own = ModelSettings(name="openai:gpt-4o")
        priced = await ProviderModel(open_model(elsewhere), locate_model(own.name, None, {}), own).answer(request())
        local = await ProviderModel(open_model(elsewhere), elsewhere, settings).answer(request())
    assert priced.usage.usd == pytest.approx(100 * 2.5e-6 + 20 * 1e-5)
    assert local.usage.usd == 0.0, "the server stands on this machine"
