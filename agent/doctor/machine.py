"""What the machine offers: GPU, memory, disk, the filesystem of the runs, the clock, isolation, a kernel, keys."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import psutil

from agent.doctor.probe import Finding, fault, ok, run, warning
from agent.doctor.software import Family, install_command
from agent.keys import NAMES
from inspector.text import duration
from record.network import kind_of, on_network
from sandbox.errors import SandboxError
from sandbox.isolation.limits import machine_memory
from sandbox.isolation.probe import INSTALL, probe
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
    """GPUs, and whether the kernels' torch can use them. `device` is the setting sandbox.device.

    torch is asked in a process of its own, since a broken driver may hang.
    """
    listed = run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"], limit=GPU_LIMIT)
    cards = [line.strip() for line in listed.out.splitlines() if line.strip()] if listed.good else []
    asked = run([interpreter, "-c", TORCH], limit=TORCH_LIMIT)
    answer = re.search(r"^(\d+) (\S+)$", asked.out, re.MULTILINE) if asked.good else None
    count, why = int(answer[1]) if answer else 0, "" if answer else f"torch could not be asked: {asked.problem}"
    has_tool = shutil.which("nvidia-smi") is not None
    if not cards and not count:
        if device == "cuda":
            why = why or (listed.problem if has_tool else "no NVIDIA driver was found")
            return fault("gpu", f"none can be used ({why}), and sandbox.device is cuda",
                         "install the NVIDIA driver and a CUDA build of torch, or: --set sandbox.device=cpu")
        if has_tool:
            return warning("gpu", f"none: experiments run on the CPU (nvidia-smi failed: {listed.problem})",
                           "if there should be a GPU: repair the driver until nvidia-smi lists it")
        return ok("gpu", "none: experiments run on the CPU")
    shown = "; ".join(cards) or f"{count} CUDA device(s)"
    if not count:
        why = f"torch sees none, its CUDA version is {answer[2]}" if answer else why
        return (fault if device == "cuda" else warning)(
            "gpu", f"{shown}, but {why}", "install a CUDA build of the same torch version for the interpreter of the "
            "kernels (see pytorch.org, 'Start locally')")
    if device == "cpu":
        return warning("gpu", f"{shown}, but sandbox.device is cpu: experiments will not use it",
                       "--set sandbox.device=cuda")
    return ok("gpu", shown)


# --- memory and disk ------------------------------------------------------------------------------------------------


def memory(workers: int) -> Finding:
    """Memory that experiments can have: what is free, or what the control group leaves of it."""
    total = machine_memory() / 1e9
    free = min(total, psutil.virtual_memory().available / 1e9)
    needed, found = KERNEL_GB * workers, f"{free:.1f} of {total:.1f} GB are free"
    if free < KERNEL_GB:
        return fault("memory", f"{found}; one experiment with torch takes {KERNEL_GB:g} GB", "end other programs")
    if free < needed:
        fits = max(1, int(free / KERNEL_GB))
        return warning("memory", f"{found}; {workers} experiments at the same time take {needed:.1f} GB and more",
                       f"--workers {fits}, or end other programs")
    return ok("memory", found)


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
    if kind is None:
        return warning("filesystem", f"what {place} lies on is not in {mounts}",
                       "choose a folder on a local disk: --runs DIR")
    if on_network(place, mounts):
        return warning("filesystem", f"{place} lies on a network or shared filesystem ({kind}): the database of a run "
                                     "is kept in $TMPDIR, and events.jsonl in its folder is the record that counts",
                       "faster is a folder on a local disk: --runs DIR")
    return ok("filesystem", f"{place} lies on {kind}")


def clock(
    place: Path, *, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> Finding:
    """Whether time can be trusted: limits, events and the order of files lean on it."""
    fix = "set the clock: timedatectl set-ntp true (in a virtual machine or container: on its host)"
    year = time.gmtime(wall()).tm_year
    if not 2025 <= year <= 2100:
        return fault("clock", f"it says the year {year}", fix)
    first, began = monotonic(), wall()
    time.sleep(0.05)
    passed, drift = monotonic() - first, wall() - began
    if passed <= 0 or abs(drift - passed) > 1.0:
        return fault("clock", f"{passed:.3f} s passed by the monotonic clock and {drift:.3f} s by the wall clock", fix)
    with tempfile.NamedTemporaryFile(dir=place) as file:
        skew = os.fstat(file.fileno()).st_mtime - wall()
    if abs(skew) > SKEW:
        return warning("clock", f"files at {place} are dated {skew:+.1f} s from this machine's clock", fix)
    return ok("clock", f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime(wall()))}, files agree with it")


# --- isolation, kernel, keys -----------------------------------------------------------------------------------------


def isolation(
    family: Family, root: Path = Path("/"), *, wanted: Literal["required", "auto", "none"] = "auto",
) -> Finding:
    """Whether kernels can be isolated, which is a fault where the settings want them to be."""
    found = probe(root)
    if found.on:
        with_users = "user, process and network" if found.user_namespace else "process and network"
        return ok("isolation", f"bubblewrap with {with_users} namespaces works")
    fix = install_command(family, ["bubblewrap"]) if found.fix == INSTALL else found.fix
    if wanted == "required":
        return fault("isolation", f"{found.why}, and sandbox.isolation is required: no run begins",
                     f"{fix}; or, without isolation: --set sandbox.isolation=auto")
    return warning("isolation", f"{found.why}: experiments would run without isolation: as you, with your files and "
                   "network", fix)


def kernel(settings: SandboxSettings) -> Finding:
    """One real kernel that runs two lines and returns a measurement, within the limits that experiments get.

    Isolated where that is possible; that it is not is another finding.
    """
    if settings.isolation == "required":
        settings = settings.model_copy(update={"isolation": "auto"})
    limit = KERNEL_LIMIT + settings.start_timeout + settings.grace

    async def execute(script: Path) -> Outcome:
        async with asyncio.timeout(limit):
            return await run_file(script, timeout=KERNEL_LIMIT, settings=settings)

    problem = ""
    with tempfile.TemporaryDirectory(prefix="scientist-doctor-") as folder:
        script = Path(folder) / "probe.py"
        script.write_text(SCRIPT)
        try:
            outcome = asyncio.run(execute(script))
            if outcome.failure is not None:
                problem = f"its code failed: {outcome.failure.message}"
            elif "hello" not in outcome.stdout_tail or [one.value for one in outcome.measurements] != [ANSWER]:
                problem = "it ran, but what it printed and measured did not come back"
            else:
                return ok("kernel", f"one started, ran and was measured (code {duration(outcome.seconds)})")
        except TimeoutError:
            problem = f"none answered within {limit:g} s"
        except (SandboxError, OSError) as error:
            problem = " ".join(str(error).split())[-400:]
    return fault("kernel", problem, f"check sandbox.python ({settings.python}): it needs ipykernel and numpy")


def keys(environment: Mapping[str, str]) -> Finding:
    """The names of the keys that are set, and those that cannot be right."""
    problems = {name: key_problem(environment[name]) for name in NAMES if name in environment}
    good = [name for name, problem in problems.items() if not problem]
    found = ", ".join(good) or "none set: only the offline model and servers of your own can be used"
    if doubts := [f"{name} {problem}" for name, problem in problems.items() if problem]:
        return warning("keys", f"{found}; {', '.join(doubts)}", "export it again, without quotes and spaces inside")
    return ok("keys", found)


def key_problem(value: str) -> str:
    """What cannot be right about a key, without showing any of it; empty where nothing is."""
    if not value.strip():
        return "is empty"
    if value != value.strip() or any(space in value for space in (" ", "\t", "\n", "\r")):
        return "holds white space"
    if value[0] in "\"'" or value[-1] in "\"'":
        return "holds quotes"
    placeholders = ("...", "changeme", "your-", "your_", "<", "xxx")
    return "is a placeholder" if value.lower().startswith(placeholders) else ""
