"""Any model that pydantic-ai can reach, behind our `Backend`.

Answers come through an output tool with the schema of the output type, by the provider's own JSON schema, or as JSON
that the prompt asks for: the first of these that the server takes, remembered as long as the process lives. There are
two bounded kinds of retries, both ours (the SDK's are off): a request that failed on its way is sent again, and an
answer that does not fit is shown its error. A request that ran into its time limit is sent once more at most, since
the first may have to be paid too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelResponse, UserContent
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings as RequestSettings

from models import prices
from models.backend import Image, Reply, Request
from models.context import fitted, served_tokens
from models.errors import ImagesRefused, ModelConfigError, ModelError, ModelRefused
from models.faults import answer_error, shown
from models.naming import COMMON, WITH_BASE_URL, Address, locate
from models.patience import FewerTokens, Mode, ModeRefused, PatientModel, Sleep
from models.prices import context_tokens
from models.roles import Role
from models.settings import ModelSettings
from models.tracing import BELOW
from record.nouns.calls import Usage

LOG = logging.getLogger(__name__)
_MODES: tuple[Mode, ...] = ("tool", "native", "prompted")
_CHAT = ("openai-chat", "vllm", "ollama")
"""Providers that are reached with OpenAI's client at an address of the user's own."""


def open_provider(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> ProviderModel:
    """The backend for a pydantic-ai model string; asks nothing. Raises `ModelConfigError`."""
    address = locate(settings.name, settings.base_url, environ)
    backend = ProviderModel(open_model(address), address, settings)
    if address.note:
        LOG.info(address.note)
    return backend


def open_model(address: Address) -> Model:
    """pydantic-ai's model at an address. Raises `ModelConfigError`: unknown provider, client not installed, no key."""
    prefix = address.prefix
    try:
        infer_provider_class(prefix)
        if address.base_url is not None and prefix in WITH_BASE_URL:
            return infer_model(f"{prefix}:{address.model}", _provider_at(address.base_url))
        return infer_model(f"{prefix}:{address.model}")
    except ImportError:
        raise ModelConfigError(
            f"the client for {prefix + ':'!r} is not installed; pip install 'pydantic-ai-slim[{prefix}]'"
        ) from None
    except ValueError:
        raise ModelConfigError(
            f"unknown provider {prefix!r}; known are {', '.join(COMMON)} and others of pydantic-ai "
            "(for your own server: openai-chat:MODEL and models.base_url)"
        ) from None
    except _complaints() as error:
        said = re.sub(r" or pass it via `[^`]*`", "", shown(error).partition(". ")[0]).rstrip(".")
        raise ModelConfigError(f"{prefix}:{address.model} cannot be used: {said}; or use the model 'offline'") from None


def _complaints() -> tuple[type[Exception], ...]:
    """What clients raise that lack a key or credentials."""
    google = sys.modules.get("google.auth.exceptions")
    return (ai.UserError, google.GoogleAuthError) if google is not None else (ai.UserError,)


def _provider_at(base_url: str) -> Callable[[str], Any]:
    def provider(prefix: str) -> Any:
        made: Any = infer_provider_class(prefix)
        return made(base_url=base_url)

    return provider


