"""A run whose model fails in every known way, every fifth call, ends as the run that nothing happened to."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from record.claims import paper_claims
from record.fold import RunState
from record.log import read_state
from tests.faults.served import served_settings, start, studying
from tests.models.openai_server import (
    OpenAIServer,
    content,
    cut_stream,
    drop,
    page,
    reset,
    stall,
    status,
    tool,
    truncated,
)

FAULTS = (
    status(429, retry_after="0.05"), tool({"off": "the schema"}), status(429), tool("{not json"), status(500),
    content(""), reset(), tool({"value": 1}, name="another_tool"), truncated(), cut_stream(), page("{not json either"),
    drop(), stall(20.0),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("runs"), every=0)[0]


def run(runs: Path, *, every: int) -> tuple[Path, OpenAIServer]:
    noted = runs / "noted"
    with OpenAIServer(studying(noted, FAULTS, every) if every else studying(noted)) as server:
        code = start(runs, "run", served_settings(server.url, models__timeout=3), noted)
    assert code == 0, read_state(runs / "run").ended
    return runs / "run", server


def tree(state: RunState) -> list[tuple[object, ...]]:
    return [(n.id, n.parent, n.kind, n.seed, n.status, n.varies, n.source_sha256, n.measurements, state.tests.get(n.id))
            for n in state.nodes.values()]


def latex(run: Path) -> dict[str, str]:
    """The sources of the paper with times, tokens and costs masked."""
    found = {path.name: path.read_text() for path in sorted((run / "paper").glob("*.tex"))}
    return {name: re.sub(r"\d[\d,.]*(?=[~ ]*(\\,)?(s\b|seconds|tokens|calls|USD|min))", "#", text)
            for name, text in found.items()}


def test_with_a_fault_in_every_five_calls_the_run_is_the_same(undisturbed: Path, tmp_path: Path) -> None:
    disturbed, server = run(tmp_path, every=3)
    state, reference = read_state(disturbed), read_state(undisturbed)
    assert len(server.requests) // 3 >= len(FAULTS)
    assert sum(one.retries for one in state.answers.values()) >= len(FAULTS)
    assert tree(state) == tree(reference)
    assert paper_claims(state) == paper_claims(reference)
    assert latex(disturbed) == latex(undisturbed)
