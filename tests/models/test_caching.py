"""What providers keep of a prompt's beginning: told in the shape of each, counted, priced, and shown."""

from __future__ import annotations

from typing import Any

import pytest

from labwright.models import prices, roles
from labwright.models.backend import ModelRequest, Prompt
from labwright.models.providers import ProviderModel, open_model
from labwright.models.settings import ModelSettings, Price, locate_model
from labwright.record.schema.decisions import TokenUsage
from tests.models.examples import CODE
from tests.models.json_server import JsonServer
from tests.models.test_malformed_responses import Count, good

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("local_requests"), pytest.mark.asyncio]
QUESTION = ModelRequest(
    role=roles.CODE,
    inputs=CODE,
    prompt=Prompt("You count. " * 400, "How many?"),
    output_type=Count,
    temperature=0.5,
    max_tokens=100,
)


def told(shape: str, **used: Any) -> dict[str, Any]:
    """An answer that took so much."""
    body = good(shape)
    place = "usageMetadata" if shape == "google" else "usage"
    return body | {place: body[place] | used}


CHAT = told(
    "chat", prompt_tokens=1000, completion_tokens=50, total_tokens=1050, prompt_tokens_details={"cached_tokens": 800}
) | {"model": "gpt-4o"}
RESPONSES = told(
    "responses", input_tokens=1000, output_tokens=50, total_tokens=1050, input_tokens_details={"cached_tokens": 800}
) | {"model": "gpt-4o"}
ANTHROPIC = told(
    "anthropic", input_tokens=50, output_tokens=50, cache_creation_input_tokens=150, cache_read_input_tokens=800
)
GOOGLE = told(
    "google", promptTokenCount=1000, candidatesTokenCount=50, totalTokenCount=1050, cachedContentTokenCount=800
)


@pytest.mark.parametrize(
    ("name", "root", "body", "written", "usd", "cached_usd"),
    [
        ("openai-chat:gpt-4o", "/v1", CHAT, 0, (200 * 2.5 + 800 * 1.25 + 50 * 10) / 1e6, 800 * 1.25 / 1e6),
        ("openai-responses:gpt-4o", "/v1", RESPONSES, 0, (200 * 2.5 + 800 * 1.25 + 50 * 10) / 1e6, 800 * 1.25 / 1e6),
        (
            "anthropic:claude-sonnet-4-6",
            "",
            ANTHROPIC,
            150,
            (50 * 3 + 150 * 3.75 + 800 * 0.3 + 50 * 15) / 1e6,
            800 * 0.3 / 1e6,
        ),
        ("google:gemini-2.5-flash", "", GOOGLE, 0, (200 * 0.3 + 800 * 0.03 + 50 * 2.5) / 1e6, 800 * 0.03 / 1e6),
    ],
)
async def test_cached_tokens_are_counted_and_have_their_own_price(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    root: str,
    body: dict[str, Any],
    written: int,
    usd: float,
    cached_usd: float,
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(key, "any-key")
    settings = ModelSettings(name=name, context_tokens=100_000, retries=0)
    with JsonServer(lambda method, path, asked: (200, body)) as server:
        there = locate_model(name, server.url + root, {})
        model = ProviderModel(
            open_model(there), locate_model(name, None, {}), settings
        )  # as if it were the provider's own
        used = (await model.answer(QUESTION)).usage
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (1000, 50, 800)
    assert used.cache_write_tokens == written
    assert used.usd == pytest.approx(usd) and used.cached_usd == pytest.approx(cached_usd)


def of(name: str, **prices_of: float) -> ModelSettings:
    own = {name: Price.model_validate(prices_of)} if prices_of else {}
    return ModelSettings(name=name, prices=own)


USED = TokenUsage(input_tokens=1000, output_tokens=0, cached_tokens=800)


@pytest.mark.parametrize(
    ("settings", "usd"),
    [
        (of("vllm:m", input=10, output=20), 0.01),
        (of("vllm:m", input=10, output=20, cached=1), 0.0028),
        (of("vllm:m"), 0.0),
        (of("offline"), 0.0),
    ],
)
async def test_a_price_that_was_set_may_have_one_for_cached_tokens(settings: ModelSettings, usd: float) -> None:
    assert prices.compute_usd(settings, USED, {}) == pytest.approx(usd)


async def test_a_budget_reckons_with_nothing_cached_and_all_of_it_written_to_the_cache() -> None:
    sonnet = ModelSettings(name="anthropic:claude-sonnet-4-6")
    assert prices.compute_max_usd(sonnet, 1000, 0, {}) == pytest.approx(1000 * 3.75 / 1e6)
    assert prices.compute_max_usd(ModelSettings(name="openai:gpt-4o"), 1000, 0, {}) == pytest.approx(1000 * 2.5 / 1e6)


async def test_what_several_answers_took_is_the_sum_and_of_an_unknown_price_it_is_unknown() -> None:
    one = TokenUsage(input_tokens=10, output_tokens=1, cached_tokens=8, cache_write_tokens=2, cached_usd=0.1, usd=0.5)
    assert one + one == TokenUsage(
        input_tokens=20, output_tokens=2, cached_tokens=16, cache_write_tokens=4, cached_usd=0.2, usd=1.0
    )
    assert (one + TokenUsage(input_tokens=1)).usd is None
