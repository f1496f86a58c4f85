"""Run one cell after the other in kernels of this machine: prepare its folder, execute it with limits on time, output
and resources, and read its result. Plots and frozen scorers run in the same way.

Guarantees: output is drained at any rate and kept in bounded memory; an output flood ends the code. The death of a
kernel is detected at once and reported with a reason. A cell runs in a process forked by its kernel, which lives on
for the next cell; a plain script has a kernel of its own. A kernel sees at most one large dataset and has the GPUs that
its cell needs; if cells cannot be isolated from each other, it serves only cells of one arm. A cell's folder is within
reach of the kernel only while the cell runs, so no cell sees the files of another.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, field_validator

from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Cell, Failure, TrainingCounts
from labwright.record.untrusted_files import (
    BadFile,
    OpenFolder,
    lend_folder,
    make_harmless,
    read_status,
    remove_path,
    remove_tree,
    take_back_folder,
)
from labwright.sandbox.cell_scheduler import CellOrder, RunningCell
from labwright.sandbox.gpus import GpuLease, GpuLeases
from labwright.sandbox.isolation.bubblewrap import KernelConfig, KernelStartOptions
from labwright.sandbox.isolation.processes import ResourceLimits, compute_limits
from labwright.sandbox.job import MEASUREMENTS, CellEnded, CellResult, ExecutorError, GpuError, Job, SubmissionRefused
from labwright.sandbox.kernels import Kernel, choose_modules
from labwright.sandbox.llm_gateway import LlmGateway, LlmSession, attribute_answers, serve_session
from labwright.sandbox.monitor import MemoryMeter, PeakUsage
from labwright.sandbox.output import (
    MAX_KEPT_CHARS,
    MAX_PRINTED_CHARS,
    LiveOutput,
    Transcript,
    failure_from_death,
    failure_from_exception,
    failure_from_flood,
    failure_from_timeout,
    strip_colours,
)
from labwright.sandbox.packages import PackageOverlay
from labwright.sandbox.repository.command import CommandJob, CommandOutcome, run_command
from labwright.sandbox.results import KernelExecution, ResultCollector, build_result, failure_from_error, with_failure
from labwright.sandbox.scorers import (
    SCORER_ENTRY,
    ScorerTask,
    build_scorer_tasks,
    prepare_scorer_folder,
    read_frozen_scorers,
    read_scores,
)
from labwright.sandbox.scoring import SUBMISSION_INDEX, read_submitted
from labwright.sandbox.workspace import CELLS_FOLDER, KernelScript, copy_view, prepare_workspace

_POLL_SECONDS = 0.1
"""Interval between checks that the kernel is alive, in seconds."""
_DRAIN_SECONDS = 2.0
"""Seconds to wait for the last output after the script has ended."""
_SILENCE_POLL_SECONDS = 5.0
"""Interval between checks whether the code is silent, in seconds: silent experiments run for minutes."""
_KILL_REPLY_SECONDS = 3.0
"""Seconds after the grace period within which a kernel must confirm that it killed its cell; otherwise it counts as
dead.
"""


@dataclass(eq=False)
class CellRunner:
    """Runs the cells of an executor, with the resources that they share."""

    slots: int
    """Number of cells that share the machine's memory."""
    config: KernelConfig
    """Configuration of all kernels."""
    views: Path
    scorers: Path | None
    """Folder written by `sandbox.scorers.freeze_scorer`."""
    collector: ResultCollector
    gpus: GpuLeases
    meter: MemoryMeter
    subjects: LlmGateway | None
    """Language models that experiments may query; they are closed together with the executor."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """Models for `lab.pretrained`: `OWNER/NAME@REVISION` -> folder."""
    packages: PackageOverlay | None = None
    """Packages installed for the run; set before its first job."""

    @property
    def packages_folder(self) -> Path | None:
        """Folder of the packages installed for the run; None if there are none."""
        return None if self.packages is None else self.packages.folder

    @property
    def slot_gb(self) -> float:
        """Memory limit of an experiment that shares the machine, in 10^9 bytes."""
        return compute_limits(self.config.settings, slots=self.slots).memory_bytes / 1e9

    async def prepare_script(self, job: Job, order: CellOrder, folder: Path) -> KernelScript:
        """Prepare the folder of a cell. Raises `ExecutorError`."""
        script = await asyncio.to_thread(
            prepare_workspace, job, order, folder, views=self.views, settings=self.config.settings
        )
        scorers = await asyncio.to_thread(read_frozen_scorers, self.scorers)
        self.config.cache.mkdir(parents=True, exist_ok=True)
        return replace(
            script,
            pretrained=dict(self.pretrained),
            packages=self.packages_folder,
            scorers=tuple(name for name in script.views if name in scorers and scorers[name][0].takes == "artifact"),
        )

    async def collect_result(self, script: KernelScript, execution: KernelExecution) -> CellResult:
        """Return the result after all processes of the code have exited; only plain files and folders remain in its
        folder.

        Raises `ExecutorError`.
        """
        try:
            execution = await asyncio.to_thread(self._attribute_answers, script, execution)
            if script.job.kind == "experiment" and execution.failure is None:
                execution = await self._add_scorer_values(script, execution)
            result = await asyncio.to_thread(self.collector.collect, script, execution)
        except Exception as error:  # noqa: BLE001  last resort, since code may write any kind of file
            failure = failure_from_error(error)
            result = with_failure(build_result(script, execution), failure)
        with suppress(BadFile):
            await asyncio.to_thread(make_harmless, script.folder, only_plain=True)
        return result

    async def lease_gpus(self, count: int | None = None) -> GpuLease:
        """Lease GPUs for one kernel, by default `sandbox.gpus_per_node`. Raises `ExecutorError` if none is
        available.
        """
        try:
            return await self.gpus.acquire(count)
        except GpuError as error:
            raise ExecutorError(str(error)) from error

    async def run_in_kernel(
        self, kernel: Kernel, lease: GpuLease, script: KernelScript, running: RunningCell, usage: PeakUsage
    ) -> KernelExecution:
        """Run a script in a started kernel."""
        limits = self.compute_limits(script.task.needs.memory_gb, alone=script.alone)
        session, serving = None, nullcontext()
        if self.subjects is not None and script.job.subjects:
            session = LlmSession(self.subjects, script.task.key, script.job.subjects)
            serving = serve_session(session, kernel.llm_socket)
        async with self.meter.measure_peaks(kernel.pid, lease, usage), serving:
            began = time.monotonic()
            try:
                execution = await execute(kernel, script, limits, running)
            except Exception as error:  # noqa: BLE001  a kernel's messages are controlled by the code in it
                execution = KernelExecution(time.monotonic() - began, failure_from_error(error), Transcript(1000))
        if session is not None and session.fatal_error is not None:
            raise session.fatal_error
        host = usage.peak_host_bytes
        if execution.peak_process_bytes:
            host = max(host, usage.current_host_bytes + execution.peak_process_bytes)
        gpu = usage.peak_gpu_bytes
        return replace(execution, peak_host_bytes=host or None, peak_gpu_bytes=gpu, llm_session=session)

    def open_host(self, job: Job, folder: Path) -> CellHost:
        """Return the place where the cells of a job run; it works in `folder`."""
        return KernelHost(self, folder)

    def compute_limits(self, memory_gb: float | None, *, alone: bool) -> ResourceLimits:
        """Return the limits of an experiment with this declared memory; with `alone`, it may use the whole machine."""
        limits = compute_limits(self.config.settings, slots=1 if alone else self.slots)
        if memory_gb is None:
            return limits
        return replace(limits, memory_bytes=max(int(memory_gb * 1e9), limits.memory_bytes if alone else 0))

    async def run_repository_command(self, job: CommandJob, running: RunningCell) -> CommandOutcome:
        """Run a repository command to its end. Raises `ExecutorError`."""
        lease, usage = await self.lease_gpus(job.needs.gpus), PeakUsage()
        running.mark_started()
        limits = self.compute_limits(job.needs.memory_gb, alone=job.alone)
        try:
            return await run_command(job, config=self.config, meter=self.meter, lease=lease, usage=usage, limits=limits)
        finally:
            self.gpus.release(lease, usage.processes)

    def _attribute_answers(self, script: KernelScript, execution: KernelExecution) -> KernelExecution:
        """Return the execution with predictions derived from the answers that its submissions cite."""
        if (session := execution.llm_session) is None:
            return execution
        if session.budget_message:
            return replace(execution, failure=Failure(kind="budget", message=session.budget_message))
        try:
            notes = attribute_answers(script.folder, self.collector.labels, session)
            execution.transcript.add("stderr", "".join(f"{line}\n" for line in notes))
        except SubmissionRefused as error:
            execution = replace(execution, failure=execution.failure or failure_from_error(error))
        return execution

    # --- frozen scorers, in separate kernels --------------------------------------------------------------------------

    async def _add_scorer_values(self, script: KernelScript, execution: KernelExecution) -> KernelExecution:
        """Return the execution with the validation values of frozen scorers, or with a failure if they return none."""
        if not (scorers := await asyncio.to_thread(read_frozen_scorers, self.scorers)):
            return execution
        try:
            submitted = await asyncio.to_thread(read_submitted, script.folder, self.collector.grade)
            tasks = build_scorer_tasks(submitted, "validation", scorers)
            values = await self.run_scorers(tasks, script.folder / "submissions", script.cell.seed)
            return replace(execution, scorer_values=values)
        except SubmissionRefused as error:
            return replace(execution, failure=failure_from_error(error))

    async def run_scorers(self, tasks: Iterable[ScorerTask], folder: Path, seed: int) -> tuple[Measurement, ...]:
        """Return the values of the scorer tasks, in order. Raises `SubmissionRefused`, `ExecutorError`."""
        return tuple([value for task in tasks for value in await self._run_scorer(task, folder, seed)])

    async def _run_scorer(self, task: ScorerTask, place: Path, seed: int) -> tuple[Measurement, ...]:
        settings, around = self.config.settings, get_scoring_folder(self.config)
        around.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(dir=around))
        target = own / "script"
        target.mkdir()
        name, cell = f"scorer of {task.scorer.dataset}", Cell(dataset="", arm="", seed=seed)
        job = Job(name=name, folder=own, source={}, entry=SCORER_ENTRY, kind="score")
        limit, packages = settings.scorer_timeout, self.packages_folder
        script = KernelScript(job, cell, target, limit, views={}, packages=packages)
        folders = {"views": self.views, "labels": self.collector.labels}
        host = KernelHost(self, own / "kernel")
        try:
            script = await asyncio.to_thread(
                prepare_scorer_folder, task, script, place, limit=settings.artifact_bytes, **folders
            )
            execution = await host.execute(script, RunningCell())
            if execution.failure is not None:
                raise SubmissionRefused(f"the scorer of {task.scorer.dataset!r} failed: {execution.failure.message}")
            return await asyncio.to_thread(read_scores, task, target, seed=seed)
        finally:
            await host.close()
            remove_tree(own, ignore_errors=True)


def get_scoring_folder(config: KernelConfig) -> Path:
    """Return the folder in which scorers run."""
    return config.cache.parent / "scoring"


# --- one cell after the other -----------------------------------------------------------------------------------------


@dataclass
class KernelWorker:
    """A `CellWorker`: prepares and runs cells one after another in a kernel that is reused from cell to cell."""

    runner: CellRunner
    job: Job
    live: LiveOutput
    folder: Path
    """Folder in which the kernel works."""
    dataset: str = ""
    arm: str = ""

    def __post_init__(self) -> None:
        self._host = self.runner.open_host(self.job, self.folder)

    async def run_cell(self, order: CellOrder, running: RunningCell) -> CellEnded:
        cell, job = order.cell, self.job
        self.dataset = cell.dataset
        self.arm = "" if self.runner.config.isolation.between_cells else cell.arm
        # the folder of a cell before and after it runs; code in the kernel cannot reach it
        folder = self.folder.with_name(f"{self.folder.name}.{CELLS_FOLDER}") / cell.name
        await asyncio.to_thread(remove_tree, folder)
        script, running.show = await self.runner.prepare_script(job, order, folder), self.live.add
        if not cell.is_script:
            self.live.add(f"\n--- {cell} ---\n")
        execution = await self._host.execute(script, running)
        script = await self._move_to_job(script)
        result = await self.runner.collect_result(script, execution)
        for name in ("inputs", "arrays" if job.kind == "plot" else "figures"):  # large, and available elsewhere
            with suppress(OSError, BadFile):
                await asyncio.to_thread(remove_path, script.folder, name)
        died, first = execution.kernel_unusable, execution.is_first_cell
        return CellEnded(result, script.folder, kernel_died=died, is_first_cell=first)

    async def close(self) -> None:
        await self._host.close()

    async def _move_to_job(self, script: KernelScript) -> KernelScript:
        """Move a cell's folder into the job's folder."""
        target = self.job.folder / CELLS_FOLDER / script.folder.name
        await asyncio.to_thread(remove_tree, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(script.folder, target)
        return replace(script, folder=target)


class CellHost(Protocol):
    """Where cells run, one after another: a kernel of this machine or of another one."""

    async def execute(self, script: KernelScript, running: RunningCell, /) -> KernelExecution:
        """Execute a cell in its folder, which afterwards is where it was. Raises `ExecutorError`."""
        ...

    async def close(self) -> None:
        """Kill the code that is running, if any. Idempotent."""
        ...


@dataclass
class KernelHost:
    """A `CellHost`: a kernel of this machine, started on demand, with the working folder `folder`."""

    runner: CellRunner
    folder: Path
    _terms: tuple[object, ...] = ()
    """Properties common to all cells of the kernel: mounted datasets, GPUs, and the arm if cells are not isolated from
    each other."""
    _kernel: Kernel | None = None
    _lease: GpuLease = field(default_factory=GpuLease)
    _usage: PeakUsage = field(default_factory=PeakUsage)
    _ended_cells: int = 0
    """Number of cells that finished in this kernel."""

    async def execute(self, script: KernelScript, running: RunningCell) -> KernelExecution:
        arm = "" if self.runner.config.isolation.between_cells else script.cell.arm
        if (terms := (script.mounted, script.gpus, arm)) != self._terms:
            await self.close()
        self._terms = terms
        self.folder.mkdir(parents=True, exist_ok=True)
        first = not self._ended_cells
        try:
            if not script.cell.is_script and not script.mounted:
                script = await asyncio.to_thread(copy_view, script, script.cell.dataset)
            kernel, lent = await self._lend_cell_folder(script)
            running.mark_started()
            lent_script = replace(script, folder=self.folder / CELLS_FOLDER / script.folder.name)
            execution = await self.runner.run_in_kernel(kernel, self._lease, lent_script, running, self._usage)
            try:
                is_in_place = await asyncio.to_thread(take_back_folder, lent, script.folder, self.folder, CELLS_FOLDER)
            except OSError as error:
                raise ExecutorError(f"cannot move {script.folder} back: {error}") from error
            if not is_in_place:
                execution = replace(execution, failure=execution.failure or _MOVED_FOLDER_FAILURE)
        except BaseException:
            await self.close()
            raise
        self._ended_cells += 1
        if execution.kernel_unusable or (script.scorers and self.runner.gpus.devices):  # a scorer needs a GPU too
            await self.close()
        return replace(execution, is_first_cell=first)

    async def close(self) -> None:
        kernel, lease, self._lease = self._kernel, self._lease, GpuLease()
        self._kernel, self._ended_cells = None, 0
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
            kernel = await self._ensure_kernel(script)
            return kernel, await asyncio.to_thread(lend_folder, script.folder, self.folder, CELLS_FOLDER)
        except (BadFile, OSError) as error:
            raise ExecutorError(f"cannot work in {self.folder}: {error}") from error

    async def _ensure_kernel(self, script: KernelScript) -> Kernel:
        """Return the kernel, starting it if necessary. Raises `ExecutorError`."""
        if self._kernel is None:
            self._lease = await self.runner.lease_gpus(script.gpus)
            self._kernel = await self._start_kernel(script)
        self._kernel.clear_start_traces()
        self._usage = PeakUsage(processes=self._usage.processes)
        return self._kernel

    async def _start_kernel(self, script: KernelScript) -> Kernel:
        """Start a kernel with the imports of the program preloaded. Raises `ExecutorError`."""
        config = self.runner.config
        modules = await asyncio.to_thread(choose_modules, script.job.source, config.settings.python)
        options = KernelStartOptions(script.readable_paths, self._lease.devices, modules, script.packages)
        kernel = Kernel(self.folder, config=config, options=options)
        try:
            await kernel.start()
        except BaseException:
            kernel.kill()
            raise
        return kernel


_MOVED_FOLDER_FAILURE = Failure(
    kind="other", message="the code renamed, replaced or removed its working folder: leave it in place"
)


# --- one execution ----------------------------------------------------------------------------------------------------


async def execute(
    kernel: Kernel, script: KernelScript, limits: ResourceLimits, running: RunningCell
) -> KernelExecution:
    """Run the script until it ends, reaches its limit, or is silent for too long."""
    return await ScriptRun(kernel, script).run(limits, running)


@dataclass
class ScriptRun:
    """One execution of a script in a started kernel."""

    _kernel: Kernel
    _script: KernelScript
    _transcript: Transcript = field(default_factory=lambda: Transcript(MAX_KEPT_CHARS))
    _flooded: bool = False

    @property
    def _folder_in_kernel(self) -> Path:
        return self._kernel.folder_inside / self._script.folder.relative_to(self._kernel.folder)

    async def run(self, limits: ResourceLimits, running: RunningCell) -> KernelExecution:
        began, timeout = time.monotonic(), self._script.limit
        self._write_job(timeout)
        watchdog = self._kernel.start_watchdog(limits)
        request = self._kernel.send_request()
        reply = asyncio.create_task(self._kernel.wait_for_reply(request))
        death = asyncio.create_task(self._wait_for_death())
        listener = asyncio.create_task(self._collect_output(request, running))
        silent: asyncio.Future[str] = asyncio.Future()
        if (quiet := self._script.job.quiet_seconds) is not None:
            silent = asyncio.create_task(self._wait_until_silent(quiet))
        try:
            late = not await _wait_first(reply, death, silent, within=timeout)
            reason = silent.result() if silent.done() else ""
            if late or reason:
                self._kernel.process.interrupt()
                await _wait_first(reply, death, within=self._kernel.config.settings.grace + _KILL_REPLY_SECONDS)
            seconds = time.monotonic() - began
            await asyncio.wait({listener}, timeout=_DRAIN_SECONDS if reply.done() else _POLL_SECONDS)
            answer = _parse_zygote_reply(reply.result()) if reply.done() else None
            if reason:
                failure: Failure | None = Failure(kind="hopeless", message=reason)
            else:
                failure = watchdog.failure or self._find_failure(answer, death, timeout=timeout if late else None)
            over = self._script.cell.is_script or watchdog.failure is not None or self._flooded
        finally:
            watchdog.stop()
            for task in (reply, death, listener, silent):
                task.cancel()
            await asyncio.gather(reply, death, listener, silent, return_exceptions=True)
        return KernelExecution(
            seconds,
            failure,
            self._transcript,
            kernel_unusable=over or answer is None or answer.over,
            training=None if answer is None else answer.training,
            peak_process_bytes=answer.peak if answer is not None else 0,
        )

    async def _wait_until_silent(self, limit: float) -> str:
        """Return why to stop the code, once it has printed, logged and submitted nothing for `limit` seconds."""
        state, changed = (0, 0, 0), time.monotonic()
        while (quiet := time.monotonic() - changed) <= limit:
            await asyncio.sleep(min(_SILENCE_POLL_SECONDS, limit / 4))
            before, folder = state, self._script.folder
            sizes = [await asyncio.to_thread(read_size, folder, name) for name in (MEASUREMENTS, SUBMISSION_INDEX)]
            if (state := (self._transcript.char_count, *sizes)) != before:
                changed = time.monotonic()
        why = f"the limit is {limit:g} s (search.silent_timeout)"
        return f"it printed, logged and submitted nothing for {quiet:.0f} s; {why}"

    def _write_job(self, limit: float) -> None:
        script, settings, gpus = self._script, self._kernel.config.settings, self._kernel.options.gpus
        job, cell = script.job, script.cell
        self._kernel.write_job(
            {
                "cell": None if cell.is_script else cell.model_dump() | {"setting": script.task.setting},
                "arms": script.arms,
                "tree": script.tree,
                "grace": settings.grace,
                "seed": cell.seed,
                "deadline": time.monotonic() + limit,
                "limit": limit,
                "mode": job.kind,
                "device": "cuda" if gpus else "cpu",
                "processes": max(1, len(gpus)),
                "folder": str(self._folder_in_kernel),
                "entry": job.entry,
                "cache": str(self._kernel.config.cache),
                "datasets": script.views,
                "artifacts": script.artifacts,
                "pretrained": script.pretrained,
                "scorers": list(script.scorers),
                "subjects": list(job.subjects),
                "llm": str(self._kernel.llm_socket),
                "checkpoint_bytes": settings.checkpoint_bytes,
                "artifact_bytes": settings.artifact_bytes,
            }
        )

    async def _collect_output(self, request: str, running: RunningCell) -> None:
        """Collect output until the request is done."""
        async for kind, content in self._kernel.read_messages(request):
            if self._transcript.char_count > MAX_PRINTED_CHARS and not self._flooded:
                self._flooded = True
                self._kernel.process.kill_all()
            if kind != "stream":
                continue
            shown = strip_colours(content["text"])
            self._transcript.add(content["name"], shown)
            if self._transcript.char_count < MAX_KEPT_CHARS:
                running.show(shown)

    async def _wait_for_death(self) -> int:
        while (code := self._kernel.process.get_exit_code()) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return code

    def _find_failure(
        self, answer: ZygoteReply | None, death: asyncio.Task[int], *, timeout: float | None
    ) -> Failure | None:
        folder = self._folder_in_kernel
        if self._flooded:
            return failure_from_flood(MAX_PRINTED_CHARS)
        if timeout is not None:
            stopped, trace = (not answer.killed, answer.traceback) if answer is not None else (False, ())
            return failure_from_timeout(timeout, stopped=stopped, traceback=trace, folder=folder)
        if answer is None or answer.status == "died":
            code = death.result() if answer is None else answer.code
            return failure_from_death(code, self._kernel.read_crash_log(), folder=folder)
        if answer.status == "ok" or (answer.ename == "SystemExit" and answer.evalue in ("", "0", "None")):
            return None
        failure = failure_from_exception(answer.ename, answer.evalue, traceback=answer.traceback, folder=folder)
        return failure.model_copy(update={"kind": "diverged"}) if answer.diverged else failure


class ZygoteReply(BaseModel):
    """How a cell ended (`lab._zygote`); its process may have written anything."""

    status: Literal["ok", "error", "died"] = "error"
    killed: bool = False
    """Whether it was killed by the host."""
    over: bool = True
    """Whether nothing more can run in its kernel."""
    peak: int = 0
    """Bytes."""
    code: int = 0
    """Exit code of a process that died; negative: the signal."""
    ename: str = "RuntimeError"
    evalue: str = "the kernel did not report a result"
    traceback: tuple[str, ...] = ()
    diverged: bool = False
    training: TrainingCounts | None = None

    @field_validator("training")
    @classmethod
    def _drop_empty(cls, training: TrainingCounts | None) -> TrainingCounts | None:
        return None if training == TrainingCounts() else training


def _parse_zygote_reply(answer: dict[str, Any]) -> ZygoteReply:
    """Return the zygote's report on its cell; an error if it is not valid."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        return ZygoteReply.model_validate(json.loads(answer["user_expressions"]["ran"]))  # may have half characters
    return ZygoteReply()


async def _wait_first(*tasks: asyncio.Future[Any], within: float) -> bool:
    """Return whether one of the tasks is done within `within` seconds."""
    done, _ = await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def read_size(folder: Path, name: str) -> int:
    """Return the size of a file or link in bytes; 0 if it does not exist."""
    with suppress(BadFile, OSError):
        return status.st_size if (status := read_status(folder, name)) is not None else 0
    return 0
