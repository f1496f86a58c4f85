"""`scientist tree --watch`, and the terminals it and the live view meet."""

from __future__ import annotations

import errno
import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from labwright.agent.cli.errors import as_unbreakable
from labwright.inspector.live_view import format_live, watch_run
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import ProcessEnded
from labwright.record.lock import acquire_lock
from tests.inspector.sample_run import make_ended, make_sample
from tests.inspector.test_logs import written

pytestmark = pytest.mark.slow


def test_a_tree_that_fits_is_shown_whole() -> None:
    text = "\n".join(line.plain for line in format_live(make_ended().state, (), 40))
    assert all(f"n000{k}" in text for k in range(1, 7)) and "... " not in text.replace("...  ", "")


def test_a_pipe_gets_the_tree_and_then_a_line_an_event(tmp_path: Path) -> None:
    folder = written(tmp_path / "calm", make_sample())
    shown = Console(file=io.StringIO(), width=100)

    def ends(_: float) -> None:
        if not released:
            log = EventLog(folder / "events.jsonl")
            log.append(ProcessEnded(exit_code=0, reason="all done"))
            log.close()
            held.__exit__(None, None, None)
            released.append(True)
        time.sleep(0.05)

    released: list[bool] = []
    held = acquire_lock(folder)
    held.__enter__()
    watch_run(folder, shown, sleep=ends)
    assert isinstance(shown.file, io.StringIO)
    text = shown.file.getvalue()
    assert text.count("n0005 tune") == 2, "the tree as it was and as it is at the end"
    assert "ended with exit code 0: all done" in text and "\x1b" not in text
    assert text.endswith("done; no process\n")


def test_ctrl_c_leaves_the_run_alone(tmp_path: Path) -> None:
    folder = written(tmp_path / "calm", make_sample())
    shown = Console(file=io.StringIO(), width=100)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with acquire_lock(folder):
        watch_run(folder, shown, sleep=interrupted)
    assert isinstance(shown.file, io.StringIO) and "the run was not affected" in shown.file.getvalue()


def test_a_stream_that_nobody_reads_takes_everything(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        kept = as_unbreakable(stream)
        os.close(reading)
        for _ in range(3):
            assert kept.write("x" * 100_000)
            kept.flush()


def test_a_full_disk_is_not_taken_for_a_reader_that_left() -> None:
    class Full(io.StringIO):
        def write(self, s: str) -> int:
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        as_unbreakable(Full()).write("x")


# --- a real terminal ------------------------------------------------------------------------------------------------

WATCH = "from labwright.agent.cli import main; import sys; sys.exit(main(['tree', sys.argv[1], '--watch']))"


def on_terminal(folder: Path, term: str) -> tuple[subprocess.Popen[bytes], int]:
    """The command on a terminal of 40 x 10 of its own, and the terminal's other end."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH, str(folder)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**environment, "TERM": term, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "40", "LINES": "10"},
    )
    os.close(theirs)
    return process, ours


def unstyled(text: bytes) -> bytes:
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", text)


def read_until(ours: int, wanted: bytes, seconds: float = 120.0) -> bytes:
    found, until = b"", time.monotonic() + seconds
    os.set_blocking(ours, False)
    while wanted not in unstyled(found) and time.monotonic() < until:
        with suppress(BlockingIOError):
            try:
                found += os.read(ours, 65536)
            except OSError as error:
                if error.errno == errno.EIO:  # the other end is closed
                    break
                raise
        time.sleep(0.02)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("term", [pytest.param("screen-256color", marks=pytest.mark.bench), "dumb"])
def test_a_small_terminal_without_unicode(tmp_path: Path, term: str) -> None:
    folder = written(tmp_path / "calm", make_sample())
    with acquire_lock(folder):
        process, ours = on_terminal(folder, term)
        try:
            seen = read_until(ours, b"n0006 tune")
            process.send_signal(signal.SIGINT)
            seen += read_until(ours, b"stopped watching")
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)
    assert b"> n0006 tune" in unstyled(seen) and b"stopped watching" in seen
    assert (b"\x1b" in seen) == (term != "dumb")
    if term != "dumb":
        assert seen.count(b"\x1b[?1049h") == seen.count(b"\x1b[?1049l") == 1, "the first screen comes back"
        lines = re.split(rb"\r?\n|\x1b\[H|\x1b\[\?1049l", seen)  # a frame ends without a new line
        assert max(len(unstyled(line)) for line in lines) <= 40
