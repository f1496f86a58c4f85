"""Whoever looks at a run's lock is in nobody's way, and sees who works on it."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from labwright.record import lock
from labwright.record.lock import RunLockedError, acquire_lock, find_owner, is_unused

SINGLE = (
    "import sys, time; from pathlib import Path; from labwright.record.lock import acquire_lock\n"
    "with acquire_lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
)


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
