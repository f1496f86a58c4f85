"""One server for the tests that only look."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.inspector.web_server import make_runs, running_server


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and one that is only begun: one whole, one full of hostile text."""
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def web(place: Path) -> Generator[httpx.Client]:
    """A client with the cookie of a server over these runs."""
    with running_server(place) as client:
        yield client
