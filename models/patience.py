"""One answer's requests to a model: sent again when they fail on their way, given up when no try can help.

What a server says that it does not take (pictures, tools, a JSON schema, a setting, so many tokens) is told apart from
a fault, and so is an answer that was cut at its length.
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

from models.errors import QuotaSpent
from models.faults import Feature, cannot, most_tokens, quota_window, shown, transient, transport_error, wait_before
from models.settings import ModelSettings

LOG = logging.getLogger(__name__)
Mode = Literal["tool", "native", "prompted"]
Sleep = Callable[[float], Awaitable[None]]
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError)
"""What clients stumble with over an answer of status 200 that has not the form of one (no choices, null, a list)."""


class NotTaken(Exception):
    """A server does not take something of a request."""

    def __init__(self, what: Feature, said: str) -> None:
        super().__init__(said)
        self.what: Feature = what


class FewerTokens(Exception):
    """A server gives answers of `most` tokens at most."""

    def __init__(self, most: int) -> None:
        super().__init__(f"answers have {most} tokens at most")
        self.most = most


class CutShort(Exception):
    """An answer was cut at its length. It is not looked at: what is left of a tool call may even fit its schema."""


class PatientModel(WrapperModel):
    """A model that sends a request again when it failed on its way. One is made for each answer."""

    def __init__(self, wrapped: Model, settings: ModelSettings, sleep: Sleep, *, worked: bool = False) -> None:
        """`worked`: whether the model has answered in this process."""
        super().__init__(wrapped)
        self._bounds = settings
        self._sleep = sleep
        self._worked = worked
        self.sent: tuple[Feature, ...] = ()
        """What of the request a server may not take, in the order in which it is left out."""
        self.max_tokens = 0
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
        return ("tool" in self.sent and self.may_switch and self.answers == self._bounds.output_retries
                and any(isinstance(part, TextPart) and part.content for part in parts)
                and not any(isinstance(part, ToolCallPart) for part in parts))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: RequestSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The provider's response. Raises what `_learn` and `_taken` do, and `ModelError` when no try can help."""
        doubtful = 0
        for attempt in range(1, self._bounds.retries + 2):
            try:
                async with asyncio.timeout(self._bounds.timeout):
                    response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            except (TimeoutError, ai.ModelTimeoutError):
                doubtful += 1
                error = ai.ModelConnectionError(
                    self.model_name, f"no answer within {self._bounds.timeout:g} s (models.timeout)"
                )
            except UNREADABLE as caught:
                doubtful += 1
                LOG.info("%s: an answer without the form of one", self._bounds.name, exc_info=caught)
                error = ai.UnexpectedModelBehavior(f"it answered with something that is no answer ({shown(caught)})")
            except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as caught:
                error = caught
            else:
                return self._taken(response)
            self._learn(error)
            await self._before_next(error, attempt, doubtful)
        raise AssertionError("the loop above returns or raises")

    def _taken(self, response: ModelResponse) -> ModelResponse:
        """The response, which is counted. Raises `CutShort`, `NotTaken`."""
        self.responses.append(response)
        if response.finish_reason == "length":
            raise CutShort
        if self._only_talks:
            raise NotTaken("tool", "it answers in prose and calls no tool")
        return response

    def _learn(self, error: ai.AgentRunError) -> None:
        """Raises `FewerTokens` or `NotTaken` if the server says that it takes no such thing."""
        most = most_tokens(error)
        if most and most < self.max_tokens:
            raise FewerTokens(most)
        for what in self.sent:
            if cannot(error, what):
                raise NotTaken(what, shown(error))

    async def _before_next(self, error: ai.AgentRunError, attempt: int, doubtful: int) -> None:
        """Wait; raises `ModelError` when no further try is worth it. `doubtful` tries may have to be paid."""
        window = quota_window(error, cap=self._bounds.retry_wait_cap)
        if window is not None and transient(error):
            raise QuotaSpent(f"{self._bounds.name}: a quota is used up: {shown(error)}", window)
        if doubtful > 1 or attempt > self._bounds.retries or not transient(error):
            failed = transport_error(error, model=self._bounds.name, tries=attempt,
                                     worked=self._worked or self.answers > 0)
            failed.billed = doubtful > 0 or self.answers > 0
            raise failed
        asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
        wait = wait_before(attempt + 1, asked, first=self._bounds.retry_wait, cap=self._bounds.retry_wait_cap)
        LOG.info("%s: try %d failed, next in %.1f s: %s", self._bounds.name, attempt, wait, shown(error))
        self.retries += 1
        await self._sleep(wait)
