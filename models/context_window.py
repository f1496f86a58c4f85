"""How much a model reads at once, and requests cut to that.

The length is set by the user, asked of the server where it is the user's own, or taken from the public list; where
nobody knows it, requests go out as they are. Ollama cuts a prompt that is too long without a word, and its
OpenAI-compatible address takes no length with a request: what it has loaded the model with is asked for.

Not guaranteed: tokens are estimated from characters, on the high side for prose and about right for code.
"""

from __future__ import annotations

import asyncio
import json
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
"""Tokens that an answer must have room for, unless fewer were asked for."""
QUERY_TIMEOUT_SECONDS = 5.0
"""Seconds for a question about a length; loading a model into Ollama may take as long as a request."""
CONTEXT_FIX = (
    "choose one that reads more, or let the server give it more (Ollama: OLLAMA_CONTEXT_LENGTH=65536, vLLM: "
    "--max-model-len); if the length is wrong, set models.context_tokens"
)
OLLAMA_DEFAULT_TOKENS = 4096
"""What Ollama reads on small GPUs when nothing was set; older ones do not tell."""


def estimate_tokens(request: ModelRequest) -> int:
    """Tokens that a request takes in, with its schema and pictures."""
    schema = json.dumps(request.output_type.model_json_schema())
    characters = len(request.prompt.system) + len(request.prompt.user) + len(schema)
    return round(characters / CHARACTERS_PER_TOKEN) + TYPICAL_IMAGE_TOKENS * len(request.images)


def fit_to_window(request: ModelRequest, window: int | None, *, model: str) -> ModelRequest:
    """The request with fewer tokens for its answer where prompt and answer would not fit into the window together.

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
            f"{model}: the prompt of role '{request.role}' takes about {taken} tokens and the model reads {window}; "
            f"{CONTEXT_FIX}"
        )
    return replace(request, max_tokens=room)


# --- asked of the server --------------------------------------------------------------------------------------------


class _ServedModel(BaseModel):
    id: str = ""
    name: str = ""  # Ollama
    max_model_len: int | None = None  # vLLM, SGLang
    context_length: int | None = None
    context_window: int | None = None


class _Listing(BaseModel):
    data: list[_ServedModel] = []
    models: list[_ServedModel] = []  # Ollama, of those that are loaded
    parameters: str = ""  # Ollama, of one model


async def query_context_tokens(client: AsyncOpenAI, address: ModelAddress, *, timeout: float) -> int | None:
    """What a server of the user's own says of a model's length; None where it does not say.

    `patience` is the seconds that a model may take to be loaded. Raises: `ConnectionError`: no answer.
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
    """The length that Ollama has loaded the model with, as a request without one finds it."""
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
    """What a server says at an address, which is asked with GET where there is no body."""
    client = client.with_options(timeout=timeout, max_retries=0)
    try:
        async with asyncio.timeout(timeout):  # the client's own is for each part of an answer
            answer = await (
                client.get(path, cast_to=object) if body is None else client.post(path, body=body, cast_to=object)
            )
    except TimeoutError:
        raise ConnectionError(f"no whole answer within {timeout:g} s") from None
    return _Listing.model_validate(answer)
