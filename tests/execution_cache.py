"""Cache the execution of programs that several full runs of the suite share.

For tests that are not about kernels. Everything else is real: workspace, scoring, figure checks, record, paper. The
cache lasts for one test session, in a folder shared by its workers and their child processes.
"""

from __future__ import annotations

import asyncio
import errno
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

from labwright.sandbox.cell_runner import KernelHost
from labwright.sandbox.results import RESUMABLE_FAILURES, KernelExecution
from labwright.sandbox.workspace import KernelScript

VARIABLE = "KEPT_EXECUTIONS"
"""Environment variable with the cache folder."""


@contextmanager
def reusing_executions_between_runs() -> Generator[None]:
    """Make local executors reuse cached executions of the same program on the same files. Without `VARIABLE`, all
    programs run."""
    if VARIABLE not in os.environ:
        yield
        return
    folder = Path(os.environ[VARIABLE])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelHost, "execute", _caching(folder, KernelHost.execute))
        yield


def _caching(
    folder: Path, execute: Callable[..., Awaitable[KernelExecution]]
) -> Callable[..., Awaitable[KernelExecution]]:
    """A runner that reuses cached executions."""

    async def again(runs: Any, script: KernelScript, *rest: Any, **more: Any) -> KernelExecution:
        kept = folder / _cache_key(script)
        async with _locked(kept.with_suffix(".lock")):
            if kept.is_dir():
                try:
                    shutil.copytree(kept / "left", script.folder, dirs_exist_ok=True)
                except shutil.Error as error:  # its list of failures has no errno
                    raise OSError(errno.ENOSPC, str(error)) from error
                return pickle.loads((kept / "execution").read_bytes())
            execution = await execute(runs, script, *rest, **more)
            if execution.failure is None or execution.failure.kind not in (*RESUMABLE_FAILURES, "hopeless"):
                _store(kept, script.folder, execution)
            return execution

    return again


@asynccontextmanager
async def _locked(lock: Path) -> AsyncGenerator[None]:
    """Wait while another process runs the same program; the lock ends with the process."""
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
    """Hash everything the code receives; the sandbox settings are assumed to be equal."""
    job = script.job
    known = hashlib.sha256(
        repr(
            (
                job.kind,
                job.entry,
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
