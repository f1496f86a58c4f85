"""Usage of responses, prices of tokens and context lengths of models, from genai-prices' public list.

Only configured prices (`models.prices`) extend the list; the user's own servers cost nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from labwright.models.backend import ModelRequest
from labwright.models.errors import ContextTooLong, ModelConfigError
from labwright.models.roles.role import TYPICAL_IMAGE_TOKENS
from labwright.models.settings import ModelAddress, ModelSettings, Price, locate_model
from labwright.record.schema.decisions import TokenUsage

if TYPE_CHECKING:
    from openai import AsyncOpenAI
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


# The context windows of models, and requests limited to them. The length is set by the user, queried from the user's
# own server, or taken from the public list; if it is unknown, requests are sent unchanged. Ollama truncates long
# prompts silently, and its OpenAI-compatible endpoint accepts no context length in a request; so the length of the
# loaded model is queried. Limits: tokens are estimated from characters; the estimate is high for prose and about
# right for code.

CHARACTERS_PER_TOKEN = 3.5
MIN_ANSWER_TOKENS = 1024
"""Minimum number of tokens to leave for an answer, unless fewer were requested."""
QUERY_TIMEOUT_SECONDS = 5.0
"""Time limit in seconds for querying a length; loading a model into Ollama may take as long as a request."""
CONTEXT_FIX = (
    "choose a model with a larger context, or increase the server's (Ollama: OLLAMA_CONTEXT_LENGTH=65536, vLLM: "
    "--max-model-len); if the detected length is wrong, set models.context_tokens"
)
OLLAMA_DEFAULT_TOKENS = 4096
"""Context of Ollama on small GPUs by default; older versions do not report it."""


def estimate_tokens(request: ModelRequest) -> int:
    """Estimate the input tokens of a request, including its schema and images."""
    characters = sum(map(len, request.list_texts()))
    return round(characters / CHARACTERS_PER_TOKEN) + TYPICAL_IMAGE_TOKENS * len(request.images)


def fit_to_window(request: ModelRequest, window: int | None, *, model: str) -> ModelRequest:
    """Return the request, with a smaller limit for its answer if prompt and answer would exceed the window.

    Raises: `ContextTooLong`: too little room is left for any answer.
    """
    if window is None:
        return request
    taken = estimate_tokens(request)
    room = window - taken
    if room >= request.max_tokens:
        return request
    if room < min(MIN_ANSWER_TOKENS, request.max_tokens, request.cut_at or MIN_ANSWER_TOKENS):
        raise ContextTooLong(
            f"{model}: the prompt of role '{request.role}' takes about {taken} tokens, and the context is {window}; "
            f"{CONTEXT_FIX}"
        )
    return replace(request, max_tokens=room)


# --- queried from the server ----------------------------------------------------------------------------------------


class _ServedModel(BaseModel):
    id: str = ""
    name: str = ""  # Ollama
    max_model_len: int | None = None  # vLLM, SGLang
    context_length: int | None = None
    context_window: int | None = None


class _Listing(BaseModel):
    data: list[_ServedModel] = []
    models: list[_ServedModel] = []  # Ollama, the loaded models
    parameters: str = ""  # Ollama, of one model


async def query_context_tokens(client: AsyncOpenAI, address: ModelAddress, *, timeout: float) -> int | None:
    """Query the context length of a model from the user's own server; None if it does not report one.

    `timeout` is the number of seconds that loading a model may take. Raises: `ConnectionError`: no answer.
    """
    from openai import APIConnectionError, OpenAIError

    try:
        if address.prefix == "ollama" or urlsplit(address.base_url or "").port == 11434:
            return await _query_ollama_tokens(client, address, timeout)
        served = await _query_listing(client, "/models")
        own = next((one for one in served.data if one.id == address.model), None)
        return None if own is None else own.max_model_len or own.context_length or own.context_window
    except APIConnectionError as error:
        raise ConnectionError(str(error)) from None
    except (OpenAIError, ValueError, RecursionError):
        return None


async def _query_ollama_tokens(client: AsyncOpenAI, address: ModelAddress, timeout: float) -> int | None:
    """Return the context length of the model as loaded by Ollama, which applies to requests without a length."""
    parts = urlsplit(address.base_url or "")
    root = f"{parts.scheme}://{parts.netloc}"
    await _query_listing(client, f"{root}/api/generate", {"model": address.model, "stream": False}, timeout=timeout)
    running = await _query_listing(client, f"{root}/api/ps")
    own = next((one for one in running.models if one.name in (address.model, f"{address.model}:latest")), None)
    if own is not None and own.context_length:
        return own.context_length
    shown = await _query_listing(client, f"{root}/api/show", {"model": address.model})
    match = re.search(r"^num_ctx\s+(\d+)", shown.parameters, re.MULTILINE)
    return int(match[1]) if match else OLLAMA_DEFAULT_TOKENS


async def _query_listing(
    client: AsyncOpenAI, path: str, body: dict[str, Any] | None = None, *, timeout: float = QUERY_TIMEOUT_SECONDS
) -> _Listing:
    """Return the list that a server gives at an address, queried with GET if there is no body."""
    client = client.with_options(timeout=timeout, max_retries=0)
    try:
        async with asyncio.timeout(timeout):  # the client's own timeout applies to each part of an answer
            answer = await (
                client.get(path, cast_to=object) if body is None else client.post(path, body=body, cast_to=object)
            )
    except TimeoutError:
        raise ConnectionError(f"no complete answer within {timeout:g} s") from None
    return _Listing.model_validate(answer)
