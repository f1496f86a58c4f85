"""Whoever looks at a run's lock is in nobody's way, and sees who works on it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from filelock import FileLock

from labwright.record import lock
from labwright.record.lock import FolderLock, RunLockedError, acquire_lock, find_owner, is_unused

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
        pytest.param(
            lock.describe_process().model_copy(update={"host": "container"}).model_dump_json(),
            id="of another container of this machine",
        ),
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


@pytest.mark.parametrize("words", ["{", "[]", "\0" * 5000])
def test_words_that_tell_nothing_leave_it_to_the_file_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(lock, "MAX_LOCK_WAIT_SECONDS", 0.05)
    (tmp_path / "lock").write_text(words)
    assert find_owner(tmp_path) is None
    with acquire_lock(tmp_path):
        (tmp_path / "lock").write_text(words)
        with pytest.raises(RunLockedError, match=r"in use by .*process"), acquire_lock(tmp_path):
            pass


def test_where_there_is_no_lock_nobody_works(tmp_path: Path) -> None:
    assert find_owner(tmp_path) is None and not (tmp_path / "lock").exists()


def test_a_folder_that_holds_only_a_lock_was_not_used(tmp_path: Path) -> None:
    assert is_unused(tmp_path) and not is_unused(tmp_path / "none")
    (tmp_path / ".config.yaml.part").touch()
    assert not is_unused(tmp_path, ["config.yaml"]), "a folder of the user"
    with killed_holder(tmp_path):
        assert is_unused(tmp_path, ["config.yaml"]) and not is_unused(tmp_path), "killed before it made its log"
    (tmp_path / ".config.yaml.part").unlink()
    with acquire_lock(tmp_path):
        assert is_unused(tmp_path)
    assert is_unused(tmp_path), "which its holder emptied"
    (tmp_path / "lock").write_text("of the user")
    assert not is_unused(tmp_path)
    (tmp_path / "lock").write_text("")
    (tmp_path / "notes.txt").touch()
    assert not is_unused(tmp_path)


# --- other hosts ------------------------------------------------------------------------------------------------------

ELSEWHERE = json.dumps({"host": "elsewhere", "pid": 7, "boot": "another", "start": "1"})


def test_an_owner_on_another_host_counts_until_its_heartbeat_has_been_silent(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(ELSEWHERE)
    with pytest.raises(RunLockedError, match="process 7 on elsewhere"), acquire_lock(tmp_path):
        pass
    assert find_owner(tmp_path) == "process 7 on elsewhere"
    long_ago = time.time() - lock.MAX_SILENT_SECONDS - 1
    os.utime(tmp_path / "lock", (long_ago, long_ago))
    assert find_owner(tmp_path) is None
    with acquire_lock(tmp_path):
        assert "elsewhere" not in (tmp_path / "lock").read_text()
    assert find_owner(tmp_path) is None


def test_heartbeats_are_sent(tmp_path: Path) -> None:
    held = FolderLock(tmp_path, heartbeat_seconds=0.02)
    held.acquire()
    os.utime(tmp_path / "lock", (0, 0))
    end = time.monotonic() + 60
    while (tmp_path / "lock").stat().st_mtime < 1 and time.monotonic() < end:
        time.sleep(0.01)
    assert (tmp_path / "lock").stat().st_mtime > 1
    held.release()
    assert find_owner(tmp_path) is None


def test_an_owner_that_was_cut_off_leaves_the_lock_to_its_successor(tmp_path: Path) -> None:
    held = FolderLock(tmp_path, heartbeat_seconds=0.02)
    held.acquire()
    (tmp_path / "lock").write_text(ELSEWHERE)
    time.sleep(0.2)
    held.release()
    assert (tmp_path / "lock").read_text() == ELSEWHERE


def test_without_file_locks_the_process_and_its_start_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FileLock, *arguments: object, **options: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    monkeypatch.setattr(lock, "SETTLE_SECONDS", 0.01)
    with acquire_lock(tmp_path):
        assert find_owner(tmp_path) == f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(RunLockedError, match="in use by"), acquire_lock(tmp_path):
            pass
        me = lock.describe_process()
        (tmp_path / "lock").write_text(me.model_copy(update={"start": "1"}).model_dump_json())
        assert find_owner(tmp_path) is None, "a later process with the same id"
    with killed_holder(tmp_path), acquire_lock(tmp_path):
        pass


def test_two_processes_that_take_a_lock_without_file_locks_do_not_both_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FileLock, *arguments: object, **options: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    def write_at_the_same_moment(seconds: float) -> None:
        (tmp_path / "lock").write_text(ELSEWHERE)

    monkeypatch.setattr(FileLock, "acquire", refuse)
    monkeypatch.setattr(time, "sleep", write_at_the_same_moment)
    with pytest.raises(RunLockedError, match="process 7 on elsewhere"), acquire_lock(tmp_path):
        pass
