"""Answers of status 200 that are none, in the shape of every provider, over real HTTP: one line, of a known kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field

from models import roles
from models.backend import Backend, ModelRequest, Prompt, Reply
from models.errors import AnswerCut, ModelError, ModelOutputInvalid, ModelRefused, ModelUnavailable
from models.failover import open_backend
from models.settings import ModelSettings
from tests.models.examples import CODE
from tests.models.json_server import JsonServer, called, completion

pytestmark = [
    pytest.mark.usefixtures("local_requests", "no_waits"), pytest.mark.asyncio, pytest.mark.slow,
    # The clients warn of what they are sent here.
    pytest.mark.filterwarnings("ignore:Failed to extract usage", "ignore:Pydantic serializer warnings:UserWarning")]
NAMES = {"chat": "openai-chat:m", "responses": "openai-responses:m", "anthropic": "anthropic:claude-sonnet-4-6",
         "google": "google:gemini-2.5-flash"}
SHAPES = list(NAMES)


class Count(BaseModel):
    """A count."""

    value: int = Field(ge=0, le=9)


QUESTION = ModelRequest(role=roles.CODE, inputs=CODE, prompt=Prompt("You count.", "How many?"), output_type=Count,
                   temperature=0.5, max_tokens=100)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "any-key")


def opened(shape: str, url: str) -> Backend:
    root = "/v1" if shape in ("chat", "responses") else ""
    return open_backend(ModelSettings(name=NAMES[shape], base_url=url + root, context_tokens=100_000, retries=1,
                                      output_retries=1))


async def answered(shape: str, *bodies: object) -> tuple[Reply | ModelError, int]:
    """What comes of a question when a server answers these, the last one for ever; and how often it was asked."""
    left = list(bodies)

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, left.pop(0) if len(left) > 1 else left[0]

    with JsonServer(answer) as server:
        try:
            return await opened(shape, server.url).answer(QUESTION), len(server.posted)
        except ModelError as error:
            assert "\n" not in str(error)
            return error, len(server.posted)


# --- answers in the four shapes -------------------------------------------------------------------------------------


def good(shape: str, name: str = "answer", arguments: object = None) -> dict[str, Any]:
    """A call of the output tool."""
    value: Any = {"value": 3} if arguments is None else arguments
    text = value if isinstance(value, str) else json.dumps(value)
    if shape == "chat":
        body = completion(called(value))
        body["choices"][0]["message"]["tool_calls"][0]["function"] = {"name": name, "arguments": text}
        return body
    if shape == "responses":
        call = {"type": "function_call", "id": "f", "call_id": "c", "name": name, "arguments": text,
                "status": "completed"}
        return {"id": "r", "object": "response", "created_at": 1, "model": "served", "status": "completed",
                "output": [call], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
                "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, "input_tokens_details":
                          {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}
    if shape == "anthropic":
        return {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
                "content": [{"type": "tool_use", "id": "t", "name": name, "input": value}], "stop_reason": "tool_use",
                "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 2}}
    parts = [{"functionCall": {"name": name, "args": value}}]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
            "modelVersion": "gemini-2.5-flash", "responseId": "r"}


def without_answer(shape: str) -> dict[str, Any]:
    """A whole answer but for the part that answers: no choices, no output, no content, no candidates."""
    place = {"chat": "choices", "responses": "output", "anthropic": "content", "google": "candidates"}[shape]
    return good(shape) | {place: []}


def without_usage(shape: str) -> dict[str, Any]:
    body = good(shape)
    del body["usageMetadata" if shape == "google" else "usage"]
    return body


def negative_usage(shape: str) -> dict[str, Any]:
    body = good(shape)
    used = body["usageMetadata" if shape == "google" else "usage"]
    for name, value in used.items():
        used[name] = -5 if isinstance(value, int) else value
    return body


def filtered(shape: str) -> dict[str, Any]:
    """An answer that the provider's content filter stopped."""
    if shape == "chat":
        body = completion({"content": None})
        body["choices"][0]["finish_reason"] = "content_filter"
        return body
    if shape == "responses":
        return good(shape) | {"status": "incomplete", "output": [],
                              "incomplete_details": {"reason": "content_filter"}}
    if shape == "anthropic":
        return good(shape) | {"content": [], "stop_reason": "refusal"}
    return good(shape) | {"candidates": [{"finishReason": "SAFETY", "index": 0}]}


NO_ANSWER: dict[str, Any] = {
    "nothing": b"", "a page": b"<html>gateway</html>", "an empty object": {}, "null": None, "a list": [],
    "half an object": b'{"id": "chatcmpl', "an error": {"error": {"message": "overloaded", "code": 500}},
    "not text": b"\xff\xfe\x00",
}
CHAT_ONLY: dict[str, Any] = {
    "choices of null": completion({}) | {"choices": None},
    "a choice of null": completion({}) | {"choices": [None]},
    "no message": completion({}) | {"choices": [{"index": 0, "finish_reason": "stop"}]},
    "a message of null": completion({}) | {"choices": [{"index": 0, "finish_reason": "stop", "message": None}]},
}


