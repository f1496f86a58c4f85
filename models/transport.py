"""The requests to a model for one answer: retried after transport failures, abandoned if a retry cannot help.

Unsupported features of a server (images, tools, a JSON schema, a setting, a token limit) and truncated
answers are distinguished from faults. There is no common error code for these features; servers describe them in free
text.
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
from labwright.models.settings import MAX_RETRY_WAIT_SECONDS, RETRY_WAIT_SECONDS, ModelSettings
from labwright.record.schema import replace_unencodable

LOG = logging.getLogger(__name__)
Mode = Literal["tool", "native", "prompted"]
Sleep = Callable[[float], Awaitable[None]]
UNREADABLE_RESPONSE_ERRORS = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""Exceptions of clients for a response with status 200 that is not an answer (no choices, null, a list)."""
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_SHAPE = re.compile(r"\b(sk|rk|pk|xai|gsk|hf|AIza|Bearer)[-_ ][A-Za-z0-9_\-.*]{6,}|\bAIza[A-Za-z0-9_\-]{10,}")

Feature = Literal["temperature", "max_tokens", "cache", "images", "tool", "native", "json"]
"""Features of a request that a server may not support; `json`: the hint that a prompt asks for JSON."""
OPTIONAL_SETTINGS: tuple[Feature, ...] = ("temperature", "max_tokens", "cache")
"""Features without which the request is still sent."""
_UNSUPPORTED_WORDS = re.compile(
    r"support|requires?\b|enable|not (?:allowed|available|implemented|permitted|a multimodal)|invalid|"
    r"un(?:known|recogni[sz]ed|expected|available)|at most 0|mmproj|only text|text[- ]only",
    re.IGNORECASE,
)
_UNSUPPORTED_SETTING_WORDS = re.compile(rf"{_UNSUPPORTED_WORDS.pattern}|deprecated|\bonly\b", re.IGNORECASE)
_BAD_VALUE_WORDS = re.compile(
    r"\brange\b|between|(?:less|greater) than|at (?:most|least)|too (?:large|small|high|low)|exceed", re.IGNORECASE
)
"""The setting is supported, but not with this value."""
_FEATURE_PATTERNS: dict[Feature, re.Pattern[str]] = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_(?:completion_)?tokens\b", re.IGNORECASE),
    "cache": re.compile(r"cache_control|prompt_?cache", re.IGNORECASE),
    "images": re.compile(r"image|vision|multi-?modal|mmproj", re.IGNORECASE),
    "tool": re.compile(r"\btools?\b|tool[_ ](?:use|choice|call)|\bfunctions?\b|function[_ ]call", re.IGNORECASE),
    "native": re.compile(
        r"response_?format|json[_ ]?schema|structured output|guided|grammar|\bschema\b|output_(?:config|format)",
        re.IGNORECASE,
    ),
}
_FEATURE_PATTERNS["json"] = _FEATURE_PATTERNS["native"]
_OTHER_STATUSES = frozenset({401, 402, 403, 408, 409, 413, 429, 502, 503, 529})
"""HTTP statuses with a specific meaning."""
_SINGLE_INPUT_WORDS = re.compile(
    r"too (?:large|big|many)|exceed|maximum size|dimension|could not (?:process|decode)|corrupt|"
    r"failed to (?:call|decode|load)|failed_generation|tool_use_failed|invalid (?:image|base64)",
    re.IGNORECASE,
)
"""Words for a problem with one image or one answer rather than with images or tools in general."""
_TOKEN_BOUND = re.compile(
    r"max_(?:completion_|output_)?tokens\b.*?(?:at most|>|<=|less than or equal to|up to|maximum of)"
    r"[ `']*(\d+)",
    re.IGNORECASE,
)
_CONTEXT_TOO_LONG = re.compile(r"context (?:size|length|window)|prompt is too long|input is too long", re.IGNORECASE)


class UnsupportedFeature(Exception):
    """A server does not support a feature of a request."""

    def __init__(self, feature: Feature, message: str) -> None:
        super().__init__(message)
        self.feature: Feature = feature


