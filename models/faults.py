"""What a provider's failure means for us: worth another try, or which `ModelError`. Imports pydantic_ai."""

from __future__ import annotations

import os
import re

from pydantic_ai import exceptions as ai

from models.errors import ModelConfigError, ModelError, ModelOutputInvalid, ModelRefused, ModelUnavailable

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_SHAPE = re.compile(r"\b(sk|rk|pk|xai|gsk|hf|AIza|Bearer)[-_ ][A-Za-z0-9_\-.*]{6,}|\bAIza[A-Za-z0-9_\-]{10,}")


def transient(error: ai.AgentRunError) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, ai.ModelQuotaExceededError | ai.ModelRequestRejectedError):
        return False
    if isinstance(error, ai.ModelHTTPError):
        return error.status_code in _TRANSIENT_STATUS or error.status_code >= 500
    # A body that is no answer at all (a proxy's page, say) is the server's fault of the moment as well.
    return isinstance(error, ai.ModelAPIError) or type(error) is ai.UnexpectedModelBehavior


def wait_before(attempt: int, asked: float | None, *, first: float, cap: float) -> float:
    """Seconds before try number `attempt` (the second is 2): as long as the provider asked, within the cap."""
    return min(cap, asked if asked is not None else first * 2.0 ** (attempt - 2))


def transport_error(error: ai.AgentRunError, *, model: str, tries: int) -> ModelError:
    """The error of a request that is not tried again."""
    said = shown(error)
    if isinstance(error, ai.ModelAuthenticationError):
        return ModelConfigError(f"{model}: the key is not accepted; check the API key and its rights: {said}")
    if isinstance(error, ai.ModelNotFoundError):
        return ModelConfigError(f"{model}: no such model or address; check models.name and models.base_url: {said}")
    if isinstance(error, ai.ModelQuotaExceededError):
        return ModelRefused(f"{model}: the account has no credit left; top it up, then resume: {said}")
    if isinstance(error, ai.ModelContextWindowExceededError):
        return ModelRefused(f"{model}: the prompt is longer than the model reads; choose one with more context: {said}")
    if isinstance(error, ai.ModelRequestRejectedError):
        return ModelRefused(
            f"{model}: the provider refused the request; if it is about images set models.vision=false, "
            f"about length models.max_tokens: {said}"
        )
    count = "1 try" if tries == 1 else f"{tries} tries"
    return ModelUnavailable(f"{model}: no answer after {count}; resume later: {said}")


def answer_error(error: ai.AgentRunError, *, model: str, tries: int, max_tokens: int) -> ModelError:
    """The error of an exchange that was held and gave no valid answer."""
    if isinstance(error, ai.ContentFilterError):
        return ModelRefused(f"{model}: the provider's content filter stopped the answer: {shown(error)}")
    if isinstance(error, ai.OutputTokenLimitExceeded):
        return ModelOutputInvalid(
            f"{model}: the answer was cut at {max_tokens} tokens; raise models.max_tokens of this role"
        )
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
