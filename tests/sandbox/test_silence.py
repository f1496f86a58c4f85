"""Code that is silent for too long is stopped."""

from __future__ import annotations

import fcntl
import json
from contextlib import suppress
from pathlib import Path

import pytest

from labwright.sandbox.job import Job
from tests.sandbox.conftest import DatasetStore, holds_eventually, run_alone

CODE = """
import fcntl, subprocess, time, lab
held = open('held', 'w')
fcntl.flock(held, fcntl.LOCK_EX)
child = subprocess.Popen(['sleep', '300'], pass_fds=[held.fileno()])
lab.result('size', 3, condition='baseline', dataset='digits')
for _ in range(4):
    time.sleep(0.5)
    print('alive', flush=True)
for step in range(9):
    time.sleep(0.1)
    lab.log('loss', step, step=step, condition='method', dataset='digits')
while True:
    try:
        time.sleep(60)
    except BaseException:
        print('no', flush=True)
"""


def released(file: Path) -> bool:
    """Return whether no process in any namespace holds a lock that it took or inherited."""
    with open(file) as mine, suppress(BlockingIOError):
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@pytest.mark.slow
async def test_what_prints_or_logs_is_alive_and_a_silent_run_ends_with_its_children_and_keeps_what_it_measured(
    store: DatasetStore, tmp_path: Path
) -> None:
    job = Job("silent", tmp_path / "job", {"experiment.py": CODE}, timeout=60.0, quiet_seconds=1.5)
    outcome = await run_alone(store, job)
    failure = outcome.failure
    assert failure is not None and failure.kind == "hopeless" and 2.9 + 1.5 < outcome.seconds < 50
    assert failure.message.startswith("it printed, logged and submitted nothing for ")
    assert failure.message.endswith(" s; the limit is 1.5 s (search.silent_timeout)")
    assert [(one.name, one.value) for one in outcome.measurements] == [("size", 3.0)]
    kept = [json.loads(one) for one in (tmp_path / "job" / "measurements.jsonl").read_text().splitlines()]
    assert len([one for one in kept if one["step"] is not None]) == 9 and outcome.curves_sha256 is not None
    assert holds_eventually(lambda: released(tmp_path / "job" / "held"))
