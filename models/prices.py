"""What responses took, what tokens cost and how much a model reads, by genai-prices' public list.

The list has no table of ours beside it, but what was set (`models.prices`) and that servers of one's own cost nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from models.backend import ModelRequest
from models.context import CHARS_A_TOKEN, estimated_tokens
from models.errors import ModelConfigError
from models.naming import locate
from models.settings import ModelSettings, Price
from record.nouns.decisions import Usage

if TYPE_CHECKING:  # a provider's client is slow to import
    from pydantic_ai.messages import ModelResponse

_LISTED = {"openai-chat": "openai", "openai-responses": "openai", "google-cloud": "google", "bedrock": "aws"}
"""Providers of pydantic-ai that the list has under another name."""


def usd(settings: ModelSettings, used: Usage, environ: Mapping[str, str] = os.environ) -> float | None:
    """What tokens cost in USD at one model; None where the price is unknown.

    A price that was set (`models.prices`) comes first; the offline model, a recording and servers on one's own machine
    or network cost nothing, if none was set.
    """
    own = _price_set(settings)
    if own is not None:
        cached = own.input if own.cached is None else own.cached
        new = used.input_tokens - used.cached_tokens
        return (own.input * new + cached * used.cached_tokens + own.output * used.output_tokens) / 1e6
    if settings.name == "offline" or settings.name.startswith("replay:") or _local(settings, environ):
        return 0.0
    listed = _listed(settings, used, environ)
    return None if listed is None else float(listed.total_price)


def most_usd(
    settings: ModelSettings, input_tokens: int, output_tokens: int, environ: Mapping[str, str] = os.environ
) -> float | None:
    """The most that so many tokens cost: nothing comes out of a cache, and all of it may be written to one."""
    plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    known = [price for used in (plain, plain.model_copy(update={"cache_write_tokens": input_tokens}))
             if (price := usd(settings, used, environ)) is not None]
    return max(known, default=None)


def in_words(settings: ModelSettings) -> str:
    """What a model costs; 'unknown' where that is not known."""
    each = [most_usd(settings, *tokens) for tokens in ((10**6, 0), (0, 10**6))]
    return "unknown" if None in each else "free" if not any(each) else (
        f"${each[0]:.2f} and ${each[1]:.2f} a million tokens read and written")


def usage_of(responses: Sequence[ModelResponse], request: ModelRequest, settings: ModelSettings) -> Usage:
    """What all responses to a request took.

    Where a server does not say what a response took, or gives counts that cannot be, it goes by its length, so that a
    budget counts it.
    """
    used = Usage()
    for response in responses:
        reported = response.usage
        if reported.unmeasured_requests or reported.input_tokens <= 0:
            written = sum(len(str(getattr(part, "content", "") or getattr(part, "args", "")))
                          for part in response.parts)
            used += Usage(input_tokens=estimated_tokens(request), output_tokens=round(written / CHARS_A_TOKEN))
        else:
            used += Usage(input_tokens=reported.input_tokens, output_tokens=reported.output_tokens,
                          cached_tokens=max(0, reported.cache_read_tokens),
                          cache_write_tokens=max(0, reported.cache_write_tokens))
    cached = Usage(input_tokens=used.cached_tokens, cached_tokens=used.cached_tokens)
    return used.model_copy(update={
        "usd": usd(settings, used), "cached_usd": usd(settings, cached) if used.cached_tokens else 0.0})


def _price_set(settings: ModelSettings) -> Price | None:
    """The price that was set for a model, by its whole name or by what follows its provider."""
    return settings.prices.get(settings.name) or settings.prices.get(settings.name.partition(":")[2])


def _local(settings: ModelSettings, environ: Mapping[str, str]) -> bool:
    """Whether a model is at an address of this machine or of a private network."""
    try:
        base_url = locate(settings.name, settings.base_url, environ).base_url
    except ModelConfigError:
        return False
    host = urlsplit(base_url).hostname if base_url is not None else None
    if not host:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost"))


def context_tokens(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> int | None:
    """How many tokens the model reads at once, by the list."""
    listed = None if settings.name == "offline" else _listed(settings, Usage(input_tokens=1, output_tokens=1), environ)
    return None if listed is None else listed.model.context_window


def _listed(settings: ModelSettings, used: Usage, environ: Mapping[str, str]) -> Any:
    """The list's entry for a call; None behind an address of one's own, where public prices say nothing."""
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    try:
        address = locate(settings.name, settings.base_url, environ)
        if not address.own_prices:
            return None
        priced = Priced(input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                        cache_read_tokens=used.cached_tokens, cache_write_tokens=used.cache_write_tokens)
        return calc_price(priced, address.model, provider_id=_LISTED.get(address.prefix, address.prefix))
    except (LookupError, ValueError, AssertionError, ModelConfigError):
        return None
