"""Requests are fitted to what a model reads: set, listed, or asked of a server over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.models import roles
from labwright.models.backend import Image, ModelRequest, Prompt
from labwright.models.errors import ContextTooLong, ModelRefused
from labwright.models.prices import (
    CHARACTERS_PER_TOKEN,
    MIN_ANSWER_TOKENS,
    OLLAMA_DEFAULT_TOKENS,
    TYPICAL_IMAGE_TOKENS,
    estimate_tokens,
    fit_to_window,
)
from labwright.models.providers import ProviderModel
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from tests.models.examples import CODE
from tests.models.json_server import JsonServer, make_completion, make_tool_call
from tests.models.openai_server import Exchange, OpenAIServer

pytestmark = pytest.mark.usefixtures("local_requests", "no_waits")


class Count(BaseModel):
    value: int


def request(characters: int, *images: Image, max_tokens: int = 8192) -> ModelRequest:
    return ModelRequest(
        role=roles.CODE,
        inputs=CODE,
        prompt=Prompt("", "x" * characters),
        output_type=Count,
        images=images,
        max_tokens=max_tokens,
    )


def test_tokens_are_estimated_with_schema_and_pictures() -> None:
    bare = estimate_tokens(request(0))
    assert 0 < bare < 100
    assert estimate_tokens(request(35_000)) == pytest.approx(bare + 35_000 / CHARACTERS_PER_TOKEN, abs=1)
    assert estimate_tokens(request(0, Image(b""), Image(b""))) == bare + 2 * TYPICAL_IMAGE_TOKENS


def test_the_answer_is_shortened_first_and_then_the_request_is_refused() -> None:
    taken = estimate_tokens(request(35_000))
    assert fit_to_window(request(35_000), None, model="m") == request(35_000)
    assert fit_to_window(request(35_000), taken + 8192, model="m").max_tokens == 8192
    assert fit_to_window(request(35_000), taken + 5000, model="m").max_tokens == 5000
    assert fit_to_window(request(35_000), taken + MIN_ANSWER_TOKENS, model="m").max_tokens == MIN_ANSWER_TOKENS
    assert fit_to_window(request(35_000, max_tokens=50), taken + 50, model="m").max_tokens == 50
    with pytest.raises(ContextTooLong, match=rf"role 'code' takes about {taken} tokens, and the context is") as caught:
        fit_to_window(request(35_000), taken + MIN_ANSWER_TOKENS - 1, model="m")
    assert isinstance(caught.value, ModelRefused) and "models.context_tokens" in str(caught.value)


Answer = Callable[[str, str, dict[str, Any]], tuple[int, Any]]


def serving(**answers: Any) -> Answer:
    """A server that answers completions, and by path (`_` for `/`) what else it is given."""

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/chat/completions":
            return 200, make_completion(make_tool_call({"value": 3}))
        found = answers.get(path.strip("/").replace("/", "_"))
        return (200, found) if found is not None else (404, {"error": {"message": "no such page"}})

    return answer


LOADED = {"models": [{"name": "other", "context_length": 1}, {"name": "m:latest", "context_length": 16384}]}
SHOWN = {"parameters": 'stop  "<end>"\nnum_ctx                        24576\ntemperature 1'}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "answers", "tokens"),
    [
        (
            "vllm:m",
            {"v1_models": {"data": [{"id": "n", "max_model_len": 1}, {"id": "m", "max_model_len": 12288}]}},
            12288,
        ),
        ("openai:m", {"v1_models": {"object": "list", "data": [{"id": "m", "context_length": 4321}]}}, 4321),
        ("openai:m", {"v1_models": {"data": [{"id": "m"}]}}, None),
        ("openai:m", {"v1_models": ["odd"]}, None),
        ("openai:m", {}, None),
        ("ollama:m", {"api_generate": {"done": True}, "api_ps": LOADED, "api_show": SHOWN}, 16384),
        ("ollama:m", {"api_generate": {}, "api_ps": {"models": [{"name": "m:latest"}]}, "api_show": SHOWN}, 24576),
        (
            "ollama:m",
            {"api_generate": {}, "api_ps": {"models": []}, "api_show": {"parameters": ""}},
            OLLAMA_DEFAULT_TOKENS,
        ),
        ("ollama:m", {}, None),
    ],
)
@pytest.mark.slow
async def test_a_server_of_ones_own_is_asked_once(name: str, answers: dict[str, Any], tokens: int | None) -> None:
    with JsonServer(serving(**answers)) as server:
        backend = open_backend(ModelSettings(name=name, base_url=f"{server.url}/v1"))
        assert isinstance(backend, ProviderModel)
        assert await backend.get_context_limit(roles.PLAN) == tokens
        asked = len(server.requests)
        assert (await backend.answer(request(100))).output == Count(value=3)
        assert len(server.requests) == asked + 1


@pytest.mark.asyncio
async def test_what_ollama_would_cut_without_a_word_is_not_sent() -> None:
    answers = {"api_generate": {}, "api_ps": {"models": [{"name": "m", "context_length": 4096}]}}
    with JsonServer(serving(**answers)) as server:
        backend = open_backend(ModelSettings(name="ollama:m", base_url=f"{server.url}/v1"))
        with pytest.raises(ContextTooLong, match="OLLAMA_CONTEXT_LENGTH=65536"):
            await backend.answer(request(20_000))
        assert not [path for _, path, _ in server.requests if "completions" in path]
        await backend.answer(request(7_000))
    sent = server.posted[-1]
    assert 1024 < (sent.get("max_tokens") or sent["max_completion_tokens"]) < 2500


@pytest.mark.asyncio
async def test_a_length_that_was_set_is_not_asked_for() -> None:
    with JsonServer(serving()) as server:
        backend = open_backend(ModelSettings(name="ollama:m", base_url=f"{server.url}/v1", context_tokens=9000))
        await backend.answer(request(100))
    assert [path for _, path, _ in server.requests] == ["/v1/chat/completions"]


@pytest.mark.asyncio
async def test_a_listed_length_needs_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any-key")
    backend = open_backend(ModelSettings(name="openai:gpt-4o"))
    assert isinstance(backend, ProviderModel)
    assert await backend.get_context_limit(roles.PLAN) == 128_000


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for m",
        "`max_completion_tokens` must be less than or equal to `4096`, the maximum value for this model",
    ],
)
async def test_a_bound_on_answers_is_learnt(message: str) -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "GET":
            return 404, {}
        if body["max_completion_tokens"] > 4096:
            return 400, {"error": {"message": message, "type": "invalid_request_error"}}
        return 200, make_completion(make_tool_call({"value": 3}))

    with JsonServer(answer) as server:
        backend = open_backend(ModelSettings(name="openai:m", base_url=f"{server.url}/v1"))
        for _ in range(2):
            assert (await backend.answer(request(100))).output == Count(value=3)
    assert [body["max_completion_tokens"] for body in server.posted] == [8192, 4096, 4096]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, {"message": "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens"}),
        (400, {"message": "too long", "code": "context_length_exceeded"}),
        (400, {"message": "the request exceeds the available context size. try increasing the context size"}),
        (500, {"message": "Input is too long for requested model: context window exceeded"}),
    ],
)
async def test_a_providers_word_that_it_was_too_long_is_one_error(code: int, error: dict[str, str]) -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return (404, {}) if method == "GET" else (code, {"error": {"type": "invalid_request_error", **error}})

    with (
        JsonServer(answer) as server,
        pytest.raises(ContextTooLong, match="the prompt exceeds the model's context") as caught,
    ):
        settings = ModelSettings(name="openai:m", base_url=f"{server.url}/v1")
        await open_backend(settings).answer(request(100))
    assert "\n" not in str(caught.value)
    assert len(server.posted) == 1


@pytest.mark.slow
async def test_a_server_that_says_its_length_a_byte_at_a_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("content-type", "application/json")
        exchange.send_header("content-length", "10000")
        exchange.end_headers()
        while not exchange.script.closing.wait(0.05):
            exchange.wfile.write(b" ")

    monkeypatch.setattr("labwright.models.prices._query_listing.__kwdefaults__", {"timeout": 0.5})
    monkeypatch.setattr(Exchange, "do_GET", slow, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with OpenAIServer([slow]) as server:
        backend = open_backend(ModelSettings(name="openai-chat:m", base_url=server.url))
        assert isinstance(backend, ProviderModel)
        async with asyncio.timeout(100):
            assert await backend.get_context_limit(roles.PLAN) is None
