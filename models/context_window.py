"""The context windows of models, and requests limited to them.

The length is set by the user, queried from the user's own server, or taken from the public list; if it is unknown,
requests are sent unchanged. Ollama truncates long prompts silently, and its OpenAI-compatible endpoint accepts no
context length in a request; so the length of the loaded model is queried.

Limits: tokens are estimated from characters; the estimate is high for prose and about right for code.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from labwright.models.backend import ModelRequest
from labwright.models.errors import ContextTooLong
from labwright.models.model_address import ModelAddress
from labwright.models.roles.role import TYPICAL_IMAGE_TOKENS

if TYPE_CHECKING:
    from openai import AsyncOpenAI

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
        return own and (own.max_model_len or own.context_length or own.context_window)
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
