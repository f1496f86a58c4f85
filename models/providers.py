"""Any model that pydantic-ai supports, as a `Backend`.

Answers come through an output tool with the schema of the output type, by the provider's own JSON schema, or as
JSON requested in the prompt: the first of these that the server supports, which this process remembers. An
unsupported setting (temperature, token limit, cache marks) is left out. There are two kinds of retries, both
bounded and both made here (the SDK's are off): a request that failed in transport is sent again, and an answer that
does not fit is returned with its error. A request that timed out, or whose response was not an answer, is sent only
once more, since the first one may also be billed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai import exceptions as ai
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ModelRequest as Messages
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings as RequestSettings
from pydantic_ai.tools import ToolDefinition

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.conversation import MAX_NOTE_CHARACTERS, Conversation, ToolCall, render_conversation
from labwright.models.errors import (
    AnswerCut,
    ImagesRefused,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
)
from labwright.models.prices import (
    OVERHEAD_TOKENS,
    compute_max_usd,
    compute_usage,
    estimate_prompt_tokens,
    find_listed_context_tokens,
    fit_to_window,
    query_context_tokens,
)
from labwright.models.roles.role import AnyRole
from labwright.models.settings import (
    COMMON_PROVIDERS,
    PROVIDERS_WITH_BASE_URL,
    ModelAddress,
    ModelSettings,
    locate_model,
)
from labwright.models.transport import (
    OPTIONAL_SETTINGS,
    Feature,
    Mode,
    ResponseTruncated,
    RetryingModel,
    Sleep,
    TokenLimitTooHigh,
    UnsupportedFeature,
    describe_error,
)
from labwright.record.machine import format_connection_advice
from labwright.record.schema import replace_unencodable
from labwright.record.schema.decisions import TokenUsage

LOG = logging.getLogger(__name__)
_MODES: tuple[Mode, ...] = ("tool", "native", "prompted")
MAX_MODEL_NAME_CHARACTERS = 200
"""Maximum length of the model name that a server reports."""
_CHAT_PROVIDERS = ("openai-chat", "vllm", "ollama")
"""Providers reached with OpenAI's client at the user's own address."""


def open_provider(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> ProviderModel:
    """Open the backend for a pydantic-ai model string; sends no request. Raises `ModelConfigError`."""
    address = locate_model(settings.name, settings.base_url, environ)
    return ProviderModel(open_model(address), address, settings)


def open_model(address: ModelAddress) -> Model:
    """Open pydantic-ai's model at an address.

    Raises: `ModelConfigError`: unknown provider, client not installed, or no key.
    """
    prefix = address.prefix

    def provider(name: str) -> Any:
        made: Any = infer_provider_class(name)
        return made(base_url=address.base_url)

    try:
        infer_provider_class(prefix)
    except ImportError:
        raise ModelConfigError(
            f"the client for {prefix + ':'!r} is not installed; pip install 'pydantic-ai-slim[{prefix}]'"
        ) from None
    except ValueError:
        raise ModelConfigError(
            f"unknown provider {prefix!r}; known are {', '.join(COMMON_PROVIDERS)} and others of pydantic-ai "
            "(for your own server: openai-chat:MODEL and models.base_url)"
        ) from None
    try:
        if address.base_url is not None and prefix in PROVIDERS_WITH_BASE_URL:
            model = infer_model(f"{prefix}:{address.model}", provider)
            if prefix in _CHAT_PROVIDERS:
                _make_lenient(model)
            return model
        return infer_model(f"{prefix}:{address.model}")
    except _missing_key_errors() as error:
        reason = re.sub(r" or pass it via `[^`]*`", "", describe_error(error).partition(". ")[0]).rstrip(".")
        raise ModelConfigError(
            f"{prefix}:{address.model} cannot be used: {reason}; or use the model 'offline'"
        ) from None
    except Exception as error:  # noqa: BLE001  clients share no base class, and fail on the environment in many ways
        raise ModelConfigError(
            f"{prefix}:{address.model} cannot be reached with the settings in the environment: {describe_error(error)}"
            f"{format_connection_advice(error)}"
        ) from None


def _make_lenient(model: Model) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel

    from labwright.models.chat_completions import make_lenient

    if isinstance(model, OpenAIChatModel):
        make_lenient(model)


def _missing_key_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that clients raise if a key or credentials are missing."""
    google = sys.modules.get("google.auth.exceptions")
    return (ai.UserError, google.GoogleAuthError) if google is not None else (ai.UserError,)


