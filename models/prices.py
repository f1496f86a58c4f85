"""Usage of responses, prices of tokens and context lengths of models, from genai-prices' public list.

Only configured prices (`models.prices`) extend the list; the user's own servers cost nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from labwright.models.backend import ModelRequest
from labwright.models.errors import ModelConfigError
from labwright.models.model_address import locate_model
from labwright.models.settings import ModelSettings, Price
from labwright.record.schema.decisions import TokenUsage

if TYPE_CHECKING:  # a provider's client is slow to import
    from pydantic_ai.messages import ModelResponse

BYTES_PER_TOKEN = 2
"""Lower bound of characters per token: English, code and numbers have three to four, Chinese two to three."""
MAX_IMAGE_TOKENS = 5000
"""Upper bound of tokens per image, at providers that publish it."""
OVERHEAD_TOKENS = 500
"""Number of tokens added to a request by a provider, including an error message shown to the model."""
_LISTED_PROVIDERS = {"openai-chat": "openai", "openai-responses": "openai", "google-cloud": "google", "bedrock": "aws"}
"""Providers of pydantic-ai that have another name in the list."""


def compute_usd(settings: ModelSettings, used: TokenUsage, environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the price in USD of tokens of one model; None if it is unknown.

    A configured price (`models.prices`) comes first; otherwise the offline model, a recording and servers on the user's
    own machine or network cost nothing.
    """
    own = _find_set_price(settings)
    if own is not None:
        cached = own.input if own.cached is None else own.cached
        new = used.input_tokens - used.cached_tokens
        return (own.input * new + cached * used.cached_tokens + own.output * used.output_tokens) / 1e6
    if settings.name == "offline" or settings.name.startswith("replay:") or _is_local(settings, environ):
        return 0.0
    listed = _find_listed_price(settings, used, environ)
    return None if listed is None else float(listed.total_price)


def compute_max_usd(
    settings: ModelSettings, input_tokens: int, output_tokens: int, environ: Mapping[str, str] = os.environ
) -> float | None:
    """Return the maximum price of this many tokens, assuming that none is read from a cache and all are written to
    one.
    """
    plain = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    known = [
        price
        for used in (plain, plain.model_copy(update={"cache_write_tokens": input_tokens}))
        if (price := compute_usd(settings, used, environ)) is not None
    ]
    return max(known, default=None)


def format_price(settings: ModelSettings) -> str:
    """Describe a model's price; 'unknown' if it is not known."""
    each = [compute_max_usd(settings, *tokens) for tokens in ((10**6, 0), (0, 10**6))]
    return (
        "unknown"
        if None in each
        else "free"
        if not any(each)
        else (f"${each[0]:.2f} and ${each[1]:.2f} per million input and output tokens")
    )


def estimate_prompt_tokens(request: ModelRequest) -> int:
    """Return an upper estimate of the tokens of a rendered request."""
    size = sum(len(text.encode()) for text in request.list_texts())
    return size // BYTES_PER_TOKEN + len(request.images) * MAX_IMAGE_TOKENS + OVERHEAD_TOKENS


def compute_usage(responses: Sequence[ModelResponse], request: ModelRequest, settings: ModelSettings) -> TokenUsage:
    """Return the total usage of all responses to a request."""
    used, asked = TokenUsage(usd=0.0, cached_usd=0.0), estimate_prompt_tokens(request)
    for number, response in enumerate(responses):
        used += compute_billed_usage(
            response, asked + number * (request.max_tokens + OVERHEAD_TOKENS), request.max_tokens, settings
        )
    return used


def compute_billed_usage(
    response: ModelResponse, max_input_tokens: int, max_output_tokens: int, settings: ModelSettings
) -> TokenUsage:
    """Return the usage that the server reports, or the reserved maximum if it reports no counts or impossible ones."""
    counted = response.usage
    counts: tuple[object, ...] = (
        counted.input_tokens,
        counted.output_tokens,
        counted.cache_read_tokens,
        counted.cache_write_tokens,
    )
    size = sum(
        len(str(getattr(part, "content", "") or getattr(part, "args", "")).encode(errors="replace"))
        for part in response.parts
    )
    if (
        counted.unmeasured_requests
        or any(type(one) is not int or one < 0 for one in counts)
        or not (
            max(1, counted.cache_read_tokens + counted.cache_write_tokens)
            <= counted.input_tokens
            <= BYTES_PER_TOKEN * max_input_tokens
            and bool(size) <= counted.output_tokens <= max(BYTES_PER_TOKEN * max_output_tokens, size)
        )
    ):  # a token has at least one byte
        return TokenUsage(
            input_tokens=max_input_tokens,
            output_tokens=max_output_tokens,
            cached_usd=0.0,
            usd=compute_max_usd(settings, max_input_tokens, max_output_tokens),
        )
    used = TokenUsage(
        input_tokens=counted.input_tokens,
        output_tokens=counted.output_tokens,
        cached_tokens=counted.cache_read_tokens,
        cache_write_tokens=counted.cache_write_tokens,
    )
    cached = TokenUsage(input_tokens=used.cached_tokens, cached_tokens=used.cached_tokens)
    return used.model_copy(
        update={
            "usd": compute_usd(settings, used),
            "cached_usd": compute_usd(settings, cached) if used.cached_tokens else 0.0,
        }
    )


def _find_set_price(settings: ModelSettings) -> Price | None:
    """Return the configured price of a model, by its full name or by the part after its provider."""
    return settings.prices.get(settings.name) or settings.prices.get(settings.name.partition(":")[2])


def _is_local(settings: ModelSettings, environ: Mapping[str, str]) -> bool:
    """Return whether a model is at an address of this machine or of a private network."""
    try:
        base_url = locate_model(settings.name, settings.base_url, environ).base_url
    except ModelConfigError:
        return False
    host = urlsplit(base_url).hostname if base_url is not None else None
    if not host:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost"))


def find_listed_context_tokens(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the model's context length according to the list."""
    listed = (
        None
        if settings.name == "offline"
        else _find_listed_price(settings, TokenUsage(input_tokens=1, output_tokens=1), environ)
    )
    return None if listed is None else listed.model.context_window


def _find_listed_price(settings: ModelSettings, used: TokenUsage, environ: Mapping[str, str]) -> Any:
    """Return the list's entry for a call; None for the user's own address, where public prices do not apply."""
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    try:
        address = locate_model(settings.name, settings.base_url, environ)
        if not address.has_public_prices:
            return None
        priced = Priced(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cached_tokens,
            cache_write_tokens=used.cache_write_tokens,
        )
        return calc_price(priced, address.model, provider_id=_LISTED_PROVIDERS.get(address.prefix, address.prefix))
    except (LookupError, ValueError, AssertionError, ModelConfigError):
        return None
