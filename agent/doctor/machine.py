"""What the machine offers: packages, GPU, memory, disk, the filesystem of the runs, TeX, isolation, a kernel, keys."""

from __future__ import annotations

import asyncio
import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

import psutil
from packaging.requirements import Requirement

from labwright.agent import environment
from labwright.agent.doctor import Finding, fault, ok, warning
from labwright.agent.keys import NAMES
from labwright.inspector.text import duration
from labwright.record.folder import free_gb
from labwright.record.network import kind_of, on_network
from labwright.review.evidence.tex import PACKAGES
from labwright.sandbox.errors import ExecutorError, SandboxError
from labwright.sandbox.isolation.interpreter import check_interpreter
from labwright.sandbox.isolation.limits import machine_memory
from labwright.sandbox.isolation.probe import probe
from labwright.sandbox.job import Outcome
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.single_file import run_file
from labwright.stages.paper.sample import try_out
from labwright.stages.paper.template import TemplateError, load

TORCH_LIMIT = 90.0
"""Seconds for torch to count GPUs: its import takes long from a cold disk."""
TORCH = """
import json, torch
print(json.dumps([torch.version.cuda, [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]]))
"""

KERNEL_GB = 1.2
"""Memory of one experiment with torch, at least (FACTS: torch needs more than 1.2 GB of address space)."""
ROOMY_GB = 10.0
"""Free disk below which a run of the default size may fill it."""

TEX_PROGRAMS = ("pdflatex", "bibtex", "kpsewhich", "latexmk", "pdftotext", "pdffonts")
"""Programs without which no paper is built or checked."""

KERNEL_LIMIT = 30.0
"""Seconds for the two lines that the kernel runs."""
ANSWER = 42.0
SCRIPT = f"""
import lab
lab.result("answer", {ANSWER}, condition="probe", dataset="none", split="validation")
print("hello")
"""


# --- software -------------------------------------------------------------------------------------------------------


def packages() -> Finding:
    """Whether every package that the program needs is installed, in a version that it allows."""
    wrong: list[str] = []
    needed = [
        one
        for one in map(Requirement, requires("labwright") or ())
        if one.marker is None or one.marker.evaluate({"extra": ""})
    ]
    for one in needed:
        try:
            if not one.specifier.contains(installed := version(one.name), prereleases=True):
                wrong.append(f"{one.name} {installed} (wanted {one.specifier})")
        except PackageNotFoundError:
            wrong.append(f"{one.name} is not installed")
    if wrong:
        return fault(
            "packages", "; ".join(wrong), "pip install -c constraints.txt -e . in the program's folder (or: make setup)"
        )
    return ok("packages", f"Python {platform.python_version()} has all {len(needed)} that the program needs")


def experiments(python: str) -> Finding:
    """Whether the interpreter of the kernels can run experiments, and has what they usually import."""
    try:
        check_interpreter(python)
    except ExecutorError as error:
        return fault("experiments", str(error), f"check sandbox.python ({python})")
    installed = environment.packages(python)
    missing = [name for name in environment.SHOWN if not any(one.startswith(f"{name} ") for one in installed)]
    if missing:
        return warning(
            "experiments",
            f"{python} lacks {', '.join(missing)}: no experiment can use it",
            f"if they should: {python} -m pip install {' '.join(missing)}",
        )
    return ok("experiments", ", ".join(installed))


def typesetting(template: str) -> Finding:
    """Whether papers can be built and checked: a paper of two lines is set with the template and read again."""
    install = f"on Debian: sudo apt-get install -y --no-install-recommends {PACKAGES}"
    missing = [name for name in TEX_PROGRAMS if shutil.which(name) is None]
    if missing:
        return fault(
            "tex", f"missing: {', '.join(missing)}; a run would end with the sources of its paper (exit 4)", install
        )
    try:
        asyncio.run(try_out(load(template)))
    except TemplateError as error:
        return fault("tex", str(error), f"if a file of TeX is missing, {install}; else see docs/templates.md")
    if shutil.which("chktex") is None:
        return warning("tex", "papers can be built, and are checked less: chktex is missing", install)
    return ok("tex", f"a two-line paper was typeset with the template {template}")


# --- hardware -------------------------------------------------------------------------------------------------------


