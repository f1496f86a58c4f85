"""One answer's requests to a model: sent again when they fail on their way, given up when no try can help.

What a server says that it does not take (pictures, tools, a JSON schema, a setting, so many tokens) is told apart from
a fault, and so is an answer that was cut at its length. There is no common code for it: servers say it in words.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal
from urllib.parse import urljoin

from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings as RequestSettings

from labwright.models.errors import (
    AccessLost,
    ContextTooLong,
    ModelConfigError,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    QuotaSpent,
)
from labwright.models.settings import RETRY_WAIT, RETRY_WAIT_CAP, ModelSettings
from labwright.record.nouns.frozen import encodable

LOG = logging.getLogger(__name__)
Mode = Literal["tool", "native", "prompted"]
Sleep = Callable[[float], Awaitable[None]]
UNREADABLE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""What clients stumble with over an answer of status 200 that has not the form of one (no choices, null, a list)."""
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_SHAPE = re.compile(r"\b(sk|rk|pk|xai|gsk|hf|AIza|Bearer)[-_ ][A-Za-z0-9_\-.*]{6,}|\bAIza[A-Za-z0-9_\-]{10,}")

Feature = Literal["temperature", "max_tokens", "cache", "images", "tool", "native", "json"]
"""What of a request a server may not take; `json`, to be told that a prompt asks for JSON."""
SETTINGS: tuple[Feature, ...] = ("temperature", "max_tokens", "cache")
"""Those without which the request is asked all the same."""
_CANNOT = re.compile(
    r"support|requires?\b|enable|not (?:allowed|available|implemented|permitted|a multimodal)|invalid|"
    r"un(?:known|recogni[sz]ed|expected|available)|at most 0|mmproj|only text|text[- ]only",
    re.IGNORECASE,
)
_CANNOT_SET = re.compile(rf"{_CANNOT.pattern}|deprecated|\bonly\b", re.IGNORECASE)
_VALUE = re.compile(
    r"\brange\b|between|(?:less|greater) than|at (?:most|least)|too (?:large|small|high|low)|exceed", re.IGNORECASE
)
"""A setting is taken, but not with this value."""
_ABOUT: dict[Feature, re.Pattern[str]] = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_(?:completion_)?tokens\b", re.IGNORECASE),
    "cache": re.compile(r"cache_control|prompt_?cache", re.IGNORECASE),
    "images": re.compile(r"image|vision|multi-?modal|mmproj", re.IGNORECASE),
    "tool": re.compile(r"\btools?\b|tool[_ ](?:use|choice|call)|\bfunctions?\b|function[_ ]call", re.IGNORECASE),
    "native": re.compile(
        r"response_?format|json[_ ]?schema|structured output|guided|grammar|\bschema\b|"
        r"output_(?:config|format)",
        re.IGNORECASE,
    ),
}
_ABOUT["json"] = _ABOUT["native"]
_OTHERWISE = frozenset({401, 402, 403, 408, 409, 413, 429, 502, 503, 529})
"""Statuses that have a meaning of their own."""
_OF_THIS_ONE = re.compile(
    r"too (?:large|big|many)|exceed|maximum size|dimension|could not (?:process|decode)|corrupt|"
    r"failed to (?:call|decode|load)|failed_generation|tool_use_failed|invalid (?:image|base64)",
    re.IGNORECASE,
)
"""What is wrong with one picture or one answer, not with pictures or tools as such."""
_BOUND = re.compile(
    r"max_(?:completion_|output_)?tokens\b.*?(?:at most|>|<=|less than or equal to|up to|maximum of)"
    r"[ `']*(\d+)",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"context (?:size|length|window)|prompt is too long|input is too long", re.IGNORECASE)


class Unsupported(Exception):
    """A server does not take something of a request."""

    def __init__(self, what: Feature, message: str) -> None:
        super().__init__(message)
        self.what: Feature = what


class FewerTokens(Exception):
    """A server gives answers of `most` tokens at most."""

    def __init__(self, most: int) -> None:
        super().__init__(f"answers have {most} tokens at most")
        self.most = most


class Truncated(Exception):
    """An answer was cut at its length. It is not looked at: what is left of a tool call may even fit its schema."""


