"""Queries of the GPU driver's library. The test machines have no driver, so its Python module is replaced by a fake one
with a scripted machine: this tests the queries and the use of their answers, not the library."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from labwright.sandbox.gpus import GpuDevice, Nvml
from labwright.sandbox.job import GpuError

TOTAL = 80 * 10**9


class NvmlError(Exception):
    pass


class NotSupported(NvmlError):
    pass


class NotFound(NvmlError):
    pass


class Library:
    """Two GPUs: the first whole, the second with slices at positions 0 and 2."""

    NVMLError, NVMLError_NotSupported, NVMLError_NotFound = NvmlError, NotSupported, NotFound

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"GPU-{index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("GPU-0", "GPU-1", "MIG-0", "MIG-2"):
            raise NotFound("Not Found")
        return uuid

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        if handle == "GPU-0":
            raise NotSupported("Not Supported")
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:
        if index not in (0, 2):
            raise NotFound("Not Found")
        return f"MIG-{index}"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "H200"

    def nvmlDeviceGetMinorNumber(self, handle: str) -> int:
        return {"GPU-0": 3, "GPU-1": 1}[handle]

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> list[int]:
        if handle == "GPU-0":
            raise NotSupported("Not Supported")
        return [9, 0]

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=TOTAL, free=TOTAL // 2)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=7, usedGpuMemory=100), SimpleNamespace(pid=8, usedGpuMemory=None)]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def test_the_names_are_those_of_the_real_library() -> None:
    real = importlib.import_module("pynvml")
    assert [name for name in dir(Library) if name.startswith(("nvml", "NVML")) and not hasattr(real, name)] == []


def test_gpus_and_slices_are_found(library: Library) -> None:
    assert Nvml().list_devices() == (
        GpuDevice("GPU-0", "H200", index=0, minor=3, memory_bytes=TOTAL),
        GpuDevice("MIG-0", "H200", index=1, minor=1, memory_bytes=TOTAL, capability=(9, 0)),
        GpuDevice("MIG-2", "H200", index=1, minor=1, memory_bytes=TOTAL, capability=(9, 0)),
    )


def test_a_driver_that_fails_is_said(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    def broken() -> None:
        raise NvmlError("Driver/library version mismatch")

    monkeypatch.setattr(library, "nvmlInit", broken)
    with pytest.raises(GpuError, match="does not respond: Driver/library version mismatch"):
        Nvml()
