"""The synthetic paper, compiled once with each built-in template; tests must not modify it."""

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
    """A paper with the result of its check, and the folder `paper` that it was compiled in."""

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
    """Return the paper of the template named by the parameter."""
    return request.getfixturevalue(request.param)