class RetryingModel(WrapperModel):
    """A model that sends a request again when it failed on its way. One is made for each answer."""

    def __init__(
        self, wrapped: Model, settings: ModelSettings, sleep: Sleep, *, worked: bool = False, address: str = ""
    ) -> None:
        """`worked`: whether the model has answered in this process; `address`: of a server that is no provider's."""
        super().__init__(wrapped)
        self._address = address
        self._limits = settings
        self._sleep = sleep
        self._worked = worked
        self.sent: tuple[Feature, ...] = ()
        """What of the request a server may not take, in the order in which it is left out."""
        self.max_tokens = 0
        self.may_switch = False
        self.retries = 0
        self.responses: list[ModelResponse] = []

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: RequestSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The provider's response. Raises `Truncated`, `FewerTokens`, `Unsupported`; or `ModelError`."""
        doubtful = 0
        for attempt in range(1, self._limits.retries + 2):
            try:
                async with asyncio.timeout(self._limits.timeout):
                    response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            except (TimeoutError, ai.ModelTimeoutError):
                doubtful += 1
                error = ai.ModelConnectionError(
                    self.model_name, f"no answer within {self._limits.timeout:g} s (models.timeout)"
                )
            except UNREADABLE as caught:
                doubtful += 1
                LOG.info("%s: an answer without the form of one", self._limits.name, exc_info=caught)
                error = ai.UnexpectedModelBehavior(f"it sent something that is not an answer ({shown(caught)})")
            except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as caught:
                error = caught
            else:
                return self._taken(response)
            most = most_tokens(error)
            if most and most < self.max_tokens:
                raise FewerTokens(most)
            for feature in self.sent:
                if cannot(error, feature):
                    raise Unsupported(feature, shown(error))
            await self._before_next(error, attempt, doubtful)
        raise AssertionError("the loop above returns or raises")

    def _taken(self, response: ModelResponse) -> ModelResponse:
        """The response, which is counted. Raises `Truncated`, `Unsupported`."""
        make_encodable(response)
        self.responses.append(response)
        if response.finish_reason == "length":
            raise Truncated
        # One answer is left to ask for otherwise, of a model that was given a tool and wrote prose every time.
        if "tool" in self.sent and self.may_switch and len(self.responses) == self._limits.output_retries:
            parts = [part for one in self.responses for part in one.parts]
            if any(isinstance(part, TextPart) and part.content for part in parts) and not any(
                isinstance(part, ToolCallPart) for part in parts
            ):
                raise Unsupported("tool", "it answers in prose and calls no tool")
        return response

    async def _before_next(self, error: ai.AgentRunError, attempt: int, doubtful: int) -> None:
        """Wait; raises `ModelError` when no further try is worth it. `doubtful` tries may have to be paid."""
        name = self._limits.name
        asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
        if asked is not None and asked > RETRY_WAIT_CAP and transient(error):
            raise QuotaSpent(f"{name}: a quota is used up: {shown(error)}", asked)
        if doubtful > 1 or attempt > self._limits.retries or not transient(error):
            failed = transport_error(
                error, name, tries=attempt, worked=self._worked or bool(self.responses), address=self._address
            )
            failed.billed = doubtful > 0 or bool(self.responses)
            raise failed
        wait = min(RETRY_WAIT_CAP, RETRY_WAIT * 2.0 ** (attempt - 1) if asked is None else asked)
        LOG.info("%s: try %d failed, next in %.1f s: %s", name, attempt, wait, shown(error))
        self.retries += 1
        await self._sleep(wait)


# --- what a failure means -------------------------------------------------------------------------------------------


def cannot(error: ai.AgentRunError, what: Feature) -> bool:
    """Whether a server says that this model accepts no images, tools, JSON schema of an answer, or such a setting.

    There is no common code for it: servers answer 400, 404, 422, 500 or 501 and say it in words.
    """
    if not isinstance(error, ai.ModelHTTPError) or error.status_code in _OTHERWISE:
        return False
    message = shown(error)
    if not _ABOUT[what].search(message) or _TOO_LONG.search(message):
        return False
    if what in SETTINGS:
        return bool(_CANNOT_SET.search(message) and not _VALUE.search(message))
    return bool(_CANNOT.search(message) and not _OF_THIS_ONE.search(message))


