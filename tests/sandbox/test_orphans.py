"""Kernel processes left behind by a killed program are found and killed, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.isolation.processes import kill_orphans
from tests.sandbox.conftest import is_gone

CHILD = (
    "import subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
    "print('ready', flush=True)\n"
    "time.sleep(60)\n"
)


def kernel(cache: Path) -> subprocess.Popen[str]:
    """Start a process with a kernel's environment and a child in a separate session."""
    marks = {"XDG_CACHE_HOME": str(cache), "LAB_JOB": "/tmp/x", "PYTHONHASHSEED": "0"}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={"PATH": os.environ["PATH"], **marks},
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


@pytest.mark.slow
def test_a_kernel_and_what_it_started_are_ended_and_those_of_another_run_are_not(tmp_path: Path) -> None:
    with kernel(tmp_path / "mine" / "cache") as mine, kernel(tmp_path / "other" / "cache") as other:
        try:
            found = kill_orphans(tmp_path / "mine" / "cache")
            assert len(found) == 2 and mine.pid in found
            assert is_gone(mine.pid) and other.poll() is None
            assert kill_orphans(tmp_path / "mine" / "cache") == []
        finally:
            kill_orphans(tmp_path / "other" / "cache")


@pytest.mark.slow
def test_a_kernel_does_not_start_after_its_host_has_ended() -> None:
    command = [sys.executable, str(KERNEL_SIDE / "lab" / "_bootstrap.py"), "-f", "connection.json"]
    ran = subprocess.run(command, input="", capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 1 and ran.stderr == "the host process ended before the kernel started\n"
