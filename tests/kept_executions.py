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
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox.execution import Execution, Script
from sandbox.executor import CUT, LocalExecutor

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
    folder, execute = Path(os.environ[VARIABLE]), vars(LocalExecutor)["_execute"]

    async def again(self: LocalExecutor, script: Script, source: str, *rest: Any) -> Execution:
        kept = folder / _key(script)
        async with _alone(kept.with_suffix(".lock")):
            if kept.is_dir():
                shutil.copytree(kept / "left", script.folder, dirs_exist_ok=True)
                return pickle.loads((kept / "execution").read_bytes())
            execution: Execution = await execute(self, script, source, *rest)
            if execution.failure is None or execution.failure.kind not in (*CUT, "hopeless"):
                _keep(kept, script.folder, execution)
            return execution

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalExecutor, "_execute", again)
        yield


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
    known = hashlib.sha256(repr((job.mode, job.entry, job.seed, sorted(script.views), script.artifacts,
                                 script.scorers, sorted(script.pretrained.items()))).encode())
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
