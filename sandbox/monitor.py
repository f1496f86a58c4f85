"""What is seen of code while it runs: the curves that it logs, for the watch of its job, and the memory that it takes.

What the code writes is read as untrusted: no look blocks the event loop, follows a link, or takes in more than the
first `LOOK` bytes and `POINTS` values. Lines that are none of `lab.log`'s, or are half written, count for nothing.

Memory of the host is that of the kernel and all that it started, pages which several processes share counted once where
the system tells (else in each). A peak between two looks is missed, except of a single process: that the system keeps,
and of what runs the program its zygote tells at its end (`lab._zygote`).
Memory of a GPU is what its driver lists for these processes. Where the driver does not know them (in most containers)
and the GPU was leased alone, it is how far its free memory fell, neighbours' use included; else it stays unknown.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from labwright.sandbox.errors import GpuError
from labwright.sandbox.gpu_leases import GpuLease
from labwright.sandbox.gpus import Nvml
from labwright.sandbox.isolation.processes import list_process_tree, read_proportional_bytes
from labwright.sandbox.job import MEASUREMENTS, ExecutionProgress, LoggedPoint, ProgressWatch
from labwright.sandbox.output import Transcript
from labwright.sandbox.safe_io import MAX_FILE_BYTES, BadFile, FolderRef, OpenFolder, open_regular, open_subfolder

WATCH_SECONDS = 5.0
"""Between two looks at what running code logs, for the pruning of hopeless experiments, which run for minutes."""
METER_SECONDS = 1.0
"""Between two looks at the memory that experiments use: a look takes milliseconds."""
MAX_READ_BYTES = 4 * 2**20
"""Bytes of `measurements.jsonl` that a look reads."""
MAX_POINTS = 10_000
"""Values of one attempt that are held; later ones are not looked at."""
MAX_LINE_CHARS = 10_000
"""Characters of a line beyond which it is none of ours."""
_MAX_WORD_CHARS = 100
"""Characters of a name, a condition, a dataset or a split: what `lab` allows for a name."""


class JobMonitor:
    """Calls the watch of one job every `WATCH_SECONDS` while its code runs, and once after it ended."""

    def __init__(self, watch: ProgressWatch, folder: Path) -> None:
        self._watch = watch
        self._folder = OpenFolder(folder)  # wherever it is moved to
        self._last_state = (0, 0, 0)
        self._last_activity = 0.0
        self._check_lock = Lock()  # `last` may come while `follow` still looks, in another thread

    async def watch_until_ended(self, transcript: Transcript) -> str:
        """Why the code is to be ended. Returns only then: cancel it where the code ends by itself."""
        began = time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            seconds = time.monotonic() - began
            reason = await asyncio.to_thread(self._check, seconds, transcript.char_count)
            if reason is not None:
                return reason

    async def check_after_end(self, seconds: float) -> str | None:
        """What the watch says once all processes of the code are gone and everything that it logged can be read."""
        return await asyncio.to_thread(self._check, seconds, None)

    def read_progress(self, seconds: float, printed: int | None) -> ExecutionProgress:
        """What is seen now. `printed` is how many characters came so far; None once the code has ended."""
        lines = read_curves(self._folder)
        if printed is None:
            return ExecutionProgress(seconds, quiet_seconds=0.0, points=lines, ended=True)
        signs = (printed, _file_size(self._folder, MEASUREMENTS), _file_size(self._folder, "submissions.jsonl"))
        if signs != self._last_state:
            self._last_state, self._last_activity = signs, seconds
        return ExecutionProgress(seconds, quiet_seconds=seconds - self._last_activity, points=lines)

    def judge_progress(self, glance: ExecutionProgress) -> str | None:
        """What the watch says of a glance, which may have been taken on another machine."""
        with self._check_lock:
            return self._watch(glance)

    def _check(self, seconds: float, printed: int | None) -> str | None:
        with self._check_lock:
            return self._watch(self.read_progress(seconds, printed))


def read_curves(folder: FolderRef) -> tuple[LoggedPoint, ...]:
    """The values with a step in a folder's `measurements.jsonl`, of very many the first; none where it is odd."""
    start = b""
    with suppress(BadFile, OSError), open_regular(folder, MEASUREMENTS, MAX_FILE_BYTES) as file:
        start = file.read(MAX_READ_BYTES)
    logged: list[LoggedPoint] = []
    for line in start.split(b"\n")[:-1]:
        with suppress(ValidationError, OverflowError):
            point = LoggedPointLine.model_validate_json(line[:MAX_LINE_CHARS])
            curve = point.dataset, point.condition, point.name, point.split
            if all(map(str.isprintable, curve)):
                logged.append(LoggedPoint(curve, point.step, float(point.value)))
    return tuple(logged[:MAX_POINTS])


