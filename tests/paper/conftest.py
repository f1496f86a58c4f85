"""The synthetic paper, compiled once with each built-in template for all workers; tests must not modify it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from labwright.stages.paper.latex_sources import PaperParts
from labwright.stages.paper.template import load_template
from labwright.stages.paper.typesetting import PaperAssessment, assess_paper
from tests.execution_cache import VARIABLE
from tests.paper import synthetic_paper


@dataclass(frozen=True)
class PrintedPaper:
    """A paper with the result of its check, and the folder `paper` that it was compiled in."""

    template: str
    parts: PaperParts
    found: PaperAssessment
    folder: Path


def _print_paper(name: str) -> PrintedPaper:
    base = Path(os.environ[VARIABLE], f"paper-{name}")
    base.mkdir(exist_ok=True)
    printed = base / "printed.pickle"
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            parts = synthetic_paper.make_parts(base)
            found = asyncio.run(assess_paper(parts, load_template(name), base / "paper"))
            printed.write_bytes(pickle.dumps(PrintedPaper(name, parts, found, base / "paper")))
        return pickle.loads(printed.read_bytes())


@pytest.fixture(scope="session")
def conference() -> PrintedPaper:
    return _print_paper("conference")


@pytest.fixture(scope="session")
def workshop() -> PrintedPaper:
    return _print_paper("workshop")


@pytest.fixture
def printed(request: pytest.FixtureRequest) -> PrintedPaper:
    """Return the paper of the template named by the parameter."""
    return request.getfixturevalue(request.param)