class ProviderModel:
    """A language model at a provider. What it turns out not to take is not asked of it again."""

    def __init__(self, model: Model, address: Address, settings: ModelSettings, sleep: Sleep = asyncio.sleep) -> None:
        self._model = model
        self._address = address
        self._settings = settings
        self._sleep = sleep
        self._modes = _modes(model, settings)
        self._blind = not model.profile.get("supports_image_input", True)
        self._window = settings.context_tokens or context_tokens(settings)
        self._probed = self._window is not None
        self._most_tokens: int | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def sees(self) -> bool:
        return not self._blind

    def name_of(self, role: Role) -> str:
        return self._settings.name

    @property
    def note(self) -> str:
        """What was chosen on the user's behalf, e.g. chat completions for `openai:` at another address; or empty."""
        return self._address.note

    async def answer(self, request: Request) -> Reply:
        """The model's answer to a request. Raises `ModelError`."""
        if request.images and self._blind:
            raise ImagesRefused(f"{self.name} takes no pictures")
        patient = PatientModel(self._model, self._settings, self._sleep, images=bool(request.images))
        try:
            async with self._model:  # counted: the last answer under way closes the connections
                request = fitted(request, await self.context_tokens(), model=self.name)
                output = await self._through(request, patient)
        except ImagesRefused:
            self._blind = True
            raise
        return self._reply(output, patient)

    async def reads(self, role: Role) -> int | None:
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

    async def _through(self, request: Request, patient: PatientModel) -> BaseModel:
        """An answer in the first mode that the server takes."""
        while True:
            mode = self._modes[0]
            patient.mode, patient.may_switch = mode, len(self._modes) > 1
            request = replace(request, max_tokens=min(request.max_tokens, self._most_tokens or request.max_tokens))
            try:
                return await self._exchange(request, patient, mode)
            except FewerTokens as error:
                LOG.info("%s: %s", self.name, error)
                self._most_tokens = error.most
            except ModeRefused as error:
                if self._modes[0] == mode:  # another answer may have learnt it meanwhile
                    self._next_mode(mode, error)

    def _next_mode(self, mode: Mode, error: ModeRefused) -> None:
        if len(self._modes) == 1:
            raise ModelRefused(f"{self.name}: the provider refused every way of structured answers that models.output="
                               f"{self._settings.output} allows; choose another model: {error}")
        del self._modes[0]
        LOG.info("%s: no structured answers by %s, %s is used: %s", self.name, mode, self._modes[0], error)

    async def _exchange(self, request: Request, patient: PatientModel, mode: Mode) -> BaseModel:
        retries = self._settings.output_retries - patient.answers
        agent = Agent(
            patient,
            output_type=_output(mode, request.output_type),
            instructions=request.prompt.system,
            retries={"output": retries, "tools": retries},
            capabilities=BELOW.get(),
        )
        try:
            result = await agent.run(
                _content(request.prompt.user, request.images), model_settings=self._bounds(request))
        except (ModelError, ModeRefused, FewerTokens):
            raise
        except ai.UserError as error:
            raise ModelConfigError(f"{self.name}: models.output={mode} cannot be used: {shown(error)}") from None
        except ai.AgentRunError as error:
            raise answer_error(
                error, model=self.name, tries=patient.answers, max_tokens=request.max_tokens
            ) from None
        return result.output

    def _bounds(self, request: Request) -> RequestSettings:
        return RequestSettings(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            timeout=self._settings.timeout,
            max_retries=0,
            cache={"messages": False},
        )

    def _reply(self, output: BaseModel, patient: PatientModel) -> Reply:
        responses = patient.responses
        usage = Usage(
            input_tokens=sum(response.usage.input_tokens for response in responses),
            output_tokens=sum(response.usage.output_tokens for response in responses),
            usd=_usd(responses) if self._address.own_prices else None,
        )
        answered_by = next((r.model_name for r in reversed(responses) if r.model_name), self._address.model)
        retries = patient.retries + len(responses) - 1
        usage = prices.settled(self._settings, usage)
        return Reply(output=output, usage=usage, model=f"{self._address.prefix}:{answered_by}", retries=retries)


def _modes(model: Model, settings: ModelSettings) -> list[Mode]:
    """The ways of structured answers to try, in order: the model's own first, as far as its profile knows."""
    if settings.output != "auto":
        return [settings.output]
    known = {"tool": model.profile.get("supports_tools", True), "prompted": True,
             "native": model.profile.get("supports_json_schema_output", False)}
    first = model.profile.get("default_structured_output_mode", "tool")
    return sorted((mode for mode in _MODES if known[mode]), key=lambda mode: (mode != first, _MODES.index(mode)))


def _output(mode: Mode, output_type: type[BaseModel]) -> Any:
    kind = {"tool": ToolOutput, "native": NativeOutput, "prompted": PromptedOutput}[mode]
    return kind(output_type, name="answer")


def _content(user: str, images: Sequence[Image]) -> str | list[UserContent]:
    if not images:
        return user
    return [user, *(BinaryContent(data=image.data, media_type=image.media_type) for image in images)]


def _usd(responses: Sequence[ModelResponse]) -> float | None:
    """The price of all responses by genai-prices' list, in USD; None where one of them has no known price."""
    try:
        return float(sum(response.cost().total_price for response in responses))
    except (LookupError, ValueError, AssertionError):
        return None
