"""Model names and addresses: what is right, and one line for what is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from labwright.models.errors import ModelConfigError
from labwright.models.retry import open_backend
from labwright.models.roles import FEEDBACK, VISION
from labwright.models.roles.experiment_code import CODE
from labwright.models.roles.node_assessment import SUMMARY
from labwright.models.roles.paper_writing import WRITE
from labwright.models.settings import ModelAddress, ModelSettings, locate_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "base_url", "address"),
    [
        ("openai:gpt-4o", None, ModelAddress("openai", "gpt-4o")),
        ("openai:gpt-4o", "https://api.openai.com/v1", ModelAddress("openai", "gpt-4o", "https://api.openai.com/v1")),
        ("openai-chat:m", "http://h/v1", ModelAddress("openai-chat", "m", "http://h/v1")),
        ("openai-responses:m", "http://h/v1", ModelAddress("openai-responses", "m", "http://h/v1")),
        ("google-gla:gemini", None, ModelAddress("google", "gemini")),
        ("ollama:llama3:8b", None, ModelAddress("ollama", "llama3:8b", "http://localhost:11434/v1")),
        ("openrouter:a/b-c", None, ModelAddress("openrouter", "a/b-c")),
    ],
)
def test_names_that_are_right(name: str, base_url: str | None, address: ModelAddress) -> None:
    assert locate_model(name, base_url, {}) == address


@pytest.mark.parametrize(
    ("name", "base_url", "said"),
    [
        ("gpt-4o", None, "is not a model name; write 'offline' or PROVIDER:MODEL"),
        ("", None, "is not a model name"),
        ("openai:", None, "is not a model name"),
        ("openai:a b", None, "is not a model name"),
        ("parrot:polly", None, "unknown provider 'parrot'; known are openai, "),
        ("parrot:polly", "http://h/v1", "write 'openai-chat:polly'"),
        ("openrouter:m", "http://h/v1", "write 'openai-chat:m' for an OpenAI-compatible server"),
        ("openai:m", "localhost:8000", "is not the address of a server: 'localhost:8000'"),
        ("openai:m", "ftp://h/v1", "is not the address of a server: 'ftp://h/v1'"),
        ("openai:m", None, "Set the `OPENAI_API_KEY` environment variable"),
        ("anthropic:m", None, "Set the `ANTHROPIC_API_KEY` environment variable"),
        ("google:m", None, "Set the `GOOGLE_API_KEY` environment variable"),
        ("groq:m", None, "pip install 'pydantic-ai-slim[groq]'"),
    ],
)
def test_names_that_are_wrong_are_one_line(name: str, base_url: str | None, said: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        open_backend(ModelSettings(name=name, base_url=base_url))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 420


def test_the_paper_s_values_are_the_defaults_and_a_part_may_be_given() -> None:
    settings = ModelSettings()
    assert [(settings.get_temperature(r), settings.get_max_tokens(r)) for r in (CODE, FEEDBACK, VISION, SUMMARY)] == [
        (0.5, 8192),
        (0.5, 8192),
        (0.5, 8192),
        (1.0, 8192),
    ]
    changed = ModelSettings.model_validate({"roles": {"code": {"temperature": 0.1}, "write": {"max_tokens": 32000}}})
    assert (changed.get_temperature(CODE), changed.get_temperature(SUMMARY), changed.get_max_tokens(WRITE)) == (
        0.1,
        1.0,
        32000,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": {"code": {"temperature": 3}}},
        {"roles": {"code": {"max_tokens": 0}}},
        {"roles": {"x": {}}},
        {"base_url": "http://me:secret@h/v1"},
    ],
)
def test_settings_that_are_wrong(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelSettings.model_validate(wrong)


def test_importing_the_room_loads_no_provider() -> None:
    code = (
        "import importlib, sys\n"
        "for name in ('client', 'retry', 'backend', 'settings', 'errors', 'replay'):\n"
        "    importlib.import_module(f'labwright.models.{name}')\n"
        "print([name for name in ('pydantic_ai', 'openai', 'anthropic', 'torch', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "[]"
