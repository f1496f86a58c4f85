"""The GPUs of this machine, those that a run may use, and leases: which attempt may use which GPU, and until when.

`Nvml` queries NVIDIA's management library; `tests.fake_executor.FakeNvml` replaces it if there is no driver.

A lease starts when a slot on the GPU and enough of its memory are free, so other users' processes are respected. It
ends when the driver lists none of the attempt's processes any more.

A slot is a `flock` on a file named by the GPU's UUID, which the operating system releases when the process dies. Among
one user's runs on a machine, an exclusive GPU is therefore never shared, and a shared GPU never has more users than the
largest `slots_per_gpu` allows. Other users, and runs in another container, are noticed only through their memory use.

Also the slots that limit how many experiments run at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labwright.record.float_compare import parse_whole_number
from labwright.sandbox.isolation.processes import ensure_private_folder, get_runtime_folder
from labwright.sandbox.job import ExecutorError, GpuError
from labwright.sandbox.settings import SandboxSettings

# Slots limit how many experiments run at the same time, in one run or in several runs that share a folder of slot
# files. A shared slot is a `flock` on a file, which the operating system releases when the process dies. A process
# that needs a slot first locks the door file, so only one process waits for slots at a time; processes with fewer
# slots retry the door file more often. A waiting process writes its number of slots into the door file; if it has
# clearly fewer, jobs with many parts give up a slot between two parts.

POLL_SECONDS = 0.05
"""Interval between attempts to get a slot, in seconds; at the door file, the interval is multiplied by one plus the
number of slots already in use.
"""
DOOR_FILE = "door"


class Slots:
    """Lets `count` jobs run at a time, in order of arrival.

    A job that must run alone waits until all slots are free; later jobs wait until it has run, so that it never
    starves. A job must not request a second slot while holding one. With `shared`, the slots of the shared folder are
    used.
    """

    def __init__(self, count: int, shared: Path | None = None) -> None:
        if count < 1:
            raise ExecutorError(f"an executor needs at least one slot, not {count}")
        self._shared = shared
        self.count = count if shared is None else min(count, len(self._list_slot_files()))
        self._free_slots = asyncio.Semaphore(self.count)
        self._queue = asyncio.Lock()
        self._held_count = 0

    @asynccontextmanager
    async def hold(self, *, alone: bool = False) -> AsyncGenerator[None]:
        """Hold a slot (with `alone`, all slots) while inside."""
        taken = 0
        with ExitStack() as locks:
            try:
                async with self._queue:
                    while taken < (self.count if alone else 1):
                        await self._free_slots.acquire()
                        taken += 1
                    if self._shared is not None:
                        await self._acquire(locks, alone=alone)
                self._held_count += taken
                try:
                    yield
                finally:
                    self._held_count -= taken
            finally:
                for _ in range(taken):
                    self._free_slots.release()

    def should_give_way(self) -> bool:
        """Return whether a waiting process would still have fewer slots than this process after getting one of its
        slots.
        """
        if self._shared is None or self._held_count < 2:
            return False
        with ExitStack() as locks:
            if try_lock(self._shared / DOOR_FILE, locks):
                return False
        number = parse_whole_number((self._shared / DOOR_FILE).read_text())
        return number is not None and number < self._held_count - 1

    def _list_slot_files(self) -> list[Path]:
        assert self._shared is not None
        try:
            files = [one for one in self._shared.iterdir() if parse_whole_number(one.name) is not None]
        except OSError as error:
            raise ExecutorError(f"cannot read the slots in {self._shared}: {error.strerror}") from None
        if not files:
            raise ExecutorError(f"{self._shared} contains no slots")
        return sorted(files, key=lambda one: int(one.name))

    async def _acquire(self, locks: ExitStack, *, alone: bool) -> None:
        """Acquire one shared slot, or all; held until `locks` is closed."""
        assert self._shared is not None
        with ExitStack() as door:
            while not try_lock(self._shared / DOOR_FILE, door):
                await asyncio.sleep(POLL_SECONDS * (1 + self._held_count))
            (self._shared / DOOR_FILE).write_text(str(self._held_count))
            missing = self._list_slot_files()
            while missing:
                free = next((one for one in missing if try_lock(one, locks)), None)
                if free is None:
                    await asyncio.sleep(POLL_SECONDS)
                elif alone:
                    missing.remove(free)
                else:
                    break


def try_lock(path: Path, locks: ExitStack, *, shared: bool = False) -> bool:
    """Lock a file until `locks` is closed; return whether no other process has the lock. Never waits.

    Raises `ExecutorError` if the file cannot be opened.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ExecutorError(f"cannot lock {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    os.utime(file)  # protects the file from programs that clean /tmp by age
    locks.callback(os.close, file)
    return True


@dataclass(frozen=True)
class GpuDevice:
    """A GPU, or a MIG slice of one. `memory_bytes` is its total memory."""

    uuid: str
    """`GPU-...` or `MIG-...`; stable across restarts, in containers, and if other GPUs are hidden."""
    name: str
    index: int
    """Index of the GPU in PCI bus order, as in nvidia-smi."""
    minor: int
    """Number of its device file, /dev/nvidia<minor>."""
    memory_bytes: int
    capability: tuple[int, int] | None = None
    """CUDA compute capability, if the driver reports it."""


def describe_devices(devices: Sequence[GpuDevice], *, each: int = 1, shared_by: int = 1) -> str:
    """Describe `lab.device` for prompts; with several kinds of GPU, by their common properties.

    bf16 needs compute capability 8.0. Source: CUDA C++ programming guide, "Compute capabilities".
    """
    if not devices:
        return "cpu"
    names = " or ".join(sorted({device.name for device in devices}))
    known = [device.capability for device in devices if device.capability is not None]
    bf16 = f", {'with' if min(known) >= (8, 0) else 'without'} bf16" if known else ""
    several = f"{each} GPUs for each experiment: " if each > 1 else ""
    shared = f", shared by {shared_by} experiments" if shared_by > 1 else ""
    memory = min(device.memory_bytes for device in devices) / 1e9
    return f"cuda ({several}{names}, {memory:.0f} GB of memory{bf16}{shared})"


def read_cuda_visible_devices() -> str | None:
    """Return this process's CUDA_VISIBLE_DEVICES; None if not set."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def filter_visible_devices(devices: Sequence[GpuDevice], variable: str | None) -> tuple[GpuDevice, ...]:
    """Return the devices that CUDA_VISIBLE_DEVICES (None: not set) allows, in its order.

    It contains indices, UUIDs, UUID prefixes, or UUIDs of MIG slices. The first unknown entry ends the list, as in
    CUDA: an index of -1 hides all that follow. Indices count in PCI bus order, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    The index of a GPU that is divided into slices refers to its first slice. Source: CUDA C++ programming guide, "CUDA
    environment variables".
    """
    if variable is None:
        return tuple(devices)
    visible: list[GpuDevice] = []
    for word in variable.split(","):
        device = _find_device(devices, word.strip())
        if device is None or device in visible:
            break
        visible.append(device)
    return tuple(visible)


def select_devices(visible: Sequence[GpuDevice], wanted: Sequence[str]) -> tuple[GpuDevice, ...]:
    """Return the devices named by `sandbox.gpus`, all if it is empty. Raises `GpuError`.

    Indices refer to the visible devices, as in torch: with CUDA_VISIBLE_DEVICES=4,5, "0" is the GPU numbered 4.
    """
    chosen: list[GpuDevice] = []
    for word in wanted:
        index = parse_whole_number(word)
        device = next(iter(visible[index:]), None) if index is not None else _find_device(visible, word)
        if device is None:
            known = ", ".join(f"{index} {device.name} {device.uuid}" for index, device in enumerate(visible)) or "none"
            raise GpuError(f"sandbox.gpus: {word!r} is not one of the {len(visible)} visible GPUs: {known}")
        if device in chosen:
            raise GpuError(f"sandbox.gpus names {device.uuid} twice: name each GPU once")
        chosen.append(device)
    return tuple(chosen) if wanted else tuple(visible)


def _find_device(devices: Sequence[GpuDevice], word: str) -> GpuDevice | None:
    """Find the device with this index, UUID or unique UUID prefix."""
    if (index := parse_whole_number(word)) is not None:
        return next((device for device in devices if device.index == index), None)
    if not word.startswith(("GPU-", "MIG-")):
        return None
    matches = [device for device in devices if device.uuid.startswith(word)]
    matches = [device for device in matches if device.uuid == word] or matches
    return matches[0] if len(matches) == 1 else None


class Nvml:
    """Information from NVIDIA's management library. Every method may block for some milliseconds, and raises `GpuError`
    if the driver does not answer, as does the constructor if there is none."""

    def __init__(self) -> None:
        import pynvml  # only needed with a GPU

        self._nvml: Any = pynvml
        self._call(pynvml.nvmlInit)

    def list_devices(self) -> tuple[GpuDevice, ...]:
        """List every usable device in PCI bus order; MIG slices for a GPU that is divided into them."""
        return tuple(self._call(lambda: list(self._iterate_devices())))

    def free_bytes(self, uuid: str) -> int:
        """Return the free memory in bytes."""
        return int(self._call(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._get_handle(uuid)).free))

    def list_processes(self, uuid: str) -> dict[int, int]:
        """Map process ids to their memory in bytes (0 if unknown).

        In a container, the driver may use the host's process ids or list none.
        """
        running = self._call(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._get_handle(uuid)))
        return {int(process.pid): int(process.usedGpuMemory or 0) for process in running}

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise GpuError(f"the NVIDIA driver does not respond: {error}") from error

    def _get_handle(self, uuid: str) -> Any:
        return self._nvml.nvmlDeviceGetHandleByUUID(uuid)

    def _iterate_devices(self) -> Iterator[GpuDevice]:
        nvml = self._nvml
        for index in range(nvml.nvmlDeviceGetCount()):
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            capability = None
            with suppress(nvml.NVMLError_NotSupported):
                major, minor = nvml.nvmlDeviceGetCudaComputeCapability(gpu)
                capability = int(major), int(minor)
            for handle in self._list_slices(gpu) or [gpu]:
                yield GpuDevice(
                    uuid=nvml.nvmlDeviceGetUUID(handle),
                    name=nvml.nvmlDeviceGetName(handle),
                    index=index,
                    minor=int(nvml.nvmlDeviceGetMinorNumber(gpu)),
                    memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                    capability=capability,
                )

    def _list_slices(self, gpu: Any) -> list[Any]:
        """List the MIG slices of a GPU; empty if it is not divided or does not support MIG."""
        nvml = self._nvml
        slices: list[Any] = []
        with suppress(nvml.NVMLError_NotSupported):
            cut, _ = nvml.nvmlDeviceGetMigMode(gpu)
            for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if cut else 0):
                with suppress(nvml.NVMLError_NotFound):
                    slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place))
        return slices


# --- leases -----------------------------------------------------------------------------------------------------------


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
        if not try_lock(place.with_name(f"{place.name}.lock"), locks, shared=slots > 1):
            return None
        names = (place.with_name(f"{place.name}.{slot}.lock") for slot in range(slots))
        if slots == 1 or any(try_lock(name, locks) for name in names):
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
                limit = max(self._settings.gpu_wait, _MAX_RELEASE_SECONDS if self._ending else 0.0)
                if self._clock() - idle_since > limit:
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
        settings, driver = self._settings, self._driver
        free = {one.uuid: f"{driver.free_bytes(one.uuid) / 1e9:.1f} GB free" for one in self.devices}
        states = ", ".join(
            f"{uuid}: {text}, processes: {len(driver.list_processes(uuid))}" for uuid, text in free.items()
        )
        remaining = (item for lease in self._ending for item in self._list_remaining_processes(lease).items())
        left = ", ".join(f"{uuid} by process {' and '.join(map(str, pids))}" for uuid, pids in remaining)
        outliving = f"an experiment has ended but still holds {left}: stop it with kill -9; as a result, "
        wanted = "no GPU" if count == 1 else f"fewer than {count} GPUs"
        return (
            f"{outliving if left else ''}within {settings.gpu_wait:g} s, {wanted} had {settings.gpu_free_gb:g} GB free "
            f"and no other run of yours ({states}): stop what uses them, choose others with --gpus, or lower "
            "sandbox.gpu_free_gb"
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
        driver = nvml or Nvml()
        known = driver.list_devices()
        visible = filter_visible_devices(known, variable)
        if not visible:
            why = f"CUDA_VISIBLE_DEVICES={variable} hides all {len(known)}" if known else "the driver lists no GPU"
            raise GpuError(why)
    except GpuError as error:
        message = f"sandbox.device is cuda, but {error}; fix that, or run on the CPU: --set sandbox.device=cpu"
        raise GpuError(message) from error
    devices = select_devices(visible, settings.gpus)
    if len(devices) < settings.gpus_per_node:
        available = "1 GPU is" if len(devices) == 1 else f"{len(devices)} GPUs are"
        raise GpuError(f"sandbox.gpus_per_node is {settings.gpus_per_node}, but {available} available")
    return GpuLeases(driver, devices, settings, folder=folder)
