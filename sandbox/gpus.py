"""The GPUs of this machine, and which of them a run may use.

`DriverNvml` asks NVIDIA's management library; `sandbox.fake_executor.ScriptedNvml` stands in where there is no driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from labwright.record.whole_numbers import parse_whole_number
from labwright.sandbox.errors import GpuError


@dataclass(frozen=True)
class GpuDevice:
    """A GPU, or a MIG slice of one. `memory` is in bytes, in all."""

    uuid: str
    """`GPU-...` or `MIG-...`: the same after a restart, in a container, and whatever other GPUs are hidden."""
    name: str
    index: int
    """Of the GPU in the order of the PCI bus, as nvidia-smi numbers them."""
    minor: int
    """Of its device file, /dev/nvidia<minor>."""
    memory_bytes: int
    capability: tuple[int, int] | None = None
    """CUDA compute capability, where the driver says it."""


def describe_devices(devices: Sequence[GpuDevice], *, each: int = 1, shared_by: int = 1) -> str:
    """What `lab.device` stands for, as prompts say it: of several kinds of GPU, what holds for all.

    bf16 needs compute capability 8.0. Source: CUDA C++ programming guide, "Compute capabilities".
    """
    if not devices:
        return "cpu"
    names = " or ".join(sorted({device.name for device in devices}))
    known = [device.capability for device in devices if device.capability is not None]
    bf16 = f", {'with' if min(known) >= (8, 0) else 'without'} bf16" if known else ""
    several = f"{each} GPUs for each experiment: " if each > 1 else ""
    shared = f", shared by {shared_by} experiments" if shared_by > 1 else ""
    return (
        f"cuda ({several}{names}, {min(device.memory_bytes for device in devices) / 1e9:.0f} GB of "
        f"memory{bf16}{shared})"
    )


class Nvml(Protocol):
    """What NVIDIA's management library knows. Every method may block for some milliseconds."""

    def list_devices(self) -> tuple[GpuDevice, ...]:
        """Every device that code can run on, in the order of the PCI bus; slices where a GPU is cut into them."""
        ...

    def free_bytes(self, uuid: str) -> int:
        """Bytes of memory that nobody uses. Raises `GpuError`."""
        ...

    def list_processes(self, uuid: str) -> dict[int, int]:
        """Process id -> bytes that it holds (0 where the driver does not say). Raises `GpuError`.

        In a container the driver may number processes as its host does, or list none.
        """
        ...


def read_cuda_visible_devices() -> str | None:
    """CUDA_VISIBLE_DEVICES as this process was given it; None where it is not set."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def filter_visible_devices(devices: Sequence[GpuDevice], variable: str | None) -> tuple[GpuDevice, ...]:
    """The devices that CUDA_VISIBLE_DEVICES leaves (None: it is not set), in its order.

    It holds indices, UUIDs, the beginnings of UUIDs, or UUIDs of MIG slices. What CUDA does not know ends the list: an
    index of -1 hides all that follow. Indices count in the order of the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID.
    An index of a GPU that is cut into slices means its first slice.
    Source: CUDA C++ programming guide, "CUDA environment variables".
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
    """The devices that `sandbox.gpus` names: all where it is empty. Raises `GpuError`.

    An index counts among the visible ones, as torch does: with CUDA_VISIBLE_DEVICES=4,5, "0" is the GPU numbered 4.
    """
    chosen: list[GpuDevice] = []
    for word in wanted:
        place = parse_whole_number(word)
        device = next(iter(visible[place:]), None) if place is not None else _find_device(visible, word)
        if device is None:
            known = ", ".join(f"{place} {device.name} {device.uuid}" for place, device in enumerate(visible)) or "none"
            raise GpuError(
                f"sandbox.gpus names {word!r}, which is none of the {len(visible)} visible GPUs: "
                f"{known}; give indices from 0, or UUIDs"
            )
        if device in chosen:
            raise GpuError(f"sandbox.gpus names {device.uuid} twice: name each GPU once")
        chosen.append(device)
    return tuple(chosen) if wanted else tuple(visible)


def _find_device(devices: Sequence[GpuDevice], word: str) -> GpuDevice | None:
    """The one device of that index, UUID or beginning of a UUID."""
    if (index := parse_whole_number(word)) is not None:
        return next((device for device in devices if device.index == index), None)
    if not word.startswith(("GPU-", "MIG-")):
        return None
    matches = [device for device in devices if device.uuid == word] or [
        device for device in devices if device.uuid.startswith(word)
    ]
    return matches[0] if len(matches) == 1 else None


class DriverNvml:
    """An `Nvml` over the driver of this machine. Raises `GpuError` where there is none."""

    def __init__(self) -> None:
        import pynvml  # pyright: ignore[reportMissingTypeStubs]  # only where a GPU is asked for

        self._nvml: Any = pynvml
        self._call(pynvml.nvmlInit)

    def list_devices(self) -> tuple[GpuDevice, ...]:
        return tuple(self._call(lambda: list(self._iterate_devices())))

    def free_bytes(self, uuid: str) -> int:
        return int(self._call(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._get_handle(uuid)).free))

    def list_processes(self, uuid: str) -> dict[int, int]:
        running = self._call(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._get_handle(uuid)))
        return {int(process.pid): int(process.usedGpuMemory or 0) for process in running}

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise GpuError(f"the NVIDIA driver does not answer: {error}") from error

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
        """The MIG slices of a GPU; none where it is not cut, or cannot be."""
        nvml = self._nvml
        slices: list[Any] = []
        with suppress(nvml.NVMLError_NotSupported):
            cut, _ = nvml.nvmlDeviceGetMigMode(gpu)
            for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if cut else 0):
                with suppress(nvml.NVMLError_NotFound):
                    slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place))
        return slices
