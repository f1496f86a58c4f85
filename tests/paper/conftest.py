"""The synthetic paper, compiled once with each of our templates; tests look and do not touch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from labwright.stages.paper.latex_sources import PaperParts
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import PaperAssessment, assess_paper
from tests.paper import synthetic_paper


@dataclass(frozen=True)
class PrintedPaper:
    """A paper with what its check found, and the folder `paper` in which it was compiled."""

    template: str
    parts: PaperParts
    found: PaperAssessment
    folder: Path


def _print_paper(name: str, base: Path) -> PrintedPaper:
    parts = synthetic_paper.make_parts(base)
    return PrintedPaper(
        name, parts, asyncio.run(assess_paper(parts, load_template(name), base / "paper")), base / "paper"
    )


@pytest.fixture(scope="session")
def conference(tmp_path_factory: pytest.TempPathFactory) -> PrintedPaper:
    return _print_paper("conference", tmp_path_factory.mktemp("conference"))


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> PrintedPaper:
    return _print_paper("workshop", tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def printed(request: pytest.FixtureRequest) -> PrintedPaper:
    """The one that is named as the parameter."""
    return request.getfixturevalue(request.param)
