"""The findings of probes, and other programs run within a limit, at whose end all that they started is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from record.nouns.frozen import Frozen

Grade = Literal["ok", "warning", "fault"]


class Finding(Frozen):
    """One line of a report. `fix` is what to do about it, as exactly as possible; empty where all is well."""

    check: str
    grade: Grade
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, grade="ok", found=found)


def warning(check: str, found: str, fix: str) -> Finding:
    return Finding(check=check, grade="warning", found=found, fix=fix)


def fault(check: str, found: str, fix: str) -> Finding:
    return Finding(check=check, grade="fault", found=found, fix=fix)


def broken(check: str, error: Exception) -> Finding:
    """The fault of a probe that broke."""
    problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return fault(check, f"could not be checked: {problem}", "look at what the message names, then ask again")


@dataclass(frozen=True)
class Ran:
    """The result of a program. `code` is None where it did not end in time or could not start: `why` says which."""

    code: int | None
    out: str = ""
    err: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        return self.code == 0

    @property
    def problem(self) -> str:
        """What went wrong, in one line."""
        return self.why or " ".join((self.err or self.out).split())[-300:] or f"exit code {self.code}"


def run(argv: Sequence[str], *, limit: float) -> Ran:
    """Run a program for at most `limit` seconds, in a process group of its own, which is killed at the limit."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True)
    except OSError as error:
        return Ran(None, why=f"{argv[0]} cannot be started: {error.strerror}")
    with process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # what left the group may hold the pipes
                process.communicate(timeout=1.0)
            return Ran(None, why=f"{argv[0]} did not end within {limit:g} s")
    return Ran(process.returncode, out, err)
