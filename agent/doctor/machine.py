"""Probes of the machine: packages, GPU, memory, disk, TeX, isolation, a kernel, keys.

Also installs what they find missing: Debian packages, and PyTorch for the experiments.
"""

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
from labwright.agent.api_keys import KEY_VARIABLES
from labwright.agent.doctor import Verdict
from labwright.inspector.safe_text import format_duration
from labwright.record.run_folder import read_free_gb
from labwright.review.evidence.tex_runner import TEX_PACKAGES
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.isolation.bubblewrap import probe_isolation
from labwright.sandbox.isolation.interpreter import check_interpreter, inspect_interpreter
from labwright.sandbox.isolation.processes import read_machine_memory
from labwright.sandbox.job import ExecutorError, JobOutcome, SandboxError
from labwright.sandbox.packages import PackageError, open_uv
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.paper.template import TemplateError, load_template
from labwright.stages.paper.typesetting import try_template

TORCH_LIMIT_SECONDS = 90.0
"""Seconds for torch to count GPUs; importing it is slow from a cold disk."""
TORCH_CODE = """
import json, torch
print(json.dumps([torch.version.cuda, [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]]))
"""

KERNEL_GB = 1.2
"""Minimum memory (GB) of one experiment with torch (FACTS: torch needs more than 1.2 GB of address space)."""
AMPLE_DISK_GB = 10.0
"""Free disk (GB) below which a run of the default size may fill the disk."""

TEX_PROGRAMS = ("pdflatex", "bibtex", "kpsewhich", "latexmk")
"""Programs required to build and check a paper."""

KERNEL_LIMIT_SECONDS = 30.0
"""Seconds for the probe code in the kernel."""
EXPECTED_VALUE = 42.0
KERNEL_CODE = f"""
import lab
lab.result("answer", {EXPECTED_VALUE}, condition="probe", dataset="none", split="validation")
print("hello")
"""


# --- software -------------------------------------------------------------------------------------------------------


