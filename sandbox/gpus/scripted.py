"""GPUs that are only written down. For tests, and to try settings on a machine that has none."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.errors import GpuError
from sandbox.gpus.device import Device


class ScriptedNvml:
    """An `Nvml` of any devices: `holds[uuid]` maps process ids to the bytes that they hold there."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = tuple(devices)
        self.holds: dict[str, dict[int, int]] = {one.uuid: {} for one in self._devices}

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def free(self, uuid: str) -> int:
        return self._device(uuid).memory - sum(self.holds[uuid].values())

    def processes(self, uuid: str) -> dict[int, int]:
        return dict(self.holds[self._device(uuid).uuid])

    def _device(self, uuid: str) -> Device:
        for one in self._devices:
            if one.uuid == uuid:
                return one
        raise GpuError(f"there is no GPU {uuid!r}")


def gpus(count: int, *, memory: int = 80 * 10**9) -> tuple[Device, ...]:
    """Some equal devices with numbered UUIDs. `memory` is in bytes, of one."""
    return tuple(Device(f"GPU-{n:08x}-0000-0000-0000-000000000000", "scripted", index=n, minor=n, memory=memory)
                 for n in range(count))
