"""A GPU, and what can be asked about it. `DriverNvml` asks the driver, `ScriptedNvml` stands in where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Device:
    """A GPU, or a MIG slice of one. `memory` is in bytes, in all."""

    uuid: str
    """`GPU-...` or `MIG-...`: the same after a restart, in a container, and whatever other GPUs are hidden."""
    name: str
    index: int
    """Of the GPU in the order of the PCI bus, as nvidia-smi numbers them."""
    minor: int
    """Of its device file, /dev/nvidia<minor>."""
    memory: int

    @property
    def sliced(self) -> bool:
        return self.uuid.startswith("MIG-")


class Nvml(Protocol):
    """What NVIDIA's management library knows. Every method may block for some milliseconds."""

    def devices(self) -> tuple[Device, ...]:
        """Every device that code can run on, in the order of the PCI bus; slices where a GPU is cut into them."""
        ...

    def free(self, uuid: str) -> int:
        """Bytes of memory that nobody uses. Raises `GpuError`."""
        ...

    def processes(self, uuid: str) -> dict[int, int]:
        """Process id -> bytes that it holds (0 where the driver does not say). Raises `GpuError`.

        In a container the driver may number processes as its host does, or list none.
        """
        ...
