"""The interpreter that runs experiments: its location, packages and speed.

The speed is measured once per run, in as many parallel processes as there may be experiments, with the threads or the
GPU of an experiment. It may differ for other workloads, or while the machine is busy.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from labwright.record.machine import ComputeRate
from labwright.sandbox.gpus import GpuDevice
from labwright.sandbox.job import ExecutorError
from labwright.sandbox.settings import SandboxSettings

TOO_WIDE_FOLDERS = "/etc /var /tmp /run /proc /sys /dev /bin /lib /lib64 /opt /mnt /srv".split()
"""Folders that are never mounted whole."""

MIN_PYTHON_VERSION = (3, 11)
REQUIRED_PACKAGES = ("ipykernel", "numpy")
"""Distributions that every experiment needs."""
QUERY_TIMEOUT_SECONDS = 120.0
"""Timeout for the interpreter's answer, in seconds."""

_QUERY_CODE = """
import json, platform, sys
from importlib.metadata import distributions
print(json.dumps({
    "version": platform.python_version(), "platform": platform.platform(),
    "prefixes": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
    "site": [one for one in sys.path if one.endswith(("/site-packages", "/dist-packages"))],
    "packages": sorted({(one.metadata["Name"], one.version) for one in distributions()}, key=str),
}))
"""
_QUERY_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONUSERBASE")


@dataclass(frozen=True)
class InterpreterInfo:
    """Facts that an interpreter reports about itself."""

    version: str
    platform: str
    trees: tuple[Path, ...]
    """Folders that it needs to run, except /usr."""
    packages: dict[str, str]
    """Distribution name -> version."""


@functools.cache
def inspect_interpreter(python: str) -> InterpreterInfo:
    """Query the facts about an interpreter. Raises `ExecutorError` if it does not run."""
    try:
        answer = json.loads(_query(python, _QUERY_CODE))
    except subprocess.TimeoutExpired as error:
        late = f"{python!r} (sandbox.python) did not answer within {error.timeout:g} s: the machine is busy; try again"
        raise ExecutorError(late) from error
    except (OSError, ValueError) as error:
        raise ExecutorError(
            f"cannot run {python!r} (sandbox.python): "
            f"{'it is not a Python 3 interpreter' if isinstance(error, ValueError) else error}; choose an interpreter "
            "of this machine: --set sandbox.python=PATH"
        ) from error
    named = [
        *answer["prefixes"],
        *answer["site"],  # also those of a user, and those that pipx shares between programs
        *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
        os.environ.get("CUDA_HOME", ""),
    ]
    trees = {Path(name) for name in named if name}
    program = Path(shutil.which(python) or python)
    for _ in range(40):  # add each link's folder: links in between must be mounted too
        trees.add(program.parent.parent)
        if not program.is_symlink():
            break
        program = program.parent / os.readlink(program)
    return InterpreterInfo(answer["version"], answer["platform"], select_exposable(trees), dict(answer["packages"]))


@functools.cache
def list_distributions(python: str, *added: str) -> dict[str, list[str]]:
    """Map the top-level modules of an interpreter, and of packages added to it, to the distributions that have
    them; empty before Python 3.10."""
    code = "import json, sys; from importlib.metadata import packages_distributions as get; sys.path += sys.argv[1:]"
    return json.loads(_query(python, f"{code}; print(json.dumps(get()))", *added) or "{}")


