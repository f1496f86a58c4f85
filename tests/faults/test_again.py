"""The paper of a finished run written again: beside the first, from the same record, and resumed when it is cut off."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from agent.audit import audit
from agent.run import rewrite
from record.reading import RecordError, read_events, read_state
from tests.faults.conftest import Faulty
from tests.faults.served import noting_behind_the_door, resume, silent, studying
from tests.faults.test_outside import at_first
from tests.models.openai_server import OpenAIServer
from tests.paper import venue

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
              pytest.mark.usefixtures("kept")]

WRITING = {"outline", "write", "cite_ask", "reflect", "figure_review", "missing_ablations"}


def test_it_lies_beside_the_first_and_only_the_writing_was_done_again(faulty: Faulty, tmp_path: Path) -> None:
    run, noted = tmp_path / "run", tmp_path / "noted"
    shutil.copytree(faulty.run, run)
    first = {path: path.read_bytes() for path in (run / "paper").rglob("*") if path.is_file()}
    asked = set(read_state(run).answers)
    events = len(read_events(run / "run.db"))
    with OpenAIServer(studying(noted)) as server:
        own = venue.documented(tmp_path / "venue")
        settings = {"models.base_url": server.url, "paper.judge": False, "paper.template": str(own)}
        with noting_behind_the_door(noted):
            assert rewrite(run, settings, listener=at_first("drafted", signal.SIGTERM)) == 130
        shutil.rmtree(own)  # the run has its own copy
        with pytest.raises(RecordError, match="is not at its end"):
            rewrite(run, settings, listener=silent)
        assert resume(run, noted, models__base_url=server.url) == 0
    kinds = {event.type for event, _ in read_events(run / "run.db")[events:]}
    assert kinds <= {"rewriting", "resumed", "decided", "answered", "drafted", "released", "assessed", "work_done",
                     "commanded", "ended", "reserved", "returned", "figures_seen"}
    state = read_state(run)
    assert state.released is not None and state.released.pdf == "paper/v2/paper.pdf" and state.released.released
    assert (run / "paper" / "v2" / "paper.pdf").stat().st_size > 10_000
    assert r"\usepackage{venue}" in (run / "paper" / "v2" / "paper.tex").read_text()
    assert {path: path.read_bytes() for path in first} == first
    roles = Counter(key.role for key in set(state.answers) - asked)
    assert set(roles) <= WRITING and roles["outline"] == roles["cite_ask"] == 1, roles
    assert len(server.requests) <= roles.total() + 1, "one at most was cut off"
    assert audit(run).findings == []
