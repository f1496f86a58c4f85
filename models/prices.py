"""What responses took, what tokens cost and how much a model reads, by genai-prices' public list.

The list has no table of ours beside it, but what was set (`models.prices`) and that servers of one's own cost nothing.
"""

from __future__ import annotations

import json
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
"""Of a prompt, at least: English, code and numbers have three to four, Chinese two to three."""
MAX_IMAGE_TOKENS = 5000
"""Tokens of one picture, at most, at the providers that say."""
OVERHEAD_TOKENS = 500
"""Tokens of what a provider adds to a request, and of the error that a model is shown."""
_LISTED_PROVIDERS = {"openai-chat": "openai", "openai-responses": "openai", "google-cloud": "google", "bedrock": "aws"}
"""Providers of pydantic-ai that the list has under another name."""


def compute_usd(settings: ModelSettings, used: TokenUsage, environ: Mapping[str, str] = os.environ) -> float | None:
    """What tokens cost in USD at one model; None where the price is unknown.

    A price that was set (`models.prices`) comes first; the offline model, a recording and servers on one's own machine
    or network cost nothing, if none was set.
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
    """The most that so many tokens cost: nothing comes out of a cache, and all of it may be written to one."""
    plain = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    known = [
        price
        for used in (plain, plain.model_copy(update={"cache_write_tokens": input_tokens}))
        if (price := compute_usd(settings, used, environ)) is not None
    ]
    return max(known, default=None)


def format_price(settings: ModelSettings) -> str:
    """What a model costs; 'unknown' where that is not known."""
    each = [compute_max_usd(settings, *tokens) for tokens in ((10**6, 0), (0, 10**6))]
    return (
        "unknown"
        if None in each
        else "free"
        if not any(each)
        else (f"${each[0]:.2f} and ${each[1]:.2f} a million tokens read and written")
    )


def estimate_prompt_tokens(request: ModelRequest) -> int:
    """Tokens of a rendered request, estimated upwards."""
    texts = (request.prompt.system, request.prompt.user, json.dumps(request.output_type.model_json_schema()))
    size = sum(len(text.encode()) for text in texts)
    return size // BYTES_PER_TOKEN + len(request.images) * MAX_IMAGE_TOKENS + OVERHEAD_TOKENS


def compute_usage(responses: Sequence[ModelResponse], request: ModelRequest, settings: ModelSettings) -> TokenUsage:
    """What all responses to a request took."""
    used, asked = TokenUsage(usd=0.0, cached_usd=0.0), estimate_prompt_tokens(request)
    for number, response in enumerate(responses):
        used += compute_billed_usage(
            response, asked + number * (request.max_tokens + OVERHEAD_TOKENS), request.max_tokens, settings
        )
    return used


def compute_billed_usage(
    response: ModelResponse, max_input_tokens: int, max_output_tokens: int, settings: ModelSettings
) -> TokenUsage:
    """What a response took, as the server says; `read` and `written`, the most tokens that were set aside for it, where
    it says nothing, or counts that cannot be."""
    told = response.usage
    counts: tuple[object, ...] = (
        told.input_tokens,
        told.output_tokens,
        told.cache_read_tokens,
        told.cache_write_tokens,
    )
    size = sum(
        len(str(getattr(part, "content", "") or getattr(part, "args", "")).encode(errors="replace"))
        for part in response.parts
    )
    if (
        told.unmeasured_requests
        or any(type(one) is not int or one < 0 for one in counts)
        or not (
            max(1, told.cache_read_tokens + told.cache_write_tokens)
            <= told.input_tokens
            <= BYTES_PER_TOKEN * max_input_tokens
            and bool(size) <= told.output_tokens <= max(BYTES_PER_TOKEN * max_output_tokens, size)
        )
    ):  # no token is below a byte
        return TokenUsage(
            input_tokens=max_input_tokens,
            output_tokens=max_output_tokens,
            cached_usd=0.0,
            usd=compute_max_usd(settings, max_input_tokens, max_output_tokens),
        )
    used = TokenUsage(
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cached_tokens=told.cache_read_tokens,
        cache_write_tokens=told.cache_write_tokens,
    )
    cached = TokenUsage(input_tokens=used.cached_tokens, cached_tokens=used.cached_tokens)
    return used.model_copy(
        update={
            "usd": compute_usd(settings, used),
            "cached_usd": compute_usd(settings, cached) if used.cached_tokens else 0.0,
        }
    )


def _find_set_price(settings: ModelSettings) -> Price | None:
    """The price that was set for a model, by its whole name or by what follows its provider."""
    return settings.prices.get(settings.name) or settings.prices.get(settings.name.partition(":")[2])


def _is_local(settings: ModelSettings, environ: Mapping[str, str]) -> bool:
    """Whether a model is at an address of this machine or of a private network."""
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
    """How many tokens the model reads at once, by the list."""
    listed = (
        None
        if settings.name == "offline"
        else _find_listed_price(settings, TokenUsage(input_tokens=1, output_tokens=1), environ)
    )
    return None if listed is None else listed.model.context_window


def _find_listed_price(settings: ModelSettings, used: TokenUsage, environ: Mapping[str, str]) -> Any:
    """The list's entry for a call; None behind an address of one's own, where public prices say nothing."""
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
