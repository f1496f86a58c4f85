"""One answer's requests to a model: sent again when they fail on their way, given up when no try can help.

What a server says that it does not take (pictures, tools, a JSON schema, so many tokens) is told apart from a fault.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings as RequestSettings

from models.errors import ImagesRefused, QuotaSpent
from models.faults import cannot, most_tokens, quota_window, shown, transient, transport_error, wait_before
from models.settings import ModelSettings

LOG = logging.getLogger(__name__)
Mode = Literal["tool", "native", "prompted"]
Sleep = Callable[[float], Awaitable[None]]


class ModeRefused(Exception):
    """A server does not take one way of asking for a structured answer."""


class FewerTokens(Exception):
    """A server gives answers of `most` tokens at most."""

    def __init__(self, most: int) -> None:
        super().__init__(f"answers have {most} tokens at most")
        self.most = most


class PatientModel(WrapperModel):
    """A model that sends a request again when it failed on its way. One is made for each answer."""

    def __init__(self, wrapped: Model, settings: ModelSettings, sleep: Sleep, *, images: bool = False) -> None:
        super().__init__(wrapped)
        self._bounds = settings
        self._sleep = sleep
        self._images = images
        self.mode: Mode = "tool"
        self.may_switch = False
        self.retries = 0
        self.responses: list[ModelResponse] = []

    @property
    def answers(self) -> int:
        return len(self.responses)

    @property
    def _only_talks(self) -> bool:
        """Whether it was given a tool and wrote prose every time, and one answer is left to ask for otherwise."""
        parts = [part for response in self.responses for part in response.parts]
        return (self.mode == "tool" and self.may_switch and self.answers == self._bounds.output_retries
                and any(isinstance(part, TextPart) and part.content for part in parts)
                and not any(isinstance(part, ToolCallPart) for part in parts))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: RequestSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The provider's response. Raises what `_learn` does, and `ModelError` when no further try is worth it."""
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
                self.responses.append(response)
                if self._only_talks:
                    raise ModeRefused("it answers in prose and calls no tool")
                return response
            self._learn(error, (model_settings or {}).get("max_tokens"))
            await self._before_next(error, attempt, timeouts)
        raise AssertionError("the loop above returns or raises")

    def _learn(self, error: ai.AgentRunError, asked_tokens: int | None) -> None:
        """Raises `ImagesRefused`, `FewerTokens` or `ModeRefused` if the server says that it takes no such thing."""
        most = most_tokens(error)
        if most and asked_tokens and most < asked_tokens:
            raise FewerTokens(most)
        if self._images and cannot(error, "images"):
            raise ImagesRefused(f"{self._bounds.name} takes no pictures: {shown(error)}")
        if self.mode != "prompted" and cannot(error, self.mode):
            raise ModeRefused(shown(error))

    async def _before_next(self, error: ai.AgentRunError, attempt: int, timeouts: int) -> None:
        window = quota_window(error, cap=self._bounds.retry_wait_cap)
        if window is not None and transient(error):
            raise QuotaSpent(f"{self._bounds.name}: a quota is used up: {shown(error)}", window)
        if timeouts > 1 or attempt > self._bounds.retries or not transient(error):
            failed = transport_error(error, model=self._bounds.name, tries=attempt)
            failed.billed = timeouts > 0 or self.answers > 0
            raise failed
        asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
        wait = wait_before(attempt + 1, asked, first=self._bounds.retry_wait, cap=self._bounds.retry_wait_cap)
        LOG.info("%s: try %d failed, next in %.1f s: %s", self._bounds.name, attempt, wait, shown(error))
        self.retries += 1
        await self._sleep(wait)
