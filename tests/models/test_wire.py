"""Providers with their real clients over real HTTP: how each is reached, what it caches, what it does not take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, Field

from labwright.models import roles
from labwright.models.backend import Backend, Image, ModelRequest, Prompt
from labwright.models.errors import ImagesRefused, ModelConfigError, ModelOutputInvalid, ModelRefused
from labwright.models.retry import open_backend
from labwright.models.roles.node_assessment import Preference
from labwright.models.roles.paper_revision import Reflection
from labwright.models.settings import ModelSettings
from labwright.record.schema.paper import PaperDraft, Section
from tests.models.examples import CODE
from tests.models.json_server import JsonServer, make_completion, make_tool_call

pytestmark = [pytest.mark.usefixtures("local_requests"), pytest.mark.asyncio, pytest.mark.slow]
PICTURE = Image(b"\x89PNG\r\n\x1a\n and more")


class Count(BaseModel):
    """A count."""

    value: int = Field(ge=0, le=9)


def request(**changes: object) -> ModelRequest:
    fields: dict[str, object] = {
        "role": roles.CODE,
        "inputs": CODE,
        "prompt": Prompt("You count. " * 400, "How many?"),
        "output_type": Count,
        "temperature": 0.5,
        "max_tokens": 100,
    }
    return ModelRequest(**{**fields, **changes})  # pyrefly: ignore


def opened(name: str, **settings: object) -> Backend:
    return open_backend(ModelSettings.model_validate({"name": name, "retries": 0, **settings}))


# --- every provider -------------------------------------------------------------------------------------------------


def anthropic(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    content = [{"type": "tool_use", "id": "t", "name": "answer", "input": {"value": 3}}]
    return 200, {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 20,
            "output_tokens": 5,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 300,
        },
    }


def gemini(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    parts = [{"functionCall": {"name": "answer", "args": {"value": 3}}}]
    return 200, {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25},
        "modelVersion": "gemini-x",
        "responseId": "r",
    }


def chat(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    return 200, make_completion(make_tool_call({"value": 3}))


def responses(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    call = {
        "type": "function_call",
        "id": "f",
        "call_id": "c",
        "name": "answer",
        "arguments": '{"value": 3}',
        "status": "completed",
    }
    return 200, {
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
            "input_tokens": 20,
            "output_tokens": 5,
            "total_tokens": 25,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


@pytest.mark.parametrize(
    ("name", "root", "answer", "path"),
    [
        ("openai:m", "/v1", chat, "/v1/chat/completions"),
        ("openai-chat:m", "/v1", chat, "/v1/chat/completions"),
        ("openai-responses:m", "/v1", responses, "/v1/responses"),
        ("vllm:org/m", "/v1", chat, "/v1/chat/completions"),
        ("ollama:m", "/v1", chat, "/v1/chat/completions"),
        ("anthropic:claude-sonnet-4-6", "", anthropic, "/v1/messages"),
        ("google:gemini-2.5-flash", "", gemini, "/v1beta/models/gemini-2.5-flash:generateContent"),
        ("gemini:gemini-2.5-flash", "", gemini, "/v1beta/models/gemini-2.5-flash:generateContent"),
    ],
)
async def test_a_provider_answers_at_an_address_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, name: str, root: str, answer: Callable[..., tuple[int, Any]], path: str
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "any-key")
    with JsonServer(answer) as server:
        reply = await opened(name, base_url=server.url + root, context_tokens=100_000).answer(request())
    assert reply.output == Count(value=3)
    assert [(method, one.partition("?")[0]) for method, one, _ in server.requests] == [("POST", path)]


@pytest.mark.parametrize(
    "name", ["openai:m", "anthropic:m", "google:m", "openrouter:vendor/m", "deepseek:m", "together:m", "fireworks:m"]
)
async def test_without_a_key_one_line_says_which(name: str) -> None:
    with pytest.raises(ModelConfigError, match=r"_API_KEY") as caught:
        opened(name)
    assert "\n" not in str(caught.value) and name in str(caught.value)


async def test_without_credentials_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    with pytest.raises(ModelConfigError, match=r"google-cloud:m cannot be used: .*credentials"):
        opened("google-cloud:m")


# --- the prompt cache -----------------------------------------------------------------------------------------------


async def test_the_stable_prefix_is_cached_and_the_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any-key")
    with JsonServer(anthropic) as server:
        reply = await opened("anthropic:claude-sonnet-4-6", base_url=server.url).answer(request())
    [body] = server.posted
    assert body["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert body["system"][-1]["text"].startswith("You count.")
    assert "cache_control" not in json.dumps(body["messages"])
    assert reply.usage.input_tokens == 20 + 100 + 300


# --- structured answers ---------------------------------------------------------------------------------------------


def mode_of(body: dict[str, Any]) -> str:
    if body.get("tools"):
        return "tool"
    return "native" if body.get("response_format", {}).get("type") == "json_schema" else "prompted"


def takes(*modes: str, value: object = 3, **refusals: tuple[int, str]) -> Callable[..., tuple[int, Any]]:
    """A server that answers in some modes and refuses the others."""

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        mode = mode_of(body)
        if method == "GET":
            return 404, {}
        if mode not in modes:
            code, message = refusals.get(mode, (400, f"{REFUSED[mode]} is not supported"))
            return code, {"error": {"message": message, "type": "invalid_request_error"}}
        told = {"value": value}
        return 200, make_completion(make_tool_call(told) if mode == "tool" else {"content": json.dumps(told)})

    return answer


REFUSED = {"tool": "tool calling", "native": "response_format json_schema", "prompted": "this"}


def first_of(cases: Sequence[tuple[int, str]]) -> list[Any]:
    """The cases, of which all but two are for `make bench`."""
    return [
        pytest.param(*case) if number < 2 else pytest.param(*case, marks=pytest.mark.bench)
        for number, case in enumerate(cases)
    ]


NO_TOOLS = [
    (400, "registry.ollama.ai/library/gemma3:latest does not support tools"),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit our docs"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
    (400, "deepseek-reasoner does not support this tool_choice"),
    (422, "Unknown parameter: 'tools'"),
]


@pytest.mark.parametrize(("code", "message"), first_of(NO_TOOLS))
async def test_a_server_without_tools_is_asked_by_its_schema(code: int, message: str) -> None:
    with JsonServer(takes("native", tool=(code, message))) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1")
        assert (await backend.answer(request())).output == Count(value=3)
        assert (await backend.answer(request())).output == Count(value=3)
    assert [mode_of(body) for body in server.posted] == ["tool", "native", "native"]


@pytest.mark.parametrize(
    "refusal",
    [
        (400, "'response_format.type' json_schema is unavailable now"),
        (400, "This model does not support structured outputs"),
        (422, "extra inputs are not permitted: response_format"),
    ],
)
async def test_a_server_without_both_is_asked_by_the_prompt(refusal: tuple[int, str]) -> None:
    with JsonServer(takes("prompted", native=refusal)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1")
        replies = [await backend.answer(request()) for _ in range(2)]
    assert [reply.output for reply in replies] == [Count(value=3)] * 2
    assert [mode_of(body) for body in server.posted] == ["tool", "native", "prompted", "prompted"]
    told = "".join(one["content"] for one in server.posted[-1]["messages"] if one["role"] == "system")
    assert '"value"' in told  # the schema stands in the prompt


async def test_a_server_that_takes_no_response_format_either_is_asked_in_the_prompt_alone() -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        for name in ("tools", "response_format"):
            if body.get(name):
                return 400, {"error": {"message": f"Unknown parameter: '{name}'", "type": "invalid_request_error"}}
        return 200, make_completion({"content": '{"value": 3}'})

    with JsonServer(answer) as server:
        backend = opened("openai-chat:m", base_url=f"{server.url}/v1", context_tokens=100_000)
        replies = [await backend.answer(request()) for _ in range(2)]
    assert [reply.output for reply in replies] == [Count(value=3)] * 2
    sent = ["tools" if body.get("tools") else body.get("response_format", {}).get("type", "") for body in server.posted]
    assert sent == ["tools", "json_schema", "json_object", "", ""], "what it turned out not to take is not sent again"
    assert "value" in json.dumps(server.posted[-1]["messages"]), "the schema stands in the prompt"


async def test_answers_under_way_together_learn_it_together() -> None:
    with JsonServer(takes("prompted")) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1")
        replies = await asyncio.gather(*(backend.answer(request()) for _ in range(4)))
    assert [reply.output for reply in replies] == [Count(value=3)] * 4


async def test_a_server_that_ignores_its_tools_is_asked_otherwise() -> None:
    def prose(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if mode_of(body) == "tool":
            return 200, make_completion({"content": "There are three."})
        return 200, make_completion({"content": '{"value": 3}'})

    with JsonServer(prose) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000, output_retries=1)
        reply = await backend.answer(request())
        await backend.answer(request())
    assert [mode_of(body) for body in server.posted] == ["tool", "native", "native"]
    assert reply.usage.input_tokens == 20  # what the answer in prose took is counted


@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_a_mode_can_be_set_and_its_refusal_is_one_clear_error(mode: str) -> None:
    with JsonServer(takes(mode)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", output=mode)
        assert (await backend.answer(request())).output == Count(value=3)
    assert [mode_of(body) for body in server.posted] == [mode]
    with JsonServer(takes()) as server, pytest.raises(ModelRefused) as caught:
        await opened("openai:m", base_url=f"{server.url}/v1", output=mode).answer(request())
    assert "\n" not in str(caught.value)
    assert len(server.posted) == 1


@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_a_wrong_answer_is_shown_its_error_in_every_mode(mode: str) -> None:
    with JsonServer(takes(mode, value=12)) as server, pytest.raises(ModelOutputInvalid, match="after 3 answers"):
        await opened("openai:m", base_url=f"{server.url}/v1", output=mode).answer(request())
    assert len(server.posted) == 3
    assert "less than or equal to 9" in json.dumps(server.posted[1]["messages"][-1])


ANSWERS: list[BaseModel] = [
    PaperDraft(title="T", abstract="A", sections=(Section(title="S", body=r"\result{k}"),), captions={"f": "c"}),
    Reflection(done=False, captions={"a": "b"}),
    Preference(better="a", reasons="It is."),
]


@pytest.mark.parametrize("output", [PaperDraft, Reflection, Preference])
@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
async def test_the_answers_of_a_run_pass_in_every_mode(mode: str, output: type[BaseModel]) -> None:
    told = next(one for one in ANSWERS if type(one) is output)

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        data = told.model_dump(mode="json", by_alias=True)
        return 200, make_completion(make_tool_call(data) if mode_of(body) == "tool" else {"content": json.dumps(data)})

    with JsonServer(answer) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", output=mode, context_tokens=100_000)
        assert (await backend.answer(request(output_type=output))).output == told
    assert [mode_of(body) for body in server.posted] == [mode]


async def test_one_failed_call_is_no_missing_feature() -> None:
    failed = (400, "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.")
    with JsonServer(takes("native", tool=failed)) as server, pytest.raises(ModelRefused):
        await opened("openai:m", base_url=f"{server.url}/v1").answer(request())
    assert [mode_of(body) for body in server.posted] == ["tool"]


# --- pictures -------------------------------------------------------------------------------------------------------

BLIND = [
    (404, "No endpoints found that support image input"),
    (400, "At most 0 image(s) may be provided in one request."),
    (400, "m is not a multimodal model"),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    (400, "Failed to deserialize the JSON body: unknown variant `image_url`, expected `text`"),
    (400, "this model does not support images"),
]


def blind(code: int, message: str) -> Callable[..., tuple[int, Any]]:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if "image_url" in json.dumps(body):
            return code, {"error": {"message": message, "type": "invalid_request_error"}}
        return (200, make_completion(make_tool_call({"value": 3}))) if method == "POST" else (404, {})

    return answer


@pytest.mark.parametrize(("code", "message"), first_of(BLIND))
async def test_a_model_that_takes_no_pictures_is_not_shown_any_again(code: int, message: str) -> None:
    with JsonServer(blind(code, message)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1")
        assert backend.accepts_images
        for _ in range(2):
            with pytest.raises(ImagesRefused, match="openai:m accepts no images"):
                await backend.answer(request(images=(PICTURE,)))
        assert not backend.accepts_images
        assert (await backend.answer(request())).output == Count(value=3)
    assert len(server.posted) == 2


@pytest.mark.parametrize("message", ["image exceeds 5 MB maximum", "Could not process image", "the image is too large"])
async def test_one_bad_picture_does_not_make_a_model_blind(message: str) -> None:
    with JsonServer(blind(400, message)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1")
        with pytest.raises(ModelRefused) as caught:
            await backend.answer(request(images=(PICTURE,)))
        assert backend.accepts_images and not isinstance(caught.value, ImagesRefused)


# --- settings -------------------------------------------------------------------------------------------------------

NO_TEMPERATURE = [
    (400, "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) is supported."),
    (400, "Unsupported parameter: 'temperature' is not supported with this model."),
    (400, "`temperature` is deprecated for this model."),
    (400, "invalid temperature: only 1 is allowed for this model"),
    (422, "[{'type': 'extra_forbidden', 'loc': ['body', 'temperature'], 'msg': 'Extra inputs are not permitted'}]"),
]


def without(field: str, code: int, message: str) -> Callable[..., tuple[int, Any]]:
    """A server that refuses every request with a field."""

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if field in body:
            return code, {"error": {"message": message, "type": "invalid_request_error"}}
        return 200, make_completion(make_tool_call({"value": 3}))

    return answer


@pytest.mark.parametrize(("code", "message"), first_of(NO_TEMPERATURE))
async def test_a_model_that_refuses_its_temperature_is_asked_without_and_that_is_told(code: int, message: str) -> None:
    with JsonServer(without("temperature", code, message)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000)
        replies = [await backend.answer(request()) for _ in range(2)]
    assert [one.output for one in replies] == [Count(value=3)] * 2
    assert ["temperature" in body for body in server.posted] == [True, False, False]
    assert all(mode_of(body) == "tool" for body in server.posted)
    assert [one.left_out for one in replies] == [("temperature",)] * 2


async def test_a_temperature_out_of_range_is_no_missing_feature() -> None:
    with (
        JsonServer(without("temperature", 400, "temperature must be between 0 and 1")) as server,
        pytest.raises(ModelRefused, match="between 0 and 1"),
    ):
        await opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000).answer(request())
    assert len(server.posted) == 1


async def test_a_limit_of_tokens_is_sent_by_its_other_name_or_not_at_all() -> None:
    newer = "Unrecognized request argument supplied: max_completion_tokens"
    with JsonServer(without("max_completion_tokens", 400, newer)) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000)
        replies = [await backend.answer(request()) for _ in range(2)]
    assert [body.get("max_tokens") for body in server.posted] == [None, 100, 100]
    assert replies[0].left_out == ()

    def neither(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        named = next((name for name in ("max_tokens", "max_completion_tokens") if name in body), None)
        if named:
            return 400, {"error": {"message": f"Unsupported parameter: {named!r}", "type": "invalid_request_error"}}
        return 200, make_completion(make_tool_call({"value": 3}))

    with JsonServer(neither) as server:
        reply = await opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000).answer(request())
    assert len(server.posted) == 3 and reply.left_out == ("max_tokens",)


async def test_all_that_a_server_does_not_take_is_learnt_one_by_one_and_once_for_answers_under_way() -> None:
    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        wrong = (
            ["temperature"] * ("temperature" in body)
            + ["tool_choice"] * bool(body.get("tools"))
            + ["image_url"] * ("image_url" in json.dumps(body))
        )
        if wrong:
            return 400, {"error": {"message": f"{wrong[0]} is not supported", "type": "invalid_request_error"}}
        return 200, make_completion({"content": '{"value": 3}'})

    with JsonServer(answer) as server:
        backend = opened("openai:m", base_url=f"{server.url}/v1", context_tokens=100_000)
        replies = await asyncio.gather(*(backend.answer(request()) for _ in range(4)))
        with pytest.raises(ImagesRefused):
            await backend.answer(request(images=(PICTURE,)))
    assert [one.output for one in replies] == [Count(value=3)] * 4
    assert {one.left_out for one in replies} == {("temperature",)} and not backend.accepts_images


async def test_anthropic_without_temperature_or_cache_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any-key")

    def answer(method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        for name, said in (
            ("temperature", "is deprecated for this model"),
            ("cache_control", "Extra inputs are not permitted"),
        ):
            if name in json.dumps(body):
                return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"{name}: {said}"}}
        return anthropic(method, path, body)

    with JsonServer(answer) as server:
        reply = await opened("anthropic:claude-sonnet-4-6", base_url=server.url).answer(request())
    assert reply.left_out == ("temperature", "cache") and len(server.posted) == 3
