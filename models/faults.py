"""What a provider's failure means for us: worth another try, or which `ModelError`. Imports pydantic_ai."""

from __future__ import annotations

import os
import re
from typing import Literal

from pydantic_ai import exceptions as ai

from models.errors import (
    AccessLost,
    ContextTooLong,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
    QuotaSpent,
)

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_SHAPE = re.compile(r"\b(sk|rk|pk|xai|gsk|hf|AIza|Bearer)[-_ ][A-Za-z0-9_\-.*]{6,}|\bAIza[A-Za-z0-9_\-]{10,}")

Feature = Literal["temperature", "max_tokens", "cache", "images", "tool", "native"]
"""What of a request a server may not take."""
SETTINGS: tuple[Feature, ...] = ("temperature", "max_tokens", "cache")
"""Those without which the request is asked all the same."""
_CANNOT = re.compile(r"support|requires?\b|enable|not (?:allowed|available|implemented|permitted|a multimodal)|invalid|"
                     r"un(?:known|recogni[sz]ed|expected|available)|at most 0|mmproj|only text|text[- ]only",
                     re.IGNORECASE)
_CANNOT_SET = re.compile(rf"{_CANNOT.pattern}|deprecated|\bonly\b", re.IGNORECASE)
_VALUE = re.compile(r"\brange\b|between|(?:less|greater) than|at (?:most|least)|too (?:large|small|high|low)|exceed",
                    re.IGNORECASE)
"""A setting is taken, but not with this value."""
_ABOUT: dict[Feature, re.Pattern[str]] = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_(?:completion_)?tokens\b", re.IGNORECASE),
    "cache": re.compile(r"cache_control|prompt_?cache", re.IGNORECASE),
    "images": re.compile(r"image|vision|multi-?modal|mmproj", re.IGNORECASE),
    "tool": re.compile(r"\btools?\b|tool[_ ](?:use|choice|call)|\bfunctions?\b|function[_ ]call", re.IGNORECASE),
    "native": re.compile(r"response_?format|json[_ ]?schema|structured output|guided|grammar|\bschema\b|"
                         r"output_(?:config|format)", re.IGNORECASE),
}
_OTHERWISE = frozenset({401, 402, 403, 408, 409, 413, 429, 502, 503, 529})
"""Statuses that have a meaning of their own."""
_OF_THIS_ONE = re.compile(r"too (?:large|big|many)|exceed|maximum size|dimension|could not (?:process|decode)|corrupt|"
                          r"failed to (?:call|decode|load)|failed_generation|tool_use_failed|invalid (?:image|base64)",
                          re.IGNORECASE)
"""What is wrong with one picture or one answer, not with pictures or tools as such."""
_BOUND = re.compile(r"max_(?:completion_|output_)?tokens\b.*?(?:at most|>|<=|less than or equal to|up to|maximum of)"
                    r"[ `']*(\d+)", re.IGNORECASE)
_TOO_LONG = re.compile(r"context (?:size|length|window)|prompt is too long|input is too long", re.IGNORECASE)


def cannot(error: ai.AgentRunError, what: Feature) -> bool:
    """Whether a server says that this model takes no pictures, tools, JSON schema of an answer, or such a setting.

    There is no common code for it: servers answer 400, 404, 422, 500 or 501 and say it in words.
    """
    if not isinstance(error, ai.ModelHTTPError) or error.status_code in _OTHERWISE:
        return False
    said = shown(error)
    if not _ABOUT[what].search(said) or _TOO_LONG.search(said):
        return False
    if what in SETTINGS:
        return bool(_CANNOT_SET.search(said) and not _VALUE.search(said))
    return bool(_CANNOT.search(said) and not _OF_THIS_ONE.search(said))


def most_tokens(error: ai.AgentRunError) -> int | None:
    """The most tokens that an answer may have, where a server refuses a request for more and says so."""
    found = _BOUND.search(shown(error)) if isinstance(error, ai.ModelRequestRejectedError) else None
    return int(found[1]) if found else None