def _query(python: str, code: str, *arguments: str) -> str:
    """Return what a program prints in an interpreter. Raises `OSError`, `TimeoutExpired`."""
    environment = {name: os.environ[name] for name in _QUERY_VARIABLES if name in os.environ}
    return subprocess.run(
        [python, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=QUERY_TIMEOUT_SECONDS,
        check=False,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
    ).stdout


def format_environment(python: str, added: Mapping[str, str] | None = None, lock_sha256: str = "") -> str:
    """Format the Python version, platform and all packages of an interpreter, one per line, and the packages
    added to it, from the lock of the run if its hash is given."""
    found = inspect_interpreter(python)
    lines = sorted((f"{name}=={version}" for name, version in found.packages.items()), key=str.lower)
    if added:
        lines.append(f"installed for the run{f', by packages.lock (sha256 {lock_sha256})' if lock_sha256 else ''}:")
        lines += [f"{name}=={version}" for name, version in added.items()]
    return "\n".join((f"python {found.version}", found.platform, *lines, ""))


def select_exposable(trees: Iterable[Path]) -> tuple[Path, ...]:
    """Return the trees that may be mounted whole: none with a home or system folders, and none inside another."""
    home = Path.home()

    def is_exposable(tree: Path) -> bool:
        is_wide = str(tree) in TOO_WIDE_FOLDERS or tree.is_relative_to("/usr") or home.is_relative_to(tree)
        return tree.is_absolute() and tree.is_dir() and not is_wide

    kept = set(filter(is_exposable, trees))
    forms = kept | {tree.resolve() for tree in kept}
    return tuple(sorted(form for form in forms if not any(other in forms for other in form.parents)))


def check_interpreter(python: str) -> None:
    """Check that experiments can run in an interpreter. Raises `ExecutorError`."""
    answer = inspect_interpreter(python)
    if tuple(int(part) for part in answer.version.split(".")[:2]) < MIN_PYTHON_VERSION:
        least = ".".join(map(str, MIN_PYTHON_VERSION))
        raise ExecutorError(
            f"{python!r} (sandbox.python) is Python {answer.version}: experiments need {least} or newer"
        )
    lacking = [name for name in REQUIRED_PACKAGES if name not in map(str.lower, answer.packages)]
    if lacking:
        raise ExecutorError(
            f"{python!r} (sandbox.python) lacks {' and '.join(lacking)}: "
            f"install with {python} -m pip install {' '.join(lacking)}"
        )


TIMING_TIMEOUT_SECONDS = 60.0
"""Timeout of the whole measurement in seconds; after that the speed is unknown."""

_TIMING_CODE = """
import json, sys, time

if sys.argv[1] == "torch":
    import torch as xp
    device = sys.argv[2]
    draw, wait = lambda *shape: xp.randn(*shape, device=device), getattr(xp, device).synchronize
    y = xp.randint(10, (4096,), device=device)
else:
    import numpy as xp
    rng = xp.random.default_rng(0)
    draw, wait = lambda *shape: rng.standard_normal(shape, dtype=xp.float32), lambda: None
    y = rng.integers(10, size=4096)
a, x, first, second = draw(1024, 1024), draw(4096, 784), draw(784, 256) * 0.05, draw(256, 10) * 0.05

def timed(work, times):
    work()
    wait()
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - began) / times

def epoch():
    for at in range(0, 4096, 128):
        rows, labels = x[at:at + 128], y[at:at + 128]
        hidden = (rows @ first).clip(0)
        logits = hidden @ second
        p = xp.exp(logits - xp.amax(logits, 1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[xp.arange(128), labels] -= 1
        back = (p @ second.T) * (hidden > 0)
        second[...] -= 1e-4 * (hidden.T @ p)
        first[...] -= 1e-4 * (rows.T @ back)

print(json.dumps([timed(lambda: a @ a, 3), timed(epoch, 1)]))
"""
"""The same operations with numpy, or with torch on a GPU."""


def build_thread_variables(settings: SandboxSettings) -> dict[str, str]:
    """Return the variables that limit libraries to the threads of one experiment."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(settings.threads))


def measure_rate(terms: ComputeRate, settings: SandboxSettings, gpus: Sequence[GpuDevice] = ()) -> ComputeRate:
    """Return the rate with the measured times, or without times if the measurement fails. Takes some seconds."""
    environment = build_thread_variables(settings) | {"CUDA_VISIBLE_DEVICES": gpus[0].uuid if gpus else ""}
    library, at_once = ("torch", 1) if gpus else ("numpy", terms.at_once)
    times = _run_timings(settings.python, library, at_once, tuple(sorted(environment.items())))
    product, epoch = times if times is not None else (None, None)
    return terms.model_copy(update={"library": library, "product_seconds": product, "epoch_seconds": epoch})


@functools.cache
def _run_timings(
    python: str, library: str, at_once: int, variables: tuple[tuple[str, str], ...]
) -> tuple[float, float] | None:
    """Return the seconds of a matrix product and of an epoch, averaged over parallel processes; None if one of them
    fails."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    running = [
        subprocess.Popen(
            [python, "-c", _TIMING_CODE, library, "cuda"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=environment | dict(variables),
        )
        for _ in range(at_once)
    ]
    try:
        times = [json.loads(process.communicate(timeout=TIMING_TIMEOUT_SECONDS)[0]) for process in running]
        products, epochs = zip(*times, strict=True)  # each process returned two numbers
        return fmean(products), fmean(epochs)
    except (ValueError, TypeError, subprocess.TimeoutExpired):
        return None
    finally:
        for process in running:
            process.kill()
            process.communicate()
