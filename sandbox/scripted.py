"""An executor that runs no code, and GPUs that do not exist: what they do is written down.

For benchmarks of the search, for tests, and to try settings of GPUs on a machine that has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from record.nouns.data import Measurement
from record.nouns.nodes import Failure
from sandbox.errors import ExecutorError, GpuError
from sandbox.gpus import Device
from sandbox.job import Job, Logged, Outcome, Progress, Slots, TooLate, Watch


class ScriptedOutcome(NamedTuple):
    """What a job comes to, with what a watch sees on the way: values, each at so many seconds after the start."""

    delay: float
    outcome: Outcome
    logged: Sequence[tuple[float, Logged]] = ()


class ScriptedExecutor:
    """An `Executor` whose outcomes are written down: `script(job)` gives a delay in seconds and the outcome.

    Slots, waiting, watching and cancellation are real. Files appear only where the function writes them into
    `job.folder`. A job that its watch ends has measured nothing. `started` names the jobs in the order in which they
    got a place, `most` how many held one at the same time.
    """

    def __init__(
        self, script: Callable[[Job], ScriptedOutcome | tuple[float, Outcome]], *, slots: int = 1,
        watch_seconds: float = 5.0,
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
                written = self._script(job)
                act = written if isinstance(written, ScriptedOutcome) else ScriptedOutcome(*written)
                if job.watch is not None:
                    return await self._watched(act, job.watch)
                await self._pause(act.delay)
                return act.outcome
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

    async def _watched(self, act: ScriptedOutcome, watch: Watch) -> Outcome:
        seconds = 0.0
        while seconds + self._watch_seconds < act.delay:
            await self._pause(self._watch_seconds)
            seconds += self._watch_seconds
            reason = watch(_glance(act, seconds))
            if reason is not None:
                return Outcome(seconds=seconds, failure=Failure(kind="hopeless", message=reason))
        await self._pause(act.delay - seconds)
        reason = watch(replace(_glance(act, act.delay), quiet=0.0, ended=True))
        return act.outcome if reason is None else replace(
            act.outcome, failure=Failure(kind="hopeless", message=reason))

    async def _pause(self, delay: float) -> None:
        if delay <= 0:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), timeout=delay)
        except TimeoutError:
            return
        raise ExecutorError("the executor was closed while the job ran")


def _glance(act: ScriptedOutcome, seconds: float) -> Progress:
    seen = [(at, point) for at, point in act.logged if at <= seconds]
    heard = max((at for at, _ in seen), default=0.0)
    return Progress(seconds, quiet=seconds - heard, lines=tuple(point for _, point in seen))


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
