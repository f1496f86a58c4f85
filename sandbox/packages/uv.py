"""uv, which finds and installs packages. It is never let run code of theirs: it takes wheels, or a source unopened.

It reads its own configuration (`UV_*`, uv.toml) and not pip's. Where its index does not do, it is asked again with the
indexes, folders and certificates that `pip config list` names; first with these, where pip has an index in place of
PyPI. What is built against torch (torchvision and others) must be built as the interpreter's torch is: where that has a
label, such as 2.13.0+cpu, it comes from PyTorch's own index of that label, and from no other.
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
"""Seconds that finding and installing the packages of a run may take in all."""
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
TORCH_INDEX = "PyTorch's own index"
_IGNORED_PREFIXES = ("warning:", "Using ", "Resolved ", "Prepared ")
_UNDATED_MESSAGE = "missing an upload date"


class IndexUnavailable(PackageError):
    """No index answered. Who acts: whoever has a network."""


@dataclass
class Uv:
    """uv for one interpreter, within a time limit for all that it is asked."""

    python: str
    until: str
    """Nothing uploaded later is taken (RFC 3339); empty: whatever there is."""
    folder: Path
    """Where it works, and no project has a say."""

    def __post_init__(self) -> None:
        self.limit = TOTAL_TIMEOUT_SECONDS
        self._ends = time.monotonic() + self.limit

    def run(self, *arguments: str, stdin: str = "") -> str:
        """What uv prints; `given` is its standard input. Raises `PackageError`, `NoAnswer`: its words, cut short."""
        tries, told = [list[str](), read_pip_options()], list[str]()
        own = any(name.startswith(("UV_INDEX", "UV_DEFAULT")) for name in os.environ)
        if "--default-index" in read_pip_options() and not own:
            tries.reverse()
        for options in tries if read_pip_options() else tries[:1]:
            for until in dict.fromkeys((self.until, "")):
                ran = self._run([*arguments, *options, *(["--exclude-newer", until] if until else [])], stdin)
                if ran.returncode == 0:
                    self.until = until
                    return ran.stdout
                told.append(ran.stderr)
                if _UNDATED_MESSAGE not in ran.stderr:
                    break
        best = next(
            (text for text in reversed(told) if "Hash mismatch" in text or not _NO_ANSWER_PATTERN.search(text)), None
        )
        if best is None:
            raise IndexUnavailable(_summarize_error(told[-1]))
        raise PackageError(_summarize_error(best))

    @property
    def seconds_left(self) -> float:
        """Seconds. Raises `PackageError` where there are none."""
        if (left := self._ends - time.monotonic()) > 0:
            return left
        raise PackageError(f"this took more than {self.limit:g} s")

    def _run(self, arguments: Sequence[str], given: str) -> subprocess.CompletedProcess[str]:
        from uv import find_uv_bin

        try:
            return subprocess.run(
                [
                    find_uv_bin(),
                    "--color",
                    "never",
                    "--no-progress",
                    "--no-python-downloads",
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
            raise PackageError(f"uv does not run ({error})") from None


def get_torch_backend_option(packages: Mapping[str, str]) -> list[str]:
    """The option that says how the interpreter's torch was built; none where it does not tell."""
    label = packages.get("torch", "").partition("+")[2]
    return ["--torch-backend", label] if re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", label) else []


@contextmanager
def open_uv(python: str, until: str = "") -> Generator[Uv]:
    """A `Uv` in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="scientist-uv-", ignore_cleanup_errors=True) as folder:
        yield Uv(python, until, Path(folder))


@functools.cache
def read_pip_options() -> list[str]:
    """pip's own configuration as options of uv; none where there is no pip, or it has none."""
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
    """An error of uv in one line: its causes, and no addresses."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith(_IGNORED_PREFIXES)]
    causes = [line.removeprefix("cause:").strip() for line in lines if line and not line.startswith("hint:")]
    if len(causes) > 1 and causes[0].startswith("error: No solution"):
        causes = causes[1:]
    told = re.sub(r"\w+://\S*/whl/[^\s)`]*", TORCH_INDEX, " ".join(causes).removeprefix("error: "))
    told = re.sub(r"\w+://[^\s)`]+", "the index", told)
    told = re.sub(r",? we can conclude that your requirements are unsatisfiable\.?", "", told)
    return told[:400].strip() or "it failed"
