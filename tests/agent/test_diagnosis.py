"""Why a run is where it is: steps and places from the log, errors, comparisons, and the policy's own next actions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.inspector.diagnosis import (
    RunDiagnosis,
    count_errors,
    diagnose_run,
    extract_own_traceback,
    list_next_steps,
)
from labwright.inspector.render import format_status
from labwright.record.events.paper_events import PaperReleased
from labwright.record.events.run_events import ProcessEnded, RunResumed
from labwright.record.events.search_events import AttemptExecuted, NodeJudged, NodeStepEntered, StageWinnerChosen
from labwright.record.reducers.event_fold import fold_events
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Failure, NodeStep
from tests.inspector.sample_run import BEGAN, HOSTILE, EventStory, make_ended, make_sample, read_status
from tests.inspector.test_logs import written

WORKING = "process 7 on host"


def story() -> EventStory:
    one = EventStory()
    one.add_start()
    return one


def why(one: EventStory, process: str | None = WORKING) -> RunDiagnosis:
    return diagnose_run(one.state, process, now=BEGAN + len(one.events) + 9)


def shown(one: EventStory, process: str | None = WORKING) -> str:
    status = read_status("runs/calm", one.events, process, now=BEGAN)
    return "\n".join(line.plain for line in format_status(status.model_copy(update={"diagnosis": why(one, process)})))


def step(one: EventStory, node: str) -> str:
    return next(w.step for w in why(one).waiting if w.node == node)


def measured(value: float, *, seed: int = 1) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(
            name="log_loss",
            value=value + gap,
            condition=arm,
            dataset="digits",
            split="validation",
            seed=seed,
            grade="computed",
        )
        for arm, gap in (("plain", 0.5), ("smooth", 0.1 * seed))
    )


# --- what each place and node waits for -----------------------------------------------------------------------------


def test_a_node_is_followed_through_its_steps() -> None:
    one = story()
    node = one.add_node("preliminary", "draft")
    one.events.pop()  # it is not written yet
    assert step(one, node) == "proposed"
    steps: tuple[NodeStep, ...] = ("writing", "waiting", "running", "plotting", "reviewing", "judging")
    for name in steps:
        one.add(NodeStepEntered(node=node, step=name))
        [found] = why(one).waiting
        assert found.step == name and found.since == 10.0
    one.add(NodeJudged(node=node, status="good"))
    assert why(one).waiting == () and one.state.nodes[node].step == "done"


@pytest.mark.parametrize("event", [RunResumed(), ProcessEnded(exit_code=130, reason="stopped")])
def test_nobody_works_on_what_a_process_left(event: RunResumed | ProcessEnded) -> None:
    one = story()
    node = one.add_node("preliminary", "draft")
    one.add(NodeStepEntered(node=node, step="running"), event)
    assert one.state.nodes[node].step == "proposed"


# --- errors and comparisons -----------------------------------------------------------------------------------------


def test_errors_are_counted_by_class_with_one_traceback() -> None:
    found = count_errors(make_sample().state)
    assert [(one.kind, one.count, one.fixed, one.nodes) for one in found] == [("shape", 1, 1, ("n0001",))]


def test_a_traceback_shows_the_experiments_own_frame_and_the_error() -> None:
    library = "\n".join(f'  File "/lib/torch/m{n}.py", line 1, in f\n    return g()' for n in range(30))
    text = f'Traceback\n  File "experiment.py", line 7, in run\n    net(x)\n{library}\nValueError: shapes'
    shown = extract_own_traceback(text).splitlines()
    assert shown == ['  File "experiment.py", line 7, in run', "    net(x)", "...", "ValueError: shapes"]
    assert extract_own_traceback("Traceback\nValueError: no frame") == "Traceback\nValueError: no frame"


@pytest.mark.parametrize("seeds", [3, 6])
def test_replicates_give_paired_differences_with_their_noise(seeds: int) -> None:
    one = story()
    node = one.add_node("preliminary", "draft")
    one.finish_good(node, 0.4)
    for seed in range(2, 2 + seeds):
        copy = one.add_node("preliminary", "replicate", node, seed=seed)
        values = measured(0.4, seed=1 if seed % 2 else 2)
        one.add(
            AttemptExecuted(
                node=copy,
                attempt=Attempt(
                    number=1, seconds=1.0, measurements=tuple(m.model_copy(update={"seed": seed}) for m in values)
                ),
            ),
            NodeJudged(node=copy, status="good"),
        )
    one.add(StageWinnerChosen(stage="preliminary", best=node, ended="ceiling"))
    [found] = why(one).comparisons
    assert found.n == seeds and found.low is not None and found.sd is not None and found.sd > 0


# --- the next steps -------------------------------------------------------------------------------------------------


def test_the_current_stage_comes_first_then_those_that_follow() -> None:
    one = story()
    best = one.add_node("preliminary", "draft")
    one.finish_good(best, 0.4)
    assert list_next_steps(one.state)[:2] == ("search the preliminary stage", "search the tuning stage")
    one.add(StageWinnerChosen(stage="preliminary", best=best, ended="ceiling"))
    assert list_next_steps(one.state)[0] == "search the tuning stage"


# --- the command ----------------------------------------------------------------------------------------------------


def test_every_prefix_of_a_log_can_be_asked(tmp_path: Path) -> None:
    whole = make_ended()
    whole.add(PaperReleased(released=True, pdf=None))
    for length in range(len(whole.events) + 1):
        events = whole.events[:length]
        for process in (None, WORKING):
            state = fold_events(events)
            diagnose_run(state, process, now=BEGAN + 1000)


def test_hostile_text_does_nothing_to_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = make_sample()
    failure = Failure(kind="other", message="m " + HOSTILE, traceback=f"experiment.py, line 1\n  {HOSTILE}\nend")
    one.add(NodeJudged(node=one.add_node("tuning", "tune"), status="buggy", failure=failure))
    folder = written(tmp_path / "calm", one)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["status", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "next" in out and "[bold red]" in out
    assert not any(sign in out for sign in ("\x1b", "\x07", "\x00", "\u202e", "\x9b"))
    assert main(["status", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["diagnosis"]) == {"waiting", "work", "errors", "best", "comparisons", "next"}
    after = {path: path.stat().st_mtime_ns for path in before}
    assert after == before, "it only looks"
