"""What the processes of an attempt take: peaks of memory, on the host and on leased GPUs, by looking now and then.

Host memory is that of the kernel and all that it started, pages which several processes share counted once where the
system tells (else in each). A peak between two looks is missed, except of a single process: that the system keeps.
Memory of a GPU is what its driver lists for these processes. Where the driver does not know them (in most containers)
and the GPU was leased alone, it is how far its free memory fell, neighbours' use included; else it stays unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.errors import GpuError
from sandbox.gpus.device import Nvml
from sandbox.gpus.leases import Lease
from sandbox.isolation.family import family, resident

_STATUS = re.compile(r"^(VmHWM|VmRSS):\s+(\d+)", re.MULTILINE)


@dataclass
class Usage:
    """Peaks in bytes so far. `gpu` is None where it is unknown, or none is leased."""

    host: int = 0
    gpu: int | None = None
    processes: set[int] = field(default_factory=set[int])
    """Every process that was seen."""


class Meter:
    """Looks at followed processes every `interval` seconds."""

    def __init__(self, nvml: Nvml | None, *, interval: float, alone: bool = True) -> None:
        self._nvml = nvml
        self._interval = interval
        self._alone = alone
        self._followed: dict[int, tuple[Lease, Usage]] = {}
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def follow(self, root: int, lease: Lease, usage: Usage) -> AsyncGenerator[None]:
        """While inside, the peaks of a process and its descendants go to `usage`; looked at a last time at the end."""
        self._followed[root] = lease, usage
        self._begin()
        try:
            yield
        finally:
            del self._followed[root]
            await asyncio.to_thread(self._look, {root: (lease, usage)})
            self._cease()

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._look_on())

    def _cease(self) -> None:
        if self._task is not None and not self._followed:
            self._task.cancel()
            self._task = None

    async def _look_on(self) -> None:
        while True:
            await asyncio.to_thread(self._look, dict(self._followed))
            await asyncio.sleep(self._interval)

    def _look(self, followed: dict[int, tuple[Lease, Usage]]) -> None:
        for root, (lease, usage) in followed.items():
            processes = family(root)
            usage.processes |= processes
            sizes = {one: _resident(one) for one in processes}
            now = sum(_part(one, whole, alone=len(sizes) == 1) for one, (whole, _) in sizes.items())
            usage.host = max(usage.host, now, *(most for _, most in sizes.values()))
            with contextlib.suppress(GpuError):
                self._look_at_gpus(lease, usage)

    def _look_at_gpus(self, lease: Lease, usage: Usage) -> None:
        """Peaks add up over the GPUs of a lease."""
        if self._nvml is None or not lease.devices:
            return
        held = [self._held(self._nvml, uuid, lease, usage.processes) for uuid in lease.uuids]
        known = [one for one in held if one is not None]
        if known:
            usage.gpu = max(usage.gpu or 0, sum(known))

    def _held(self, nvml: Nvml, uuid: str, lease: Lease, ours: set[int]) -> int | None:
        listed = sum(size for pid, size in nvml.processes(uuid).items() if pid in ours)
        if listed or not self._alone:
            return listed or None
        return max(0, lease.free[uuid] - nvml.free(uuid))


def _part(process: int, whole: int, *, alone: bool) -> int:
    """What counts of the `whole` that a process holds; one that is alone shares nothing that would count elsewhere."""
    part = None if alone else resident(process)
    return whole if part is None else part


def _resident(process: int) -> tuple[int, int]:
    """Bytes that a process holds now, and the most that it ever held; none once it is gone."""
    with contextlib.suppress(OSError):
        fields = dict(_STATUS.findall(Path(f"/proc/{process}/status").read_text(errors="replace")))
        return int(fields.get("VmRSS", 0)) * 1024, int(fields.get("VmHWM", 0)) * 1024
    return 0, 0
