"""Whoever looks at a run's lock is in nobody's way, and sees who works on it."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from labwright.record import lock
from labwright.record.lock import RunLockedError, acquire_lock, find_owner, is_unused

SPAWN = multiprocessing.get_context("spawn")
SINGLE = (
    "import sys, time; from pathlib import Path; from labwright.record.lock import acquire_lock\n"
    "with acquire_lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
)


def _look(path: str, ready: Event, done: Event) -> None:
    while not done.is_set():
        for _ in range(40):
            find_owner(Path(path))
        ready.set()


@contextmanager
def looking(run: Path, processes: int = 2) -> Generator[None]:
    """Processes that look at the lock of a run without a pause."""
    done = SPAWN.Event()
    readies = [SPAWN.Event() for _ in range(processes)]
    children = [SPAWN.Process(target=_look, args=(str(run), ready, done)) for ready in readies]
    for child in children:
        child.start()
    try:
        assert all(ready.wait(30) for ready in readies)
        yield
    finally:
        done.set()
        for child in children:
            child.join(10)
            assert child.exitcode == 0


@contextmanager
def killed_holder(run: Path) -> Generator[int]:
    """A process that took the lock and was killed: its words are left in the file."""
    child = subprocess.Popen([sys.executable, "-c", SINGLE, str(run)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    assert find_owner(run) == f"process {child.pid} on {socket.gethostname()}"
    try:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        yield child.pid  # a zombie until it is waited for: dead all the same
    finally:
        child.wait(10)
        child.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("", id="killed", marks=pytest.mark.bench),
        pytest.param('{"host": "elsewhere", "pid": 7}', id="of another host"),
    ],
)
def test_looking_without_a_pause_never_refuses_a_resume(tmp_path: Path, words: str) -> None:
    with killed_holder(tmp_path):
        assert find_owner(tmp_path) is None
    if words:
        (tmp_path / "lock").write_text(words)
    with looking(tmp_path):
        for _ in range(40):
            with acquire_lock(tmp_path):
                assert find_owner(tmp_path) == f"process {os.getpid()} on {socket.gethostname()}"
            (tmp_path / "lock").write_text(words)


def test_a_look_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    (tmp_path / "lock").write_text(json.dumps({"host": "elsewhere", "pid": 7}))
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    folder = tmp_path.stat().st_mtime_ns  # a file that comes and goes would change it
    assert find_owner(tmp_path) == "process 7 on elsewhere"
    assert tmp_path.stat().st_mtime_ns == folder
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("words", ["{", '{"host": "here", "pid": 7}', "[]", "\0" * 5000])
def test_words_that_tell_nothing_leave_it_to_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(lock, "MAX_LOCK_WAIT_SECONDS", 0.05)
    (tmp_path / "lock").write_text(words)
    assert find_owner(tmp_path) is None
    with acquire_lock(tmp_path):
        (tmp_path / "lock").write_text(words)
        assert find_owner(tmp_path) is not None
        with pytest.raises(RunLockedError, match="process"), acquire_lock(tmp_path):
            pass


def test_where_there_is_no_lock_nobody_works(tmp_path: Path) -> None:
    assert find_owner(tmp_path) is None and not (tmp_path / "lock").exists()


def test_a_folder_that_holds_only_a_lock_was_not_used(tmp_path: Path) -> None:
    assert is_unused(tmp_path) and not is_unused(tmp_path / "none")
    with killed_holder(tmp_path):
        assert is_unused(tmp_path), "killed before it made its log"
    with acquire_lock(tmp_path):
        assert is_unused(tmp_path)
    assert is_unused(tmp_path), "which its holder emptied"
    (tmp_path / "lock").write_text("of the user")
    assert not is_unused(tmp_path)
    (tmp_path / "lock").write_text("")
    (tmp_path / "notes.txt").touch()
    assert not is_unused(tmp_path)
