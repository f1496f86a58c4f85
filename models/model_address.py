"""Parse model names into the address to open (reporting all errors in it) and the model's family."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from labwright.models.errors import ModelConfigError

COMMON_PROVIDERS = (
    "openai",
    "openai-chat",
    "openai-responses",
    "anthropic",
    "google",
    "ollama",
    "vllm",
    "openrouter",
    "deepseek",
    "groq",
    "mistral",
    "together",
    "fireworks",
    "azure",
    "bedrock",
)
PROVIDERS_WITH_BASE_URL = ("openai", "openai-chat", "openai-responses", "anthropic", "google", "ollama", "vllm")
OLLAMA_LOCAL_URL = "http://localhost:11434/v1"
VLLM_LOCAL_URL = "http://localhost:8000/v1"
_ALIASES = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}
_FAMILIES = {
    "claude": "claude",
    "anthropic": "claude",
    "openai": "gpt",
    "gpt": "gpt",
    "chatgpt": "gpt",
    "codex": "gpt",
    "o1": "gpt",
    "o3": "gpt",
    "o4": "gpt",
    "davinci": "gpt",
    "google": "gemini",
    "gemini": "gemini",
    "gemma": "gemini",
    "llama": "llama",
    "codellama": "llama",
    "mistral": "mistral",
    "mixtral": "mistral",
    "ministral": "mistral",
    "codestral": "mistral",
    "devstral": "mistral",
    "qwen": "qwen",
    "qwq": "qwen",
    "deepseek": "deepseek",
    "phi": "phi",
    "command": "cohere",
    "grok": "grok",
    "glm": "glm",
    "kimi": "kimi",
    "offline": "offline",
}
_MODEL_STRING = re.compile(r"(?P<prefix>[a-z][a-z0-9/-]*):(?P<model>\S+)")


@dataclass(frozen=True)
class ModelAddress:
    """The location of a model."""

    prefix: str
    model: str
    base_url: str | None = None

    @property
    def has_public_prices(self) -> bool:
        """Whether the provider's public price list applies: not if the user gave the address."""
        return self.base_url is None or urlsplit(self.base_url).hostname == "api.openai.com"

    @property
    def public_url(self) -> str:
        """The address of its server without secrets; empty for the provider's own server."""
        return _strip_user(self.base_url or "")


def locate_model(name: str, base_url: str | None, environ: Mapping[str, str]) -> ModelAddress:
    """Return the address given by a model string, a base URL and the providers' own environment variables.

    `openai:` means OpenAI's Responses API; servers at other addresses use chat completions, so a custom address
    selects these. Raises: `ModelConfigError`.
    """
    match = _MODEL_STRING.fullmatch(name)
    if match is None:
        raise ModelConfigError(
            f"{name!r} is not a model name; write 'offline' or PROVIDER:MODEL with a provider such as "
            f"{', '.join(COMMON_PROVIDERS)} (for your own server: openai-chat:MODEL and models.base_url)"
        )
    prefix, model = _ALIASES.get(match["prefix"], match["prefix"]), match["model"]
    given = base_url or _read_base_url(prefix, environ)
    if given is not None and not _is_address(given):
        raise ModelConfigError(
            f"models.base_url is not the address of a server: {_strip_user(given)!r}; write e.g. "
            f"http://localhost:8000/v1"
        )
    if given is not None and prefix not in PROVIDERS_WITH_BASE_URL:
        raise ModelConfigError(
            f"models.base_url cannot be used with {prefix + ':'!r}; remove it, or write 'openai-chat:{model}' "
            f"for an OpenAI-compatible server (supported with {', '.join(PROVIDERS_WITH_BASE_URL)})"
        )
    address = ModelAddress(prefix, model, given)
    return address if prefix != "openai" or address.has_public_prices else replace(address, prefix="openai-chat")


def _strip_user(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _read_base_url(prefix: str, environ: Mapping[str, str]) -> str | None:
    if prefix.startswith("openai"):
        return environ.get("OPENAI_BASE_URL") or None
    if prefix == "ollama":
        return environ.get("OLLAMA_BASE_URL") or OLLAMA_LOCAL_URL
    if prefix == "vllm":
        return environ.get("VLLM_BASE_URL") or VLLM_LOCAL_URL
    return None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def find_family(name: str) -> str | None:
    """Return the family of a model, e.g. 'anthropic:claude-x' -> 'claude'; None if the name does not reveal it.

    Judges of one family share preferences with each other, and prefer texts written by that family.
    """
    model = name.lower().partition(":")[2] or name.lower()
    for word in re.split(r"[-/_.:]", model):
        for known in (word, word.rstrip("0123456789")):
            if known in _FAMILIES:
                return _FAMILIES[known]
    return None


def is_same_family(first: str, second: str) -> bool:
    """Return whether two model names are equal or of one family."""
    known = find_family(first)
    return first == second or (known is not None and known == find_family(second))
