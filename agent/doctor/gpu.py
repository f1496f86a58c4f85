"""What experiments do on a GPU, tried on this machine in real kernels: `scientist doctor --gpu`, `make gpu-check`.

The report tells of the machine what numbers depend on, and nothing that names it, its user or its folders, so that it
can be sent. On the CPU (`device`) the same checks run in the form that they have there: so they are tested.
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

from labwright.record.nouns.cells import Cell
from labwright.record.nouns.frozen import Frozen
from labwright.record.nouns.tuning import Setting
from labwright.sandbox.gpu_leases import open_leases, take_slot
from labwright.sandbox.gpus import Device, cuda_visible_devices
from labwright.sandbox.isolation.scratch import runtime_folder
from labwright.sandbox.job import Outcome
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.single_file import run_file

LIMIT = 120.0
"""Seconds of one experiment of a check; the first on a GPU loads its libraries from the disk."""
HANGS = 8.0
"""Seconds after which code that hangs is ended."""
GIVEN_BACK = 60.0
"""Seconds in which the memory of a GPU must be free again."""


class GpuCheck(Frozen):
    """One check. `why` says why it failed or was skipped."""

    name: str
    what: str
    outcome: Literal["passed", "failed", "skipped"]
    why: str = ""
    seconds: float


class GpuReport(Frozen):
    """All checks, and what they ran on."""

    made: str
    scientist: str
    python: str
    torch: str = ""
    cuda: str = ""
    driver: str = ""
    gpus: tuple[str, ...]
    checks: tuple[GpuCheck, ...]

    @property
    def good(self) -> bool:
        return all(one.outcome != "failed" for one in self.checks)


_RESULT = 'lab.result({name!r}, {value}, condition="check", dataset="none", split="validation")\n'
_HOLDS = """
import time
from pathlib import Path
from labwright.sandbox.gpu_leases import take_slot

def hold(folder, uuid):
    held = take_slot(folder, uuid, 1)
    print("held" if held else "taken", flush=True)
    time.sleep(60)

"""
_DIES = """
import torch, lab
held = []
while True:
    held.append(torch.ones(2**27, device=lab.device))
"""
_HANGS = """
import torch, lab
x = torch.ones(2048, 2048, device=lab.device)
while True:
    x = torch.nn.functional.normalize(x @ x)
