"""NVIDIA's management library, as the driver brings it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sandbox.errors import GpuError
from sandbox.gpus.device import Device


class DriverNvml:
    """An `Nvml` over the driver of this machine. Raises `GpuError` where there is none."""

    def __init__(self) -> None:
        try:
            import pynvml  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise GpuError("the package nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
        self._nvml: Any = pynvml
        self._call(pynvml.nvmlInit)

    def devices(self) -> tuple[Device, ...]:
        """Every device that code can run on, in the order of the PCI bus; slices where a GPU is cut into them."""
        return tuple(self._call(lambda: list(self._devices())))

    def free(self, uuid: str) -> int:
        """Bytes of memory that nobody uses. Raises `GpuError`."""
        return int(self._call(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._handle(uuid)).free))

    def processes(self, uuid: str) -> dict[int, int]:
        """Process id -> bytes that it holds (0 where the driver does not say). Raises `GpuError`."""
        running = self._call(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle(uuid)))
        return {int(one.pid): int(one.usedGpuMemory or 0) for one in running}

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._nvml.NVMLError as error:
            raise GpuError(f"the NVIDIA driver does not answer: {error}") from error

    def _handle(self, uuid: str) -> Any:
        return self._nvml.nvmlDeviceGetHandleByUUID(uuid)

    def _devices(self) -> Iterator[Device]:
        for index in range(self._nvml.nvmlDeviceGetCount()):
            gpu = self._nvml.nvmlDeviceGetHandleByIndex(index)
            for handle in self._slices(gpu) or [gpu]:
                yield Device(
                    uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)), name=_text(self._nvml.nvmlDeviceGetName(handle)),
                    index=index, minor=int(self._nvml.nvmlDeviceGetMinorNumber(gpu)),
                    memory=int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total), capability=self._capability(gpu))

    def _capability(self, gpu: Any) -> tuple[int, int] | None:
        try:
            major, minor = self._nvml.nvmlDeviceGetCudaComputeCapability(gpu)
        except self._nvml.NVMLError_NotSupported:
            return None
        return int(major), int(minor)

    def _slices(self, gpu: Any) -> list[Any]:
        """The MIG slices of a GPU; none where it is not cut, or cannot be."""
        nvml = self._nvml
        try:
            cut, _ = nvml.nvmlDeviceGetMigMode(gpu)
        except nvml.NVMLError_NotSupported:
            return []
        found: list[Any] = []
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) if cut else 0):
            try:
                found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place))
            except nvml.NVMLError_NotFound:
                continue
        return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
