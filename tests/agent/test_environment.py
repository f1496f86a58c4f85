"""What a run tells of the terms on which experiments ran."""

from __future__ import annotations

import sys

import pytest

from labwright.agent.environment import (
    CONNECTED,
    EXPOSED,
    ISOLATED,
    PARTLY,
    environment_text,
    isolation_text,
    notice,
    packages,
)
from labwright.record.events.running import Resumed, Started
from labwright.record.log import MemoryLog
from tests.stages.small_study import IDEA


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (("bubblewrap",), ISOLATED),
        (("bubblewrap", "bubblewrap"), ISOLATED),
        (("bubblewrap, with network",), CONNECTED),
        (("none: bubblewrap (bwrap) is not installed",), EXPOSED),
        (("",), EXPOSED),
        (("bubblewrap", "none: sandbox.isolation is none"), EXPOSED + PARTLY),
        (("bubblewrap, with network", "bubblewrap"), CONNECTED + PARTLY),
    ],
)
def test_the_weakest_terms_of_a_run_are_told(terms: tuple[str, ...], text: str) -> None:
    first, *later = terms
    log = MemoryLog(
        [
            Started(idea=IDEA, settings={}, seed=1, version="0", model="m", isolation=first),
            *(Resumed(isolation=one) for one in later),
        ]
    )
    assert isolation_text(log.state) == text
    assert ("without isolation" in notice(log.state)) == text.startswith(EXPOSED)
    assert ("without isolation" in text) == text.startswith(EXPOSED)


def test_the_environment_told_is_that_of_the_interpreter_that_runs_experiments() -> None:
    told = packages(sys.executable)
    assert any(one.startswith("torch ") for one in told) and any(one.startswith("scikit-learn ") for one in told)
    lines = environment_text(sys.executable).splitlines()
    assert lines[0] == f"python {sys.version.split()[0]}" and "numpy==" in " ".join(lines)
