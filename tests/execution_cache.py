"""A program that several whole runs of the suite have in common is run once; its execution is kept and given again.

For runs whose subject is not the kernel. All that comes before and after it is real: workspace, scoring, checks of
figures, record, paper. Kept for one session of tests, in a folder that its workers and their child processes share.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernel_host import KernelHost
from labwright.sandbox.result_collector import RESUMABLE_FAILURES

VARIABLE = "KEPT_EXECUTIONS"
"""Names the folder in the environment."""


@contextmanager
def reusing_executions_between_runs() -> Generator[None]:
    """While inside, local executors take an execution that was kept for the same program on the same files.

    Without `VARIABLE` all programs run.
    """
    if VARIABLE not in os.environ:
        yield
        return
    folder = Path(os.environ[VARIABLE])
    with pytest.MonkeyPatch.context() as patch:
        for runs in (JobRunner, KernelHost):
            patch.setattr(runs, "execute", _caching(folder, vars(runs)["execute"]))
        yield


def _caching(
    folder: Path, execute: Callable[..., Awaitable[KernelExecution]]
) -> Callable[..., Awaitable[KernelExecution]]:
    """The same, but for what was executed before."""

    async def again(runs: Any, script: KernelScript, *rest: Any, **more: Any) -> KernelExecution:
        kept = folder / _cache_key(script)
        async with _locked(kept.with_suffix(".lock")):
            if kept.is_dir():
                more.get("begins", lambda: None)()
                shutil.copytree(kept / "left", script.folder, dirs_exist_ok=True)
                return pickle.loads((kept / "execution").read_bytes())
            execution = await execute(runs, script, *rest, **more)
            if execution.failure is None or execution.failure.kind not in (*RESUMABLE_FAILURES, "hopeless"):
                _store(kept, script.folder, execution)
            return execution

    return again


@asynccontextmanager
async def _locked(lock: Path) -> AsyncGenerator[None]:
    """Waits while another process runs the same program; a process that is killed lets go."""
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(0.1)
            else:
                break
        yield


def _cache_key(script: KernelScript) -> str:
    """Changes with all that the code is given; the settings of the sandbox are taken to be the same."""
    job = script.job
    known = hashlib.sha256(
        repr(
            (
                job.mode,
                job.entry,
                job.seed,
                script.cell,
                sorted(script.views),
                script.artifacts,
                script.scorers,
                sorted(script.pretrained.items()),
            )
        ).encode()
    )
    for root in (script.folder, *map(Path, script.views.values())):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and path != job.live_output:
                known.update(f"{path.relative_to(root)} {path.stat().st_size} ".encode() + path.read_bytes())
    return known.hexdigest()


def _store(kept: Path, left: Path, execution: KernelExecution) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as part:
        shutil.copytree(left, Path(part, "new", "left"), symlinks=True)
        Path(part, "new", "execution").write_bytes(pickle.dumps(execution))
        Path(part, "new").rename(kept)
