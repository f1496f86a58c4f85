"""Run jobs on this machine, each in its own kernel, at most `slots` at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from labwright.record.python_syntax import serialise_parsing
from labwright.record.repository_source import CODE_FILE
from labwright.record.schema.data_plan import EvidenceGrade, Measurement, ResourceNeeds
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.cell_worker import measure_cells
from labwright.sandbox.environment_fingerprint import compute_environment_fingerprint
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.gpu_leases import GpuLeases, open_gpu_leases
from labwright.sandbox.gpus import describe_devices, read_cuda_visible_devices
from labwright.sandbox.isolation.limits import compute_cell_capacity
from labwright.sandbox.isolation.mounts import KernelConfig
from labwright.sandbox.isolation.probe import determine_isolation
from labwright.sandbox.isolation.scratch import remove_stale
from labwright.sandbox.job import Job, JobOutcome
from labwright.sandbox.job_runner import JobRunner, get_scoring_folder
from labwright.sandbox.kernel_host import KernelHost, ScriptHost
from labwright.sandbox.kernel_pool import KernelPool
from labwright.sandbox.llm_gateway import LlmGateway
from labwright.sandbox.monitor import MemoryMeter
from labwright.sandbox.packages.package_store import PackageOverlay
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.command_cells import StudyRepository
from labwright.sandbox.result_collector import ResultCollector
from labwright.sandbox.scorer_tasks import build_scorer_tasks
from labwright.sandbox.scorers import read_frozen_scorers
from labwright.sandbox.scoring import read_sealed
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.slots import Slots

T = TypeVar("T")


class LocalExecutor:
    """An `Executor` that uses local kernels.

    `views` and `labels` are folders written by `sandbox.datasets.materialise`; `cache` is shared by the kernels.
    `pretrained` maps `OWNER/NAME@REVISION` to a folder from `sandbox.pretrained_models.provide_model`. `gpus` replaces
    the leases of this machine. `secret` lists files that isolated code never sees; `scorers` is a folder written by
    `sandbox.scorers.freeze_scorer`. With `shared`, slots come from a folder that several runs share.

    Raises `ExecutorError`, `GpuError` if the settings require a GPU and there is none, and `IsolationError` if they
    require isolation that is not available.
    """

    def __init__(
        self,
        slots: int,
        views: Path,
        *,
        labels: Path,
        settings: SandboxSettings,
        cache: Path,
        gpus: GpuLeases | None = None,
        pretrained: Mapping[str, Path] | None = None,
        secret: Iterable[Path] = (),
        scorers: Path | None = None,
        subjects: LlmGateway | None = None,
        shared: Path | None = None,
    ) -> None:
        serialise_parsing()  # outputs of experiment code are read in several threads
        self.slots = slots
        remove_stale()
        self.packages: PackageOverlay | None = None
        """Packages installed for the run; set before its first job."""
        self.isolation = determine_isolation(settings)
        """How code is isolated on this machine."""
        config = KernelConfig(
            settings,
            self.isolation,
            cache.absolute(),
            secret=tuple(path.absolute() for path in (labels, *secret)),
            packages=lambda: self.packages.folder if self.packages else None,
        )
        remove_tree(get_scoring_folder(config), ignore_errors=True)
        self.config = config
        """Configuration of all kernels."""
        self._settings, self._scorers = settings, scorers
        self._gpus = gpus or open_gpu_leases(settings, read_cuda_visible_devices())
        models = {name: str(path.absolute()) for name, path in (pretrained or {}).items()}
        self._pool = KernelPool(config, views=views, readable=map(Path, models.values()))
        self._slots = Slots(slots, shared)
        self._runner = JobRunner(
            slots,
            config,
            views,
            scorers=scorers,
            pretrained=models,
            gpus=self._gpus,
            pool=self._pool,
            collector=ResultCollector(labels, config.cache, settings.artifact_bytes, self.grade),
            meter=MemoryMeter(self._gpus.nvml, alone=self._gpus.is_alone),
            subjects=subjects,
        )
        self.subjects = subjects
        """Language models that experiments may query; they are closed together with the executor."""
        self.repository: StudyRepository | None = None
        """The repository that repository commands run in; set before the first such job."""
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def device(self) -> str:
        """The device behind `lab.device`, as described in prompts."""
        return describe_devices(
            self._gpus.devices, each=self._settings.gpus_per_node, shared_by=self._settings.slots_per_gpu
        )

    def add_pretrained(self, pretrained: Mapping[str, Path]) -> None:
        """Add models for `lab.pretrained`. Waiting kernels that cannot read these models are no longer used."""
        models = {name: str(path.absolute()) for name, path in pretrained.items()}
        self._runner.pretrained = {**self._runner.pretrained, **models}
        self._pool.add_readable(map(Path, models.values()))

    @property
    def cell_capacity(self) -> ResourceNeeds:
        """Maximum resources of one cell on this machine."""
        return compute_cell_capacity(self._settings, len(self._gpus.devices))

    @property
    def grade(self) -> EvidenceGrade:
        """Grade of values computed from predictions: it depends on whether the code could reach labels and other
        cells.
        """
        return "scored" if self.isolation.between_cells and self._settings.network == "off" else "computed"

    @property
    def environment_fingerprint(self) -> str:
        """Fingerprint of the conditions on which values depend besides code, data and seed. Raises `ExecutorError`."""
        return compute_environment_fingerprint(self._settings, self._gpus.devices, self.packages)

    async def run(self, job: Job) -> JobOutcome:
        if job.cells:
            repository = self.repository if CODE_FILE in job.source else None
            return await measure_cells(
                job, self._runner, self._run_in_slot, self._open_host, repository, give_way=self._slots.should_give_way
            )
        if (job.compute_max_needs().memory_gb or 0.0) > self._runner.slot_gb:
            job = replace(job, alone=True)
        return await self._run_in_slot(lambda: self._runner.run(job), alone=job.alone)

    def _open_host(self, folder: Path) -> ScriptHost:
        """Return the host in which a worker's cells run."""
        return KernelHost(self._runner, folder)

    async def run_command(self, job: CommandJob) -> CommandOutcome:
        """Run a repository command to its end. Raises `ExecutorError`."""
        return await self._run_in_slot(lambda: self._runner.run_repository_command(job))

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        tasks = await asyncio.to_thread(
            lambda: (
                build_scorer_tasks(read_sealed(attempt, sealed), "test", read_frozen_scorers(self._scorers))
                if sealed
                else []
            )
        )
        return (
            await self._run_in_slot(lambda: self._runner.run_scorers(tasks, attempt / "sealed", seed)) if tasks else ()
        )

    async def close(self) -> None:
        self._closed = True
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))
        await self._pool.close()
        await self._gpus.close()
        if self.subjects is not None:
            await self.subjects.close()

    async def _run_in_slot(self, work: Callable[[], Coroutine[Any, Any, T]], *, alone: bool = False) -> T:
        """Do some work while holding a slot."""
        async with self._slots.hold(alone=alone):
            if self._closed:
                raise ExecutorError("the executor was closed")
            task = asyncio.create_task(work(), name="work in a kernel")
            self._running.add(task)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise
            finally:
                self._running.discard(task)
            if task.cancelled():
                raise ExecutorError("the executor was closed while the job ran")
            return task.result()
