"""Other programs, run with a limit; whatever they start is gone when the limit is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    """What came of a program. `code` is None where it did not end in time or could not be started: `why` says which."""

    code: int | None
    out: str = ""
    err: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        return self.code == 0

    @property
    def said(self) -> str:
        """What went wrong, in one line."""
        return self.why or " ".join((self.err or self.out).split())[-300:] or f"exit code {self.code}"


def run(argv: Sequence[str], *, limit: float, environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program for at most `limit` seconds, in a process group of its own, which is killed at the limit."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, env=None if environment is None else dict(environment))
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
