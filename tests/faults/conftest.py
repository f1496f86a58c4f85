"""Requests to a server on this machine are what these tests are about."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def local_requests() -> Iterator[None]:
    from pydantic_ai import models

    with models.override_allow_model_requests(True):
        yield


@pytest.fixture
def collecting_sockets() -> Iterator[None]:
    """What a dropped run leaves is collected here, not in a later test."""
    gc.freeze()  # only what this test makes is looked through
    yield
    gc.collect()
