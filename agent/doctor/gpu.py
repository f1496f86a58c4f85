"""GPU self-tests in real kernels: `scientist doctor --gpu`, `make gpu-check`.

The report describes the hardware and software on which numbers depend. It contains no host, user or folder names, so it
can be shared. With `device` set to the CPU, the same checks run in a CPU version, which the tests use.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from labwright.record.schema.data_plan import HyperparameterSetting
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.nodes import Cell
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.gpus import GpuDevice, acquire_gpu_slot, open_gpu_leases, read_cuda_visible_devices
from labwright.sandbox.isolation.processes import get_runtime_folder
from labwright.sandbox.job import JobOutcome
from labwright.sandbox.settings import SandboxSettings

CHECK_LIMIT_SECONDS = 120.0
"""Seconds per experiment of a check; the first one on a GPU loads its libraries from disk."""
HANG_LIMIT_SECONDS = 8.0
"""Seconds after which hanging code is stopped."""
RELEASE_WAIT_SECONDS = 60.0
"""Seconds within which a GPU's memory must be free again."""


class GpuCheck(FrozenModel):
    """One check. `why` is the reason why it failed or was skipped."""

    name: str
    what: str
    outcome: Literal["passed", "failed", "skipped"]
    why: str = ""
    seconds: float


class GpuReport(FrozenModel):
    """All checks, and the hardware and software that they ran on."""

    made: str
    scientist: str
    python: str
    torch: str = ""
    cuda: str = ""
    driver: str = ""
    gpus: tuple[str, ...]
    checks: tuple[GpuCheck, ...]

    @property
    def all_passed(self) -> bool:
        return all(one.outcome != "failed" for one in self.checks)


_RESULT_CODE = 'lab.result({name!r}, {value}, condition="check", dataset="none", split="validation")\n'
_LEASE_CODE = """
import time
from pathlib import Path
from labwright.sandbox.gpus import acquire_gpu_slot

def hold(folder, uuid):
    slot_lock = acquire_gpu_slot(folder, uuid, 1)
    print("held" if slot_lock else "taken", flush=True)
    time.sleep(60)

"""
_OUT_OF_MEMORY_CODE = """
import torch, lab
blocks = []
while True:
    blocks.append(torch.ones(2**27, device=lab.device))
"""
_HANG_CODE = """
import torch, lab
x = torch.ones(2048, 2048, device=lab.device)
while True:
    x = torch.nn.functional.normalize(x @ x)
"""
_FREE_MEMORY_CODE = """
import torch, lab
total = torch.cuda.get_device_properties(0).total_memory if lab.device == "cuda" else 2**28
block = torch.ones(total // 8, device=lab.device)
""" + _RESULT_CODE.format(name="held", value="float(block[-1000:].mean())")
_FORK_CODE = """
import json, torch, lab

def run(cell):
    x = torch.arange(1000.0, device=lab.device)
    print("VERSIONS", json.dumps([torch.__version__, torch.version.cuda or ""]))
    lab.result("sum", float(x.sum()), condition=cell.condition, dataset=cell.dataset, split="validation")

lab.measure(run)
"""
_ALL_REDUCE_CODE = """
import lab

def work():
    import torch, torch.distributed as group
    group.init_process_group("BACKEND")
    device = f"cuda:{group.get_rank()}" if "BACKEND" == "nccl" else "cpu"
    value = torch.full((4,), float(group.get_rank() + 1), device=device)
    group.all_reduce(value)
    group.destroy_process_group()
    return float(value[0])

""" + _RESULT_CODE.format(name="sum", value="lab.launch(work, processes=2)")
_BFLOAT16_CODE = """
import torch, lab
torch.manual_seed(0)
a, b = (torch.randn(512, 512, device=lab.device) for _ in range(2))
near = (a.bfloat16() @ b.bfloat16()).float()
""" + _RESULT_CODE.format(name="error", value="float((near - a @ b).norm() / (a @ b).norm())")
_DETERMINISM_CODE = """
import hashlib, torch, lab
lab.seed_everything()
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
net = net.to(lab.device)
x, y = torch.randn(64, 3, 16, 16, device=lab.device), torch.randint(10, (64,), device=lab.device)
net(x)
steps = torch.optim.Adam(net.parameters())
for _ in range(20):
    steps.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    steps.step()
weights = b"".join(one.detach().cpu().numpy().tobytes() for one in net.parameters())
""" + _RESULT_CODE.format(name="weights", value="int(hashlib.sha256(weights).hexdigest()[:12], 16)")


