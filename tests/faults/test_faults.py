"""A run whose model fails in every known way, every third call, ends as the run that nothing happened to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from record.claims import paper_claims
from record.reading import read_state
from tests.faults.same import latex, tree
from tests.faults.served import served_settings, start, studying
from tests.models.openai_server import (
    OpenAIServer,
    content,
    cut_stream,
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
    stall(20.0),
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)")]


def test_with_a_fault_in_every_three_calls_the_run_is_the_same(undisturbed: Path, tmp_path: Path) -> None:
    noted, disturbed = tmp_path / "noted", tmp_path / "run"
    with OpenAIServer(studying(noted, FAULTS, every=3)) as server:
        assert start(tmp_path, "run", served_settings(server.url), noted) == 0
    state, reference = read_state(disturbed), read_state(undisturbed)
    assert len(server.requests) // 3 >= len(FAULTS)
    assert sum(one.retries for one in state.answers.values()) >= len(FAULTS)
    assert tree(state) == tree(reference)
    assert paper_claims(state) == paper_claims(reference)
    assert latex(disturbed) == latex(undisturbed)
