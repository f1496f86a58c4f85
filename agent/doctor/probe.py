"""The findings of probes, and other programs run within a limit, at whose end all that they started is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from record.nouns.frozen import Frozen

Grade = Literal["ok", "warning", "fault"]


class Finding(Frozen):
    """One line of a report. `mend` is what to do about it, as exactly as possible; empty where all is well."""

    check: str
    grade: Grade
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, grade="ok", found=found)


def warning(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, grade="warning", found=found, mend=mend)


def fault(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, grade="fault", found=found, mend=mend)


def guarded(check: str, probe: Callable[[], Finding]) -> Finding:
    """The finding of a probe; a probe that breaks is a fault of its own, and the others still run."""
    try:
        return probe()
    except Exception as error:  # noqa: BLE001  the edge of one probe: one broken probe must not hide the others
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return fault(check, f"could not be checked: {said}", "look at what the message names, then ask again")


def as_json(findings: list[Finding]) -> str:
    """A report as JSON (see docs/command-line.md)."""
    grades: tuple[Grade, ...] = ("ok", "warning", "fault")
    counts = {grade: sum(one.grade == grade for one in findings) for grade in grades}
    return json.dumps({"counts": counts, "findings": [one.model_dump() for one in findings]}, indent=1)


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