@dataclass
class GpuChecker:
    """The checks of one machine. `devices` are its GPUs; empty on the CPU."""

    settings: SandboxSettings
    devices: Sequence[GpuDevice] = ()
    torch: list[str] = field(default_factory=list[str])
    """Versions of torch and CUDA, once a kernel has reported them."""

    def run_all(self) -> Iterator[GpuCheck]:
        """Yield each check as soon as it is done."""
        for name, (what, work) in self._list_checks().items():
            began = time.monotonic()
            try:
                why = work()
                outcome: Literal["passed", "failed", "skipped"] = "failed" if why else "passed"
            except GpuCheckSkipped as skipped:
                why, outcome = str(skipped), "skipped"
            except Exception as error:  # noqa: BLE001  a failing check must not hide the others
                why, outcome = f"{type(error).__name__}: {error}", "failed"
            yield GpuCheck(
                name=name, what=what, outcome=outcome, why=redact_names(why), seconds=round(time.monotonic() - began, 1)
            )

    def _list_checks(self) -> dict[str, tuple[str, Callable[[], str]]]:
        return {
            "fork": ("processes forked from a kernel that imported torch compute on the device", self._check_fork),
            "leases": ("a GPU is leased to one run at a time and released", self._check_leases),
            "two": (f"two processes all-reduce with {self._backend}", self._check_all_reduce),
            "bf16": ("bfloat16 products are close to float32", self._check_bfloat16),
            "same": ("the same seed gives the same digits (sandbox.deterministic)", self._check_determinism),
            "memory": ("running out of memory is reported and frees the memory", self._check_memory),
            "kill": ("code that hangs on the device is stopped and frees it", self._check_kill),
        }

    def _check_fork(self) -> str:
        cells: dict[Cell, HyperparameterSetting] = {Cell(dataset="digits", arm=arm): {} for arm in ("first", "second")}
        outcome = self._run_code(_FORK_CODE, cells=cells)
        found = re.search(r"VERSIONS (\[.*\])", outcome.stdout_tail)
        self.torch = json.loads(found[1]) if found else []
        values = [one.value for one in outcome.measurements]
        return _format_failure(outcome) or ("" if values == [499500.0] * 2 else f"the sums are {values}")

    def _check_leases(self) -> str:
        if not self.devices:
            raise GpuCheckSkipped("there is no GPU")

        async def work() -> str:
            uuid = self.devices[0].uuid
            leases = open_gpu_leases(self.settings.model_copy(update={"gpus": (uuid,)}), read_cuda_visible_devices())
            try:
                await leases.acquire()
                if _is_gpu_free(uuid):
                    return "a second run got the GPU of the first"
            finally:
                await leases.close()
            return "" if _is_gpu_free(uuid) else "the GPU was not released"

        return asyncio.run(work()) or self._check_killed_lease(self.devices[0].uuid)

    def _check_killed_lease(self, uuid: str) -> str:
        """Return the problem with the lease of another process, while it runs or after it is killed; empty if there
        is none.
        """
        code = f"{_LEASE_CODE}hold(Path({str(get_runtime_folder())!r}), {uuid!r})"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
            try:
                assert other.stdout is not None
                if other.stdout.readline() != "held\n":
                    return "another process could not lease the GPU"
                if _is_gpu_free(uuid):
                    return "this process got a GPU leased by another process"
            finally:
                other.kill()
        return "" if _is_gpu_free(uuid) else "the GPU of a killed process was not released"

    @property
    def _backend(self) -> str:
        return "nccl" if len(self.devices) > 1 else "gloo on the CPU"

    def _check_all_reduce(self) -> str:
        backend = self._backend.split()[0]
        return self._check_value(
            _ALL_REDUCE_CODE.replace("BACKEND", backend), 3.0, gpus_per_node=2 if backend == "nccl" else 1
        )

    def _check_bfloat16(self) -> str:
        outcome = self._run_code(_BFLOAT16_CODE)
        errors = [one.value for one in outcome.measurements]
        return _format_failure(outcome) or ("" if errors and errors[0] < 0.02 else f"the relative error is {errors}")

    def _check_determinism(self) -> str:
        first, second = (self._run_code(_DETERMINISM_CODE, deterministic=True) for _ in range(2))
        values = [[one.value for one in outcome.measurements] for outcome in (first, second)]
        return (
            _format_failure(first)
            or _format_failure(second)
            or ("" if values[0] == values[1] != [] else "the weights differ")
        )

    def _check_memory(self) -> str:
        outcome = self._run_code(_OUT_OF_MEMORY_CODE, **({} if self.devices else {"memory_gb": 2.0}))
        kind = outcome.failure.kind if outcome.failure else "none"
        return f"it failed with {kind}, not memory" if kind != "memory" else self._check_memory_freed()

    def _check_kill(self) -> str:
        outcome = self._run_code(_HANG_CODE, limit=HANG_LIMIT_SECONDS)
        kind = outcome.failure.kind if outcome.failure else "none"
        return f"it failed with {kind}, not timeout" if kind != "timeout" else self._check_memory_freed()

    def _check_memory_freed(self) -> str:
        until, why = time.monotonic() + RELEASE_WAIT_SECONDS, "never tried"
        while why and time.monotonic() < until:
            why = self._check_value(_FREE_MEMORY_CODE, 1.0)
        return why and f"afterwards, half of the memory could not be allocated: {why}"

    def _check_value(self, source: str, expected: float, **more: Any) -> str:
        outcome = self._run_code(source, **more)
        values = [one.value for one in outcome.measurements]
        return _format_failure(outcome) or ("" if values == [expected] else f"the result is {values}, not {expected:g}")

    def _run_code(
        self, source: str, *, limit: float = CHECK_LIMIT_SECONDS, cells: Any = None, **more: Any
    ) -> JobOutcome:
        with tempfile.TemporaryDirectory(prefix="scientist-gpu-") as folder:
            script = Path(folder) / "check.py"
            script.write_text(source)
            return asyncio.run(
                run_file(script, timeout=limit, settings=self.settings.model_copy(update=more), cells=cells)
            )


