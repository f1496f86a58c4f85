"""Run uv to resolve and install packages. It never runs package code: it only installs wheels or downloads sources.

uv reads its own configuration (`UV_*`, uv.toml). Unless `UV_INDEX*` or `UV_DEFAULT_INDEX` is set, it also gets the
indexes, folders and certificates of `pip config list`. If no index answers, uv's cache is used. Packages built against
torch (such as torchvision) must match the interpreter's torch. If that has a label, such as 2.13.0+cpu, they come only
from PyTorch's index for that label.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labwright.sandbox.errors import PackageError
from labwright.sandbox.isolation.interpreter import inspect_interpreter

TOTAL_TIMEOUT_SECONDS = 900.0
"""Total time limit for resolving and installing the packages of a run, in seconds."""
_PIP_TO_UV_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "cert": "--cert",
    "trusted-host": "--allow-insecure-host",
}
_NO_ANSWER_PATTERN = re.compile(
    r"Request failed|Failed to (fetch|download)|error sending request|dns error|timed out|"
    r"not found in the cache|network was disabled|Connectivity is disabled|"
    r"Network (is )?unreachable",
    re.IGNORECASE,
)
TORCH_INDEX = "the PyTorch index"
_IGNORED_PREFIXES = ("warning:", "Using ", "Resolved ", "Prepared ")


class IndexUnavailable(PackageError):
    """Raised if no package index answers."""


@dataclass
class Uv:
    """uv for one interpreter, with one time limit for all calls."""

    python: str
    folder: Path
    """Working folder, outside any project."""
    is_offline: bool = False
    """Whether no index answered, so that files and answers of earlier calls were used."""

    def __post_init__(self) -> None:
        self.limit = TOTAL_TIMEOUT_SECONDS
        self._ends = time.monotonic() + self.limit

    def run(self, command: str, *arguments: str, stdin: str = "") -> str:
        """Run a command of uv and return its standard output. Raises `PackageError` or `IndexUnavailable` with its
        shortened error."""
        words = [*command.split(), *arguments, *read_pip_options()]
        ran = self._run(words, stdin)
        if ran.returncode and _NO_ANSWER_PATTERN.search(ran.stderr) and "Hash mismatch" not in ran.stderr:
            error: PackageError = IndexUnavailable(_summarize_error(ran.stderr))
            ran = self._run([*words, "--offline"], stdin)
            self.is_offline = True
        else:
            error = PackageError(_summarize_error(ran.stderr))
        if ran.returncode:
            raise error
        return ran.stdout

    @property
    def seconds_left(self) -> float:
        """Remaining seconds. Raises `PackageError` if there are no such packages."""
        if (left := self._ends - time.monotonic()) > 0:
            return left
        raise PackageError(f"this took more than {self.limit:g} s")

    def _run(self, arguments: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        from uv import find_uv_bin

        try:
            return subprocess.run(
                [
                    find_uv_bin(),
                    *"--color never --no-progress --no-python-downloads".split(),
                    *arguments,
                    *get_torch_backend_option(inspect_interpreter(self.python).packages),
                    "--python",
                    self.python,
                ],
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.seconds_left,
                check=False,
                cwd=self.folder,
            )
        except subprocess.TimeoutExpired:
            raise PackageError(f"this took more than {self.limit:g} s") from None
        except OSError as error:
            raise PackageError(f"uv cannot be started ({error})") from None


def get_torch_backend_option(packages: Mapping[str, str]) -> list[str]:
    """Return the uv option for the build label of the interpreter's torch; empty if it has none."""
    label = packages.get("torch", "").partition("+")[2]
    return ["--torch-backend", label] if re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", label) else []


@contextmanager
def open_uv(python: str) -> Generator[Uv]:
    """Yield a `Uv` in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="scientist-uv-", ignore_cleanup_errors=True) as folder:
        yield Uv(python, Path(folder))


@functools.cache
def read_pip_options() -> list[str]:
    """Return pip's configuration as options of uv; empty without pip or configuration, or if uv has its own."""
    if any(name.startswith(("UV_INDEX", "UV_DEFAULT")) for name in os.environ):
        return []
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            timeout=30.0,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found: dict[str, str] = {}
    for line in sorted(ran.stdout.splitlines(), key=lambda line: line.startswith((":env:", "install."))):
        key, _, value = line.partition("=")
        if (name := key.rpartition(".")[2]) in (*_PIP_TO_UV_OPTIONS, "no-index") and value:
            found[name] = str(ast.literal_eval(value))
    options = [
        word
        for name, value in found.items()
        if name in _PIP_TO_UV_OPTIONS
        for one in value.split()
        for word in (_PIP_TO_UV_OPTIONS[name], one)
    ]
    options += ["--no-index"] if found.get("no-index", "") in ("1", "true", "yes", "on") else []
    return [*options, "--index-strategy", "unsafe-best-match"] if found.keys() - {"cert"} else []


def _summarize_error(text: str) -> str:
    """Summarise an error of uv in one line, without addresses."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith(_IGNORED_PREFIXES)]
    causes = [line.removeprefix("cause:").strip() for line in lines if line and not line.startswith("hint:")]
    if len(causes) > 1 and causes[0].startswith("error: No solution"):
        causes = causes[1:]
    summary = re.sub(r"\w+://\S*/whl/[^\s)`]*", TORCH_INDEX, " ".join(causes).removeprefix("error: "))
    summary = re.sub(r"\w+://[^\s)`]+", "the index", summary)
    summary = re.sub(r",? we can conclude that your requirements are unsatisfiable\.?", "", summary)
    return summary[:400].strip() or "it failed"
