"""Monitoring of running code, in real kernels and in the scripted executor."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labwright.record.schema.nodes import Failure
from labwright.sandbox import monitor
from labwright.sandbox.job import ExecutionProgress, Job, JobOutcome, LoggedPoint
from labwright.sandbox.monitor import MAX_LINE_CHARS, read_curves
from tests.jobs import Watch
from tests.sandbox.conftest import DatasetStore, holds_eventually, run_alone

pytestmark = pytest.mark.slow

CURVE = ("digits", "method", "loss", "train")


@dataclass
class Watcher:
    """Records what it saw; stops the code when `until` says so."""

    until: Callable[[ExecutionProgress], bool] = lambda glance: False
    seen: list[ExecutionProgress] = field(default_factory=list[ExecutionProgress])

    def __call__(self, glance: ExecutionProgress) -> str | None:
        self.seen.append(glance)
        return "seen enough" if self.until(glance) else None


async def run(store: DatasetStore, folder: Path, code: str, watch: Watch, timeout: float = 60.0) -> JobOutcome:
    job = Job(name="watched", folder=folder, source={"experiment.py": code}, timeout=timeout)
    return await run_alone(store, job, watch=watch)


def line(value: str = "1.5", step: str = "1", condition: str = "method") -> str:
    return (
        f'{{"name": "loss", "value": {value}, "step": {step}, "condition": "{condition}", "dataset": "digits", '
        '"split": "train"}\n'
    )


def released(file: Path) -> bool:
    """Return whether no process in any namespace holds a lock that it took or inherited."""
    with open(file) as mine, suppress(BlockingIOError):
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


# --- in kernels -----------------------------------------------------------------------------------------------------


async def test_a_hopeless_run_ends_at_once_with_its_children_and_keeps_what_it_measured(
    store: DatasetStore, tmp_path: Path
) -> None:
    watch = Watcher(lambda glance: any(one.value > 8 for one in glance.points))
    outcome = await run(
        store,
        tmp_path / "job",
        """
import fcntl, subprocess, time, lab
held = open('held', 'w')
fcntl.flock(held, fcntl.LOCK_EX)
child = subprocess.Popen(['sleep', '300'], pass_fds=[held.fileno()])
lab.result('size', 3, condition='baseline', dataset='digits')
for step in range(10_000):
    lab.log('loss', step, step=step, condition='method', dataset='digits')
    try:
        time.sleep(0.02)
    except BaseException:
        print('no', flush=True)
""",
        watch,
    )
    assert outcome.failure == Failure(kind="hopeless", message="seen enough")
    assert outcome.seconds < 50
    assert [(one.name, one.value) for one in outcome.measurements] == [("size", 3.0)]
    kept = [json.loads(one) for one in (tmp_path / "job" / "measurements.jsonl").read_text().splitlines()]
    assert len([one for one in kept if one["step"] is not None]) > 8
    assert outcome.curves_sha256 is not None
    assert holds_eventually(lambda: released(tmp_path / "job" / "held"))


async def test_what_prints_or_logs_is_alive_and_what_does_not_is_quiet(store: DatasetStore, tmp_path: Path) -> None:
    watch = Watcher(lambda glance: bool(glance.points) and glance.quiet_seconds > 1.5)
    outcome = await run(
        store,
        tmp_path / "job",
        """
import time, lab
for _ in range(4):
    time.sleep(0.1)
    print('alive', flush=True)
time.sleep(0.1)
lab.log('loss', 2.5, step=1, condition='method', dataset='digits')
lab.log('no_step', 1.0)
time.sleep(60)
""",
        watch,
    )
    assert outcome.failure == Failure(kind="hopeless", message="seen enough")
    assert [one.seconds for one in watch.seen] == sorted(one.seconds for one in watch.seen)
    assert all(one.points in ((), (LoggedPoint(CURVE, 1, 2.5),)) for one in watch.seen)
    last = watch.seen[-1]
    assert last.points and last.seconds - last.quiet_seconds > 0.4


# --- reading while it is written ------------------------------------------------------------------------------------


def values(folder: Path) -> list[float]:
    return [point.value for point in read_curves(folder)]


@pytest.mark.parametrize(
    "bad",
    [
        "no json\n",
        "7\n",
        '{"name": "loss"}\n',
        line(step="true"),
        line('"1.5"'),
        line("1" * 400),
        line(step="9" * 400),
        line(condition="\\u0000"),
        "[" * 9000 + "\n",
        "x" * (MAX_LINE_CHARS + 1) + "\n",
    ],
)
def test_lines_that_lab_did_not_write_count_for_nothing(tmp_path: Path, bad: str) -> None:
    (tmp_path / "measurements.jsonl").write_text(line("1") + bad + line("2"), errors="surrogateescape")
    assert values(tmp_path) == [1.0, 2.0]


def test_links_pipes_folders_and_files_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "MAX_FILE_BYTES", 1000)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(line())
    cases: dict[str, Callable[[Path], object]] = {
        "link": lambda path: path.symlink_to(elsewhere),
        "folder": Path.mkdir,
        "large": lambda path: path.write_text(line() * 20),
    }
    for name, make in cases.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / "measurements.jsonl")
        assert values(tmp_path / name) == []
