"""A terminal that is closed under a run, as when an ssh connection breaks."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from labwright.record.event_log import RecordError, read_events, read_state

ROOT = Path(__file__).parents[2]
RUN = [
    "run",
    "--idea",
    str(ROOT / "examples/ideas/label_noise_calibration.json"),
    "--config",
    str(ROOT / "examples/demo.yaml"),
    "--set",
    "sandbox.isolation=none",
    "--set",
    "search.num_workers=1",
    "--set",
    "search.grace=1",
    "--name",
    "calm",
]


def wait_for(run: Path, kind: str, terminal: int, seconds: float = 240.0) -> None:
    """Until the log has an event; the terminal is read meanwhile, as a person's would be."""
    until = time.monotonic() + seconds
    os.set_blocking(terminal, False)
    while time.monotonic() < until:
        with suppress(BlockingIOError, OSError):
            os.read(terminal, 65536)
        with suppress(RecordError):
            if any(event.type == kind for event, _ in read_events(run / "events.jsonl")):
                return
        time.sleep(0.1)
    raise AssertionError(f"no event {kind} within {seconds} s")


def exit_code(process: int, seconds: float = 240.0) -> int:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    raise AssertionError(f"the run did not end within {seconds} s")


@pytest.mark.slow
def test_a_terminal_that_is_closed_stops_the_run_gently(tmp_path: Path) -> None:
    run = tmp_path / "calm"
    process, terminal = pty.fork()
    if not process:
        os.environ["TERM"] = "screen-256color"
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored
        os.execv(sys.executable, [sys.executable, "-m", "labwright", *RUN, "--runs", str(tmp_path)])
    try:
        wait_for(run, "prepared", terminal)
        os.close(terminal)
        code = exit_code(process)
    except BaseException:
        os.kill(process, 9)
        os.waitpid(process, 0)
        raise
    ended = read_state(run).process_end
    assert code == 130, [path.read_text() for path in run.glob("crash-*")] or ended
    assert ended is not None and ended.exit_code == 130
    assert ended.reason.startswith("stopped because its terminal was closed")
    assert not list(run.glob("crash-*"))
