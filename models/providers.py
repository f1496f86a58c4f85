"""Any model that pydantic-ai can reach, behind our `Backend`.

Answers come through an output tool with the schema of the output type, by the provider's own JSON schema, or as JSON
that the prompt asks for: the first of these that the server takes, remembered as long as the process lives. So is a
setting that it does not take (temperature, limit of tokens, cache marks): it is left out. There are two bounded kinds
of retries, both ours (the SDK's are off): a request that failed on its way is sent again, and an answer that does not
fit is shown its error. A request that ran into its time limit is sent once more at most, since the first may have to
be paid too; so is one that was answered with something that is no answer.
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
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings as RequestSettings

from labwright.models.backend import ModelRequest, OneModel, Reply
from labwright.models.context import fitted, served_tokens
from labwright.models.errors import (
    AnswerCut,
    ImagesRefused,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
)
from labwright.models.naming import COMMON, WITH_BASE_URL, Address, locate
from labwright.models.prices import context_tokens, usage_of
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.models.transport import (
    SETTINGS,
    Feature,
    FewerTokens,
    Mode,
    RetryingModel,
    Sleep,
    Truncated,
    Unsupported,
    shown,
)
from labwright.record.nouns.frozen import encodable
from labwright.record.proxies import connection_advice

LOG = logging.getLogger(__name__)
_MODES: tuple[Mode, ...] = ("tool", "native", "prompted")
LONGEST_NAME = 200
"""Characters of the name under which a server says that a model answered."""
_CHAT = ("openai-chat", "vllm", "ollama")
"""Providers that are reached with OpenAI's client at an address of the user's own."""


def open_provider(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> ProviderModel:
    """The backend for a pydantic-ai model string; asks nothing. Raises `ModelConfigError`."""
    address = locate(settings.name, settings.base_url, environ)
    return ProviderModel(open_model(address), address, settings)


def open_model(address: Address) -> Model:
    """pydantic-ai's model at an address. Raises `ModelConfigError`: unknown provider, client not installed, no key."""
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
            f"unknown provider {prefix!r}; known are {', '.join(COMMON)} and others of pydantic-ai "
            "(for your own server: openai-chat:MODEL and models.base_url)"
        ) from None
    try:
        if address.base_url is not None and prefix in WITH_BASE_URL:
            model = infer_model(f"{prefix}:{address.model}", provider)
            if prefix in _CHAT:
                _make_lenient(model)
            return model
        return infer_model(f"{prefix}:{address.model}")
    except _lacking_keys() as error:
        reason = re.sub(r" or pass it via `[^`]*`", "", shown(error).partition(". ")[0]).rstrip(".")
        raise ModelConfigError(
            f"{prefix}:{address.model} cannot be used: {reason}; or use the model 'offline'"
        ) from None
    except Exception as error:  # noqa: BLE001  clients share no root, and stumble over the environment in many ways
        raise ModelConfigError(
            f"{prefix}:{address.model} cannot be reached as the environment says: {shown(error)}"
            f"{connection_advice(error)}"
        ) from None


def _make_lenient(model: Model) -> None:
    from pydantic_ai.models.openai import OpenAIChatModel

    from labwright.models.chat import make_lenient

    if isinstance(model, OpenAIChatModel):
        make_lenient(model)


def _lacking_keys() -> tuple[type[Exception], ...]:
    """What clients raise that lack a key or credentials."""
    google = sys.modules.get("google.auth.exceptions")
    return (ai.UserError, google.GoogleAuthError) if google is not None else (ai.UserError,)


