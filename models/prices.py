"""What tokens cost and how much a model reads, by genai-prices' public list; both None where it does not know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from models.errors import ModelConfigError
from models.naming import locate
from models.settings import ModelSettings

_LISTED = {"openai-chat": "openai", "openai-responses": "openai", "google-cloud": "google", "bedrock": "aws"}
"""Providers of pydantic-ai that the list has under another name."""


def usd(settings: ModelSettings, input_tokens: int, output_tokens: int, environ: Mapping[str, str] = os.environ
        ) -> float | None:
    """What so many tokens cost in USD; 0.0 for the offline model, None where the price is unknown."""
    if settings.name == "offline":
        return 0.0
    found = _listed(settings, input_tokens, output_tokens, environ)
    return None if found is None else float(found.total_price)


def context_tokens(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> int | None:
    """How many tokens the model reads at once, by the list."""
    found = None if settings.name == "offline" else _listed(settings, 1, 1, environ)
    return None if found is None else found.model.context_window


def _listed(settings: ModelSettings, input_tokens: int, output_tokens: int, environ: Mapping[str, str]) -> Any:
    """The list's entry for a call; None behind an address of one's own, where public prices say nothing."""
    from genai_prices import Usage, calc_price

    try:
        address = locate(settings.name, settings.base_url, environ)
        if not address.own_prices:
            return None
        return calc_price(Usage(input_tokens=input_tokens, output_tokens=output_tokens), address.model,
                          provider_id=_LISTED.get(address.prefix, address.prefix))
    except (LookupError, ValueError, AssertionError, ModelConfigError):
        return None