class ProviderModel(Backend):
    """A language model at a provider. Features that turn out to be unsupported are not requested again."""

    def __init__(
        self, model: Model, address: ModelAddress, settings: ModelSettings, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(settings.name)
        self._model = model
        self._address = address
        self._settings = settings
        self._sleep = sleep
        self._modes = _list_modes(model, settings)
        self._refuses_images = not model.profile.get("supports_image_input", True)
        self._window = settings.context_tokens or find_listed_context_tokens(settings)
        self._probed = self._window is not None
        self._max_tokens: int | None = None
        self._left_out: list[Feature] = []
        """Unsupported settings; the token limit appears twice if the server supports neither of its names."""
        self._has_answered = False

    @property
    def accepts_images(self) -> bool:
        return not self._refuses_images

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the model's answer to a request. Raises `ModelError`."""
        if request.images and self._refuses_images:
            raise ImagesRefused(f"{self.name} accepts no images")
        limits = self._settings
        if request.single:
            limits = limits.model_copy(update={"output_retries": 0})
        patient = RetryingModel(
            self._model,
            limits,
            self._sleep,
            has_answered=self._has_answered,
            address=self._address.public_url,
            max_lost=0 if request.single else 1,
        )
        try:
            async with self._model:  # reference-counted: the last pending answer closes the connections
                request = fit_to_window(request, await self.get_context_limit(request.role), model=self.name)
                output = await self._ask_in_modes(request, patient)
        except ModelUnavailable as error:
            error.lost = self._count_usage(patient, request)
            raise
        finally:
            self._has_answered = self._has_answered or bool(patient.responses)
        answered_by = next(
            (one.model_name for one in reversed(patient.responses) if one.model_name), self._address.model
        )
        return Reply(
            output=output,
            usage=self._count_usage(patient, request),
            model=f"{self._address.prefix}:{replace_unencodable(answered_by)[:MAX_MODEL_NAME_CHARACTERS]}",
            left_out=self._omitted_features,
            retries=patient.retries + len(patient.responses) - 1,
        )

    def _count_usage(self, patient: RetryingModel, request: ModelRequest) -> TokenUsage:
        """Return the usage of all responses, and the maximum for requests that may be billed without a response."""
        used = compute_usage(patient.responses, request, self._settings)
        if not patient.lost:
            return used
        prompt = estimate_prompt_tokens(request) + len(patient.responses) * (request.max_tokens + OVERHEAD_TOKENS)
        most = compute_max_usd(self._settings, prompt, request.max_tokens)
        once = TokenUsage(input_tokens=prompt, output_tokens=request.max_tokens, usd=most, cached_usd=0.0)
        return sum([once] * patient.lost, start=used)

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """Return the model's context length: as configured, from the public list, or from its server; or None."""
        if not self._probed and not self._address.has_public_prices and self._address.prefix in _CHAT_PROVIDERS:
            client: Any = getattr(self._model, "client", None)
            with suppress(ConnectionError):
                async with self._model:
                    self._window = await query_context_tokens(client, self._address, timeout=self._settings.timeout)
                self._probed = True
        return self._window

    async def _ask_in_modes(self, request: ModelRequest, patient: RetryingModel) -> BaseModel:
        """Return an answer in the first mode that the server supports."""
        while True:
            mode, known = self._modes[0], (self._modes[0], *self._left_out)
            request = replace(request, max_tokens=min(request.max_tokens, self._max_tokens or request.max_tokens))
            if request.max_tokens <= request.cut_at:
                raise self._make_answer_cut(request.cut_at, request, patient)
            images: tuple[Feature, ...] = ("images",) if request.images else ()
            structure: tuple[Feature, ...] = (mode if mode != "prompted" else "json",)
            patient.sent = (
                *(one for one in OPTIONAL_SETTINGS if one not in self._omitted_features),
                *images,
                *structure,
            )
            patient.max_tokens, patient.may_switch = request.max_tokens, len(self._modes) > 1
            try:
                return await self._run_exchange(request, patient, mode)
            except TokenLimitTooHigh as error:
                LOG.info("%s: %s", self.name, error)
                self._max_tokens = error.max_tokens
            except ResponseTruncated:
                raise self._make_answer_cut(request.max_tokens, request, patient) from None
            except UnsupportedFeature as error:
                if error.feature == "images":
                    self._refuses_images = True
                    raise ImagesRefused(f"{self.name} accepts no images: {error}") from None
                if known == (self._modes[0], *self._left_out):  # a concurrent answer may already have found this out
                    self._adapt_to(error, mode)

    @property
    def _omitted_features(self) -> tuple[Feature, ...]:
        """Return the settings that are left out; OpenAI's client has two names for the token limit."""
        names = 2 if self._address.prefix in _CHAT_PROVIDERS else 1
        return tuple(
            one for one in dict.fromkeys(self._left_out) if one != "max_tokens" or self._left_out.count(one) >= names
        )

    def _adapt_to(self, error: UnsupportedFeature, mode: Mode) -> None:
        """Leave out a setting or switch to the next mode. Raises `ModelRefused` if no mode is left."""
        if error.feature in (*OPTIONAL_SETTINGS, "json"):
            self._left_out.append(error.feature)
            if error.feature == "json":  # in that case, only the prompt asks for it
                self._model.profile["supports_json_object_output"] = False
            LOG.info("%s: asking without %s from now on: %s", self.name, error.feature, error)
            return
        if len(self._modes) == 1:
            raise ModelRefused(
                f"{self.name}: the provider refused every form of structured answer that models.output="
                f"{self._settings.output} allows; choose another model: {error}"
            )
        del self._modes[0]
        LOG.info("%s: no structured answers by %s, using %s: %s", self.name, mode, self._modes[0], error)

    def _make_answer_cut(self, tokens: int, request: ModelRequest, patient: RetryingModel) -> AnswerCut:
        return AnswerCut(
            f"{self.name}: the answer was truncated at {tokens} tokens",
            tokens=tokens,
            usage=self._count_usage(patient, request),
            retries=patient.retries + len(patient.responses),
        )

    async def _run_exchange(self, request: ModelRequest, patient: RetryingModel, mode: Mode) -> BaseModel:
        try:
            if request.conversation is not None and mode == "tool":
                return await self._run_step(request, request.conversation, patient)
            return await self._run_agent(request, patient, mode)
        except (ModelError, UnsupportedFeature, TokenLimitTooHigh, ResponseTruncated):
            raise
        except ai.UserError as error:
            raise ModelConfigError(
                f"{self.name}: models.output={mode} cannot be used: {describe_error(error)}"
            ) from None
        except ai.ContentFilterError as error:
            raise ModelRefused(
                f"{self.name}: the provider's content filter stopped the answer: {describe_error(error)}"
            ) from None
        except ai.AgentRunError as error:
            reason = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise ModelOutputInvalid(
                f"{self.name}: no answer fits the schema after {len(patient.responses)} "
                f"answers; choose a model that is good at tool calls: {describe_error(reason)}"
            ) from None

    async def _run_step(self, request: ModelRequest, conversation: Conversation, patient: RetryingModel) -> ToolCall:
        """Return the model's next call of a tool, which its provider's own tool calls carry."""
        messages = _build_messages(request, conversation)
        offered = ModelRequestParameters(
            function_tools=[
                ToolDefinition(name=one.name, description=one.description, parameters_json_schema=dict(one.parameters))
                for one in conversation.tools
            ],
            allow_text_output=False,
            instruction_parts=[InstructionPart(content=request.prompt.system)],
        )
        why = "call one of the tools"
        for _ in range(1 + patient.limits.output_retries):
            response = await patient.request(messages, self._build_request_settings(request), offered)
            used = next((one for one in response.parts if isinstance(one, ToolCallPart)), None)
            note = "".join(one.content for one in response.parts if isinstance(one, TextPart))
            if used is not None:
                try:
                    arguments = used.args_as_dict(raise_if_invalid=True)
                    call = ToolCall(tool=used.tool_name, arguments=arguments, note=note[:MAX_NOTE_CHARACTERS].strip())
                    request.check_answer(call)
                    return call
                except (ValueError, AssertionError) as error:
                    why = " ".join(str(error).split())[:1000]
            calls = [one for one in response.parts if isinstance(one, ToolCallPart)]
            messages += [
                response,
                Messages(
                    [ToolReturnPart(one.tool_name, f"not done: {why}", one.tool_call_id) for one in calls]
                    or [UserPromptPart(why)]
                ),
            ]
        raise ModelOutputInvalid(
            f"{self.name}: no valid call of a tool after {len(patient.responses)} answers; choose a model that is good "
            f"at tool calls: {why}"
        )

    async def _run_agent(self, request: ModelRequest, patient: RetryingModel, mode: Mode) -> BaseModel:
        retries = patient.limits.output_retries - len(patient.responses)
        kind = {"tool": ToolOutput, "native": NativeOutput, "prompted": PromptedOutput}[mode]
        output: Any = kind(request.output_type, name="answer")
        agent = Agent(
            patient,
            output_type=output,
            instructions=request.prompt.system,
            retries={"output": retries, "tools": retries},
            capabilities=(_make_instrumentation(),),
            name=str(request.role),
        )
        agent.output_validator(_make_validator(request))
        pictures = [BinaryContent(data=image.data, media_type=image.media_type) for image in request.images]
        asked = request.prompt.user
        if request.conversation is not None:
            asked += render_conversation(request.conversation)
        result = await agent.run(
            [asked, *pictures] if pictures else asked, model_settings=self._build_request_settings(request)
        )
        return result.output

    def _build_request_settings(self, request: ModelRequest) -> RequestSettings:
        given = RequestSettings(timeout=self._settings.timeout, max_retries=0)
        if "temperature" not in self._left_out:
            given["temperature"] = request.temperature
        if "cache" not in self._left_out:
            given["cache"] = {"messages": request.conversation is not None}
        if "max_tokens" not in self._left_out:
            given["max_tokens"] = request.max_tokens
        elif "max_tokens" not in self._omitted_features:
            newer = self._model.profile.get("openai_chat_supports_max_completion_tokens", True)
            given["extra_body"] = {"max_tokens" if newer else "max_completion_tokens": request.max_tokens}
        return given


def _build_messages(request: ModelRequest, conversation: Conversation) -> list[ModelMessage]:
    """Return the task and the transcript as messages, in which each call has a number as its id."""
    messages: list[ModelMessage] = [Messages([UserPromptPart(request.prompt.user)], instructions=request.prompt.system)]
    for number, one in enumerate(conversation.exchanges, 1):
        name, said = f"call_{number}", [TextPart(one.call.note)] if one.call.note else []
        messages += [
            ModelResponse([*said, ToolCallPart(one.call.tool, one.call.arguments, name)]),
            Messages([ToolReturnPart(one.call.tool, one.result, name)], instructions=request.prompt.system),
        ]
    return messages


def _make_validator(request: ModelRequest) -> Callable[[BaseModel], BaseModel]:
    """Return the function that checks an answer beyond its schema; if the check fails, the model is shown the error and
    asked again.
    """

    def check(output: BaseModel) -> BaseModel:
        try:
            request.check_answer(output)
        except ValueError as error:
            raise ai.ModelRetry(str(error)) from None
        return output

    return check


def _make_instrumentation() -> Instrumentation:
    """Return spans for an exchange and its requests, without their content, if OpenTelemetry is set up."""
    return Instrumentation(
        settings=InstrumentationSettings(
            include_content=False, include_binary_content=False, include_model_request_parameters=False
        )
    )


def _list_modes(model: Model, settings: ModelSettings) -> list[Mode]:
    """List the modes of structured answers to try, the model's preferred one first according to its profile."""
    if settings.output != "auto":
        return [settings.output]
    known = {
        "tool": model.profile.get("supports_tools", True),
        "prompted": True,
        "native": model.profile.get("supports_json_schema_output", False),
    }
    first = model.profile.get("default_structured_output_mode", "tool")
    return sorted((mode for mode in _MODES if known[mode]), key=lambda mode: (mode != first, _MODES.index(mode)))
