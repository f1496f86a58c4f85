"""Where the cells of a worker run, one after the other: a kernel of this machine, which lives on from cell to cell.

Kept: a kernel sees one large dataset at most, and has the GPUs that its cell needs; where no walls can be put up
between cells, it serves cells of one arm. One that does not fit is ended, and so is one that died. Not kept: what a
cell left in its folder is for the caller to take out of the kernel's reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from labwright.record.descriptors import remove_tree
from labwright.record.nouns.nodes import Failure
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import Execution, Script
from labwright.sandbox.gpu_leases import Lease
from labwright.sandbox.isolation.limits import oom_kills
from labwright.sandbox.isolation.mounts import StartOptions
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.lending import check_returned, lend
from labwright.sandbox.monitor import Monitor, Usage
from labwright.sandbox.pool import MATPLOTLIBRC, names_of
from labwright.sandbox.running import Runner
from labwright.sandbox.untrusted import BadFile, OpenFolder
from labwright.sandbox.workspace import CELLS, copy_view


class Place(Protocol):
    """Executes one script after the other in a folder below its own."""

    async def ready(self, arm: str, source: Mapping[str, str], sees: tuple[str, ...], gpus: int | None) -> None:
        """Make it fit for a cell of that arm with that source, which sees these datasets, and has so many GPUs (None:
        as many as any experiment). To be called before the cell's folder is made."""
        ...

    async def execute(self, script: Script, *, begins: Callable[[], None], monitor: Monitor | None = None) -> Execution:
        """Execute a cell in its folder, told when its code begins. Raises `ExecutorError`."""
        ...

    async def close(self) -> None:
        """End whatever runs there. Idempotent."""
        ...


@dataclass
class KernelPlace:
    """A kernel of this machine, started when it is needed; `folder` is where it works."""

    runner: Runner
    folder: Path
    _sees: tuple[str, ...] = ()
    """The dataset that the kernel sees outside of the cells' folders, if any."""
    _gpus: int | None = None
    _arm: str = ""
    """Whose cells the kernel serves, where no walls keep them from those of others."""
    _kernel: Kernel | None = None
    _lease: Lease = field(default_factory=Lease)
    _usage: Usage = field(default_factory=Usage)
    _started: bool = False
    _ended: int = 0
    """Cells that ended in this kernel."""

    async def ready(self, arm: str, source: Mapping[str, str], sees: tuple[str, ...], gpus: int | None) -> None:
        arm = "" if self.runner.config.isolation.between_cells else arm
        if (arm, sees, gpus) != (self._arm, self._sees, self._gpus):
            await self.close()
        self._arm, self._sees, self._gpus = arm, sees, gpus
        if self._kernel is None and not self.runner.gpus.devices:
            await asyncio.to_thread(remove_tree, self.folder, ignore_errors=True)
            self._kernel = self.runner.pool.take(self.folder, source=source, datasets=sees, exactly=True)
            self._started = self._kernel is not None
        self.folder.mkdir(parents=True, exist_ok=True)

    async def execute(self, script: Script, *, begins: Callable[[], None], monitor: Monitor | None = None) -> Execution:
        kills, first = oom_kills(), not self._ended
        try:
            if script.cell is not None and not self._sees:
                script = await asyncio.to_thread(copy_view, script, script.cell.dataset)
            kernel, held = await self._lent(script)
            begins()
            self.runner.pool.refill()
            execution = await self.runner.within(
                kernel,
                self._lease,
                replace(script, folder=self.folder / CELLS / script.folder.name),
                monitor=monitor,
                usage=self._usage,
            )
            execution = await asyncio.to_thread(check_returned, held, script.folder, execution, self.folder, CELLS)
        except BaseException:
            await self.close()
            raise
        self._ended += 1
        if execution.over or (script.scorers and self.runner.gpus.devices):  # a scorer needs a GPU too
            await self.close()
        return replace(_of_system(execution, kills), first=first)

    async def close(self) -> None:
        kernel, lease, self._lease = self._kernel, self._lease, Lease()
        self._kernel, self._started, self._ended = None, False, 0
        if kernel is not None:
            kernel.kill()
        if lease.devices:
            self.runner.gpus.release(lease, self._usage.processes)
        self._usage = Usage()

    async def _lent(self, script: Script) -> tuple[Kernel, OpenFolder]:
        """The kernel, with the cell's folder in its reach. Raises `ExecutorError`."""
        kernel = await self._opened(script)
        try:
            return kernel, await asyncio.to_thread(lend, script.folder, self.folder, CELLS)
        except BadFile:  # an earlier cell had its hands in the kernel
            await self.close()
        try:
            await asyncio.to_thread(remove_tree, self.folder)
            self.folder.mkdir()
            return await self._opened(script), await asyncio.to_thread(lend, script.folder, self.folder, CELLS)
        except (BadFile, OSError) as error:
            raise ExecutorError(f"cannot work in {self.folder}: {error}") from error

    async def _opened(self, script: Script) -> Kernel:
        """The kernel, started where it is not yet. Raises `ExecutorError`."""
        if self._kernel is None or not self._started:
            self._lease = await self.runner.leased(self._gpus)
            if self._kernel is None:
                self._kernel = await self._start(script)
            self._started = True
        self._kernel.forget_start()
        self._usage = Usage(processes=self._usage.processes)
        return self._kernel

    async def _start(self, script: Script) -> Kernel:
        """A new kernel with what the program imports imported ahead, if that can be done without a word."""
        pool, kernel = self.runner.pool, None
        if not pool.why_off:
            try:
                kernel = await self._new(script, await pool.modules(script.job.source))
            except ExecutorError as error:
                pool.why_off = str(error)
        if kernel is not None and names_of(script.job.source) & (kernel.loaded | {MATPLOTLIBRC}):
            kernel.kill()
            kernel = None
        return kernel or await self._new(script, ("lab",))

    async def _new(self, script: Script, modules: tuple[str, ...]) -> Kernel:
        """A kernel that has started. Raises `ExecutorError`."""
        kernel = Kernel(
            self.folder,
            config=self.runner.config,
            options=StartOptions(script.paths, self._lease.devices, modules=modules),
        )
        try:
            await kernel.start()
        except BaseException:
            kernel.kill()
            raise
        return kernel


def _of_system(execution: Execution, kills: int) -> Execution:
    """The execution, its death by SIGKILL as one of memory where the system killed one of ours for that meanwhile."""
    failure = execution.failure
    if failure is None or failure.kind != "died" or "SIGKILL" not in failure.message or oom_kills() <= kills:
        return execution
    return replace(
        execution,
        failure=Failure(
            kind="memory",
            traceback=failure.traceback,
            message=("the system killed it, since memory ran out: use smaller batches or models, or fewer workers"),
        ),
    )
