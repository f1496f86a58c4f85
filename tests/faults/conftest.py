"""Requests to a server on this machine are what these tests are about."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.served import served_settings, start, studying
from tests.kept_executions import kept_executions
from tests.models.openai_server import (
    OpenAIServer,
    content,
    cut_stream,
    page,
    reset,
    stall,
    status,
    tool,
    truncated,
)

FAULTS = (
    status(429, retry_after="0.05"), tool({"off": "the schema"}), status(429), tool("{not json"), status(500),
    content(""), reset(), tool({"value": 1}, name="another_tool"), truncated(), cut_stream(), page("{not json either"),
    stall(20.0),
)
"""Every known way in which a model fails to answer."""


@pytest.fixture(scope="session", autouse=True)
def local_requests() -> Iterator[None]:
    from pydantic_ai import models

    with models.override_allow_model_requests(True):
        yield


@dataclass(frozen=True)
class Faulty:
    """A finished run whose model failed in each of `FAULTS`, every third call; `requests` is how often it was asked."""

    run: Path
    requests: int


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    runs = tmp_path_factory.mktemp("faulty")
    with OpenAIServer(studying(runs / "noted", FAULTS, every=3)) as server:
        with kept_executions():
            assert start(runs, "run", served_settings(server.url), runs / "noted") == 0
        return Faulty(runs / "run", len(server.requests))


@pytest.fixture
def sockets_collected() -> Iterator[None]:
    """What a dropped run leaves is collected here, not in a later test."""
    yield
    gc.collect()
