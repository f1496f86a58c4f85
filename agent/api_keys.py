"""Load provider keys from `.env` files in the working directory and next to the configuration file.

Only keys, tokens and addresses of providers are read (`*_API_KEY`, `*_BASE_URL` and `KEY_VARIABLES`); everything else
is ignored. Existing environment variables take precedence. An address is ignored if its provider's key comes from
elsewhere, so that an untrusted folder cannot send your key to its own server.
"""

from __future__ import annotations

import io
from collections.abc import MutableMapping
from pathlib import Path

from dotenv import dotenv_values

KEY_VARIABLES = tuple(
    (
        "OPENAI_API_KEY ANTHROPIC_API_KEY GOOGLE_API_KEY GEMINI_API_KEY OPENROUTER_API_KEY "
        "DEEPSEEK_API_KEY GROQ_API_KEY MISTRAL_API_KEY TOGETHER_API_KEY FIREWORKS_API_KEY "
        "AZURE_OPENAI_API_KEY AWS_BEARER_TOKEN_BEDROCK AWS_ACCESS_KEY_ID OLLAMA_API_KEY HF_TOKEN "
        "S2_API_KEY OPENALEX_MAIL_ADDRESS"
    ).split()
)
"""Variables that `doctor` lists."""


def read_keys(folder: Path, environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """Add the keys of `folder/.env` to the environment and return their names."""
    try:
        text = (folder / ".env").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    before = set(environment)

    def is_allowed(name: str) -> bool:
        if name.endswith("_BASE_URL"):
            return f"{name.removesuffix('_BASE_URL')}_API_KEY" not in before
        return name.endswith("_API_KEY") or name in KEY_VARIABLES

    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    added = {name: value for name, value in values.items() if value and name not in before and is_allowed(name)}
    environment.update(added)
    return tuple(added)
