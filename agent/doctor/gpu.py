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
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import HyperparameterSetting
from labwright.record.schema.nodes import Cell
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.gpus import GpuDevice, open_gpu_leases, read_cuda_visible_devices
from labwright.sandbox.job import JobOutcome
from labwright.sandbox.packages import read_driver_version
from labwright.sandbox.settings import SandboxSettings

CHECK_LIMIT_SECONDS = 120.0
"""Seconds per experiment of a check; the first one on a GPU loads its libraries from disk."""
HANG_LIMIT_SECONDS = 8.0
"""Seconds after which hanging code is stopped."""
RELEASE_WAIT_SECONDS = 60.0
"""Seconds within which a GPU's memory must be free again."""


class GpuCheck(FrozenModel):
    """One check. `why` is the reason why it failed."""

    name: str
    what: str
    outcome: Literal["passed", "failed"]
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
        return all(one.outcome == "passed" for one in self.checks)


_RESULT = 'lab.result({name!r}, {value}, condition="check", dataset="none", split="validation")\n'
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
""" + _RESULT.format(name="held", value="float(block[-1000:].mean())")
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
""" + _RESULT.format(name="sum", value="lab.launch(work, processes=2)")
_BFLOAT16_CODE = """
import torch, lab
torch.manual_seed(0)
a, b = (torch.randn(512, 512, device=lab.device) for _ in range(2))
near = (a.bfloat16() @ b.bfloat16()).float()
""" + _RESULT.format(name="close", value="float((near - a @ b).norm() / (a @ b).norm() < 0.02)")
_DETERMINISM_CODE = """
import hashlib, torch, lab
lab.seed_everything()
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
net = net.to(lab.device)
x, y = torch.randn(64, 3, 16, 16, device=lab.device), torch.randint(10, (64,), device=lab.device)
net(x)
steps = torch.optim.Adam(net.parameters())
scattered = torch.zeros(64, device=lab.device)
for _ in range(20):
    steps.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    steps.step()
    scattered.index_add_(0, torch.randint(64, (4096,), device=lab.device), torch.randn(4096, device=lab.device))
weights = b"".join(one.detach().cpu().numpy().tobytes() for one in (*net.parameters(), scattered))
""" + _RESULT.format(name="weights", value="int(hashlib.sha256(weights).hexdigest()[:12], 16)")


class GpuCheckFailed(Exception):
    """Raised with the reason if a check fails."""


@dataclass
class GpuChecker:
    """The checks of one machine. `devices` are its GPUs; empty on the CPU."""

    settings: SandboxSettings
    devices: Sequence[GpuDevice] = ()
    torch: list[str] = field(default_factory=list[str])
    """Versions of torch and CUDA, once a kernel has reported them."""

    def run_all(self) -> Iterator[GpuCheck]:
        """Yield each check as soon as it is done."""
        backend = "nccl" if len(self.devices) > 1 else "gloo"
        limited = {} if self.devices else {"memory_gb": 2.0}
        checks: dict[str, tuple[str, Callable[[], None]]] = {
            "fork": ("processes forked from a kernel that imported torch compute on the device", self._check_fork),
            "two": (
                f"two processes all-reduce with {backend}{' on the CPU' if backend == 'gloo' else ''}",
                lambda: self._check_values(
                    _ALL_REDUCE_CODE.replace("BACKEND", backend), [3.0], gpus_per_node=2 if backend == "nccl" else 1
                ),
            ),
            "bf16": ("bfloat16 products are close to float32", lambda: self._check_values(_BFLOAT16_CODE, [1.0])),
            "same": ("the same seed gives the same digits (sandbox.deterministic)", self._check_determinism),
            "memory": (
                "running out of memory is reported and frees the memory",
                lambda: self._check_stopped("memory", _OUT_OF_MEMORY_CODE, **limited),
            ),
            "kill": (
                "code that hangs on the device is stopped and frees it",
                lambda: self._check_stopped("timeout", _HANG_CODE, limit=HANG_LIMIT_SECONDS),
            ),
        }
        for name, (what, check) in checks.items():
            began, outcome, why = time.monotonic(), "passed", ""
            try:
                check()
            except GpuCheckFailed as failed:
                outcome, why = "failed", str(failed)
            except Exception as error:  # noqa: BLE001  a failing check must not hide the others
                outcome, why = "failed", f"{type(error).__name__}: {error}"
            seconds = round(time.monotonic() - began, 1)
            yield GpuCheck(name=name, what=what, outcome=outcome, why=redact_names(why), seconds=seconds)

    def _check_fork(self) -> None:
        cells: dict[Cell, HyperparameterSetting] = {Cell(dataset="digits", arm=arm): {} for arm in ("first", "second")}
        outcome = self._run_code(_FORK_CODE, cells=cells)
        if found := re.search(r"VERSIONS (\[.*\])", outcome.stdout_tail):
            self.torch = json.loads(found[1])
        _require_values(outcome, [499500.0] * 2)

    def _check_determinism(self) -> None:
        first = self._run_code(_DETERMINISM_CODE, deterministic=True)
        self._check_values(_DETERMINISM_CODE, [one.value for one in first.measurements], deterministic=True)

    def _check_stopped(self, kind: str, source: str, **more: Any) -> None:
        """Run code that fails in this way; afterwards half of the memory must be free again."""
        failure = self._run_code(source, **more).failure
        if failure is None or failure.kind != kind:
            raise GpuCheckFailed(f"it failed with {failure.kind if failure else 'none'}, not {kind}")
        until = time.monotonic() + RELEASE_WAIT_SECONDS
        while True:
            try:
                return self._check_values(_FREE_MEMORY_CODE, [1.0])
            except GpuCheckFailed as failed:
                if time.monotonic() > until:
                    raise GpuCheckFailed(f"afterwards, half of the memory could not be allocated: {failed}") from None

    def _check_values(self, source: str, expected: list[float], **more: Any) -> None:
        _require_values(self._run_code(source, **more), expected)

    def _run_code(
        self, source: str, *, limit: float = CHECK_LIMIT_SECONDS, cells: Any = None, **more: Any
    ) -> JobOutcome:
        with tempfile.TemporaryDirectory(prefix="scientist-gpu-") as folder:
            script = Path(folder) / "check.py"
            script.write_text(source)
            settings = self.settings.model_copy(update=more)
            return asyncio.run(run_file(script, timeout=limit, settings=settings, cells=cells))


def _require_values(outcome: JobOutcome, expected: list[float]) -> None:
    if outcome.failure is not None:
        raise GpuCheckFailed(f"{outcome.failure.kind}: {outcome.failure.message}")
    values = [one.value for one in outcome.measurements]
    if not values or values != expected:
        raise GpuCheckFailed(f"the result is {values}, not {expected}")


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
    return GpuReport(
        made=datetime.now(UTC).date().isoformat(),
        scientist=version("labwright"),
        python=platform.python_version(),
        torch=torch,
        cuda=cuda,
        driver=redact_names(read_driver_version() or "unknown") if checks.devices else "",
        checks=tuple(made),
        gpus=tuple(f"{one.name}, {one.memory_bytes / 1e9:.0f} GB" for one in checks.devices),
    )


def open_gpu_checker(settings: SandboxSettings) -> GpuChecker:
    """Create the checks for the GPUs in the settings. Raises `GpuError` if there are none."""
    settings = settings.model_copy(update={"device": "cuda"})
    return GpuChecker(settings, open_gpu_leases(settings, read_cuda_visible_devices()).devices)
