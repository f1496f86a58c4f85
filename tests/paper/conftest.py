"""The synthetic paper, compiled once with each of our templates; tests look and do not touch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from labwright.stages.paper.sources import PaperParts
from labwright.stages.paper.template import load
from labwright.stages.paper.typeset import Assessment, assess
from tests.paper import synthetic


@dataclass(frozen=True)
class Printed:
    """A paper with what its check found, and the folder `paper` in which it was compiled."""

    template: str
    parts: PaperParts
    found: Assessment
    folder: Path


def _printed(name: str, base: Path) -> Printed:
    parts = synthetic.parts(base)
    return Printed(name, parts, asyncio.run(assess(parts, load(name), base / "paper")), base / "paper")


@pytest.fixture(scope="session")
def conference(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    return _printed("conference", tmp_path_factory.mktemp("conference"))


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    return _printed("workshop", tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def printed(request: pytest.FixtureRequest) -> Printed:
    """The one that is named as the parameter."""
    return request.getfixturevalue(request.param)
