"""Run the cells of a worker one after another, in a kernel of this machine that is reused from cell to cell.

Guarantees: a kernel sees at most one large dataset and has the GPUs that its cell needs; if cells cannot be isolated
from each other, it serves only cells of one arm. Unsuitable or dead kernels are replaced. Limits: the caller must move
a cell's files out of the kernel's reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from labwright.record.schema.nodes import Failure
from labwright.record.untrusted_files import BadFile, OpenFolder, lend_folder, remove_tree
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import KernelExecution, KernelScript
from labwright.sandbox.failures import find_lost_folder
from labwright.sandbox.gpu_leases import GpuLease
from labwright.sandbox.isolation.limits import count_oom_kills
from labwright.sandbox.isolation.mounts import KernelStartOptions
from labwright.sandbox.job_runner import JobRunner
from labwright.sandbox.kernel_pool import MATPLOTLIBRC, find_local_modules
from labwright.sandbox.kernels import Kernel
from labwright.sandbox.monitor import JobMonitor, PeakUsage
from labwright.sandbox.workspace import CELLS_FOLDER, copy_view


class ScriptHost(Protocol):
    """Executes scripts one after another in a subfolder of its folder."""

    async def prepare(self, arm: str, source: Mapping[str, str], datasets: tuple[str, ...], gpus: int | None) -> None:
        """Prepare for a cell of this arm and source that sees these datasets and has `gpus` GPUs (None: the default
        number).

        Must be called before the cell's folder is created.
        """
        ...

    async def execute(
        self, script: KernelScript, *, on_start: Callable[[], None], monitor: JobMonitor | None = None
    ) -> KernelExecution:
        """Execute a cell in its folder; `on_start` is called when its code starts. Raises `ExecutorError`."""
        ...

    async def close(self) -> None:
        """Stop the running cell, if any. Idempotent."""
        ...


@dataclass
class KernelHost:
    """A kernel of this machine, started on demand, with the working folder `folder`."""

    runner: JobRunner
    folder: Path
    _visible_datasets: tuple[str, ...] = ()
    """The dataset that the kernel sees outside the cells' folders, if any."""
    _gpus: int | None = None
    _arm: str = ""
    """The only arm that the kernel serves if cells are not isolated from each other; otherwise empty."""
    _kernel: Kernel | None = None
    _lease: GpuLease = field(default_factory=GpuLease)
    _usage: PeakUsage = field(default_factory=PeakUsage)
    _started: bool = False
    _ended_cells: int = 0
    """Number of cells that finished in this kernel."""

    async def prepare(self, arm: str, source: Mapping[str, str], datasets: tuple[str, ...], gpus: int | None) -> None:
        arm = "" if self.runner.config.isolation.between_cells else arm
        if (arm, datasets, gpus) != (self._arm, self._visible_datasets, self._gpus):
            await self.close()
        self._arm, self._visible_datasets, self._gpus = arm, datasets, gpus
        if self._kernel is None and not self.runner.gpus.devices:
            await asyncio.to_thread(remove_tree, self.folder, ignore_errors=True)
            self._kernel = self.runner.pool.take(self.folder, source=source, datasets=datasets, exact=True)
            self._started = self._kernel is not None
        self.folder.mkdir(parents=True, exist_ok=True)

    async def execute(
        self, script: KernelScript, *, on_start: Callable[[], None], monitor: JobMonitor | None = None
    ) -> KernelExecution:
        kills, first = count_oom_kills(), not self._ended_cells
        try:
            if script.cell is not None and not self._visible_datasets:
                script = await asyncio.to_thread(copy_view, script, script.cell.dataset)
            kernel, lent = await self._lend_cell_folder(script)
            on_start()
            self.runner.pool.refill()
            execution = await self.runner.run_in_kernel(
                kernel,
                self._lease,
                replace(script, folder=self.folder / CELLS_FOLDER / script.folder.name),
                monitor=monitor,
                usage=self._usage,
            )
            lost = await asyncio.to_thread(find_lost_folder, lent, script.folder, self.folder, CELLS_FOLDER)
            execution = replace(execution, failure=execution.failure or lost)
        except BaseException:
            await self.close()
            raise
        self._ended_cells += 1
        if execution.kernel_unusable or (script.scorers and self.runner.gpus.devices):  # a scorer needs a GPU too
            await self.close()
        return replace(_classify_oom_kill(execution, kills), is_first_cell=first)

    async def close(self) -> None:
        kernel, lease, self._lease = self._kernel, self._lease, GpuLease()
        self._kernel, self._started, self._ended_cells = None, False, 0
        if kernel is not None:
            kernel.kill()
        if lease.devices:
            self.runner.gpus.release(lease, self._usage.processes)
        self._usage = PeakUsage()

    async def _lend_cell_folder(self, script: KernelScript) -> tuple[Kernel, OpenFolder]:
        """Move the cell's folder into the kernel's reach and return the kernel. Raises `ExecutorError`."""
        kernel = await self._ensure_kernel(script)
        try:
            return kernel, await asyncio.to_thread(lend_folder, script.folder, self.folder, CELLS_FOLDER)
        except BadFile:  # an earlier cell tampered with the kernel's folder
            await self.close()
        try:
            await asyncio.to_thread(remove_tree, self.folder)
            self.folder.mkdir()
            return await self._ensure_kernel(script), await asyncio.to_thread(
                lend_folder, script.folder, self.folder, CELLS_FOLDER
            )
        except (BadFile, OSError) as error:
            raise ExecutorError(f"cannot work in {self.folder}: {error}") from error

    async def _ensure_kernel(self, script: KernelScript) -> Kernel:
        """Return the kernel, starting it if necessary. Raises `ExecutorError`."""
        if self._kernel is None or not self._started:
            self._lease = await self.runner.lease_gpus(self._gpus)
            if self._kernel is None:
                self._kernel = await self._start_kernel(script)
            self._started = True
        self._kernel.clear_start_traces()
        self._usage = PeakUsage(processes=self._usage.processes)
        return self._kernel

    async def _start_kernel(self, script: KernelScript) -> Kernel:
        """Start a kernel with the imports of the program preloaded, if preloading has no side effects."""
        pool, kernel = self.runner.pool, None
        if not pool.disabled_reason:
            try:
                kernel = await self._create_started_kernel(script, await pool.choose_modules(script.job.source))
            except ExecutorError as error:
                pool.disabled_reason = str(error)
        if kernel is not None and find_local_modules(script.job.source) & (kernel.preloaded_names | {MATPLOTLIBRC}):
            kernel.kill()
            kernel = None
        return kernel or await self._create_started_kernel(script, ("lab",))

    async def _create_started_kernel(self, script: KernelScript, modules: tuple[str, ...]) -> Kernel:
        """Create and start a kernel. Raises `ExecutorError`."""
        kernel = Kernel(
            self.folder,
            config=self.runner.config,
            options=KernelStartOptions(script.readable_paths, self._lease.devices, modules=modules),
        )
        try:
            await kernel.start()
        except BaseException:
            kernel.kill()
            raise
        return kernel


def _classify_oom_kill(execution: KernelExecution, kills: int) -> KernelExecution:
    """Reclassify a death by SIGKILL as a memory failure if the system's out-of-memory killer was active during the
    cell.
    """
    failure = execution.failure
    if failure is None or failure.kind != "died" or "SIGKILL" not in failure.message or count_oom_kills() <= kills:
        return execution
    return replace(
        execution,
        failure=Failure(
            kind="memory",
            traceback=failure.traceback,
            message=("the system killed it because memory ran out: use smaller batches or models, or fewer workers"),
        ),
    )
