"""What a run tells of the terms on which experiments ran."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from labwright.agent.environment import (
    CHANGED_TERMS_TEXT,
    ISOLATED_TEXT,
    LABELS_EXPOSED_TEXT,
    NETWORK_ON_TEXT,
    describe_isolation_for_readers,
    list_packages,
    paper_notice,
)
from labwright.record.event_log import MemoryLog
from labwright.record.events.run_events import RunResumed, RunStarted
from labwright.sandbox.isolation.interpreter import format_environment, inspect_interpreter
from tests.stages.small_study import IDEA


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (("bubblewrap",), ISOLATED_TEXT),
        (("bubblewrap", "bubblewrap"), ISOLATED_TEXT),
        (("bubblewrap, with network",), NETWORK_ON_TEXT),
        (("none: bubblewrap (bwrap) is not installed",), LABELS_EXPOSED_TEXT),
        (("",), LABELS_EXPOSED_TEXT),
        (("bubblewrap", "none: sandbox.isolation is none"), LABELS_EXPOSED_TEXT + CHANGED_TERMS_TEXT),
        (("bubblewrap, with network", "bubblewrap"), NETWORK_ON_TEXT + CHANGED_TERMS_TEXT),
    ],
)
def test_the_weakest_terms_of_a_run_are_told(terms: tuple[str, ...], text: str) -> None:
    first, *later = terms
    log = MemoryLog(
        [
            RunStarted(idea=IDEA, settings={}, seed=1, version="0", model="m", isolation=first),
            *(RunResumed(isolation=one) for one in later),
        ]
    )
    assert describe_isolation_for_readers(log.state) == text
    assert "isolation" not in paper_notice(log.state), "the disclosure gives the statement above once"
    assert ("without isolation" in text) == text.startswith(LABELS_EXPOSED_TEXT)


def test_the_environment_told_is_that_of_the_interpreter_that_runs_experiments() -> None:
    told = list_packages(sys.executable)
    assert any(one.startswith("torch ") for one in told) and any(one.startswith("scikit-learn ") for one in told)
    lines = format_environment(sys.executable).splitlines()
    assert lines[0] == f"python {sys.version.split()[0]}" and "numpy==" in " ".join(lines)


def test_packages_that_pipx_shares_between_programs_belong_to_the_interpreter(tmp_path: Path) -> None:
    """With pipx, ipykernel's packaging lies in a folder outside the environment, which a .pth file names."""
    venv.create(tmp_path / "own", with_pip=False)
    shared = tmp_path / "shared" / "lib" / "site-packages"
    shared.mkdir(parents=True)
    [site] = (tmp_path / "own" / "lib").glob("python3*/site-packages")
    (site / "pipx_shared.pth").write_text(f"{shared}\n{tmp_path}\n")
    trees = inspect_interpreter(str(tmp_path / "own" / "bin" / "python")).trees
    assert shared in trees and tmp_path not in trees
