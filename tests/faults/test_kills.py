"""A run that is killed; in `make bench` also one whose model fails in every known way, with the same tree, numbers and
paper, and its paper written again.

Neither of these is compared with a run that nothing happened to: what both would have to get wrong alike is looked for
in `make bench` too, which kills one after every kind of event. A paper that is written again lies beside the
first, is made from the same record, and is resumed when it is cut off.
"""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from labwright.agent.audit import audit
from labwright.agent.run import rewrite
from labwright.record.claims.means import paper_claims
from labwright.record.prompts import prompt_of
from labwright.record.reading import RecordError, read_events, read_state
from tests.faults.killing import Killed
from tests.faults.same import latex, tree
from tests.faults.served import noting_behind_the_door, resume, served_settings, silent, start, studying
from tests.faults.test_outside import at_first
from tests.models.openai_server import OpenAIServer, content, cut_stream, page, reset, stall, status, tool, truncated
from tests.paper import venue

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
    pytest.mark.usefixtures("kept"),
]

FAULTS = (
    status(429, retry_after="0.05"),
    tool({"off": "the schema"}),
    status(429),
    tool("{not json"),
    status(500),
    content(""),
    reset(),
    tool({"value": 1}, name="another_tool"),
    truncated(),
    cut_stream(),
    page("{not json either"),
    stall(20.0),
)
"""Every known way in which a model fails to answer."""

WRITING = {"outline", "write", "cite_ask", "reflect", "figure_review", "missing_ablations"}


@dataclass(frozen=True)
class Faulty:
    """A finished run whose model failed in each of `FAULTS`, every third call; `requests` is how often it was asked."""

    run: Path
    requests: int


@pytest.fixture(scope="module")
def faulty(kept: None, tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    runs = tmp_path_factory.mktemp("faulty")
    with OpenAIServer(studying(runs / "noted", FAULTS, every=3)) as server:
        assert start(runs, "run", served_settings(server.url), runs / "noted") == 0
        return Faulty(runs / "run", len(server.requests))


@pytest.fixture(scope="module")
def killed(kept: None, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A run that was killed right after an execution, and taken up to its end."""
    folder = tmp_path_factory.mktemp("killed")
    with OpenAIServer(studying(folder / "noted")) as server:
        found = Killed(folder / "run", server, folder / "noted")
        assert found.after(["executed"]) == "executed"
        found.to_its_end()
    return found


def test_a_run_that_is_killed_does_nothing_twice_and_ends_with_its_paper(killed: Killed) -> None:
    assert killed.kills == ["executed"]
    assert killed.asked_again() == 0 and killed.twice() == [] and killed.damaged == []
    state = read_state(killed.run)
    assert state.released is not None and state.released.released and not audit(killed.run).findings
    kept = [prompt_of(killed.run, one) for one in state.answers.values()]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)


@pytest.mark.bench
def test_a_run_with_a_fault_in_every_three_calls_and_one_that_is_killed_are_the_same(
    faulty: Faulty, killed: Killed
) -> None:
    state, reference = read_state(killed.run), read_state(faulty.run)
    assert faulty.requests // 3 >= len(FAULTS)
    assert sum(one.retries for one in reference.answers.values()) >= len(FAULTS)
    assert tree(state) == tree(reference)
    assert paper_claims(state) == paper_claims(reference)
    assert latex(killed.run) == latex(faulty.run)


@pytest.mark.bench
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
    assert kinds <= {
        "rewriting",
        "resumed",
        "decided",
        "answered",
        "drafted",
        "released",
        "assessed",
        "work_done",
        "commanded",
        "ended",
        "reserved",
        "returned",
        "figures_seen",
    }
    state = read_state(run)
    assert state.released is not None and state.released.pdf == "paper/v2/paper.pdf" and state.released.released
    assert (run / "paper" / "v2" / "paper.pdf").stat().st_size > 10_000
    assert r"\usepackage{venue}" in (run / "paper" / "v2" / "paper.tex").read_text()
    assert {path: path.read_bytes() for path in first} == first
    roles = Counter(key.role for key in set(state.answers) - asked)
    assert set(roles) <= WRITING and roles["outline"] == roles["cite_ask"] == 1, roles
    assert len(server.requests) <= roles.total() + 1, "one at most was cut off"
    assert audit(run).findings == []