def most_tokens(error: ai.AgentRunError) -> int | None:
    """The most tokens that an answer may have, where a server refuses a request for more and says so."""
    match = _BOUND.search(shown(error)) if isinstance(error, ai.ModelRequestRejectedError) else None
    return int(match[1]) if match else None


def transient(error: ai.AgentRunError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ai.ModelQuotaExceededError | ai.ModelRequestRejectedError) or redirected(error):
        return False
    if isinstance(error, ai.ModelHTTPError):
        return not _TOO_LONG.search(shown(error)) and (
            error.status_code in _TRANSIENT_STATUS or error.status_code >= 500
        )
    # A body that is no answer at all (a proxy's page, say) is the server's fault of the moment as well.
    return isinstance(error, ai.ModelAPIError) or type(error) is ai.UnexpectedModelBehavior


def redirected(error: ai.AgentRunError) -> str:
    """Where a server sends requests on to, which no client follows: a key would go there; empty: it does not."""
    answer: Any = getattr(error.__cause__, "response", None)
    if answer is None or not 300 <= answer.status_code < 400:
        return ""
    return urljoin(str(answer.request.url), answer.headers.get("location", "")).removesuffix("/chat/completions")


def make_encodable(response: ModelResponse) -> None:
    """Put `?` in a response for what UTF-8 cannot hold: half a surrogate pair ends whatever writes it down."""
    for part in response.parts:
        if isinstance(part, TextPart):
            part.content = encodable(part.content)
        elif isinstance(part, ToolCallPart):
            part.args = encodable(part.args)  # pyright: ignore[reportAttributeAccessIssue]  of the same type


def transport_error(error: ai.AgentRunError, model: str, *, tries: int, worked: bool, address: str = "") -> ModelError:
    """The error of a request that is not tried again. `worked`: whether the model has answered in this process."""
    message = shown(error)
    if place := redirected(error):
        return ModelConfigError(
            f"{model}: its server sends requests on to {place}; if that is right, set models.base_url to it: {message}"
        )
    match error:
        case ai.ModelAuthenticationError() if worked:  # a 403 may also be about this one request
            kind = ModelUnavailable if isinstance(error, ai.ModelHTTPError) and error.status_code == 403 else AccessLost
            return kind(f"{model}: the key is no longer accepted, which was before; renew it or its rights: {message}")
        case ai.ModelNotFoundError() if worked:
            return AccessLost(
                f"{model}: the model or its address is gone, which has answered before; choose another "
                f"(--model, --base-url) when you resume: {message}"
            )
        case ai.ModelAuthenticationError():
            return ModelConfigError(f"{model}: the key is not accepted; check the API key and its rights: {message}")
        case ai.ModelNotFoundError():
            return ModelConfigError(
                f"{model}: no such model or address; check models.name and models.base_url: {message}"
            )
        case ai.ModelQuotaExceededError():
            return QuotaSpent(f"{model}: the quota or the account's credit is used up: {message}", error.retry_after)
        case _ if isinstance(error, ai.ModelContextWindowExceededError) or _TOO_LONG.search(message):
            return ContextTooLong(
                f"{model}: the prompt is longer than the model reads; choose one with more context, or set "
                f"models.context_tokens so that requests are cut to it: {message}"
            )
        case ai.ModelRequestRejectedError():
            return ModelRefused(
                f"{model}: the provider refused the request; if it is about images set models.vision=false, "
                f"about length models.roles.ROLE.max_tokens: {message}"
            )
        case _:
            count = "1 try" if tries == 1 else f"{tries} tries"
            where = f" at {address}" if address else ""
            return ModelUnavailable(f"{model}: no answer after {count}{where}; resume later: {message}")


def shown(error: Exception) -> str:
    """What an error says, on one line, short and without secrets."""
    text = " ".join(encodable(str(error)).split())
    for name, value in os.environ.items():
        if len(value) >= 6 and _SECRET_NAME.search(name):
            text = text.replace(value, "[key]")
    text = _SECRET_SHAPE.sub("[key]", text)
    return text if len(text) <= 400 else text[:400] + " ..."
