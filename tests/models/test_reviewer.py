"""Which model judges what other roles made."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic_ai.models import KnownModelName

from labwright.agent.environment import DEFAULT_REVIEWERS, choose_reviewer, describe_reviewer
from labwright.agent.settings import Settings, SettingsError, compose_settings, override_settings
from labwright.models.budget import list_unpriced_models
from labwright.models.retry import open_backend
from labwright.models.roles import ROLES
from labwright.models.settings import REVIEWING_ROLES, ModelSettings

CLAUDE, GPT, LOCAL = "anthropic:claude-x", "openai:gpt-x", "openai-chat:qwen-x"
PRICES = {CLAUDE: {"input": 1.0, "output": 5.0}, GPT: {"input": 4.0, "output": 20.0}}


def settings(**models: Any) -> ModelSettings:
    return ModelSettings.model_validate({"name": CLAUDE} | models)


def asked(models: ModelSettings, role: str) -> list[str]:
    return [one.name for one in models.list_candidates(ROLES[role])]


def test_a_fallback_of_another_family_judges_and_the_author_substitutes_for_it() -> None:
    models = settings(fallbacks=["anthropic:claude-y", GPT])
    for role in ROLES:
        expected = [CLAUDE, "anthropic:claude-y", GPT]
        if role in REVIEWING_ROLES:
            expected = [GPT, CLAUDE, "anthropic:claude-y"]
        assert asked(models, role) == expected, role
    assert asked(settings(fallbacks=["anthropic:claude-y"]), "judge") == [CLAUDE, "anthropic:claude-y"]


def test_the_model_of_one_judging_role_serves_the_others_but_no_role_with_its_own() -> None:
    models = settings(roles={"judge": GPT, "claim_reader": LOCAL, "code": "mistral:mistral-x"})
    assert asked(models, "judge") == [GPT, CLAUDE] and asked(models, "claim_reader") == [LOCAL]
    assert asked(models, "code_reader") == [GPT, CLAUDE] and asked(models, "write") == [CLAUDE]
    assert asked(settings(roles={"code": GPT, "write": GPT}), "judge") == [CLAUDE], "these do not judge"


def test_figures_are_reviewed_by_the_model_that_was_chosen_to_see() -> None:
    assert asked(settings(reviewer=GPT, roles={"vision": LOCAL}), "figure_review") == [LOCAL]
    assert asked(settings(reviewer=GPT, roles={"vision": False}), "figure_review") == []
    assert asked(settings(reviewer=GPT), "figure_review") == [GPT, CLAUDE]
    assert asked(settings(reviewer=GPT), "vision") == [CLAUDE]


def test_the_setting_names_the_reviewer_with_its_address_or_switches_it_off() -> None:
    named = settings(reviewer=f"{LOCAL}@http://localhost:1/v1", fallbacks=[GPT]).list_candidates(ROLES["judge"])
    assert [(one.name, one.base_url) for one in named[:2]] == [(LOCAL, "http://localhost:1/v1"), (CLAUDE, None)]
    assert asked(settings(reviewer=False, fallbacks=[GPT]), "judge") == [CLAUDE, GPT]
    assert settings(fallbacks=[GPT]).select_model(CLAUDE).find_reviewer() is None, "a single model was asked for"
    for wrong in ("", f"{LOCAL}@http://me:secret@host/v1"):
        with pytest.raises(SettingsError):
            compose_settings(flags={"models.reviewer": wrong}, environment={})


def test_the_record_and_the_first_page_name_the_reviewer() -> None:
    recorded = compose_settings(flags={"models.name": CLAUDE, "models.reviewer": GPT}, environment={})
    again = override_settings(recorded.model_dump(mode="json"), {})
    assert again.models == recorded.models and "code_reader: openai:gpt-x)" in again.models.model_names
    assert open_backend(ModelSettings(name="offline")).name == "offline"
    assert ModelSettings(name="offline", roles={"judge": GPT}).find_reviewer() is None  # pyrefly: ignore


@pytest.mark.parametrize(
    ("models", "environment", "said"),
    [
        ({"reviewer": GPT}, {}, "openai:gpt-x judges what anthropic:claude-x makes (claim_reader, "),
        (
            {},
            {"OPENAI_API_KEY": "k"},
            "anthropic:claude-x also judges its own work, although there is a key of another",
        ),
        ({}, {"ANTHROPIC_API_KEY": "k"}, ""),
        ({"reviewer": False}, {"OPENAI_API_KEY": "k"}, ""),
        ({"name": "offline"}, {"OPENAI_API_KEY": "k"}, ""),
    ],
)
def test_one_line_says_who_judges_or_that_nobody_else_does(
    models: dict[str, Any], environment: dict[str, str], said: str
) -> None:
    line = describe_reviewer(settings(**models), environment)
    assert line.startswith(said) and bool(line) == bool(said)


BOTH = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}


@pytest.mark.parametrize(
    ("models", "environment", "chosen"),
    [
        ({}, BOTH, DEFAULT_REVIEWERS["OPENAI"]),
        ({"name": GPT}, BOTH, DEFAULT_REVIEWERS["ANTHROPIC"]),
        ({"name": "google:gemini-x"}, BOTH, None),  # its own key is not set
        ({}, {"OPENAI_API_KEY": "k"}, None),
        ({}, BOTH | {"OPENAI_BASE_URL": "http://localhost:1/v1"}, None),
        ({"base_url": "http://localhost:1/v1"}, BOTH, None),
        ({"name": "openai-chat:gpt-x"}, BOTH, DEFAULT_REVIEWERS["ANTHROPIC"]),
        ({"name": "openai-chat:m"}, {"OPENAI_API_KEY": "k"}, None),
        ({"name": "cli:claude"}, BOTH, None),
        ({"name": "ollama:gpt-oss"}, BOTH, None),
        ({"name": "replay:claude.json"}, BOTH, None),
        ({"name": "offline"}, BOTH, None),
        ({"reviewer": False}, BOTH, False),
        ({"fallbacks": ["google:gemini-x"]}, BOTH, None),  # the fallback judges
    ],
)
def test_the_other_provider_judges_if_both_keys_are_set(
    models: dict[str, Any], environment: dict[str, str], chosen: str | bool | None
) -> None:
    found = choose_reviewer(Settings(models=settings(**models)), environment).models
    assert found.reviewer == chosen
    if isinstance(chosen, str):
        assert asked(found, "judge") == [chosen, found.name] and chosen in found.model_names


def test_the_default_reviewers_have_a_client_and_a_listed_price() -> None:
    for name in DEFAULT_REVIEWERS.values():
        assert name in get_args(KnownModelName.__value__), f"{name}: choose a model that the pinned pydantic-ai knows"
        assert not list_unpriced_models(ModelSettings(name=name)), f"{name}: choose one that genai-prices lists"