def _is_gpu_free(uuid: str) -> bool:
    """Check whether the GPU can now be leased exclusively."""
    if (lease := acquire_gpu_slot(get_runtime_folder(), uuid, 1)) is None:
        return False
    lease.close()
    return True


class GpuCheckSkipped(Exception):
    """Raised if a check is impossible on this machine."""


def _format_failure(outcome: JobOutcome) -> str:
    return f"{outcome.failure.kind}: {outcome.failure.message}" if outcome.failure is not None else ""


def redact_names(text: str) -> str:
    """Return the text on one line, without paths, host name and user name."""
    text = re.sub(r"(?<![\w.])~?(/[\w.@+-]+)+/?", "PATH", " ".join(text.split()))
    host = re.escape(socket.gethostname().partition(".")[0])
    user = re.escape(os.environ.get("USER") or os.environ.get("LOGNAME") or Path.home().name)
    for name, shown in ((rf"{host}(\.[\w-]+)*", "HOST"), (user, "USER")):
        text = re.sub(rf"(?<![\w-]){name}(?![\w-])", shown, text)
    return text[:400]


def build_gpu_report(checks: GpuChecker, made: Sequence[GpuCheck]) -> GpuReport:
    """Build the report, which can be shared."""
    torch, cuda = (*checks.torch, "", "")[:2]
    try:
        driver = (
            redact_names(Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]) if checks.devices else ""
        )
    except OSError:
        driver = "unknown"
    return GpuReport(
        made=datetime.now(UTC).date().isoformat(),
        scientist=version("labwright"),
        python=platform.python_version(),
        torch=torch,
        cuda=cuda,
        driver=driver,
        checks=tuple(made),
        gpus=tuple(f"{one.name}, {one.memory_bytes / 1e9:.0f} GB" for one in checks.devices),
    )


def open_gpu_checker(settings: SandboxSettings) -> GpuChecker:
    """Create the checks for the GPUs in the settings. Raises `GpuError` if there are none."""
    settings = settings.model_copy(update={"device": "cuda"})
    return GpuChecker(settings, open_gpu_leases(settings, read_cuda_visible_devices()).devices)
