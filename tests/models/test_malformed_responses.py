"""Answers of status 200 that are none, in the shape of every provider, over real HTTP: one line, of a known kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from labwright.models import roles
from labwright.models.backend import Backend, ModelRequest, Prompt, Reply
from labwright.models.budget import Budget, BudgetSettings, compute_max_call_cost
from labwright.models.errors import (
    AnswerCut,
    BudgetSpent,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
)
from labwright.models.prices import estimate_prompt_tokens
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings, Price
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import CallAnswered
from labwright.record.schema.decisions import CallKey
from tests.models.examples import CODE
from tests.models.json_server import JsonServer, make_completion, make_tool_call

pytestmark = [
    pytest.mark.usefixtures("local_requests", "no_waits"),
    pytest.mark.asyncio,
    pytest.mark.slow,
    # The clients warn of what they are sent here.
    pytest.mark.filterwarnings("ignore:Failed to extract usage", "ignore:Pydantic serializer warnings:UserWarning"),
]
NAMES = {
    "chat": "openai-chat:m",
    "responses": "openai-responses:m",
    "anthropic": "anthropic:claude-sonnet-4-6",
    "google": "google:gemini-2.5-flash",
}
SHAPES = list(NAMES)


class Count(BaseModel):
    """A count."""

    value: int = Field(ge=0, le=9)


QUESTION = ModelRequest(
    role=roles.CODE,
    inputs=CODE,
    prompt=Prompt("You count.", "How many?"),
    output_type=Count,
    temperature=0.5,
    max_tokens=100,
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "any-key")


def opened(shape: str, url: str, **price: float) -> Backend:
    root = "/v1" if shape in ("chat", "responses") else ""
    return open_backend(
        ModelSettings(
            name=NAMES[shape],
            base_url=url + root,
            context_tokens=100_000,
            retries=1,
            output_retries=1,
            prices={NAMES[shape]: Price(**price)} if price else {},
        )
    )


async def answered(shape: str, *bodies: object, **price: float) -> tuple[Reply | ModelError, int]:
    """What comes of a question when a server answers these, the last one for ever; and how often it was asked."""
    left = list(bodies)

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, left.pop(0) if len(left) > 1 else left[0]

    with JsonServer(answer) as server:
        try:
            return await opened(shape, server.url, **price).answer(QUESTION), len(server.posted)
        except ModelError as error:
            assert "\n" not in str(error)
            return error, len(server.posted)


# --- answers in the four shapes -------------------------------------------------------------------------------------


def good(shape: str, name: str = "answer", arguments: object = None) -> dict[str, Any]:
    """A call of the output tool."""
    value: Any = {"value": 3} if arguments is None else arguments
    text = value if isinstance(value, str) else json.dumps(value)
    if shape == "chat":
        body = make_completion(make_tool_call(value))
        body["choices"][0]["message"]["tool_calls"][0]["function"] = {"name": name, "arguments": text}
        return body
    if shape == "responses":
        call = {
            "type": "function_call",
            "id": "f",
            "call_id": "c",
            "name": name,
            "arguments": text,
            "status": "completed",
        }
        return {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "served",
            "status": "completed",
            "output": [call],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 10,
                "output_tokens": 2,
                "total_tokens": 12,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }
    if shape == "anthropic":
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [{"type": "tool_use", "id": "t", "name": name, "input": value}],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
    parts = [{"functionCall": {"name": name, "args": value}}]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r",
    }


def without_answer(shape: str) -> dict[str, Any]:
    """A whole answer but for the part that answers: no choices, no output, no content, no candidates."""
    place = {"chat": "choices", "responses": "output", "anthropic": "content", "google": "candidates"}[shape]
    return good(shape) | {place: []}


def usage_in(shape: str, body: dict[str, Any]) -> dict[str, Any]:
    return body["usageMetadata" if shape == "google" else "usage"]


def with_count(shape: str, count: object, *, written: bool) -> dict[str, Any]:
    """A good answer that says of what it read, or wrote, that it were so many tokens."""
    body = good(shape)
    names = {"chat": ("prompt_tokens", "completion_tokens"), "google": ("promptTokenCount", "candidatesTokenCount")}
    usage_in(shape, body)[names.get(shape, ("input_tokens", "output_tokens"))[written]] = count
    return body


def with_cached(shape: str, count: object) -> dict[str, Any]:
    """A good answer that read 10 tokens, so many of them from a cache."""
    body = good(shape)
    usage = usage_in(shape, body)
    if shape == "anthropic":  # where what a cache held comes on top
        usage["cache_read_input_tokens"] = -10 if count == 30_000 else count
    elif shape == "google":
        usage["cachedContentTokenCount"] = count
    else:
        usage["prompt_tokens_details" if shape == "chat" else "input_tokens_details"] = {"cached_tokens": count}
    return body


def odd_usage(shape: str, what: str) -> dict[str, Any]:
    """A good answer whose count of tokens cannot be."""
    counts: dict[str, object] = {
        "negative": -5000,
        "huge": 10**15,
        "a fraction": 12.5,
        "null": None,
        "a word": "many",
        "not a number": float("nan"),
        "endless": float("inf"),
        "nothing": 0,
    }
    if what == "not told":
        body = good(shape)
        del body["usageMetadata" if shape == "google" else "usage"]
        return body
    verb, _, count = what.partition(" ")
    if verb == "cached":
        return with_cached(shape, {"more than was read": 30_000, "less than nothing": -30_000}[count])
    return with_count(shape, counts[count], written=verb == "wrote")


ODD_USAGE = (
    "not told",
    "cached more than was read",
    "cached less than nothing",
    *(
        f"{verb} {what}"
        for verb in ("read", "wrote")
        for what in ("negative", "huge", "a fraction", "null", "a word", "not a number", "endless", "nothing")
    ),
)


def filtered(shape: str) -> dict[str, Any]:
    """An answer that the provider's content filter stopped."""
    if shape == "chat":
        body = make_completion({"content": None})
        body["choices"][0]["finish_reason"] = "content_filter"
        return body
    if shape == "responses":
        return good(shape) | {"status": "incomplete", "output": [], "incomplete_details": {"reason": "content_filter"}}
    if shape == "anthropic":
        return good(shape) | {"content": [], "stop_reason": "refusal"}
    return good(shape) | {"candidates": [{"finishReason": "SAFETY", "index": 0}]}