def gpu(interpreter: str, device: str) -> Finding:
    """Whether the kernels' torch can use GPUs. `device` is the setting sandbox.device.

    torch is asked in a process of its own, since a broken driver may hang.
    """
    answer: tuple[str | None, list[str]] | None = None
    try:
        ran = subprocess.run(
            [interpreter, "-c", TORCH],
            capture_output=True,
            text=True,
            timeout=TORCH_LIMIT,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        answer = json.loads(ran.stdout)
        why = f"torch sees no GPU; its CUDA version is {answer[0] or '-'}" if answer else ""
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"torch could not be asked: {' '.join(str(getattr(error, 'stderr', None) or error).split())[-300:]}"
    names = answer[1] if answer else []
    if names and device == "cpu":
        return warning(
            "gpu",
            f"{'; '.join(names)}, but sandbox.device is cpu: experiments will not use it",
            "--set sandbox.device=cuda",
        )
    if names:
        return ok("gpu", "; ".join(names))
    driver = shutil.which("nvidia-smi") is not None
    if device == "cuda" or driver or answer is None:
        return (fault if device == "cuda" else warning)(
            "gpu",
            f"none can be used: {why}; an NVIDIA driver is {'installed' if driver else 'not installed'}",
            "install the driver until nvidia-smi lists the GPU, and a CUDA build of torch for the interpreter of the "
            "kernels (see pytorch.org, 'Start locally'); or, without a GPU: --set sandbox.device=cpu",
        )
    return ok("gpu", "none: experiments run on the CPU")


def memory(workers: int) -> Finding:
    """Memory that experiments can have: what is free, or what the control group leaves of it."""
    total = machine_memory() / 1e9
    free = min(total, psutil.virtual_memory().available / 1e9)
    found = f"{free:.1f} of {total:.1f} GB are free; {workers} experiments at a time take {KERNEL_GB * workers:.1f} GB"
    if free < KERNEL_GB:
        return fault("memory", f"{found}, one takes {KERNEL_GB:g} GB", "end other programs")
    if free < KERNEL_GB * workers:
        return warning("memory", f"{found} and more", f"--workers {int(free / KERNEL_GB)}, or end other programs")
    return ok("memory", found)


def disk(place: Path, least_gb: float) -> Finding:
    """Free space where the runs go."""
    free = free_gb(place)
    found = f"{free:.1f} GB are free at {place}"
    if free < least_gb:
        return fault(
            "disk",
            f"{found}, but a run needs {least_gb:g} to start",
            "free some space, or choose another --runs, or lower min_free_gb",
        )
    if free < ROOMY_GB:
        return warning(
            "disk",
            f"{found}; a run of the default size with large data may fill them",
            "free some space, or choose another --runs",
        )
    return ok("disk", found)


def filesystem(place: Path) -> Finding:
    """What the runs lie on. SQLite's WAL does not work on network filesystems: a run keeps its database elsewhere."""
    kind = kind_of(place)
    if on_network(place):
        return warning(
            "filesystem",
            f"{place} lies on a network or shared filesystem ({kind}): the record of a run "
            "is events.jsonl in its folder, and no database",
            "faster is a folder on a local disk: --runs DIR",
        )
    return ok("filesystem", f"{place} lies on {kind}")


# --- isolation, kernel, keys ----------------------------------------------------------------------------------------


def isolation(root: Path = Path("/"), *, wanted: Literal["required", "auto", "none"] = "auto") -> Finding:
    """Whether kernels can be isolated, which is a fault where the settings want them to be."""
    found = probe(root)
    if found.on:
        with_users = "user, process and network" if found.user_namespace else "process and network"
        works = f"bubblewrap with {with_users} namespaces works"
        return (
            ok("isolation", works)
            if found.between_cells
            else warning(
                "isolation",
                (
                    f"{works}, but no walls can be put up between cells: those of different arms share no "
                    f"kernel, and values "
                    "are graded as computed, not as scored"
                ),
                "run as a user who may make user namespaces (docs/sandbox.md)",
            )
        )
    if wanted == "required":
        return fault(
            "isolation",
            f"{found.why}, and sandbox.isolation is required: no run begins",
            f"{found.fix}; or, without isolation: --set sandbox.isolation=auto",
        )
    return warning(
        "isolation",
        f"{found.why}: experiments would run without isolation: as you, with your files and network",
        found.fix,
    )


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

    with tempfile.TemporaryDirectory(prefix="scientist-doctor-") as folder:
        script = Path(folder) / "probe.py"
        script.write_text(SCRIPT)
        try:
            outcome = asyncio.run(execute(script))
            if [one.value for one in outcome.measurements] == [ANSWER] and "hello" in outcome.stdout_tail:
                return ok("kernel", f"a kernel started, ran code and was measured (code {duration(outcome.seconds)})")
            why = outcome.failure.message if outcome.failure else "its output and its measurement did not come back"
        except TimeoutError:
            why = f"no kernel answered within {limit:g} s"
        except (SandboxError, OSError) as error:
            why = " ".join(str(error).split())[-400:]
    return fault("kernel", why, f"check sandbox.python ({settings.python}): it needs ipykernel and numpy")


def keys(variables: Mapping[str, str]) -> Finding:
    """The names of the keys that are set, and those that cannot be right. No part of a value is shown."""
    given = [name for name in NAMES if name in variables]
    doubtful = [name for name in given if not variables[name] or set(variables[name]) & set(" \t\r\n\"'<>")]
    found = ", ".join(name for name in given if name not in doubtful) or (
        "no usable one is set: only the offline model and servers of your own can be used"
    )
    if doubtful:
        return warning(
            "keys",
            f"{found}; empty, or with white space, quotes or angle brackets: {', '.join(doubtful)}",
            "export it again, without quotes and spaces inside",
        )
    return ok("keys", found)
