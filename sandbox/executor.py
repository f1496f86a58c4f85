"""Measure jobs on this machine, at most `slots` cells at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from labwright.record.python_syntax import serialise_parsing
from labwright.record.schema.data_plan import EvidenceGrade, Measurement, ResourceNeeds
from labwright.record.source_tree import CODE_FILE
from labwright.record.untrusted_files import BadFile, remove_path, remove_tree
from labwright.sandbox.cell_runner import CellRunner, KernelWorker, get_scoring_folder
from labwright.sandbox.cell_scheduler import CellStream, CellWorker, RunningCell
from labwright.sandbox.datasets import find_user_salt
from labwright.sandbox.gpus import GpuLeases, Slots, describe_devices, open_gpu_leases, read_cuda_visible_devices
from labwright.sandbox.isolation.bubblewrap import KernelConfig, determine_isolation
from labwright.sandbox.isolation.processes import compute_cell_capacity, remove_stale
from labwright.sandbox.job import ExecutorError, Job
from labwright.sandbox.llm_gateway import LlmGateway
from labwright.sandbox.monitor import MemoryMeter
from labwright.sandbox.output import MAX_KEPT_CHARS, LiveOutput
from labwright.sandbox.packages import compute_environment_fingerprint
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.command_cells import CommandWorker
from labwright.sandbox.repository.environment import StudyRepository
from labwright.sandbox.results import ResultCollector
from labwright.sandbox.scorers import build_scorer_tasks, read_frozen_scorers
from labwright.sandbox.scoring import read_sealed
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import CELLS_FOLDER, KERNELS_FOLDER


class LocalExecutor(CellRunner):
    """An `Executor` that uses local kernels.

    `views` and `labels` are folders written by `sandbox.datasets.materialise`; `cache` is shared by the kernels. Both
    are next to `views` if they are not given. `pretrained` maps `OWNER/NAME@REVISION` to a folder from
    `sandbox.hub.provide_model`. `gpus` replaces the leases of this machine. `secret` lists files that isolated code
    never sees; `scorers` is a folder written by `sandbox.scorers.freeze_scorer`. With `shared`, slots come from a
    folder that several runs share.

    Raises `ExecutorError`, `GpuError` if the settings require a GPU and there is none, and `IsolationError` if they
    require isolation that is not available.
    """

    def __init__(
        self,
        slots: int,
        views: Path,
        *,
        settings: SandboxSettings,
        labels: Path | None = None,
        cache: Path | None = None,
        gpus: GpuLeases | None = None,
        pretrained: Mapping[str, Path] | None = None,
        secret: Iterable[Path] = (),
        scorers: Path | None = None,
        subjects: LlmGateway | None = None,
        shared: Path | None = None,
    ) -> None:
        labels, cache = labels or views.parent / "labels", cache or views.parent / "cache"
        serialise_parsing()  # outputs of experiment code are read in several threads
        remove_stale()
        isolation, gpus = determine_isolation(settings), gpus or open_gpu_leases(settings, read_cuda_visible_devices())
        self.slot_pool = Slots(slots, shared)
        self.grade: EvidenceGrade = "scored" if isolation.between_cells and settings.network == "off" else "computed"
        """Grade of values computed from predictions: it depends on whether the code could reach labels and other
        cells."""
        hidden = tuple(path.absolute() for path in (labels, find_user_salt(), *secret))
        super().__init__(
            slots,
            KernelConfig(settings, isolation, cache.absolute(), hidden),
            views,
            scorers,
            ResultCollector(labels, cache.absolute(), settings.artifact_bytes, self.grade),
            gpus,
            MemoryMeter(gpus.nvml, alone=gpus.is_alone),
            subjects,
        )
        remove_tree(get_scoring_folder(self.config), ignore_errors=True)
        self.add_pretrained(pretrained or {})
        self.repository: StudyRepository | None = None
        """The repository that repository commands run in; set before the first such job."""

    @property
    def device(self) -> str:
        """The device behind `lab.device`, as described in prompts."""
        settings = self.config.settings
        return describe_devices(self.gpus.devices, each=settings.gpus_per_node, shared_by=settings.slots_per_gpu)

    def add_pretrained(self, pretrained: Mapping[str, Path]) -> None:
        """Add models for `lab.pretrained`."""
        self.pretrained |= {name: str(path.absolute()) for name, path in pretrained.items()}

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """Maximum resources of one cell on this machine."""
        return compute_cell_capacity(self.config.settings, len(self.gpus.devices))

    @property
    def environment_fingerprint(self) -> str:
        """Fingerprint of the conditions on which values depend besides code, data and seed. Raises `ExecutorError`."""
        return compute_environment_fingerprint(self.config.settings, self.gpus.devices, self.packages)

    def measure(self, job: Job) -> LocalStream:
        return LocalStream(self, job)

    async def run_command(self, job: CommandJob) -> CommandOutcome:
        """Run a repository command to its end. Raises `ExecutorError`."""
        async with self.slot_pool.hold():
            return await self.run_repository_command(job, RunningCell())

    async def evaluate(self, folder: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        if not sealed:
            return ()
        scorers = await asyncio.to_thread(read_frozen_scorers, self.scorers)
        submissions = await asyncio.to_thread(read_sealed, folder, sealed)
        if not (tasks := build_scorer_tasks(submissions, "test", scorers)):
            return ()
        async with self.slot_pool.hold():
            return await self.run_scorers(tasks, folder / "sealed", seed)

    async def close(self) -> None:
        await self.gpus.close()
        if self.subjects is not None:
            await self.subjects.close()


class LocalStream(CellStream):
    """The events of a job on this machine."""

    def __init__(self, executor: LocalExecutor, job: Job) -> None:
        super().__init__(
            replace(job, folder=job.folder.absolute()),
            executor.slots,
            executor.slot_pool.hold,
            self._open_worker,
            memory_gb=executor.slot_gb,
            give_way=executor.slot_pool.should_give_way,
        )
        self._executor, self._numbers = executor, count(1)
        self._repository = executor.repository if CODE_FILE in job.source else None

    async def run(self) -> None:
        kernels = self.job.folder / KERNELS_FOLDER
        try:
            _clear_job_folder(self.job.folder)  # not in a thread: jobs wait for slots in the order of their calls
            with closing(LiveOutput(self.job.live_output, MAX_KEPT_CHARS // 2)) as self._live:
                await super().run()
        finally:
            remove_tree(kernels, ignore_errors=True)

    def _open_worker(self) -> CellWorker:
        runner, number = self._executor, next(self._numbers)
        if self._repository is not None:
            return CommandWorker(self._repository, runner, self.job, self._live, number)
        return KernelWorker(runner, self.job, self._live, self.job.folder / KERNELS_FOLDER / str(number))


def _clear_job_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (KERNELS_FOLDER, CELLS_FOLDER):
            remove_path(folder, name)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder}: {error}") from error


def open_executor(slots: int, views: Path, *, settings: SandboxSettings, **rest: Any) -> LocalExecutor:
    """Return a `LocalExecutor`, or a `RayExecutor` if the settings ask for a cluster. Raises the errors of its
    constructor."""
    if settings.executor == "ray":
        from labwright.sandbox.cluster.executor import RayExecutor  # only needed on a cluster

        return RayExecutor(slots, views, settings=settings, **rest)
    return LocalExecutor(slots, views, settings=settings, **rest)
