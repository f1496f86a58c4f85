"""Install what `scientist doctor` finds missing: Debian packages, and PyTorch for the experiments."""

from __future__ import annotations

import subprocess
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.packages import PackageError, open_uv

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
