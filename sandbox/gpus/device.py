"""A GPU, and what can be asked about it. `DriverNvml` asks the driver, `ScriptedNvml` stands in where there is none."""

from __future__ import annotations

from collections.abc import Sequence
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
    capability: tuple[int, int] | None = None
    """CUDA compute capability, where the driver says it."""

    @property
    def sliced(self) -> bool:
        return self.uuid.startswith("MIG-")


def in_words(devices: Sequence[Device], *, each: int = 1, shared_by: int = 1) -> str:
    """What `lab.device` stands for, as prompts say it: of several kinds of GPU, what holds for all.

    bf16 needs compute capability 8.0. Source: CUDA C++ programming guide, "Compute capabilities".
    """
    if not devices:
        return "cpu"
    names = " or ".join(sorted({one.name for one in devices}))
    known = [one.capability for one in devices if one.capability is not None]
    bf16 = f", {'with' if min(known) >= (8, 0) else 'without'} bf16" if known else ""
    several = f"{each} GPUs for each experiment: " if each > 1 else ""
    shared = f", shared by {shared_by} experiments" if shared_by > 1 else ""
    return f"cuda ({several}{names}, {min(one.memory for one in devices) / 1e9:.0f} GB of memory{bf16}{shared})"


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