_BoundedText = Annotated[str, Field(max_length=_MAX_WORD_CHARS)]


class LoggedPointLine(BaseModel):
    """A line of `lab.log` with a step; its value may be not finite."""

    model_config = ConfigDict(strict=True)

    dataset: _BoundedText
    condition: _BoundedText
    name: _BoundedText
    split: _BoundedText
    step: int = Field(ge=-(2**53), le=2**53)
    value: int | float


def _file_size(folder: FolderRef, name: str) -> int:
    """Bytes of a file, of a link those of the link itself; 0 where there is none."""
    with suppress(BadFile, OSError), open_subfolder(folder) as place:
        return os.stat(name, dir_fd=place, follow_symlinks=False).st_size
    return 0


@dataclass
class PeakUsage:
    """Peaks in bytes so far. `gpu` is None where it is unknown, or none is leased."""

    peak_host_bytes: int = 0
    current_host_bytes: int = 0
    """Of the host, at the last look."""
    peak_gpu_bytes: int | None = None
    processes: set[int] = field(default_factory=set[int])
    """Every process that was seen."""


class MemoryMeter:
    """Looks at followed processes every `METER_SECONDS`."""

    def __init__(self, nvml: Nvml | None, *, alone: bool = True) -> None:
        self._nvml = nvml
        self._alone = alone

    @asynccontextmanager
    async def measure_peaks(self, root: int, lease: GpuLease, usage: PeakUsage) -> AsyncGenerator[None]:
        """While inside, the peaks of a process and its descendants go to `usage`; looked at a last time at the end."""

        async def look_on() -> None:
            while True:
                await asyncio.to_thread(self._sample, root, lease, usage)
                await asyncio.sleep(METER_SECONDS)

        task = asyncio.create_task(look_on())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.to_thread(self._sample, root, lease, usage)

    def _sample(self, root: int, lease: GpuLease, usage: PeakUsage) -> None:
        processes = list_process_tree(root)
        usage.processes |= processes
        now = 0
        if len(processes) > 1:  # else its peak says more
            parts = {process: read_proportional_bytes(process) for process in processes}
            now = sum(
                _read_process_memory(process, "VmRSS") if part is None else part for process, part in parts.items()
            )
        usage.current_host_bytes = now
        usage.peak_host_bytes = max(
            usage.peak_host_bytes, now, *(_read_process_memory(process, "VmHWM") for process in processes)
        )
        if self._nvml is not None and lease.devices:
            with suppress(GpuError):
                self._sample_gpus(self._nvml, lease, usage)

    def _sample_gpus(self, nvml: Nvml, lease: GpuLease, usage: PeakUsage) -> None:
        """Peaks add up over the GPUs of a lease."""
        known: list[int] = []
        for uuid in lease.uuids:
            listed = sum(size for pid, size in nvml.list_processes(uuid).items() if pid in usage.processes)
            if listed:
                known.append(listed)
            elif self._alone:
                known.append(max(0, lease.free_bytes[uuid] - nvml.free_bytes(uuid)))
        if known:
            usage.peak_gpu_bytes = max(usage.peak_gpu_bytes or 0, sum(known))


def _read_process_memory(process: int, field: str) -> int:
    """Bytes that a process holds now (VmRSS), or held at most (VmHWM), less those of files that it maps, which the
    system takes back where it needs them; none once it is gone."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/status").read_text(errors="replace")
        sizes = {name: int(size) * 1024 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
        return max(0, sizes.get(field, 0) - sizes.get("RssFile", 0))
    return 0
