"""Any model that pydantic-ai can reach, behind our `Backend`.

Answers come through an output tool with the schema of the output type. There are two bounded kinds of retries, both
ours (the SDK's are off): a request that failed on its way is sent again, and an answer that does not fit is shown its
error. A request that ran into its time limit is sent once more at most, since the first may have to be paid too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ToolOutput
from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelMessage, ModelResponse, UserContent
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings as RequestSettings

from models.backend import Image, Reply, Request
from models.errors import ModelConfigError, ModelError
from models.faults import answer_error, shown, transient, transport_error, wait_before
from models.naming import COMMON, WITH_BASE_URL, Address, locate
from models.settings import ModelSettings
from record.nouns import Usage

LOG = logging.getLogger(__name__)
Sleep = Callable[[float], Awaitable[None]]


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
    except ai.UserError as error:
        said = re.sub(r" or pass it via `[^`]*`", "", shown(error).partition(". ")[0]).rstrip(".")
        raise ModelConfigError(f"{prefix}:{address.model} cannot be used: {said}; or use the model 'offline'") from None


def _provider_at(base_url: str) -> Callable[[str], Any]:
    def provider(prefix: str) -> Any:
        made: Any = infer_provider_class(prefix)
        return made(base_url=base_url)

    return provider


class ProviderModel:
    """A language model at a provider."""

    def __init__(self, model: Model, address: Address, settings: ModelSettings, sleep: Sleep = asyncio.sleep) -> None:
        self._model = model
        self._address = address
        self._settings = settings
        self._sleep = sleep

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def note(self) -> str:
        """What was chosen on the user's behalf, e.g. chat completions for `openai:` at another address; or empty."""
        return self._address.note

    async def answer(self, request: Request) -> Reply:
        """The model's answer to a request. Raises `ModelError`."""
        patient = PatientModel(self._model, self._settings, self._sleep)
        agent = Agent(
            patient,
            output_type=ToolOutput(request.output_type, name="answer"),
            instructions=request.prompt.system,
            retries={"output": self._settings.output_retries, "tools": 0},
        )
        try:
            async with self._model:  # counted: the last answer under way closes the connections
                result = await agent.run(
                    _content(request.prompt.user, request.images), model_settings=self._bounds(request)
                )
        except ModelError:
            raise
        except ai.AgentRunError as error:
            raise answer_error(
                error, model=self.name, tries=patient.answers, max_tokens=request.max_tokens
            ) from None
        return self._reply(result.output, result.new_messages(), patient)

    def _bounds(self, request: Request) -> RequestSettings:
        return RequestSettings(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            timeout=self._settings.timeout,
            max_retries=0,
            cache={"messages": False},
        )

    def _reply(self, output: BaseModel, messages: Sequence[ModelMessage], patient: PatientModel) -> Reply:
        responses = [message for message in messages if isinstance(message, ModelResponse)]
        usage = Usage(
            input_tokens=sum(response.usage.input_tokens for response in responses),
            output_tokens=sum(response.usage.output_tokens for response in responses),
            usd=_usd(responses) if self._address.own_prices else None,
        )
        answered_by = next((r.model_name for r in reversed(responses) if r.model_name), self._address.model)
        retries = patient.retries + len(responses) - 1
        return Reply(output=output, usage=usage, model=f"{self._address.prefix}:{answered_by}", retries=retries)


class PatientModel(WrapperModel):
    """A model that sends a request again when it failed on its way. One is made for each answer."""

    def __init__(self, wrapped: Model, settings: ModelSettings, sleep: Sleep) -> None:
        super().__init__(wrapped)
        self._bounds = settings
        self._sleep = sleep
        self.retries = 0
        self.answers = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: RequestSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The provider's response. Raises `ModelError` when no further try is worth it or left."""
        timeouts = 0
        for attempt in range(1, self._bounds.retries + 2):
            try:
                async with asyncio.timeout(self._bounds.timeout):
                    response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            except (TimeoutError, ai.ModelTimeoutError):
                timeouts += 1
                error = ai.ModelConnectionError(
                    self.model_name, f"no answer within {self._bounds.timeout:g} s (models.timeout)"
                )
            except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as caught:
                error = caught
            else:
                self.answers += 1
                return response
            await self._before_next(error, attempt, last=timeouts > 1)
        raise AssertionError("the loop above returns or raises")

    async def _before_next(self, error: ai.AgentRunError, attempt: int, *, last: bool) -> None:
        if last or attempt > self._bounds.retries or not transient(error):
            raise transport_error(error, model=self._bounds.name, tries=attempt)
        asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
        wait = wait_before(attempt + 1, asked, first=self._bounds.retry_wait, cap=self._bounds.retry_wait_cap)
        LOG.info("%s: try %d failed, next in %.1f s: %s", self._bounds.name, attempt, wait, shown(error))
        self.retries += 1
        await self._sleep(wait)


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
