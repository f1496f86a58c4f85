"""From what a user writes as the model's name to an address that can be opened; all mistakes in it end here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from models.errors import ModelConfigError

COMMON = (
    "openai", "openai-chat", "openai-responses", "anthropic", "google", "ollama", "vllm", "openrouter", "deepseek",
    "groq", "mistral", "together", "fireworks", "azure", "bedrock",
)
WITH_BASE_URL = ("openai", "openai-chat", "openai-responses", "anthropic", "google", "ollama", "vllm")
OLLAMA_HERE = "http://localhost:11434/v1"
VLLM_HERE = "http://localhost:8000/v1"
_ALIASES = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}
_FORM = re.compile(r"(?P<prefix>[a-z][a-z0-9/-]*):(?P<model>\S+)")


@dataclass(frozen=True)
class Address:
    """Where a model is found. `note` tells what was chosen on the user's behalf, or is empty."""

    prefix: str
    model: str
    base_url: str | None = None
    note: str = ""

    @property
    def own_prices(self) -> bool:
        """Whether the provider's public price list applies: not behind an address that the user gave."""
        return self.base_url is None or urlsplit(self.base_url).hostname == "api.openai.com"


def locate(name: str, base_url: str | None, environ: Mapping[str, str]) -> Address:
    """The address meant by a model string, a base URL and the providers' own environment variables.

    `openai:` means OpenAI's Responses API; servers at other addresses speak chat completions, so an address of one's
    own chooses these. Raises: `ModelConfigError`.
    """
    prefix, model = _parts(name)
    given = base_url or _from_environment(prefix, environ)
    if given is not None:
        _check_url(given)
    if given is not None and prefix not in WITH_BASE_URL:
        raise ModelConfigError(
            f"models.base_url cannot be used with {prefix + ':'!r}; remove it, or write 'openai-chat:{model}' "
            f"for an OpenAI-compatible server (it goes with {', '.join(WITH_BASE_URL)})"
        )
    if prefix == "openai" and given is not None and urlsplit(given).hostname != "api.openai.com":
        note = f"'openai:' at {bare_url(given)}: chat completions are used; write 'openai-responses:' for the other API"
        return Address("openai-chat", model, given, note)
    return Address(prefix, model, given)


def bare_url(url: str) -> str:
    """An address without user, password and query, fit to be shown."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _parts(name: str) -> tuple[str, str]:
    found = _FORM.fullmatch(name)
    if found is None:
        raise ModelConfigError(
            f"{name!r} is no model name; write 'offline' or PROVIDER:MODEL with a provider such as {', '.join(COMMON)} "
            "(for your own server: openai-chat:MODEL and models.base_url)"
        )
    prefix = found["prefix"]
    return _ALIASES.get(prefix, prefix), found["model"]


def _from_environment(prefix: str, environ: Mapping[str, str]) -> str | None:
    if prefix.startswith("openai"):
        return environ.get("OPENAI_BASE_URL") or None
    if prefix == "ollama":
        return environ.get("OLLAMA_BASE_URL") or OLLAMA_HERE
    if prefix == "vllm":
        return environ.get("VLLM_BASE_URL") or VLLM_HERE
    return None


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        told = re.sub(r"//[^/@]*@", "//", url)
        raise ModelConfigError(f"models.base_url is no address of a server: {told!r}; write e.g. http://localhost:8000/v1")
