"""What responses took: in tokens as the server says, or by their length, and in USD. Imports pydantic_ai."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelResponse

from models import prices
from models.backend import ModelRequest
from models.context import CHARS_A_TOKEN, estimated_tokens
from models.settings import ModelSettings
from record.nouns.decisions import Usage


def usage_of(
    responses: Sequence[ModelResponse], request: ModelRequest, settings: ModelSettings, *, own_prices: bool
) -> Usage:
    """What all responses to a request took. `own_prices`: whether the provider's public list applies."""
    used = sum((_tokens(one, request) for one in responses), start=Usage())
    usd = _usd(responses) if own_prices else None
    return prices.settled(settings, used.model_copy(update={"usd": usd}))


def _measured(response: ModelResponse) -> bool:
    """Whether the server said what a response took; counts that cannot be are read as none."""
    return not response.usage.unmeasured_requests and response.usage.input_tokens > 0


def _tokens(response: ModelResponse, request: ModelRequest) -> Usage:
    """What a response took; by its length where the server does not say, so that a budget counts it."""
    used = response.usage
    if not _measured(response):
        written = sum(len(str(getattr(part, "content", "") or getattr(part, "args", ""))) for part in response.parts)
        return Usage(input_tokens=estimated_tokens(request), output_tokens=round(written / CHARS_A_TOKEN))
    return Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                 cached_tokens=max(0, used.cache_read_tokens), cache_write_tokens=max(0, used.cache_write_tokens))


def _usd(responses: Sequence[ModelResponse]) -> float | None:
    """The price of all responses by genai-prices' list, in USD; None where one of them has no known price."""
    if not all(_measured(one) for one in responses):
        return None
    try:
        return float(sum(response.cost().total_price for response in responses))
    except (LookupError, ValueError, AssertionError):
        return None