NO_ANSWER: dict[str, Any] = {
    "nothing": b"",
    "a page": b"<html>gateway</html>",
    "an empty object": {},
    "null": None,
    "a list": [],
    "half an object": b'{"id": "chatcmpl',
    "an error": {"error": {"message": "overloaded", "code": 500}},
    "not text": b"\xff\xfe\x00",
}


def of_shapes(whats: Iterable[str], often: Sequence[str]) -> list[Any]:
    """Every case in every shape; in `make test` all of one shape, and of the others those that are listed."""
    return [
        pytest.param(what, shape, marks=() if shape == "chat" or what in often else pytest.mark.bench)
        for what in whats
        for shape in SHAPES
    ]


@pytest.mark.parametrize(("what", "shape"), of_shapes((*NO_ANSWER, "no answer in it"), ("no answer in it",)))
async def test_what_is_no_answer_is_asked_for_again_and_then_given_up(what: str, shape: str) -> None:
    body = without_answer(shape) if what == "no answer in it" else NO_ANSWER[what]
    mended, asked = await answered(shape, body, good(shape))
    assert isinstance(mended, Reply) and mended.output == Count(value=3) and asked == 2
    assert mended.retries == 1
    given_up, asked = await answered(shape, body)
    assert isinstance(given_up, ModelUnavailable | ModelOutputInvalid) and asked == 2
    assert str(given_up).startswith(NAMES[shape])


async def test_what_is_no_answer_may_have_to_be_paid_and_is_asked_for_twice_at_most() -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, without_answer("chat")

    with JsonServer(answer) as server, pytest.raises(ModelUnavailable, match="that is not an answer") as caught:
        await open_backend(
            ModelSettings(name="openai-chat:m", base_url=f"{server.url}/v1", context_tokens=100_000, retries=5)
        ).answer(QUESTION)
    assert len(server.posted) == 2 and caught.value.billed


@pytest.mark.parametrize(
    ("wrong", "shape"),
    of_shapes(("a wrong tool", "broken JSON", "a list", "no arguments"), ("a wrong tool", "no arguments")),
)
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


