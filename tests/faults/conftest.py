"""Requests to a server on this machine are what these tests are about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def local_requests() -> Iterator[None]:
    from pydantic_ai import models

    with models.override_allow_model_requests(True):
        yield
