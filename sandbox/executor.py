"""Runs jobs on this machine, each in a kernel of its own, at most `slots` at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from labwright.record.descriptors import remove_tree
from labwright.record.nouns.data import Grade, Measurement, Needs
from labwright.record.repository_source import CODE
from labwright.record.syntax import one_at_a_time
from labwright.sandbox.cell_worker import measure_cells
from labwright.sandbox.collecting import Collector
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.gpu_leases import GpuLeases, open_leases
from labwright.sandbox.gpus import cuda_visible_devices, describe_devices
from labwright.sandbox.ground import ground_of
from labwright.sandbox.isolation.limits import room_of
from labwright.sandbox.isolation.mounts import KernelConfig
from labwright.sandbox.isolation.probe import isolation_of
from labwright.sandbox.isolation.scratch import sweep
from labwright.sandbox.job import Job, Outcome
from labwright.sandbox.monitor import Meter
from labwright.sandbox.packages.store import Overlay
from labwright.sandbox.places import KernelPlace, Place
from labwright.sandbox.pool import Pool
from labwright.sandbox.repository.cells import Repository
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.running import Runner, scoring_folder
from labwright.sandbox.scorer_tasks import tasks_of
from labwright.sandbox.scorers import read_frozen
from labwright.sandbox.scoring import read_sealed
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.slots import Slots
from labwright.sandbox.subjects import Subjects

T = TypeVar("T")


class LocalExecutor:
    """An `Executor` over local kernels.

    `views` and `labels` hold what `sandbox.datasets.materialise` wrote; `cache` is shared by the kernels. `pretrained`
    maps `OWNER/NAME@REVISION` to what `sandbox.pretrained.provide` wrote. Raises `ExecutorError`, and `GpuError` where
    the settings want a GPU and there is none, `IsolationError` where they want a sandbox that cannot be had; `gpus` are
    the leases to use instead of those of this machine. `secret` are files that isolated code never sees; `scorers`
    holds what `sandbox.scorers.freeze` wrote. With `shared`, slots are those of a folder that several runs share.
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
        subjects: Subjects | None = None,
        shared: Path | None = None,
    ) -> None:
        one_at_a_time()  # what code left is read in several threads
        self.slots = slots
        sweep()
        self.packages: Overlay | None = None
        """What was installed for the run; to be set before its first job."""
        self.isolation = isolation_of(settings)
        """How code runs here."""
        config = KernelConfig(
            settings,
            self.isolation,
            cache.absolute(),
            secret=tuple(path.absolute() for path in (labels, *secret)),
            packages=lambda: self.packages.folder if self.packages else None,
        )
        remove_tree(scoring_folder(config), ignore_errors=True)
        self.config = config
        """On what terms code runs."""
        self._settings, self._scorers = settings, scorers
        self._gpus = gpus or open_leases(settings, cuda_visible_devices())
        models = {name: str(path.absolute()) for name, path in (pretrained or {}).items()}
        self._pool = Pool(config, views=views, readable=map(Path, models.values()))
        self._gate = Slots(slots, shared)
        self._runner = Runner(
            slots,
            config,
            views,
            scorers=scorers,
            pretrained=models,
            gpus=self._gpus,
            pool=self._pool,
            collector=Collector(labels, config.cache, settings.artifact_bytes, self.grade),
            meter=Meter(self._gpus.nvml, alone=self._gpus.alone),
            subjects=subjects,
        )
        self.subjects = subjects
        """Language models that experiments may ask; closed with the executor."""
        self.repository: Repository | None = None
        """What programs that are a repository's are run from; to be set before the first job of one."""
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def device(self) -> str:
        """What `lab.device` stands for here, as prompts say it."""
        return describe_devices(
            self._gpus.devices, each=self._settings.gpus_per_node, shared_by=self._settings.slots_per_gpu
        )

    def equip(self, pretrained: Mapping[str, Path]) -> None:
        """More models for `lab.pretrained`; kernels that waited do not see them, and none is taken that does not."""
        models = {name: str(path.absolute()) for name, path in pretrained.items()}
        self._runner.pretrained = {**self._runner.pretrained, **models}
        self._pool.show(map(Path, models.values()))

    @property
    def room(self) -> Needs:
        """The most that one cell can have here."""
        return room_of(self._settings, len(self._gpus.devices))

    @property
    def grade(self) -> Grade:
        """Of values that we compute from predictions: whether labels, and other cells, were out of the code's reach."""
        return "scored" if self.isolation.between_cells and self._settings.network == "off" else "computed"

    @property
    def ground(self) -> str:
        """What values depend on besides code, data and seed (`Executor.ground`). Raises `ExecutorError`."""
        return ground_of(self._settings, self._gpus.devices, self.packages)

    async def run(self, job: Job) -> Outcome:
        if job.cells:
            repository = self.repository if CODE in job.source else None
            return await measure_cells(
                job, self._runner, self._held, self._opened, repository, give_way=self._gate.give_way
            )
        if (job.most_needed().memory_gb or 0.0) > self._runner.slot_gb:
            job = replace(job, alone=True)
        return await self._held(lambda: self._runner.run(job), alone=job.alone)

    def _opened(self, folder: Path) -> Place:
        """Where the cells of a worker run."""
        return KernelPlace(self._runner, folder)

    async def command(self, job: CommandJob) -> CommandOutcome:
        """Run a command of a repository to its end. Raises `ExecutorError`."""
        return await self._held(lambda: self._runner.command(job))

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        tasks = await asyncio.to_thread(
            lambda: tasks_of(read_sealed(attempt, sealed), "test", read_frozen(self._scorers)) if sealed else []
        )
        return await self._held(lambda: self._runner.scores(tasks, attempt / "sealed", seed)) if tasks else ()

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

    async def _held(self, work: Callable[[], Coroutine[Any, Any, T]], *, alone: bool = False) -> T:
        """Do some work while holding a slot."""
        async with self._gate.hold(alone=alone):
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