@pytest.mark.parametrize(
    ("what", "shape"),
    of_shapes(ODD_USAGE, ("not told", "cached more than was read", "wrote negative", "wrote nothing", "read huge")),
)
async def test_counts_that_cannot_be_are_booked_as_the_most_that_was_set_aside(what: str, shape: str) -> None:
    reply, asked = await answered(shape, odd_usage(shape, what), input=3.0, output=15.0, cached=0.3)
    if isinstance(reply, ModelUnavailable):  # a client reads no answer out of it: what was set aside stays so
        assert shape in ("google", "anthropic") and reply.billed and asked == 2
        return
    assert isinstance(reply, Reply) and reply.output == Count(value=3) and asked == 1
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    assert (read, written) == (estimate_prompt_tokens(QUESTION), QUESTION.max_tokens), reply.usage
    assert reply.usage.usd == pytest.approx((3.0 * read + 15.0 * written) / 1e6)


@pytest.mark.parametrize("what", ["read huge", "wrote nothing", "wrote negative", "cached more than was read"])
async def test_a_cap_holds_whatever_a_server_says_that_its_answers_took(what: str) -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 200, odd_usage("chat", what)

    with JsonServer(answer) as server:
        settings = ModelSettings.model_validate(
            {
                "name": "openai-chat:m",
                "base_url": f"{server.url}/v1",
                "context_tokens": 100_000,
                "retries": 0,
                "output_retries": 0,
                "prices": {"m": {"input": 3.0, "output": 15.0, "cached": 0.3}},
            }
        )
        backend, log = open_backend(settings), MemoryLog()
        most = compute_max_call_cost(settings, QUESTION.role, estimate_prompt_tokens(QUESTION), max_tokens=100).usd
        budget = Budget(BudgetSettings(usd=3.5 * most), log, settings)
        with pytest.raises(BudgetSpent):
            for ordinal in range(10):
                key = CallKey(decision=1, attempt=0, role="code", ordinal=ordinal)
                reply = await budget.answer(key, QUESTION, backend)
                log.append(
                    CallAnswered(
                        key=key, request_sha256="", model=reply.model, answer={}, usage=reply.usage, seconds=0.0
                    )
                )
        assert len(server.posted) == 3 and 0 < log.state.calls.spent_cost.usd <= 3.5 * most


OFF_FORM: dict[str, dict[str, Any]] = {
    "a time with a fraction": {"created": 1795839047.47},
    "no time": {"created": None},
    "no id": {"id": None},
    "another object": {"object": None},
    "a number for an id": {"id": 17},
    "no model": {"model": None},
}


@pytest.mark.parametrize("what", [*OFF_FORM, "arguments as an object", "a call without id", "all of it"])
async def test_a_chat_completion_that_is_a_little_off_its_form_is_read(what: str) -> None:
    body = good("chat")
    for one, fields in OFF_FORM.items():
        body |= fields if what in (one, "all of it") else {}
    call = body["choices"][0]["message"]["tool_calls"][0]
    if what in ("arguments as an object", "all of it"):
        call["function"]["arguments"] = {"value": 3}
    if what in ("a call without id", "all of it"):
        del call["id"], call["type"], body["choices"][0]["index"]
    reply, asked = await answered("chat", body)
    assert isinstance(reply, Reply) and reply.output == Count(value=3) and asked == 1
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 2)


@pytest.mark.parametrize("shape", SHAPES)
async def test_half_a_surrogate_pair_in_an_answer_can_be_written_down(shape: str) -> None:
    class Words(BaseModel):
        text: str

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        text = json.dumps(good(shape, arguments={"text": "an odd HALF word"}))
        return 200, text.replace("HALF", "\\ud83d").encode()

    with JsonServer(answer) as server:
        reply = await opened(shape, server.url).answer(replace(QUESTION, output_type=Words))
    assert isinstance(reply.output, Words) and reply.output.text == "an odd ? word"
    assert reply.output.model_dump_json()


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


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_name_that_cannot_be_written_down_and_endless_nesting_end_no_run(shape: str) -> None:
    odd = good(shape) | {"modelVersion" if shape == "google" else "model": "half \ud83d" + "x" * 100_000}
    reply, _ = await answered(shape, odd)
    assert isinstance(reply, Reply) and reply.model.encode() and len(reply.model) < 300
    error, asked = await answered(shape, b"[" * 100_000)
    assert isinstance(error, ModelUnavailable) and asked == 2
    error, _ = await answered(shape, {"error": {"message": "half \ud83d", "code": 500}})
    assert isinstance(error, ModelError) and str(error).encode()
