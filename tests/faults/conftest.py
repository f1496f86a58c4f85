"""Requests to a server on this machine are what these tests are about."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.served import served_settings, start, studying
from tests.models.openai_server import OpenAIServer


@pytest.fixture(scope="session", autouse=True)
def local_requests() -> Iterator[None]:
    from pydantic_ai import models

    with models.override_allow_model_requests(True):
        yield


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happened to."""
    runs = tmp_path_factory.mktemp("undisturbed")
    with OpenAIServer(studying(runs / "noted")) as server:
        assert start(runs, "run", served_settings(server.url), runs / "noted") == 0
    return runs / "run"


@pytest.fixture
def sockets_collected() -> Iterator[None]:
    """What a dropped run leaves is collected here, not in a later test."""
    yield
    gc.collect()
