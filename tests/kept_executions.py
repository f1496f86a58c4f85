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

from labwright.sandbox.collecting import CUT
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.places import KernelPlace
from labwright.sandbox.running import Runner

VARIABLE = "KEPT_EXECUTIONS"
"""Names the folder in the environment."""


@contextmanager
def kept_executions() -> Generator[None]:
    """While inside, local executors take an execution that was kept for the same program on the same files.

    Without `VARIABLE` all programs run.
    """
    if VARIABLE not in os.environ:
        yield
        return
    folder = Path(os.environ[VARIABLE])
    with pytest.MonkeyPatch.context() as patch:
        for runs in (Runner, KernelPlace):
            patch.setattr(runs, "execute", _keeping(folder, vars(runs)["execute"]))
        yield


def _keeping(folder: Path, execute: Callable[..., Awaitable[Execution]]) -> Callable[..., Awaitable[Execution]]:
    """The same, but for what was executed before."""

    async def again(runs: Any, script: Script, *rest: Any, **more: Any) -> Execution:
        kept = folder / _key(script)
        async with _alone(kept.with_suffix(".lock")):
            if kept.is_dir():
                more.get("begins", lambda: None)()
                shutil.copytree(kept / "left", script.folder, dirs_exist_ok=True)
                return pickle.loads((kept / "execution").read_bytes())
            execution = await execute(runs, script, *rest, **more)
            if execution.failure is None or execution.failure.kind not in (*CUT, "hopeless"):
                _keep(kept, script.folder, execution)
            return execution

    return again


@asynccontextmanager
async def _alone(lock: Path) -> AsyncGenerator[None]:
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


def _key(script: Script) -> str:
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
            if path.is_file() and path != job.live:
                known.update(f"{path.relative_to(root)} {path.stat().st_size} ".encode() + path.read_bytes())
    return known.hexdigest()


def _keep(kept: Path, left: Path, execution: Execution) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as part:
        shutil.copytree(left, Path(part, "new", "left"), symlinks=True)
        Path(part, "new", "execution").write_bytes(pickle.dumps(execution))
        Path(part, "new").rename(kept)
