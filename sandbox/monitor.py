"""Measure the memory that running code uses.

Host memory is that of the kernel and its child processes; pages shared by several processes count once if the system
reports them, otherwise once per process. Peaks between two samples are missed, except for a single process, whose peak
the system records, and for the experiment's process, whose peak its kernel reports at the end (`lab._zygote`).

GPU memory is the memory that the driver lists for these processes. If the driver does not know them (in most
containers) and the GPU was leased exclusively, GPU memory is the decrease in free memory, including use by others;
otherwise it is unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from labwright.sandbox.gpus import GpuLease, Nvml
from labwright.sandbox.isolation.processes import list_process_tree, measure_unique_use
from labwright.sandbox.job import GpuError

METER_SECONDS = 1.0
"""Interval between samples of memory use, in seconds; a sample takes milliseconds."""


@dataclass
class PeakUsage:
    """Current peaks, in bytes. `peak_gpu_bytes` is None if unknown or without a GPU."""

    peak_host_bytes: int = 0
    current_host_bytes: int = 0
    """Host memory at the last sample."""
    peak_gpu_bytes: int | None = None
    processes: set[int] = field(default_factory=set[int])
    """All processes ever seen."""


class MemoryMeter:
    """Samples the memory of processes every `METER_SECONDS`."""

    def __init__(self, nvml: Nvml | None, *, alone: bool = True) -> None:
        self._nvml = nvml
        self._alone = alone

    @asynccontextmanager
    async def measure_peaks(self, root: int, lease: GpuLease, usage: PeakUsage) -> AsyncGenerator[None]:
        """While inside, record the peaks of a process and its descendants in `usage`, with a final sample at the
        end.
        """

        async def sample_repeatedly() -> None:
            while True:
                await asyncio.to_thread(self._sample, root, lease, usage)
                await asyncio.sleep(METER_SECONDS)

        task = asyncio.create_task(sample_repeatedly())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.to_thread(self._sample, root, lease, usage)

    def _sample(self, root: int, lease: GpuLease, usage: PeakUsage) -> None:
        processes = list_process_tree(root)
        usage.processes |= processes
        # the peak of a single process is more accurate
        use = measure_unique_use(processes if len(processes) > 1 else ())
        usage.current_host_bytes = use.private + use.shared
        usage.peak_host_bytes = max(usage.peak_host_bytes, usage.current_host_bytes, *map(_read_peak_bytes, processes))
        if self._nvml is not None and lease.devices:
            usage.processes |= list_process_tree(root)  # reading the memory above may have taken long
            with suppress(GpuError):
                self._sample_gpus(self._nvml, lease, usage)

    def _sample_gpus(self, nvml: Nvml, lease: GpuLease, usage: PeakUsage) -> None:
        """Update the peak, summed over the GPUs of a lease."""
        known: list[int] = []
        for uuid in lease.uuids:
            listed = sum(size for pid, size in nvml.list_processes(uuid).items() if pid in usage.processes)
            if listed:
                known.append(listed)
            elif self._alone:
                known.append(max(0, lease.free_bytes[uuid] - nvml.free_bytes(uuid)))
        if any(known):  # short code may end between two samples
            usage.peak_gpu_bytes = max(usage.peak_gpu_bytes or 0, sum(known))


def _read_peak_bytes(process: int) -> int:
    """Return the peak of a process's memory in bytes, without mapped files, which the system can reclaim; 0 if it has
    exited."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/status").read_text(errors="replace")
        sizes = {name: int(size) * 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
        return max(0, sizes.get("VmHWM", 0) - sizes.get("RssFile", 0))
    return 0
