"""Fixtures: datasets prepared once, executors closed at the end, and `lab` importable as in a kernel."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from labwright.sandbox.datasets import materialise
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.bubblewrap import KERNEL_SIDE
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.settings import SandboxSettings
from tests.jobs import run_job

sys.path.append(str(KERNEL_SIDE))
pytest.register_assert_rewrite("tests.sandbox.executor_contract")

SETTINGS = SandboxSettings(grace=0.5, isolation="none")
"""No sandbox and no pool, for tests that do not depend on them and run on any machine."""

PATIENCE_SECONDS = 120.0
"""Limit for what takes a moment, in seconds: a loaded machine may be slow."""


@dataclass(frozen=True)
class DatasetStore:
    """Prepared datasets, shared by all tests."""

    views: Path
    labels: Path
    cache: Path


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> DatasetStore:
    base = tmp_path_factory.mktemp("store")
    for name in ("digits", "diabetes"):
        materialise(name, views=base / "views", labels=base / "labels", seed=1)
    return DatasetStore(base / "views", base / "labels", base / "cache")


async def run_alone(
    store: DatasetStore,
    job: Job,
    *,
    slots: int = 1,
    settings: SandboxSettings = SETTINGS,
    cache: Path | None = None,
    **options: Any,
) -> JobOutcome:
    """Run a job in an executor of its own; `options` are those of `run_job`."""
    executor = LocalExecutor(slots, store.views, labels=store.labels, settings=settings, cache=cache or store.cache)
    try:
        return await run_job(executor, job, **options)
    finally:
        await executor.close()


@dataclass
class KernelBench:
    """Run scripts in real kernels; `folder` is that of the last run."""

    executor: LocalExecutor
    folder: Path

    async def run(
        self, code: str, *, beside: dict[str, str] | None = None, timeout: float = 60.0, seed: int = 0
    ) -> JobOutcome:
        return await run_job(
            self.executor,
            Job(
                name="test",
                folder=self.folder,
                source={"experiment.py": code, **(beside or {})},
                seed=seed,
                timeout=timeout,
                datasets=("digits",),
            ),
        )

    async def plot(self, code: str, inputs: dict[str, tuple[Path, ...]] | None = None) -> JobOutcome:
        return await run_job(
            self.executor,
            Job(
                name="plot",
                folder=self.folder,
                source={"plots.py": code},
                entry="plots.py",
                kind="plot",
                timeout=60.0,
                inputs=inputs or {},
            ),
        )


@pytest_asyncio.fixture
async def bench(store: DatasetStore, tmp_path: Path) -> AsyncIterator[KernelBench]:
    executor = LocalExecutor(2, store.views, labels=store.labels, settings=SETTINGS, cache=store.cache)
    yield KernelBench(executor, tmp_path / "job")
    await executor.close()


def write_job_file(folder: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> Path:
    """Make `lab` work in this process and folder, as in a kernel, with a job of seed 7; return the folder."""
    common = {"seed": 7, "deadline": time.monotonic() + 100.0, "device": "cpu", "mode": "experiment"}
    common |= {"folder": str(folder), "entry": "experiment.py"}
    (folder / "job.json").write_text(json.dumps(common | fields))
    monkeypatch.setenv("LAB_JOB", str(folder / "job.json"))
    importlib.import_module("lab._job").read_job.cache_clear()
    return folder


OTHER = 1234
"""User id of an ordinary user, which need not have a name."""


@contextmanager
def running_module(module: str, *words: str, ordinary: bool = False, timeout: float = 300.0) -> Generator[str]:
    """Run a module on a fresh folder (its first argument) as root or as an ordinary user and return its output."""
    place, root = Path(tempfile.mkdtemp(prefix="ran-", dir="/tmp")), Path(__file__).resolve().parents[2]
    before: list[str] = []
    if ordinary:
        before = ["setpriv", "--reuid", str(OTHER), "--regid", str(OTHER), "--clear-groups", "env", f"HOME={place}"]
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("we are one, or cannot become one")
        os.chown(place, OTHER, OTHER)
        if subprocess.run(
            [*before, sys.executable, "-c", "import labwright"], cwd=root, check=False, capture_output=True
        ).returncode:
            pytest.skip("another user cannot reach this interpreter")
    try:
        ran = subprocess.run(
            [*before, sys.executable, "-m", module, str(place), *words],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        yield ran.stdout
    finally:
        shutil.rmtree(place, ignore_errors=True)


def is_gone(pid: int) -> bool:
    """Return whether no such process is running any more (zombies do not count)."""
    return holds_eventually(lambda: not _is_running(pid))


def holds_eventually(holds: Callable[[], bool]) -> bool:
    """Wait until something holds; return False after `PATIENCE_SECONDS`."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False