class ProviderModel(OneModel):
    """A language model at a provider. What it turns out not to take is not asked of it again."""

    def __init__(self, model: Model, address: Address, settings: ModelSettings, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__(settings.name)
        self._model = model
        self._address = address
        self._settings = settings
        self._sleep = sleep
        self._modes = _modes(model, settings)
        self._blind = not model.profile.get("supports_image_input", True)
        self._window = settings.context_tokens or context_tokens(settings)
        self._probed = self._window is not None
        self._most_tokens: int | None = None
        self._left_out: list[Feature] = []
        """Settings that it turned out not to take; the limit of tokens twice, if it takes neither name of it."""
        self._worked = False

    @property
    def sees(self) -> bool:
        return not self._blind

    async def answer(self, request: ModelRequest) -> Reply:
        """The model's answer to a request. Raises `ModelError`."""
        if request.images and self._blind:
            raise ImagesRefused(f"{self.name} accepts no images")
        patient = RetryingModel(
            self._model, self._settings, self._sleep, worked=self._worked, address=self._address.shown
        )
        try:
            async with self._model:  # counted: the last answer under way closes the connections
                request = fitted(request, await self.context_tokens(), model=self.name)
                output = await self._through(request, patient)
        finally:
            self._worked = self._worked or bool(patient.responses)
        answered_by = next(
            (one.model_name for one in reversed(patient.responses) if one.model_name), self._address.model
        )
        return Reply(
            output=output,
            usage=usage_of(patient.responses, request, self._settings),
            model=f"{self._address.prefix}:{encodable(answered_by)[:LONGEST_NAME]}",
            left_out=self._not_sent,
            retries=patient.retries + len(patient.responses) - 1,
        )

    async def reads(self, role: AnyRole) -> int | None:
        return await self.context_tokens()

    async def context_tokens(self) -> int | None:
        """How many tokens the model reads at once: as set, by the public list, or as its server says; or None."""
        if not self._probed and not self._address.own_prices and self._address.prefix in _CHAT:
            client: Any = getattr(self._model, "client", None)
            with suppress(ConnectionError):
                async with self._model:
                    self._window = await served_tokens(client, self._address, patience=self._settings.timeout)
                self._probed = True
        return self._window

    async def _through(self, request: ModelRequest, patient: RetryingModel) -> BaseModel:
        """An answer in the first mode that the server takes."""
        while True:
            mode, known = self._modes[0], (self._modes[0], *self._left_out)
            request = replace(request, max_tokens=min(request.max_tokens, self._most_tokens or request.max_tokens))
            if request.max_tokens <= request.cut_at:
                raise self._cut(request.cut_at, request, patient)
            images: tuple[Feature, ...] = ("images",) if request.images else ()
            structure: tuple[Feature, ...] = (mode if mode != "prompted" else "json",)
            patient.sent = (*(one for one in SETTINGS if one not in self._not_sent), *images, *structure)
            patient.max_tokens, patient.may_switch = request.max_tokens, len(self._modes) > 1
            try:
                return await self._exchange(request, patient, mode)
            except FewerTokens as error:
                LOG.info("%s: %s", self.name, error)
                self._most_tokens = error.most
            except Truncated:
                raise self._cut(request.max_tokens, request, patient) from None
            except Unsupported as error:
                if error.what == "images":
                    self._blind = True
                    raise ImagesRefused(f"{self.name} accepts no images: {error}") from None
                if known == (self._modes[0], *self._left_out):  # another answer may have learnt it meanwhile
                    self._do_without(error, mode)

    @property
    def _not_sent(self) -> tuple[Feature, ...]:
        """The settings that are left out; the limit of tokens has two names where OpenAI's client asks."""
        names = 2 if self._address.prefix in _CHAT else 1
        return tuple(
            one for one in dict.fromkeys(self._left_out) if one != "max_tokens" or self._left_out.count(one) >= names
        )

    def _do_without(self, error: Unsupported, mode: Mode) -> None:
        """Leave out a setting, or go on to the next mode. Raises `ModelRefused`: there is none."""
        if error.what in (*SETTINGS, "json"):
            self._left_out.append(error.what)
            if error.what == "json":  # the prompt alone asks for it then
                self._model.profile["supports_json_object_output"] = False
            LOG.info("%s: asked without %s from now on: %s", self.name, error.what, error)
            return
        if len(self._modes) == 1:
            raise ModelRefused(
                f"{self.name}: the provider refused every form of structured answer that models.output="
                f"{self._settings.output} allows; choose another model: {error}"
            )
        del self._modes[0]
        LOG.info("%s: no structured answers by %s, %s is used: %s", self.name, mode, self._modes[0], error)

    def _cut(self, tokens: int, request: ModelRequest, patient: RetryingModel) -> AnswerCut:
        return AnswerCut(
            f"{self.name}: the answer was truncated at {tokens} tokens",
            tokens=tokens,
            usage=usage_of(patient.responses, request, self._settings),
            retries=patient.retries + len(patient.responses),
        )

    async def _exchange(self, request: ModelRequest, patient: RetryingModel, mode: Mode) -> BaseModel:
        retries = self._settings.output_retries - len(patient.responses)
        kind = {"tool": ToolOutput, "native": NativeOutput, "prompted": PromptedOutput}[mode]
        output: Any = kind(request.output_type, name="answer")
        agent = Agent(
            patient,
            output_type=output,
            instructions=request.prompt.system,
            retries={"output": retries, "tools": retries},
            capabilities=(_spans(),),
            name=str(request.role),
        )
        agent.output_validator(_checks(request))
        pictures = [BinaryContent(data=image.data, media_type=image.media_type) for image in request.images]
        try:
            result = await agent.run(
                [request.prompt.user, *pictures] if pictures else request.prompt.user,
                model_settings=self._request_settings(request),
            )
        except (ModelError, Unsupported, FewerTokens, Truncated):
            raise
        except ai.UserError as error:
            raise ModelConfigError(f"{self.name}: models.output={mode} cannot be used: {shown(error)}") from None
        except ai.ContentFilterError as error:
            raise ModelRefused(
                f"{self.name}: the provider's content filter stopped the answer: {shown(error)}"
            ) from None
        except ai.AgentRunError as error:
            reason = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise ModelOutputInvalid(
                f"{self.name}: no answer that fits the schema after {len(patient.responses)} "
                f"answers; choose a model that is good at tool calls: {shown(reason)}"
            ) from None
        return result.output

    def _request_settings(self, request: ModelRequest) -> RequestSettings:
        given = RequestSettings(timeout=self._settings.timeout, max_retries=0)
        if "temperature" not in self._left_out:
            given["temperature"] = request.temperature
        if "cache" not in self._left_out:
            given["cache"] = {"messages": False}
        if "max_tokens" not in self._left_out:
            given["max_tokens"] = request.max_tokens
        elif "max_tokens" not in self._not_sent:
            newer = self._model.profile.get("openai_chat_supports_max_completion_tokens", True)
            given["extra_body"] = {"max_tokens" if newer else "max_completion_tokens": request.max_tokens}
        return given


def _checks(request: ModelRequest) -> Callable[[BaseModel], BaseModel]:
    """What an answer has to pass beside its schema; a model is told why it does not, and asked again."""

    def check(output: BaseModel) -> BaseModel:
        try:
            request.role.refuse(request.inputs, output)
        except ValueError as error:
            raise ai.ModelRetry(str(error)) from None
        return output

    return check


def _spans() -> Instrumentation:
    """Spans of an exchange and its requests, without their content, where the process has set up OpenTelemetry."""
    return Instrumentation(
        settings=InstrumentationSettings(
            include_content=False, include_binary_content=False, include_model_request_parameters=False
        )
    )


def _modes(model: Model, settings: ModelSettings) -> list[Mode]:
    """The ways of structured answers to try, in order: the model's own first, as far as its profile knows."""
    if settings.output != "auto":
        return [settings.output]
    known = {
        "tool": model.profile.get("supports_tools", True),
        "prompted": True,
        "native": model.profile.get("supports_json_schema_output", False),
    }
    first = model.profile.get("default_structured_output_mode", "tool")
    return sorted((mode for mode in _MODES if known[mode]), key=lambda mode: (mode != first, _MODES.index(mode)))