class TokenLimitTooHigh(Exception):
    """A server allows answers of at most `max_tokens` tokens."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__(f"answers have at most {max_tokens} tokens")
        self.max_tokens = max_tokens


class ResponseTruncated(Exception):
    """An answer was truncated. It is not parsed, since a truncated tool call may still fit its schema."""


class RetryingModel(WrapperModel):
    """A model that retries a request after a transport failure. Make one for each answer."""

    def __init__(
        self,
        wrapped: Model,
        settings: ModelSettings,
        sleep: Sleep,
        *,
        has_answered: bool = False,
        address: str = "",
        max_lost: int = 1,
    ) -> None:
        """`has_answered`: the model has answered in this process; `address`: of a server that is not a provider's;
        `max_lost`: tries of a request that may be billed without a response and are repeated."""
        super().__init__(wrapped)
        self._address = address
        self.limits = settings
        self._sleep = sleep
        self._has_answered = has_answered
        self.sent: tuple[Feature, ...] = ()
        """Features of the request that a server may not support; they are left out in this order."""
        self.max_tokens = 0
        self.may_switch = False
        self._max_lost = max_lost
        self.retries = 0
        self.lost = 0
        """Number of requests without a response that may be billed."""
        self.responses: list[ModelResponse] = []

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: RequestSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the provider's response.

        Raises: `ResponseTruncated`, `TokenLimitTooHigh`, `UnsupportedFeature`; or `ModelError`.
        """
        doubtful = 0
        for attempt in range(1, self.limits.retries + 2):
            try:
                async with asyncio.timeout(self.limits.timeout):
                    response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            except (TimeoutError, ai.ModelTimeoutError):
                doubtful, self.lost = doubtful + 1, self.lost + 1
                error = ai.ModelConnectionError(
                    self.model_name, f"no answer within {self.limits.timeout:g} s (models.timeout)"
                )
            except UNREADABLE_RESPONSE_ERRORS as caught:
                doubtful, self.lost = doubtful + 1, self.lost + 1
                LOG.info("%s: the response is not an answer", self.limits.name, exc_info=caught)
                error = ai.UnexpectedModelBehavior(
                    f"the server sent something that is not an answer ({describe_error(caught)})"
                )
            except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as caught:
                error = caught
            else:
                return self._accept_response(response)
            most = parse_max_tokens(error)
            if most and most < self.max_tokens:
                raise TokenLimitTooHigh(most)
            for feature in self.sent:
                if is_unsupported(error, feature):
                    raise UnsupportedFeature(feature, describe_error(error))
            await self._wait_before_retry(error, attempt, doubtful)
        raise AssertionError("the loop above returns or raises")

    def _accept_response(self, response: ModelResponse) -> ModelResponse:
        """Count and return the response. Raises `ResponseTruncated`, `UnsupportedFeature`."""
        make_encodable(response)
        self.responses.append(response)
        if response.finish_reason == "length":
            raise ResponseTruncated
        # One try is left to ask in another way, for a model that was given a tool and wrote prose every time.
        if "tool" in self.sent and self.may_switch and len(self.responses) == self.limits.output_retries:
            parts = [part for one in self.responses for part in one.parts]
            if any(isinstance(part, TextPart) and part.content for part in parts) and not any(
                isinstance(part, ToolCallPart) for part in parts
            ):
                raise UnsupportedFeature("tool", "it answers in prose and calls no tool")
        return response

    async def _wait_before_retry(self, error: ai.AgentRunError, attempt: int, doubtful: int) -> None:
        """Wait; raises `ModelError` if no retry makes sense. `doubtful` tries may be billed."""
        name = self.limits.name
        asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
        if asked is not None and asked > MAX_RETRY_WAIT_SECONDS and is_transient(error):
            raise QuotaSpent(f"{name}: a quota is used up: {describe_error(error)}", asked)
        if doubtful > self._max_lost or attempt > self.limits.retries or not is_transient(error):
            failed = make_transport_error(
                error,
                name,
                tries=attempt,
                has_answered=self._has_answered or bool(self.responses),
                address=self._address,
            )
            failed.billed = doubtful > 0 or bool(self.responses)
            raise failed
        wait = min(MAX_RETRY_WAIT_SECONDS, RETRY_WAIT_SECONDS * 2.0 ** (attempt - 1) if asked is None else asked)
        LOG.info("%s: try %d failed, next in %.1f s: %s", name, attempt, wait, describe_error(error))
        self.retries += 1
        await self._sleep(wait)


