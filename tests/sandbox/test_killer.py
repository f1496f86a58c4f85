"""The system's out-of-memory killer in a separate control group: it fails one cell, or its kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

HELD = 900_000_000
"""Memory limit of the group, shared by all processes of a job, in bytes."""
STUDY = """
import os, time
import numpy as np
import lab

def run(cell):
    if cell.arm == "hog":
        held = [np.ones(10**7) for _ in range(40)]
    if cell.arm == "kernel":  # make the system choose the process that runs the cells, not the cell
        with open(f"/proc/{os.getppid()}/oom_score_adj", "w") as score:
            score.write("1000")
        held = [np.ones(10**7) for _ in range(40)]
        time.sleep(60)
    if cell.arm == "killed":
        os.kill(os.getpid(), 9)
    lab.submit(split="validation", predictions=np.zeros(len(lab.data(cell.dataset).validation.x), int))

lab.measure(run)
"""
PLACES = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


@pytest.fixture
def group() -> Iterator[Path]:
    """Create a control group with a small memory limit."""
    for place, limit in PLACES:
        folder = Path(place, f"scientist-test-{uuid.uuid4().hex[:8]}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(HELD))
            if (swap := folder / "memory.swap.max").exists():
                swap.write_text("0")
            yield folder
            return
        except OSError:
            continue
        finally:
            folder.rmdir()
    pytest.skip("control groups of memory cannot be made here")


def within(group: Path) -> list[str]:
    """Return the command prefix that starts Python in that group."""
    return ["/bin/sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh", str(group / "cgroup.procs"), sys.executable]


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.parametrize("isolation", ["none", "auto"])
def test_what_the_memory_killer_takes_is_one_cell(group: Path, tmp_path: Path, isolation: str) -> None:
    (tmp_path / "study.py").write_text(STUDY)
    arms = ("good", "hog", "kernel", "killed", "last")
    done = subprocess.run(
        [
            *within(group),
            "-m",
            "labwright",
            "exec",
            str(tmp_path / "study.py"),
            "--cells",
            ",".join(arms),
            "--on",
            "digits",
            "--timeout",
            "120",
            "--set",
            "sandbox.memory_gb=64",
            "--set",
            f"sandbox.isolation={isolation}",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"TERM": "dumb"},
    )
    cells = {
        line["cell"]["arm"]: (line["outcome"], line["why"].partition(":")[0])
        for line in json.loads(done.stdout)["cells"]
    }
    assert cells == {
        "good": ("measured", ""),
        "hog": ("failed", "died"),
        "kernel": ("failed", "died"),
        "killed": ("failed", "died"),
        "last": ("measured", ""),
    }