def transient(error: ai.AgentRunError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ai.ModelQuotaExceededError | ai.ModelRequestRejectedError):
        return False
    if isinstance(error, ai.ModelHTTPError):
        return not _TOO_LONG.search(shown(error)) and (
            error.status_code in _TRANSIENT_STATUS or error.status_code >= 500)
    # A body that is no answer at all (a proxy's page, say) is the server's fault of the moment as well.
    return isinstance(error, ai.ModelAPIError) or type(error) is ai.UnexpectedModelBehavior


def wait_before(attempt: int, asked: float | None, *, first: float, cap: float) -> float:
    """Seconds before try number `attempt` (the second is 2): as long as the provider asked, within the cap."""
    return min(cap, asked if asked is not None else first * 2.0 ** (attempt - 2))


def quota_window(error: ai.AgentRunError, *, cap: float) -> float | None:
    """Seconds that the provider asks to be left alone, where they are more than `cap`: a quota, not a rush."""
    asked = error.retry_after if isinstance(error, ai.ModelAPIError) else None
    return asked if asked is not None and asked > cap else None


def transport_error(error: ai.AgentRunError, *, model: str, tries: int, worked: bool) -> ModelError:
    """The error of a request that is not tried again. `worked`: whether the model has answered in this process."""
    said = shown(error)
    if worked and isinstance(error, ai.ModelAuthenticationError | ai.ModelNotFoundError):
        return _lost(error, model)
    if isinstance(error, ai.ModelAuthenticationError):
        return ModelConfigError(f"{model}: the key is not accepted; check the API key and its rights: {said}")
    if isinstance(error, ai.ModelNotFoundError):
        return ModelConfigError(f"{model}: no such model or address; check models.name and models.base_url: {said}")
    if isinstance(error, ai.ModelQuotaExceededError):
        return QuotaSpent(f"{model}: the quota or the account's credit is used up: {said}", error.retry_after)
    if isinstance(error, ai.ModelContextWindowExceededError) or _TOO_LONG.search(said):
        return ContextTooLong(
            f"{model}: the prompt is longer than the model reads; choose one with more context, or set "
            f"models.context_tokens so that requests are cut to it: {said}")
    if isinstance(error, ai.ModelRequestRejectedError):
        return ModelRefused(
            f"{model}: the provider refused the request; if it is about images set models.vision=false, "
            f"about length models.roles.ROLE.max_tokens: {said}"
        )
    count = "1 try" if tries == 1 else f"{tries} tries"
    return ModelUnavailable(f"{model}: no answer after {count}; resume later: {said}")


def _lost(error: ai.AgentRunError, model: str) -> ModelUnavailable:
    """The error of a key, a model or an address that has worked. A 403 may also be about this one request."""
    said = shown(error)
    if isinstance(error, ai.ModelNotFoundError):
        return AccessLost(f"{model}: the model or its address is gone, which has answered before; choose another "
                          f"(--model, --base-url) when you resume: {said}")
    status = error.status_code if isinstance(error, ai.ModelHTTPError) else None
    return (ModelUnavailable if status == 403 else AccessLost)(
        f"{model}: the key is no longer accepted, which was before; renew it or its rights: {said}")


def answer_error(error: ai.AgentRunError, *, model: str, tries: int) -> ModelError:
    """The error of an exchange that was held and gave no valid answer."""
    if isinstance(error, ai.ContentFilterError):
        return ModelRefused(f"{model}: the provider's content filter stopped the answer: {shown(error)}")
    reason = error.__cause__ if isinstance(error.__cause__, Exception) else error
    return ModelOutputInvalid(
        f"{model}: no answer that fits its schema after {tries} answers; choose a model that is good at tool calls: "
        f"{shown(reason)}"
    )


def shown(error: Exception) -> str:
    """What an error says, on one line, short and without secrets."""
    text = " ".join(str(error).split())
    for name, value in os.environ.items():
        if len(value) >= 6 and _SECRET_NAME.search(name):
            text = text.replace(value, "[key]")
    text = _SECRET_SHAPE.sub("[key]", text)
    return text if len(text) <= 400 else text[:400] + " ..."
