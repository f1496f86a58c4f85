"""Leases of GPUs: which attempt may use which GPU, and until when.

A lease starts when a slot on the GPU and enough of its memory are free, so other users' processes are respected. It
ends when the driver lists none of the attempt's processes any more.

A slot is a `flock` on a file named by the GPU's UUID, which the operating system releases when the process dies.
Among one user's runs on a machine, an exclusive GPU is therefore never shared, and a shared GPU never has more users
than the largest `slots_per_gpu` allows. Other users, and runs in another container, are noticed only through their
memory use.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from labwright.sandbox.errors import GpuError
from labwright.sandbox.gpus import DriverNvml, GpuDevice, Nvml, filter_visible_devices, select_devices
from labwright.sandbox.isolation.scratch import ensure_private_folder, get_runtime_folder
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.slots import try_lock

_POLL_SECONDS = 0.2
"""Interval between checks for a free GPU, and for processes that should be gone, in seconds."""
_MAX_RELEASE_SECONDS = 5.0
"""Minimum time allowed for a killed process to release its GPU, in seconds."""


def acquire_gpu_slot(folder: Path, uuid: str, slots: int) -> ExitStack | None:
    """Return the locks of a free slot of a GPU, held until closed; None if all are taken. Never waits.

    With one slot per GPU, the holder uses the GPU alone. `folder` must be private. Raises
    `ExecutorError`.
    """
    place = ensure_private_folder(folder) / f"gpu-{uuid.replace('/', '_')}"
    with ExitStack() as locks:
        if try_lock(place.with_name(f"{place.name}.lock"), locks, shared=slots > 1) is None:
            return None
        names = (place.with_name(f"{place.name}.{slot}.lock") for slot in range(slots))
        if slots == 1 or any(try_lock(name, locks) is not None for name in names):
            return locks.pop_all()
    return None


@dataclass(eq=False)
class GpuLease:
    """The GPUs of one attempt; none on the CPU. `free_bytes` is their free memory before it started."""

    devices: tuple[GpuDevice, ...] = ()
    free_bytes: dict[str, int] = field(default_factory=dict[str, int])
    locks: ExitStack = field(default_factory=ExitStack)

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(device.uuid for device in self.devices)


class GpuLeases:
    """Leases of GPUs of this machine. Without devices, every lease is empty and available at once."""

    def __init__(
        self,
        nvml: Nvml | None,
        devices: Sequence[GpuDevice],
        settings: SandboxSettings,
        *,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nvml = nvml
        self.devices = tuple(devices)
        self.is_alone = settings.slots_per_gpu == 1
        self._settings = settings
        self._clock = clock
        self._folder = folder or get_runtime_folder()
        self._turn = asyncio.Lock()
        self._lent: set[GpuLease] = set()
        self._ending: dict[GpuLease, frozenset[int]] = {}
        """Leases whose code has ended, each with the processes that the driver may still list."""
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def capacity(self) -> int | None:
        """Number of attempts that fit at the same time; None on the CPU."""
        if not self.devices:
            return None
        return len(self.devices) * self._settings.slots_per_gpu // self._settings.gpus_per_node

    async def acquire(self, count: int | None = None) -> GpuLease:
        """Wait in order of arrival for `count` GPUs, by default `sandbox.gpus_per_node`.

        Raises `GpuError` if no GPU became available within `sandbox.gpu_wait` seconds, counted from when this run last
        used one.
        """
        count = self._settings.gpus_per_node if count is None else count
        if not self.devices or not count:
            return GpuLease()
        async with self._turn:
            idle_since = self._clock()
            while (lease := self._try_acquire(count)) is None:
                if self._lent:
                    idle_since = self._clock()
                if self._clock() - idle_since > max(
                    self._settings.gpu_wait, _MAX_RELEASE_SECONDS if self._ending else 0.0
                ):
                    raise GpuError(self._describe_shortage(count))
                await asyncio.sleep(_POLL_SECONDS)
            self._lent.add(lease)
            return lease

    def release(self, lease: GpuLease, processes: Collection[int]) -> None:
        """Return a lease as soon as the driver lists none of these processes. Does not wait.

        If one of them never ends, its GPU stays leased, and other GPUs are used.
        """
        if lease.devices:
            self._lent.discard(lease)
            self._ending[lease] = frozenset(processes)
            task = asyncio.create_task(self._return(lease))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def close(self) -> None:
        """Return every lease at once."""
        for task in self._returning:
            task.cancel()
        await asyncio.gather(*self._returning, return_exceptions=True)
        for lease in [*self._lent, *self._ending]:
            self._discard(lease)

    async def _return(self, lease: GpuLease) -> None:
        try:
            while self._list_remaining_processes(lease):
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            self._discard(lease)

    def _discard(self, lease: GpuLease) -> None:
        self._lent.discard(lease)
        self._ending.pop(lease, None)
        lease.locks.close()

    def _list_remaining_processes(self, lease: GpuLease) -> dict[str, list[int]]:
        """Map the GPUs of an ended lease to those of its processes that the driver still lists."""
        with contextlib.suppress(GpuError):  # an unresponsive driver must not block a GPU forever
            on = {uuid: sorted(self._ending[lease] & self._driver.list_processes(uuid).keys()) for uuid in lease.uuids}
            return {uuid: pids for uuid, pids in on.items() if pids}
        return {}

    def _try_acquire(self, count: int) -> GpuLease | None:
        """Lease all GPUs of one attempt or none, so that two runs never wait for each other; None if they are not
        available.

        GPUs with the fewest attempts of this run come first; those with too little free memory are skipped.
        """
        busy = Counter(uuid for lease in [*self._lent, *self._ending] for uuid in lease.uuids)
        devices: list[GpuDevice] = []
        with ExitStack() as locks:
            for device in sorted(self.devices, key=lambda device: busy[device.uuid]):
                slot = acquire_gpu_slot(self._folder, device.uuid, self._settings.slots_per_gpu)
                if slot is None:
                    continue
                if self._driver.free_bytes(device.uuid) < self._settings.gpu_free_gb * 1e9:
                    slot.close()
                    continue
                locks.push(slot)
                devices.append(device)
                if len(devices) == count:
                    free = {device.uuid: self._driver.free_bytes(device.uuid) for device in devices}
                    return GpuLease(tuple(devices), free, locks.pop_all())
        return None

    @property
    def _driver(self) -> Nvml:
        if self.nvml is None:
            raise GpuError("GPU devices are configured, but no driver is available")
        return self.nvml

    def _describe_shortage(self, count: int) -> str:
        states = ", ".join(
            f"{device.uuid}: {self._driver.free_bytes(device.uuid) / 1e9:.1f} GB free, "
            f"{len(self._driver.list_processes(device.uuid))} processes"
            for device in self.devices
        )
        left = ", ".join(
            f"{uuid} by process {' and '.join(map(str, pids))}"
            for lease in self._ending
            for uuid, pids in self._list_remaining_processes(lease).items()
        )
        outliving = left and (
            f"an experiment has ended but still holds {left}: stop it with kill -9; if that does "
            "not help, reset the GPU or exclude it with --gpus; as a result, there is "
        )
        return (
            f"{outliving}no {count} GPU(s) with {self._settings.gpu_free_gb:g} GB free and "
            f"no other run of yours on them within {self._settings.gpu_wait:g} s ({states}): stop what uses them, "
            "choose others with --gpus, or lower sandbox.gpu_free_gb"
        )


def open_gpu_leases(
    settings: SandboxSettings, variable: str | None, *, nvml: Nvml | None = None, folder: Path | None = None
) -> GpuLeases:
    """Return leases of the GPUs allowed by the settings and CUDA_VISIBLE_DEVICES (None: not set); empty ones on the
    CPU.

    Queries the driver unless `nvml` is given. Raises `GpuError` if there is no GPU: the CPU must be requested
    explicitly.
    """
    if settings.device == "cpu":
        return GpuLeases(None, (), settings, folder=folder)
    try:
        driver = nvml or DriverNvml()
        known = driver.list_devices()
        visible = filter_visible_devices(known, variable)
        if not visible:
            raise GpuError(
                f"CUDA_VISIBLE_DEVICES={variable} hides all {len(known)}" if known else "the driver lists no GPU"
            )
    except GpuError as error:
        raise GpuError(
            f"sandbox.device is cuda, but {error}; fix that, or run on the CPU: --set sandbox.device=cpu"
        ) from error
    devices = select_devices(visible, settings.gpus)
    if len(devices) < settings.gpus_per_node:
        raise GpuError(
            f"sandbox.gpus_per_node is {settings.gpus_per_node}, but {len(devices)} GPU(s) are available: "
            "lower it, or add more with --gpus"
        )
    return GpuLeases(driver, devices, settings, folder=folder)
