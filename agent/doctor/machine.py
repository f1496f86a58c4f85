"""What the machine offers: GPU, memory, disk, the filesystem of the runs, the clock, isolation, a kernel, keys."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.doctor.probe import Finding, fault, ok, run, warning
from agent.doctor.software import System
from agent.keys import NAMES
from inspector.text import duration
from record.network import kind_of, on_network
from sandbox.errors import SandboxError
from sandbox.isolation.probe import INSTALL, KernelFacts, probe
from sandbox.job import Outcome
from sandbox.settings import SandboxSettings
from sandbox.single_file import run_file

GPU_LIMIT = 20.0
TORCH_LIMIT = 90.0
TORCH = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.version.cuda or '-')"

KERNEL_GB = 1.2
"""Memory of one experiment with torch, at least (FACTS: torch needs more than 1.2 GB of address space)."""
ROOMY_GB = 10.0
"""Free disk below which a run of the default size may fill it."""

SKEW = 2.0
"""Seconds that a file's time may differ from the clock."""
WITHOUT = "experiments would run without isolation: as you, with your files and network"
REFUSED = "and sandbox.isolation is required: no run begins"
KERNEL_LIMIT = 30.0
"""Seconds for the two lines that the kernel runs."""
ANSWER = 42.0
SCRIPT = f"""
import lab
lab.result("answer", {ANSWER}, condition="probe", dataset="none", split="validation")
print("hello")
"""


# --- GPU ------------------------------------------------------------------------------------------------------------


def gpu(interpreter: str, device: str) -> Finding:
    """GPUs, and whether the kernels' torch can use them. `device` is the setting sandbox.device."""
    ran = run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"], limit=GPU_LIMIT)
    cards = [line.strip() for line in ran.out.splitlines() if line.strip()] if ran.good else []
    usable = cuda(interpreter)
    if not cards and not usable.count:
        if device == "cuda":
            why = usable.why or (ran.problem if shutil.which("nvidia-smi") else "no NVIDIA driver was found")
            return fault("gpu", f"none can be used ({why}), and sandbox.device is cuda",
                         "install the NVIDIA driver and a CUDA build of torch, or: --set sandbox.device=cpu")
        if shutil.which("nvidia-smi"):
            return warning("gpu", f"none: experiments run on the CPU (nvidia-smi failed: {ran.problem})",
                           "if there should be a GPU: mend the driver until nvidia-smi lists it")
        return ok("gpu", "none: experiments run on the CPU")
    shown = "; ".join(cards) or f"{usable.count} CUDA device(s)"
    if not usable.count:
        mend = ("install a CUDA build of the same torch version for the interpreter of the kernels "
                "(see pytorch.org, 'Start locally')")
        why = usable.why or f"torch sees none, its CUDA version is {usable.cuda}"
        return (fault if device == "cuda" else warning)("gpu", f"{shown}, but {why}", mend)
    if device == "cpu":
        return warning("gpu", f"{shown}, but sandbox.device is cpu: experiments will not use it",
                       "--set sandbox.device=cuda")
    return ok("gpu", shown)


@dataclass(frozen=True)
class Cuda:
    """What torch says of CUDA in a fresh process of an interpreter."""

    count: int = 0
    cuda: str = "-"
    why: str = ""


def cuda(interpreter: str, *, limit: float = TORCH_LIMIT) -> Cuda:
    """Devices that torch can use; asked in a process of its own, since a broken driver may hang."""
    ran = run([interpreter, "-c", TORCH], limit=limit)
    found = re.search(r"^(\d+) (\S+)$", ran.out, re.MULTILINE)
    return Cuda(int(found[1]), found[2]) if ran.good and found else Cuda(why=f"torch could not be asked: {ran.problem}")


# --- memory and disk ------------------------------------------------------------------------------------------------


