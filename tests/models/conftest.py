"""No test of the models asks a real one; tests against a server of their own switch requests on for themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic_ai import models as pydantic_ai_models

from labwright.models import transport


@pytest.fixture(autouse=True)
def no_model_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid requests, and take away whatever address or key the shell has."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pydantic_ai_models, "ALLOW_MODEL_REQUESTS", False)


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that failed on their way are sent again at once."""
    monkeypatch.setattr(transport, "RETRY_WAIT_SECONDS", 0.0)


@pytest.fixture
def local_requests(no_model_requests: None) -> Iterator[None]:
    """Allow requests, for a server on this machine."""
    with pydantic_ai_models.override_allow_model_requests(True):
        yield
