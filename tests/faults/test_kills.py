"""A run that is killed, one whose model fails in every known way, with the same tree, numbers and paper, and its paper
written again: `make bench`. In `make test`, tests/faults/test_gate_kills.py kills a run.

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

from labwright.agent.audit import audit_run
from labwright.agent.run import rewrite_paper
from labwright.record.claims.estimates import compute_paper_claims
from labwright.record.event_log import RecordError, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import find_prompt
from tests.faults.http_study import (
    ignore_event,
    make_settings,
    make_study_script,
    noting_requests,
    resume_run,
    start_study,
)
from tests.faults.run_comparison import comparable_latex, comparable_tree
from tests.faults.run_killer import KilledRun
from tests.faults.test_external_faults import at_first
from tests.models.openai_server import (
    OpenAIServer,
    answer_by_tool,
    answer_cut_stream,
    answer_error,
    answer_html,
    answer_text,
    answer_truncated,
    reset_connection,
    stall,
)
from tests.paper import custom_template

pytestmark = [
    pytest.mark.slow,
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs TeX (make setup)"),
    pytest.mark.usefixtures("reusing_executions"),
]

FAULTS = (
    answer_error(429, retry_after="0.05"),
    answer_by_tool({"off": "the schema"}),
    answer_error(429),
    answer_by_tool("{not json"),
    answer_error(500),
    answer_text(""),
    reset_connection(),
    answer_by_tool({"value": 1}, name="another_tool"),
    answer_truncated(),
    answer_cut_stream(),
    answer_html("{not json either"),
    stall(20.0),
)
"""Every known way in which a model fails to answer."""


@dataclass(frozen=True)
class Faulty:
    """A finished run whose model failed in each of `FAULTS`, every third call; `requests` is how often it was asked."""

    run: Path
    requests: int


@pytest.fixture(scope="module")
def faulty(reusing_executions: None, tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    runs = tmp_path_factory.mktemp("faulty")
    with OpenAIServer(make_study_script(runs / "noted", FAULTS, every=3)) as server:
        assert start_study(runs, "run", make_settings(server.url), runs / "noted") == 0
        return Faulty(runs / "run", len(server.requests))


@pytest.fixture(scope="module")
def killed(reusing_executions: None, tmp_path_factory: pytest.TempPathFactory) -> KilledRun:
    """A run that was killed right after an execution, and taken up to its end."""
    folder = tmp_path_factory.mktemp("killed")
    with OpenAIServer(make_study_script(folder / "noted")) as server:
        found = KilledRun(folder / "run", server, folder / "noted")
        assert found.kill_after(["executed"]) == "executed"
        found.run_to_end()
    return found


def test_a_run_that_is_killed_does_nothing_twice_and_ends_with_its_paper(killed: KilledRun) -> None:
    assert killed.kills == ["executed"]
    assert killed.count_repeated_requests() == 0 and killed.find_repeated() == [] and killed.damaged == []
    assert killed.list_running() == []
    state = read_state(killed.run)
    assert state.paper.released is not None and state.paper.released.released and not audit_run(killed.run).findings
    kept = [find_prompt(killed.run, one) for one in state.calls.answers.values()]
    assert all(one is not None and one.asked is not None and not one.changed for one in kept)


def test_a_run_with_a_fault_in_every_three_calls_and_one_that_is_killed_are_the_same(
    faulty: Faulty, killed: KilledRun
) -> None:
    state, reference = read_state(killed.run), read_state(faulty.run)
    assert faulty.requests // 3 >= len(FAULTS)
    assert sum(one.retries for one in reference.calls.answers.values()) >= len(FAULTS)
    assert comparable_tree(state) == comparable_tree(reference)
    assert compute_paper_claims(state) == compute_paper_claims(reference)
    assert comparable_latex(killed.run, usage=False) == comparable_latex(faulty.run, usage=False)


def test_only_the_writing_of_a_rewritten_paper_is_done_again(faulty: Faulty, tmp_path: Path) -> None:
    run, noted = tmp_path / "run", tmp_path / "noted"
    shutil.copytree(faulty.run, run)
    first = {path: path.read_bytes() for path in (run / "paper").rglob("*") if path.is_file()}
    before, nodes = _list_events(run), list(read_state(run).nodes)
    writing = before[next(at for at, event in enumerate(before) if event.type == "figures_made") :]
    with OpenAIServer(make_study_script(noted)) as server:
        own = custom_template.write_documented_template(tmp_path / "venue")
        settings = {"models.base_url": server.url, "paper.judge": False, "paper.template": str(own)}
        with noting_requests(noted):
            assert rewrite_paper(run, settings, listener=at_first("drafted", signal.SIGTERM)) == 130
        shutil.rmtree(own)  # the run has its own copy
        with pytest.raises(RecordError, match="is not finished"):
            rewrite_paper(run, settings, listener=ignore_event)
        assert resume_run(run, noted, models__base_url=server.url) == 0
    again = _list_events(run)[len(before) :]
    more = {"rewriting", "commanded", "resumed"}  # SIGTERM is a command to stop
    assert {event.type for event in again} <= {event.type for event in writing} | more
    state = read_state(run)
    assert list(state.nodes) == nodes
    assert (
        state.paper.released is not None
        and state.paper.released.pdf == "paper/v2/paper.pdf"
        and state.paper.released.released
    )
    assert (run / "paper" / "v2" / "paper.pdf").stat().st_size > 10_000
    assert r"\usepackage{venue}" in (run / "paper" / "v2" / "paper.tex").read_text()
    assert {path: path.read_bytes() for path in first} == first
    roles, once = _count_roles(again), _count_roles(writing)
    assert roles <= once and roles["outline"] == once["outline"] and roles["cite_ask"] == once["cite_ask"] == 1, roles
    assert len(server.requests) <= roles.total() + 1, "one at most was cut off"
    assert audit_run(run).findings == []


def _list_events(run: Path) -> list[Event]:
    return [event for event, _ in read_events(run / "events.jsonl")]


def _count_roles(events: list[Event]) -> Counter[str]:
    return Counter(event.key.role for event in events if isinstance(event, CallAnswered))