def memory(workers: int, *, proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> Finding:
    """Memory that experiments can have: what is free, or what the control group leaves of it."""
    values = dict(re.findall(r"^(\w+):\s+(\d+) kB", proc.read_text(), re.MULTILINE))
    total, free = (int(values[name]) * 1024 / 1e9 for name in ("MemTotal", "MemAvailable"))
    limit = _limit_gb(cgroup)
    if limit is not None and limit < total:
        total, free = limit, min(free, limit)
    wanted = KERNEL_GB * workers
    found = f"{free:.1f} of {total:.1f} GB are free"
    if free < KERNEL_GB:
        return fault("memory", f"{found}; one experiment with torch takes {KERNEL_GB:g} GB", "end other programs")
    if free < wanted:
        fits = max(1, int(free / KERNEL_GB))
        return warning("memory", f"{found}; {workers} experiments at the same time take {wanted:.1f} GB and more",
                       f"--workers {fits}, or end other programs")
    return ok("memory", found)


def _limit_gb(cgroup: Path) -> float | None:
    """The control group's limit in 10^9 bytes; None where there is none."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return int((cgroup / name).read_text()) / 1e9
    return None


def disk(place: Path, least_gb: float) -> Finding:
    """Free space where the runs go."""
    free = shutil.disk_usage(place).free / 1e9
    found = f"{free:.1f} GB are free at {place}"
    if free < least_gb:
        return fault("disk", f"{found}, a run wants {least_gb:g} to begin",
                     "free some, or choose another --runs, or lower min_free_gb")
    if free < ROOMY_GB:
        return warning("disk", f"{found}; a run of the default size with large data may fill them",
                       "free some, or choose another --runs")
    return ok("disk", found)


# --- filesystem and clock -------------------------------------------------------------------------------------------


def filesystem(place: Path, *, mounts: Path = Path("/proc/self/mounts")) -> Finding:
    """What the runs lie on. SQLite's WAL does not work on network filesystems: a run keeps its database elsewhere."""
    kind = kind_of(place.resolve(), mounts.read_text())
    mend = "choose a folder on a local disk: --runs DIR"
    if kind is None:
        return warning("filesystem", f"what {place} lies on is not in {mounts}", mend)
    if on_network(place, mounts):
        return warning("filesystem", f"{place} lies on a network or shared filesystem ({kind}): the database of a run "
                                     "is kept in $TMPDIR, and events.jsonl in its folder is the record that counts",
                       "faster is a folder on a local disk: --runs DIR")
    return ok("filesystem", f"{place} lies on {kind}")


def clock(
    place: Path, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> Finding:
    """Whether time can be trusted: limits, events and the order of files lean on it."""
    mend = "set the clock: timedatectl set-ntp true (in a virtual machine or container: on its host)"
    year = time.gmtime(wall()).tm_year
    if not 2025 <= year <= 2100:
        return fault("clock", f"it says the year {year}", mend)
    first, began = monotonic(), wall()
    time.sleep(0.05)
    passed, drift = monotonic() - first, wall() - began
    if passed <= 0 or abs(drift - passed) > 1.0:
        return fault("clock", f"{passed:.3f} s passed by the monotonic clock and {drift:.3f} s by the wall clock", mend)
    with tempfile.NamedTemporaryFile(dir=place) as file:
        skew = os.fstat(file.fileno()).st_mtime - wall()
    if abs(skew) > SKEW:
        return warning("clock", f"files at {place} are dated {skew:+.1f} s from this machine's clock", mend)
    return ok("clock", f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(wall()))}, files agree with it")


# --- isolation, kernel, keys -----------------------------------------------------------------------------------------


def isolation(
    system: System, kernel: KernelFacts | None = None, *, wanted: Literal["required", "auto", "none"] = "auto",
) -> Finding:
    """Whether kernels can be isolated, which is a fault where the settings want them to be."""
    found = probe(kernel)
    if found.on:
        with_users = "user, process and network" if found.user_namespace else "process and network"
        return ok("isolation", f"bubblewrap with {with_users} namespaces works")
    mend = system.install(["bubblewrap"]) if found.fix == INSTALL else found.fix
    if wanted == "required":
        return fault("isolation", f"{found.why}, {REFUSED}", f"{mend}; or, without isolation: --set "
                     "sandbox.isolation=auto")
    return warning("isolation", f"{found.why}: {WITHOUT}", mend)


def kernel(settings: SandboxSettings) -> Finding:
    """One real kernel that runs two lines and returns a measurement, within the limits that experiments get.

    Isolated where that is possible; that it is not is another finding.
    """
    if settings.isolation == "required":
        settings = settings.model_copy(update={"isolation": "auto"})
    mend = f"check sandbox.python ({settings.python}): it needs ipykernel and numpy"
    limit = KERNEL_LIMIT + settings.start_timeout + settings.grace
    try:
        outcome = asyncio.run(_tried(settings, limit))
    except TimeoutError:
        return fault("kernel", f"none answered within {limit:g} s", mend)
    except (SandboxError, OSError) as error:
        return fault("kernel", " ".join(str(error).split())[-400:], mend)
    if outcome.failure is not None:
        return fault("kernel", f"its code failed: {outcome.failure.message}", mend)
    if "hello" not in outcome.stdout_tail or [one.value for one in outcome.measurements] != [ANSWER]:
        return fault("kernel", "it ran, but what it printed and measured did not come back", mend)
    return ok("kernel", f"one started, ran and was measured (code {duration(outcome.seconds)})")


async def _tried(settings: SandboxSettings, limit: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="scientist-doctor-") as folder:
        path = Path(folder) / "probe.py"
        path.write_text(SCRIPT)
        async with asyncio.timeout(limit):
            return await run_file(path, timeout=KERNEL_LIMIT, settings=settings)


_PLACEHOLDERS = ("...", "changeme", "your-", "your_", "<", "xxx")


def keys(environment: Mapping[str, str]) -> Finding:
    """The names of the keys that are set, and those that cannot be right."""
    held = [name for name in NAMES if name in environment]
    doubts = [f"{name} {why}" for name in held if (why := doubt(environment[name]))]
    good = [name for name in held if not doubt(environment[name])]
    found = ", ".join(good) or "none set: only the offline model and servers of your own can be used"
    if doubts:
        return warning("keys", f"{found}; {', '.join(doubts)}", "export it again, without quotes and spaces inside")
    return ok("keys", found)


def doubt(value: str) -> str:
    """What cannot be right about a key, without showing any of it; empty where nothing is."""
    if not value.strip():
        return "is empty"
    if value != value.strip() or any(space in value for space in (" ", "\t", "\n", "\r")):
        return "holds white space"
    if value[0] in "\"'" or value[-1] in "\"'":
        return "holds quotes"
    return "is a placeholder" if value.lower().startswith(_PLACEHOLDERS) else ""