def check_packages() -> Verdict:
    """Check whether every package that the program needs is installed in an allowed version."""
    every = map(Requirement, requires("labwright") or ())
    needed = [one for one in every if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong: list[str] = []
    for one in needed:
        try:
            if not one.specifier.contains(installed := version(one.name), prereleases=True):
                wrong.append(f"{one.name} {installed} (required: {one.specifier})")
        except PackageNotFoundError:
            wrong.append(f"{one.name} is not installed")
    if wrong:
        fix = "pip install -c constraints.txt -e . in the program's folder (or: make setup)"
        return Verdict("fault", "; ".join(wrong), fix)
    return Verdict("ok", f"Python {platform.python_version()} has all {len(needed)} required packages")


def check_experiment_packages(python: str) -> Verdict:
    """Check whether the kernels' interpreter can run experiments and has the commonly used packages."""
    try:
        check_interpreter(python)
    except ExecutorError as error:
        return Verdict("fault", str(error), f"check sandbox.python ({python})")
    installed = environment.list_packages(python)
    found = {one.partition(" ")[0] for one in installed}
    missing = [name for name in environment.REPORTED_PACKAGES if name not in found]
    if not missing:
        return Verdict("ok", ", ".join(installed))
    fix = f"to install: {python} -m pip install {' '.join(missing)}"
    if missing == ["torch"]:
        fix = "scientist doctor --fix, which installs the tested version from your own package index"
    return Verdict("warning", f"{python} lacks {', '.join(missing)}: experiments cannot use them", fix)


def check_typesetting(template: str) -> Verdict:
    """Check whether papers can be built and checked, by typesetting a two-line paper with the template."""
    install = f"scientist doctor --fix, or on Debian: sudo apt-get install -y --no-install-recommends {TEX_PACKAGES}"
    if missing := [name for name in TEX_PROGRAMS if shutil.which(name) is None]:
        found = f"missing: {', '.join(missing)}; a run would produce only the sources of its paper (exit 4)"
        return Verdict("fault", found, install)
    try:
        asyncio.run(try_template(load_template(template)))
    except TemplateError as error:
        return Verdict("fault", str(error), f"if a TeX file is missing, {install}; otherwise see docs/paper.md")
    if shutil.which("chktex") is None:
        return Verdict("warning", "papers can be built but not fully checked: chktex is missing", install)
    return Verdict("ok", f"a two-line paper was typeset with the template {template}")


# --- hardware -------------------------------------------------------------------------------------------------------


def check_gpu(interpreter: str, device: str) -> Verdict:
    """Check whether the kernels' torch can use GPUs. `device` is the setting sandbox.device.

    Runs torch in a separate process, since a broken driver may hang.
    """
    names = list[str]()
    try:
        ran = subprocess.check_output(
            [interpreter, "-c", TORCH_CODE],
            stderr=subprocess.PIPE,
            text=True,
            timeout=TORCH_LIMIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        cuda, names = json.loads(ran)
        why = f"torch sees no GPU; its CUDA version is {cuda or '-'}"
        is_broken = False
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = f"torch failed: {' '.join(str(getattr(error, 'stderr', None) or error).split())[-300:]}"
        is_broken = "No module named 'torch'" not in why  # which `check_experiment_packages` reports
    if names and device == "cpu":
        found = f"{'; '.join(names)}, but sandbox.device is cpu: experiments will not use it"
        return Verdict("warning", found, "--set sandbox.device=cuda")
    if names:
        return Verdict("ok", "; ".join(names))
    driver = shutil.which("nvidia-smi") is not None
    if device == "cuda" or driver or is_broken:
        return Verdict(
            "fault" if device == "cuda" else "warning",
            f"no usable GPU: {why}; an NVIDIA driver is {'installed' if driver else 'not installed'}",
            "install the driver until nvidia-smi lists the GPU, and a CUDA build of torch for the interpreter of the "
            "kernels (see pytorch.org, 'Start locally'); or, without a GPU: --set sandbox.device=cpu",
        )
    return Verdict("ok", "none: experiments run on the CPU")


def check_memory(workers: int) -> Verdict:
    """Check the free memory, within the limit of the control group."""
    total = read_machine_memory() / 1e9
    free = min(total, psutil.virtual_memory().available / 1e9)
    found = f"{free:.1f} of {total:.1f} GB are free; {workers} experiments need {KERNEL_GB * workers:.1f} GB"
    if free < KERNEL_GB:
        return Verdict("fault", f"{found}, one needs {KERNEL_GB:g} GB", "close other programs")
    if free < KERNEL_GB * workers:
        return Verdict("warning", found, f"--workers {int(free / KERNEL_GB)}, or close other programs")
    return Verdict("ok", found)


def check_disk(place: Path, least_gb: float) -> Verdict:
    """Check the free space where runs are stored."""
    free = read_free_gb(place)
    found, fix = f"{free:.1f} GB are free at {place}", "free some space, or choose another --runs"
    if free < least_gb:
        return Verdict("fault", f"{found}, but a run needs {least_gb:g} GB to start", f"{fix}, or lower min_free_gb")
    if free < AMPLE_DISK_GB:
        return Verdict("warning", f"{found}; a run of the default size with large data may need more", fix)
    return Verdict("ok", found)


# --- isolation, kernel, keys ----------------------------------------------------------------------------------------


def check_isolation(root: Path = Path("/"), *, wanted: Literal["required", "auto", "none"] = "auto") -> Verdict:
    """Check whether kernels can be isolated; if not, it is a fault when the settings require isolation."""
    probed = probe_isolation(root)
    if not probed.is_on and wanted == "required":
        found = f"{probed.reason}, but sandbox.isolation is required: no run can start"
        return Verdict("fault", found, f"{probed.fix}; or, without isolation: --set sandbox.isolation=auto")
    if not probed.is_on:
        found = f"{probed.reason}: experiments would run without isolation, with access to your files and network"
        return Verdict("warning", found, probed.fix)
    works = f"bubblewrap with {'user, ' * probed.user_namespace}process and network namespaces works"
    if probed.between_cells:
        return Verdict("ok", works)
    return Verdict(
        "warning",
        f"{works}, but cells cannot be isolated from each other: cells of different arms get separate kernels, and "
        "values are graded computed, not scored",
        "run as a user who may create user namespaces (docs/sandbox.md)",
    )


def check_kernel(settings: SandboxSettings) -> Verdict:
    """Run two lines that return a measurement in a real kernel, within the limits of experiments.

    The kernel is isolated if possible; missing isolation is a separate finding.
    """
    if settings.isolation == "required":
        settings = settings.model_copy(update={"isolation": "auto"})
    limit = KERNEL_LIMIT_SECONDS + settings.start_timeout + settings.grace

    async def execute(script: Path) -> JobOutcome:
        async with asyncio.timeout(limit):
            return await run_file(script, timeout=KERNEL_LIMIT_SECONDS, settings=settings)

    with tempfile.TemporaryDirectory(prefix="scientist-doctor-") as folder:
        script = Path(folder) / "probe.py"
        script.write_text(KERNEL_CODE)
        try:
            outcome = asyncio.run(execute(script))
            if [one.value for one in outcome.measurements] == [EXPECTED_VALUE] and "hello" in outcome.stdout_tail:
                took = format_duration(outcome.seconds)
                return Verdict("ok", f"a kernel started and returned a measurement ({took})")
            why = outcome.failure.message if outcome.failure else "its output and measurement were not returned"
        except TimeoutError:
            why = f"no kernel answered within {limit:g} s"
        except (SandboxError, OSError) as error:
            why = " ".join(str(error).split())[-400:]
    return Verdict("fault", why, f"check sandbox.python ({settings.python}): it needs ipykernel and numpy")


def check_keys(variables: Mapping[str, str]) -> Verdict:
    """Report which keys are set and which are malformed. Never shows any part of a value."""
    given = [name for name in KEY_VARIABLES if name in variables]
    doubtful = [name for name in given if not variables[name] or set(variables[name]) & set(" \t\r\n\"'<>")]
    found = ", ".join(name for name in given if name not in doubtful) or (
        "no valid key is set: only the offline model, your own servers and command-line agents can be used"
    )
    if doubtful:
        found += f"; empty, or contain whitespace, quotes or angle brackets: {', '.join(doubtful)}"
        return Verdict("warning", found, "export it again, without quotes and spaces inside")
    return Verdict("ok", found)


# --- what `--fix` installs ------------------------------------------------------------------------------------------

DEBIAN_SCRIPT = Path(__file__).with_name("debian_packages.sh")
"""Also run by `make setup`, before there is an environment."""
DEBIAN_TIMEOUT_SECONDS = 1800.0


def install_debian_packages() -> str:
    """Install the missing Debian packages if the user may; otherwise name them. Returns the lines that the script
    printed, joined; empty if nothing is missing."""
    try:
        ran = subprocess.run(
            ["bash", str(DEBIAN_SCRIPT)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEBIAN_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Debian packages could not be installed: {error}"
    return " ".join(ran.stdout.split())


def find_torch_requirement() -> str:
    """Return the tested version of PyTorch, as in the extra `torch`."""
    needed = map(Requirement, requires("labwright") or ())
    return next(f"{one.name}{one.specifier}" for one in needed if one.name == "torch")


def install_torch(python: str) -> str:
    """Install PyTorch into an interpreter that has none, from the user's own index. Returns one line; empty if any
    version is already installed, which is never replaced. Raises `ExecutorError` if the interpreter does not run."""
    if "torch" in inspect_interpreter(python).packages:
        return ""
    wanted = find_torch_requirement()
    try:
        with open_uv(python) as uv:
            uv.run("pip install --compile-bytecode", wanted)
    except PackageError as error:
        return f"{wanted} could not be installed for {python}: {error}"
    inspect_interpreter.cache_clear()
    return f"{wanted} installed for {python}"