def of_shapes(whats: Iterable[str], often: Sequence[str]) -> list[Any]:
    """Every case in every shape; in `make test` all of one shape, and of the others those that are listed."""
    return [pytest.param(what, shape, marks=() if shape == "chat" or what in often else pytest.mark.bench)
            for what in whats for shape in SHAPES]


@pytest.mark.parametrize(("what", "shape"), of_shapes(
    (*NO_ANSWER, "no answer in it"), ("no answer in it",)))
async def test_what_is_no_answer_is_asked_for_again_and_then_given_up(what: str, shape: str) -> None:
    body = without_answer(shape) if what == "no answer in it" else NO_ANSWER[what]
    mended, asked = await answered(shape, body, good(shape))
    assert isinstance(mended, Reply) and mended.output == Count(value=3) and asked == 2
    assert mended.retries == 1
    given_up, asked = await answered(shape, body)
    assert isinstance(given_up, ModelUnavailable | ModelOutputInvalid) and asked == 2
    assert str(given_up).startswith(NAMES[shape])


@pytest.mark.parametrize("what", CHAT_ONLY)
async def test_a_chat_completion_without_its_message_is_none(what: str) -> None:
    mended, asked = await answered("chat", CHAT_ONLY[what], good("chat"))
    assert isinstance(mended, Reply) and mended.output == Count(value=3) and asked == 2


async def test_what_is_no_answer_may_have_to_be_paid_and_is_asked_for_twice_at_most() -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, without_answer("chat")

    with JsonServer(answer) as server, pytest.raises(ModelUnavailable, match="that is not an answer") as caught:
        await open_backend(ModelSettings(name="openai-chat:m", base_url=f"{server.url}/v1", context_tokens=100_000,
                                         retries=5)).answer(QUESTION)
    assert len(server.posted) == 2 and caught.value.billed


@pytest.mark.parametrize(("wrong", "shape"), of_shapes(
    ("a wrong tool", "broken JSON", "a list", "no arguments"), ("a wrong tool", "no arguments")))
async def test_a_wrong_tool_call_is_shown_its_error(wrong: str, shape: str) -> None:
    arguments: dict[str, object] = {"broken JSON": '{"value": ', "a list": [3], "no arguments": {}}
    if (shape, wrong) in (("anthropic", "broken JSON"), ("google", "broken JSON"), ("anthropic", "a list")):
        return  # these arguments are no text, and no list, by their form
    bad = good(shape, name="other") if wrong == "a wrong tool" else good(shape, arguments=arguments[wrong])
    reply, asked = await answered(shape, bad, good(shape))
    assert isinstance(reply, Reply) and reply.output == Count(value=3) and asked == 2
    error, asked = await answered(shape, bad)
    assert isinstance(error, ModelOutputInvalid | ModelUnavailable) and asked == 2


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_filtered_answer_is_a_refusal(shape: str) -> None:
    error, _ = await answered(shape, filtered(shape))
    assert isinstance(error, ModelRefused) and "filter" in str(error), error


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("body", [without_usage, negative_usage])
async def test_an_answer_that_does_not_say_what_it_took_is_counted_by_its_length(
    shape: str, body: Callable[[str], dict[str, Any]]
) -> None:
    reply, asked = await answered(shape, body(shape))
    if shape == "anthropic" and body is without_usage:
        assert isinstance(reply, ModelUnavailable)  # it is part of the form there
        return
    assert isinstance(reply, Reply) and reply.output == Count(value=3) and asked == 1
    assert 20 < reply.usage.input_tokens < 200 and 1 <= reply.usage.output_tokens < 20, reply.usage


def cut(shape: str) -> dict[str, Any]:
    """An answer that ends where its length does, with arguments that happen to be whole."""
    if shape == "chat":
        body = good(shape)
        body["choices"][0]["finish_reason"] = "length"
        return body
    if shape == "responses":
        return good(shape) | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if shape == "anthropic":
        return good(shape) | {"stop_reason": "max_tokens"}
    body = good(shape)
    body["candidates"][0]["finishReason"] = "MAX_TOKENS"
    return body


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_answer_that_was_cut_says_so_in_every_shape(shape: str) -> None:
    error, asked = await answered(shape, cut(shape))
    assert isinstance(error, AnswerCut) and error.tokens == 100 and asked == 1
    assert error.usage.input_tokens == 10


async def test_a_stream_that_nobody_asked_for_is_no_answer() -> None:
    chunk = b'data: {"id": "c", "object": "chat.completion.chunk", "choices": []}\n\ndata: [DONE]\n\n'
    error, asked = await answered("chat", chunk)
    assert isinstance(error, ModelUnavailable) and asked == 2
