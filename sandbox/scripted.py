"""An executor that runs no code, and GPUs that do not exist: what they do is written down.

For benchmarks of the search, for tests, and to try settings of GPUs on a machine that has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from record.nouns.data import Measurement
from record.nouns.nodes import Failure
from sandbox.errors import ExecutorError, GpuError
from sandbox.gpus import Device
from sandbox.job import Job, Outcome, Progress, Slots, TooLate, Watch


class ScriptedExecutor:
    """An `Executor` whose outcomes are written down: `script(job)` gives a delay in seconds and the outcome.

    Slots, waiting, watching and cancellation are real. Files appear only where the function writes them into
    `job.folder`. A job that its watch ends has measured nothing. `started` names the jobs in the order in which they
    got a place, `most` how many held one at the same time.
    """

    def __init__(
        self, script: Callable[[Job], tuple[float, Outcome]], *, slots: int = 1, watch_seconds: float = 5.0,
    ) -> None:
        self.slots = slots
        self.device = "cpu"
        self.started: list[str] = []
        self.most = 0
        self._script = script
        self._watch_seconds = watch_seconds
        self._gate = Slots(slots)
        self._closed = asyncio.Event()
        self._holding = 0

    async def run(self, job: Job) -> Outcome:
        async with self._gate.hold(alone=job.alone):
            if job.late():
                raise TooLate(job.name)
            job.begins()
            if self._closed.is_set():
                raise ExecutorError("the executor was closed")
            self._holding += 1
            self.most = max(self.most, self._holding)
            self.started.append(job.name)
            try:
                delay, outcome = self._script(job)
                if job.watch is not None:
                    return await self._watched(delay, outcome, job.watch)
                await self._pause(delay)
                return outcome
            finally:
                self._holding -= 1

    async def evaluate(self, attempt: Path, *, seed: int, sealed: Mapping[str, str]) -> tuple[Measurement, ...]:
        """Nothing: there are no scorers here."""
        if self._closed.is_set():
            raise ExecutorError("the executor was closed")
        return ()

    async def close(self) -> None:
        """End what still waits; idempotent."""
        self._closed.set()

    async def _watched(self, delay: float, outcome: Outcome, watch: Watch) -> Outcome:
        seconds, ended = 0.0, False
        while not ended:
            await self._pause(min(self._watch_seconds, delay - seconds))
            seconds = min(seconds + self._watch_seconds, delay)
            ended = seconds == delay
            reason = watch(Progress(seconds, quiet=0.0 if ended else seconds, ended=ended))
            if reason is not None:
                return Outcome(seconds=seconds, failure=Failure(kind="hopeless", message=reason))
        return outcome

    async def _pause(self, delay: float) -> None:
        if delay <= 0:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), timeout=delay)
        except TimeoutError:
            return
        raise ExecutorError("the executor was closed while the job ran")


class ScriptedNvml:
    """An `Nvml` of any devices: `holds[uuid]` maps process ids to the bytes that they hold there."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)
        self.holds: dict[str, dict[int, int]] = {device.uuid: {} for device in self._devices}

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def free(self, uuid: str) -> int:
        return self._device(uuid).memory - sum(self.holds[uuid].values())

    def processes(self, uuid: str) -> dict[int, int]:
        return dict(self.holds[self._device(uuid).uuid])

    def _device(self, uuid: str) -> Device:
        for device in self._devices:
            if device.uuid == uuid:
                return device
        raise GpuError(f"there is no GPU {uuid!r}")


def gpus(count: int, *, memory: int = 80 * 10**9) -> tuple[Device, ...]:
    """Some equal devices with numbered UUIDs. `memory` is in bytes, of one."""
    return tuple(Device(f"GPU-{n:08x}-0000-0000-0000-000000000000", "scripted", index=n, minor=n, memory=memory)
                 for n in range(count))
