"""An interpreter that runs experiments: where it lives, and which packages it has. It is asked once a process."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.isolation.walls import narrow
from sandbox.job import ExecutorError

OLDEST = (3, 11)
NEEDED = ("ipykernel", "numpy")
"""Distributions without which no experiment runs."""
LIMIT = 120.0
"""Seconds that an interpreter may take to answer."""

_ASK = """
import json, platform, site, sys
from importlib.metadata import distributions
user = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
print(json.dumps({
    "version": platform.python_version(), "platform": platform.platform(),
    "prefixes": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
    "user_site": user if user in sys.path else "",
    "packages": sorted({(one.metadata["Name"], one.version) for one in distributions()}, key=str),
}))
"""
_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONUSERBASE")


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says of itself."""

    version: str
    platform: str
    trees: tuple[Path, ...]
    """Folders that it needs to run, less /usr."""
    packages: dict[str, str]
    """Name of a distribution -> version."""


@functools.cache
def interpreter(python: str) -> Interpreter:
    """What there is to know of an interpreter. Raises `ExecutorError` where it does not run."""
    environment = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    try:
        ran = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=LIMIT, check=False,
                             env=environment, cwd="/", stdin=subprocess.DEVNULL)
        said = json.loads(ran.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        why = f"it is no Python {'.'.join(map(str, OLDEST))}" if isinstance(error, ValueError) else _first_line(error)
        raise ExecutorError(f"cannot run {python!r} (sandbox.python): {why}; a run that was made "
                            "elsewhere names an interpreter of that machine: give one of this one, "
                            "--set sandbox.python=PATH") from error
    named = [*said["prefixes"], said["user_site"], *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
             os.environ.get("CUDA_HOME", "")]
    trees = {Path(one) for one in named if one} | set(_behind_links(Path(shutil.which(python) or python)))
    return Interpreter(said["version"], said["platform"], narrow(trees), dict(said["packages"]))


def check_interpreter(python: str) -> None:
    """Refuse an interpreter that no experiment could run in. Raises `ExecutorError`."""
    found = interpreter(python)
    if tuple(int(part) for part in found.version.split(".")[:2]) < OLDEST:
        raise ExecutorError(f"{python!r} (sandbox.python) is Python {found.version}: experiments need "
                            f"{'.'.join(map(str, OLDEST))} or newer; --set sandbox.python=PATH")
    lacking = [name for name in NEEDED if name not in {one.lower() for one in found.packages}]
    if lacking:
        raise ExecutorError(f"{python!r} (sandbox.python) lacks {' and '.join(lacking)}: install what experiments "
                            f"need there ({python} -m pip install {' '.join(lacking)}), or name another interpreter")


def _behind_links(python: Path) -> Iterator[Path]:
    """The prefix of every file that the program's path leads to, link by link: a link in between must be there too."""
    for _ in range(40):
        yield python.parent.parent
        if not python.is_symlink():
            return
        python = python.parent / os.readlink(python)


def _first_line(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split())[:300]
