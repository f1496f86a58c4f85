"""The outside of a run: providers that are down or move, signals, the end of a batch job, disks, clocks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from labwright.inspector.event_text import describe_event
from labwright.models import retry
from labwright.models.errors import ModelConfigError
from labwright.record.campaign import (
    CampaignLog,
    CampaignResumed,
    CampaignStarted,
    CampaignTerms,
    RunAllowance,
    RunLaunched,
)
from labwright.record.event_log import EventListener, EventLog, RecordError, read_events, read_state
from labwright.record.events import Event
from labwright.record.events.run_events import ClockMoved, CommandReceived, RunResumed
from labwright.record.lock import RunLockedError, acquire_lock
from labwright.record.reducers.run_state import RunState
from tests.execution_cache import reusing_executions_between_runs
from tests.faults.http_study import answer_body, make_settings, make_study_script, resume_run, start_study
from tests.models.openai_server import OpenAIServer, Step, answer_by_tool, answer_error, answer_text
from tests.stages.small_study import make_small_model

pytestmark = [
    pytest.mark.slow,
    # A run that is dropped in the middle of a request drops its sockets, too.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("collecting_sockets"),
]


def at_first(kind: str, *signals: int) -> EventListener:
    """A listener that sends signals to this process at the first event of a kind."""
    waiting = list(signals)

    def listen(event: Event, _: RunState) -> None:
        while event.type == kind and waiting:
            os.kill(os.getpid(), waiting.pop(0))

    return listen


def reason(run: Path) -> str:
    ended = read_state(run).process_end
    assert ended is not None
    return ended.reason


@pytest.fixture
def kept() -> Iterator[None]:
    """For one test: others here need kernels that run."""
    with reusing_executions_between_runs():
        yield


@pytest.mark.usefixtures("kept")
def test_a_provider_that_is_down_pauses_the_run_and_one_that_moved_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, run = tmp_path / "noted", tmp_path / "run"
    down = {"models__retries": 0, "models__outage_timeout": 4.0}
    monkeypatch.setattr(retry, "OUTAGE_WAIT_SECONDS", 0.05)
    with OpenAIServer([answer_error(503, "out of order")]) as server:
        assert start_study(tmp_path, "run", make_settings(server.url, **down), noted) == 130
        assert len(server.requests) >= 3
    kinds = [event.type for event, _ in read_events(run / "events.jsonl")]
    assert kinds.count("provider_outage") == len(server.requests) - 1 and kinds[-1] == "ended"
    assert "out of order" in reason(run) and "resume when the provider is back" in reason(run)
    with OpenAIServer(make_study_script(noted)) as server:
        listen = at_first("proposed", signal.SIGUSR1)
        assert resume_run(run, noted, listen, models__base_url=server.url, search__grace=0.0) == 130
        asked = len(server.requests)
    assert reason(run) == "stopped by SIGUSR1" and asked >= 2
    assert read_state(run).overrides["models.base_url"] == server.url
    with OpenAIServer(make_study_script(noted)) as server:  # another port again: what is committed is not asked
        before = len(read_state(run).calls.answers)
        monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 60))
        assert resume_run(run, noted, models__base_url=server.url, search__grace=0.0) == 130
        assert len(read_state(run).calls.answers) >= before and len(server.requests) <= 3
    assert "SLURM job" in reason(run)


def test_a_key_that_expires_is_an_outage_in_which_experiments_end_and_the_run_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "OUTAGE_WAIT_SECONDS", 0.2)
    noted, run = tmp_path / "noted", tmp_path / "run"
    answered, refused = make_study_script(noted), answer_error(401, "the key has expired")
    listen = at_first("executed", signal.SIGTERM)
    with OpenAIServer(lambda number, body: answered(number, body) if number < 5 else refused) as server:
        outage = {"models__outage_timeout": 60, "search__grace": 0.0, "search__num_drafts": 2}
        assert start_study(tmp_path, "run", make_settings(server.url, **outage), noted, listen) == 130
    kinds = [event.type for event, _ in read_events(run / "events.jsonl")]
    assert "executed" in kinds[kinds.index("provider_outage") :], "what was under way came to its end"
    with OpenAIServer(lambda number, body: answered(number, body) if number == 1 else refused) as server:
        assert resume_run(run, noted, models__base_url=server.url, models__outage_timeout=0) == 130
    assert "the key is no longer accepted" in reason(run) and "the key has expired" in reason(run)
    with OpenAIServer([refused]) as server, pytest.raises(ModelConfigError):  # nothing was answered in this process
        resume_run(run, noted, models__base_url=server.url)


def test_a_second_interrupt_ends_the_run_at_once_and_two_processes_do_not_work_on_one(tmp_path: Path) -> None:
    noted, sent, locked, said = tmp_path / "noted", list[float](), list[bool](), list[str | None]()

    def listen(event: Event, state: RunState) -> None:
        if isinstance(event, CommandReceived):
            said.append(describe_event(event, state))
        if event.type == "proposed" and not locked:
            locked.append(True)
            with pytest.raises(RunLockedError, match="is in use by process"), acquire_lock(tmp_path / "run"):
                pass
            threading.Thread(target=interrupt_twice).start()

    def interrupt_twice() -> None:
        end = time.monotonic() + 60
        while not any(tmp_path.rglob("begun")) and time.monotonic() < end:  # the code runs
            time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # so that a busy system does not make one of both
        os.kill(os.getpid(), signal.SIGINT)

    def slowly(_: int, body: dict[str, Any]) -> Step:
        answer = answer_body(body, noted, make_small_model())
        for file in answer.get("files", ()):
            if file["path"] == "experiment.py":
                file["text"] = f"import time\nopen('begun', 'w').close()\ntime.sleep(200)\n{file['text']}"
        return answer_by_tool(answer)

    with OpenAIServer(slowly) as server:
        assert start_study(tmp_path, "run", make_settings(server.url), noted, listen) == 130
    assert time.monotonic() - sent[0] < 100
    assert reason(tmp_path / "run") == "stopped by Ctrl-C; work in flight was dropped"
    count = sum(not one.is_finished for one in read_state(tmp_path / "run").nodes.values())
    ends = f"{count} experiments end" if count > 1 else "1 experiment ends"
    assert said == [f"stopping for Ctrl-C: {ends} first; press Ctrl-C again to stop at once"]


@pytest.mark.usefixtures("kept")
def test_a_refusal_and_a_prompt_that_is_too_long_cost_their_node_and_the_search_goes_on(tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    answered = make_study_script(noted)

    def choose(number: int, body: dict[str, Any]) -> Step:
        if number == 4:
            return answer_error(400, "This model's maximum context length is 8192 tokens, your messages have 9000")
        return answer_text("", finish="content_filter") if number == 5 else answered(number, body)

    judged = list[str]()

    def listen(event: Event, state: RunState) -> None:
        if event.type == "judged":
            judged.append(event.type)
            if len(judged) == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    settings = {"search__num_drafts": 4, "search__preliminary__nodes": 6, "search__grace": 0.0}
    with OpenAIServer(choose) as server:
        assert start_study(tmp_path, "run", make_settings(server.url, **settings), noted, listen) == 130
    failures = [node.failure for node in read_state(tmp_path / "run").nodes.values() if node.failure is not None]
    words = [f"{failure.kind}: {failure.message}" for failure in failures]
    assert any("no answer" in text and "context" in text for text in words), words
    assert any("no answer" in text and "filter" in text for text in words), words


# --- disks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 700 kB that can be remounted."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or not mount(place, "size=700k"):
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def mount(place: Path, options: str) -> bool:
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], capture_output=True).returncode == 0


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


@pytest.mark.usefixtures("kept")
def test_a_run_on_a_full_disk_says_so_and_goes_on_when_there_is_room(disk: Path, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    with OpenAIServer(make_study_script(noted)) as server:
        with pytest.raises(Exception, match=r"No space left|disk is full|disk I/O error") as caught:
            start_study(disk, "run", make_settings(server.url, min_free_gb=0), noted)
        assert type(caught.value).__name__ in ("RecordError", "ExecutorError", "DiskFullError"), caught.value
        before = read_state(disk / "run")
        assert all(node.failure is None or "No space" not in node.failure.message for node in before.nodes.values())
        remount(disk, "size=100m")
        listen = at_first("judged", signal.SIGTERM)
        assert resume_run(disk / "run", noted, listen, search__grace=0.0) == 130
    assert (
        set(before.calls.answers) < set(read_state(disk / "run").calls.answers)
        or before.finished_decisions < read_state(disk / "run").finished_decisions
    )


def fill(log: EventLog) -> int:
    """Append notes until the log refuses one; how many it took."""
    for number in range(100_000):
        try:
            log.append(CommandReceived(verb="note", text="x" * 2000))
        except RecordError as error:
            assert "cannot write to the record" in str(error) and "free disk space, then resume" in str(error)
            return number
    raise AssertionError("the disk never filled")


def test_a_log_on_a_full_disk_keeps_what_it_took(disk: Path) -> None:
    with closing(EventLog(disk / "events.jsonl")) as log:
        taken = fill(log)
        assert len(log.state.notes) == taken > 10
    assert len(read_state(disk).notes) == taken
    remount(disk, "size=10m")
    with closing(EventLog(disk / "events.jsonl")) as log:
        log.append(CommandReceived(verb="note", text="more"))
        assert len(log.state.notes) == taken + 1


def test_a_read_only_folder_is_refused_and_goes_on_when_it_is_not(disk: Path) -> None:
    with closing(EventLog(disk / "events.jsonl")) as log:
        log.append(CommandReceived(verb="note", text="one"))
    remount(disk, "ro")
    with pytest.raises(RecordError, match="is not writable: fix its permissions"):
        EventLog(disk / "events.jsonl").append(CommandReceived(verb="note", text="two"))
    with pytest.raises(RecordError, match="is not writable"), acquire_lock(disk):
        pass
    remount(disk, "rw")
    with acquire_lock(disk), closing(EventLog(disk / "events.jsonl")) as log:
        log.append(CommandReceived(verb="note", text="two"))
        assert [one.command.text for one in log.state.notes] == ["one", "two"]


# --- clocks and pages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "dated", "moved"),
    [
        ((100.0, 110.0, 50.0, 60.0), (100.0, 110.0, 120.0, 130.0), list[float]()),
        ((100.0, 110.0, 32_520.0, 32_530.0), (100.0, 110.0, 32_520.0, 32_530.0), [32_400.0]),
        ((100.0, 110.0, 125.0, 130.0), (100.0, 110.0, 125.0, 135.0), list[float]()),
        ((100.0, 50.0, 60.0, 9_130.0), (100.0, 110.0, 120.0, 9_130.0), [9_000.0]),
    ],
    ids=["back", "forward", "adjusted", "back and far forward"],
)
def test_a_clock_that_is_set_or_slept_takes_no_time_from_a_run(
    times: tuple[float, ...], dated: tuple[float, ...], moved: list[float], tmp_path: Path
) -> None:
    clock, steady = iter(times), iter((0.0, 10.0, 20.0, 30.0))
    path, at = tmp_path / "events.jsonl", list[float]()
    with closing(EventLog(path, clock=lambda: next(clock), monotonic_clock=lambda: next(steady))) as log:
        for text in "abcd":
            log.append(CommandReceived(verb="note", text=text))
            at.append(log.state.last_event_at)
        assert log.state.active_seconds == pytest.approx(30.0, abs=6) and tuple(at) == dated
    state, events = read_state(tmp_path), read_events(path)
    assert state == log.state and [one.command.text for one in state.notes] == [*"abcd"]
    found = [event for event, _ in events if isinstance(event, ClockMoved)]
    assert [one.seconds for one in found] == moved
    assert all("sleep or clock change" in (describe_event(one, state) or "") for one in found)
    assert all(before <= after for (_, before), (_, after) in pairwise(events)), "no duration is negative"


@pytest.mark.parametrize("second", [90_000.0, 12.0, -5_000.0], ids=["forward", "as it was", "back"])
def test_what_passes_between_two_processes_is_no_time_of_the_run(tmp_path: Path, second: float) -> None:
    for clock, steady in (((0.0, 10.0), (0.0, 10.0)), ((second, second + 10.0), (5.0, 5.0, 15.0))):
        times, ticks = iter(clock), iter(steady)
        with closing(
            EventLog(
                tmp_path / "events.jsonl",
                clock=lambda times=times: next(times),
                monotonic_clock=lambda ticks=ticks: next(ticks),
            )
        ) as log:
            log.append(RunResumed())
            log.append(CommandReceived(verb="note", text="a"))
    assert read_state(tmp_path).active_seconds == 20.0
    at = [at for _, at in read_events(tmp_path / "events.jsonl")]
    assert at == sorted(at)


def test_a_clock_that_leaps_takes_nothing_of_a_campaigns_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(CampaignLog(tmp_path)) as log:
        log.append(CampaignStarted(terms=CampaignTerms(parallel=1, slots=1, seconds=3600.0), version="1"))
        log.append(CampaignResumed())
    real = time.time
    for leap in (9 * 3600, -9 * 3600):
        monkeypatch.setattr(time, "time", lambda leap=leap: real() + leap)
        with closing(CampaignLog(tmp_path)) as log:
            log.append(CampaignResumed())
            log.append(RunLaunched(name="a", share=RunAllowance()))
            left = log.state.compute_seconds_left(log.read_clock())
            assert left is not None and 3500 < left <= 3600 and log.state.active_seconds < 100