# --- meaning of failures --------------------------------------------------------------------------------------------


def is_unsupported(error: ai.AgentRunError, what: Feature) -> bool:
    """Return whether a server says that this model does not support images, tools, a JSON schema, or a certain setting.

    There is no common error code: servers answer 400, 404, 422, 500 or 501 with a free-text description.
    """
    if not isinstance(error, ai.ModelHTTPError) or error.status_code in _OTHER_STATUSES:
        return False
    message = describe_error(error)
    if not _FEATURE_PATTERNS[what].search(message) or _CONTEXT_TOO_LONG.search(message):
        return False
    if what in OPTIONAL_SETTINGS:
        return bool(_UNSUPPORTED_SETTING_WORDS.search(message) and not _BAD_VALUE_WORDS.search(message))
    return bool(_UNSUPPORTED_WORDS.search(message) and not _SINGLE_INPUT_WORDS.search(message))


def parse_max_tokens(error: ai.AgentRunError) -> int | None:
    """Return the maximum tokens of an answer if a server refuses a request for more and states its limit."""
    match = _TOKEN_BOUND.search(describe_error(error)) if isinstance(error, ai.ModelRequestRejectedError) else None
    return int(match[1]) if match else None


def is_transient(error: ai.AgentRunError) -> bool:
    """Return whether the same request may succeed a little later."""
    if isinstance(error, ai.ModelQuotaExceededError | ai.ModelRequestRejectedError) or find_redirect(error):
        return False
    if isinstance(error, ai.ModelHTTPError):
        return not _CONTEXT_TOO_LONG.search(describe_error(error)) and (
            error.status_code in _TRANSIENT_STATUS or error.status_code >= 500
        )
    # A body that is not an answer (for example, a proxy's page) also counts as a transient fault of the server.
    return isinstance(error, ai.ModelAPIError) or type(error) is ai.UnexpectedModelBehavior


def find_redirect(error: ai.AgentRunError) -> str:
    """Return the target of a server's redirect, which no client follows because that would send the key; empty if there
    is none.
    """
    answer: Any = getattr(error.__cause__, "response", None)
    if answer is None or not 300 <= answer.status_code < 400:
        return ""
    return urljoin(str(answer.request.url), answer.headers.get("location", "")).removesuffix("/chat/completions")


def make_encodable(response: ModelResponse) -> None:
    """Replace characters in a response that UTF-8 cannot encode, such as half a surrogate pair, with `?`."""
    for part in response.parts:
        if isinstance(part, TextPart):
            part.content = replace_unencodable(part.content)
        elif isinstance(part, ToolCallPart):
            part.args = replace_unencodable(part.args)  # pyrefly: ignore  of the same type


def make_transport_error(
    error: ai.AgentRunError, model: str, *, tries: int, has_answered: bool, address: str = ""
) -> ModelError:
    """Build the error of a request that is not retried. `has_answered`: the model has answered in this process."""
    message = describe_error(error)
    if place := find_redirect(error):
        return ModelConfigError(
            f"{model}: its server redirects requests to {place}; if that is right, set models.base_url to it: {message}"
        )
    match error:
        case ai.ModelAuthenticationError() if has_answered:  # a 403 may also be about this one request
            kind = ModelUnavailable if isinstance(error, ai.ModelHTTPError) and error.status_code == 403 else AccessLost
            return kind(f"{model}: the key is no longer accepted; renew it or its rights: {message}")
        case ai.ModelNotFoundError() if has_answered:
            return AccessLost(
                f"{model}: the model or its address no longer exists, although it answered before; choose another "
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
        case _ if isinstance(error, ai.ModelContextWindowExceededError) or _CONTEXT_TOO_LONG.search(message):
            return ContextTooLong(
                f"{model}: the prompt exceeds the model's context; choose a model with more context, or set "
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


def describe_error(error: Exception) -> str:
    """Return an error's message on one line, short and without secrets."""
    text = " ".join(replace_unencodable(str(error)).split())
    for name, value in os.environ.items():
        if len(value) >= 6 and _SECRET_NAME.search(name):
            text = text.replace(value, "[key]")
    text = _SECRET_SHAPE.sub("[key]", text)
    return text if len(text) <= 400 else text[:400] + " ..."
