"""The GPUs of this machine, and those that a run may use.

`DriverNvml` queries NVIDIA's management library; `sandbox.fake_executor.FakeNvml` replaces it if there is no driver.
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
    return (
        f"cuda ({several}{names}, {min(device.memory_bytes for device in devices) / 1e9:.0f} GB of "
        f"memory{bf16}{shared})"
    )


class Nvml(Protocol):
    """Information from NVIDIA's management library. Every method may block for some milliseconds."""

    def list_devices(self) -> tuple[GpuDevice, ...]:
        """List every usable device in PCI bus order; MIG slices for a GPU that is divided into them."""
        ...

    def free_bytes(self, uuid: str) -> int:
        """Return the free memory in bytes. Raises `GpuError`."""
        ...

    def list_processes(self, uuid: str) -> dict[int, int]:
        """Map process ids to their memory in bytes (0 if unknown). Raises `GpuError`.

        In a container, the driver may use the host's process ids or list none.
        """
        ...


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
            raise GpuError(
                f"sandbox.gpus: {word!r} is not one of the {len(visible)} visible GPUs: "
                f"{known}; give indices from 0, or UUIDs"
            )
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
    matches = [device for device in devices if device.uuid == word] or [
        device for device in devices if device.uuid.startswith(word)
    ]
    return matches[0] if len(matches) == 1 else None


class DriverNvml:
    """An `Nvml` that uses this machine's driver. Raises `GpuError` if there is none."""

    def __init__(self) -> None:
        import pynvml  # pyright: ignore[reportMissingTypeStubs]  # only needed with a GPU

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