"""
_FREE = """
import torch, lab
total = torch.cuda.get_device_properties(0).total_memory if lab.device == "cuda" else 2**28
held = torch.ones(total // 8, device=lab.device)
""" + _RESULT.format(name="held", value="float(held[-1000:].mean())")
_FORK = """
import json, torch, lab

def run(cell):
    x = torch.arange(1000.0, device=lab.device)
    print("VERSIONS", json.dumps([torch.__version__, torch.version.cuda or ""]))
    lab.result("sum", float(x.sum()), condition=cell.condition, dataset=cell.dataset, split="validation")

lab.measure(run)
"""
_TWO = """
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
_BF16 = """
import torch, lab
torch.manual_seed(0)
a, b = (torch.randn(512, 512, device=lab.device) for _ in range(2))
near = (a.bfloat16() @ b.bfloat16()).float()
""" + _RESULT.format(name="error", value="float((near - a @ b).norm() / (a @ b).norm())")
_SAME = """
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
""" + _RESULT.format(name="weights", value="int(hashlib.sha256(weights).hexdigest()[:12], 16)")


@dataclass
class Checks:
    """The checks of one machine. `devices` are its GPUs; none on the CPU."""

    settings: SandboxSettings
    devices: Sequence[Device] = ()
    torch: list[str] = field(default_factory=list[str])
    """Version, and that of CUDA, once a kernel told."""

    def all(self) -> Iterator[GpuCheck]:
        """Every check, as soon as it is done."""
        for name, (what, work) in self._works().items():
            began = time.monotonic()
            try:
                why = work()
                outcome: Literal["passed", "failed", "skipped"] = "failed" if why else "passed"
            except Skipped as skipped:
                why, outcome = str(skipped), "skipped"
            except Exception as error:  # noqa: BLE001  the edge of one check: one that breaks must not hide the others
                why, outcome = f"{type(error).__name__}: {error}", "failed"
            yield GpuCheck(
                name=name, what=what, outcome=outcome, why=nameless(why), seconds=round(time.monotonic() - began, 1)
            )

    def _works(self) -> dict[str, tuple[str, Callable[[], str]]]:
        return {
            "fork": ("processes forked from a kernel that imported torch compute on the device", self._fork),
            "leases": ("a GPU is leased to one run at a time, and given back", self._leases),
            "two": (f"two processes reduce together, by {self._backend}", self._two),
            "bf16": ("bfloat16 products are near those of float32", self._bf16),
            "same": ("the same seed gives the same digits twice (sandbox.deterministic)", self._same),
            "memory": ("what takes too much memory fails as that, and leaves it free", self._memory),
            "kill": ("what hangs on the device is ended, and leaves it free", self._kill),
        }

    def _fork(self) -> str:
        cells: dict[Cell, Setting] = {Cell(dataset="digits", arm=arm): {} for arm in ("first", "second")}
        outcome = self._run(_FORK, cells=cells)
        found = re.search(r"VERSIONS (\[.*\])", outcome.stdout_tail)
        self.torch = json.loads(found[1]) if found else []
        values = [one.value for one in outcome.measurements]
        return _failed(outcome) or ("" if values == [499500.0] * 2 else f"the sums are {values}")

    def _leases(self) -> str:
        if not self.devices:
            raise Skipped("there is no GPU")

        async def work() -> str:
            uuid = self.devices[0].uuid
            leases = open_leases(self.settings.model_copy(update={"gpus": (uuid,)}), cuda_visible_devices())
            try:
                await leases.acquire()
                if _free_slot(uuid):
                    return "a second run was given the GPU of the first"
            finally:
                await leases.close()
            return "" if _free_slot(uuid) else "the GPU was not given back"

        return asyncio.run(work()) or self._killed(self.devices[0].uuid)

    def _killed(self, uuid: str) -> str:
        """What is wrong with the lease of another process, while it lives and once it was killed."""
        code = f"{_HOLDS}hold(Path({str(runtime_folder())!r}), {uuid!r})"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
            try:
                assert other.stdout is not None
                if other.stdout.readline() != "held\n":
                    return "another process could not lease the GPU"
                if _free_slot(uuid):
                    return "a GPU that another process holds was given to this one"
            finally:
                other.kill()
        return "" if _free_slot(uuid) else "the GPU of a process that was killed was not given back"

    @property
    def _backend(self) -> str:
        return "nccl" if len(self.devices) > 1 else "gloo on the CPU"

    def _two(self) -> str:
        backend = self._backend.split()[0]
        return self._value(_TWO.replace("BACKEND", backend), 3.0, gpus_per_node=2 if backend == "nccl" else 1)

    def _bf16(self) -> str:
        outcome = self._run(_BF16)
        errors = [one.value for one in outcome.measurements]
        return _failed(outcome) or ("" if errors and errors[0] < 0.02 else f"the relative error is {errors}")

    def _same(self) -> str:
        first, second = (self._run(_SAME, deterministic=True) for _ in range(2))
        values = [[one.value for one in outcome.measurements] for outcome in (first, second)]
        return _failed(first) or _failed(second) or ("" if values[0] == values[1] != [] else "the weights differ")

    def _memory(self) -> str:
        outcome = self._run(_DIES, **({} if self.devices else {"memory_gb": 2.0}))
        kind = outcome.failure.kind if outcome.failure else "none"
        return f"it failed as {kind}, not for memory" if kind != "memory" else self._free()

    def _kill(self) -> str:
        outcome = self._run(_HANGS, limit=HANGS)
        kind = outcome.failure.kind if outcome.failure else "none"
        return f"it failed as {kind}, not by the limit" if kind != "timeout" else self._free()

    def _free(self) -> str:
        until, why = time.monotonic() + GIVEN_BACK, "never tried"
        while why and time.monotonic() < until:
            why = self._value(_FREE, 1.0)
        return why and f"afterwards, half of the memory could not be had: {why}"

    def _value(self, source: str, expected: float, **more: Any) -> str:
        outcome = self._run(source, **more)
        values = [one.value for one in outcome.measurements]
        return _failed(outcome) or ("" if values == [expected] else f"it came to {values}, not {expected:g}")

    def _run(self, source: str, *, limit: float = LIMIT, cells: Any = None, **more: Any) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="scientist-gpu-") as folder:
            script = Path(folder) / "check.py"
            script.write_text(source)
            return asyncio.run(
                run_file(script, timeout=limit, settings=self.settings.model_copy(update=more), cells=cells)
            )


def _free_slot(uuid: str) -> bool:
    """Whether the GPU can be had alone now."""
    if (taken := take_slot(runtime_folder(), uuid, 1)) is None:
        return False
    taken.close()
    return True


class Skipped(Exception):
    """A check that cannot be made here. Who acts: nobody."""


def _failed(outcome: Outcome) -> str:
    return f"{outcome.failure.kind}: {outcome.failure.message}" if outcome.failure is not None else ""


def nameless(text: str) -> str:
    """On one line, without paths, and without the names of this machine and its user."""
    text = re.sub(r"(?<![\w.])~?(/[\w.@+-]+)+/?", "PATH", " ".join(text.split()))
    host = re.escape(socket.gethostname().partition(".")[0])
    user = re.escape(os.environ.get("USER") or os.environ.get("LOGNAME") or Path.home().name)
    for name, shown in ((rf"{host}(\.[\w-]+)*", "HOST"), (user, "USER")):
        text = re.sub(rf"(?<![\w-]){name}(?![\w-])", shown, text)
    return text[:400]


def report_of(checks: Checks, made: Sequence[GpuCheck]) -> GpuReport:
    """What can be sent."""
    torch, cuda = (*checks.torch, "", "")[:2]
    try:
        driver = nameless(Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]) if checks.devices else ""
    except OSError:
        driver = "not told"
    return GpuReport(
        made=datetime.now(UTC).date().isoformat(),
        scientist=version("labwright"),
        python=platform.python_version(),
        torch=torch,
        cuda=cuda,
        driver=driver,
        checks=tuple(made),
        gpus=tuple(f"{one.name}, {one.memory / 1e9:.0f} GB" for one in checks.devices),
    )


def checks_of(settings: SandboxSettings) -> Checks:
    """The checks on the GPUs that the settings choose. Raises `GpuError` where there is none."""
    settings = settings.model_copy(update={"device": "cuda"})
    return Checks(settings, open_leases(settings, cuda_visible_devices()).devices)
