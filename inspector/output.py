"""What the code of an attempt printed, read on from where it was left, also while it runs.

While it runs the host keeps the beginning of its output beside the folder that the code writes into (`RunFolder.live`);
then `stdout.txt` in the sealed folder has it. No link is followed, and what is given is safe for a terminal.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from inspector.text import printable
from record.folder import RunFolder

MOST = 2_000_000
"""Bytes of an attempt's output that are read."""


class Output:
    """The output of one attempt."""

    def __init__(self, run: Path, node: str, number: int) -> None:
        folder = RunFolder(run)
        self._live, self._sealed = folder.live(node, number), folder.attempt(node, number) / "stdout.txt"
        self._read = 0

    def lines(self) -> list[str]:
        """Whole lines that are new; of a progress bar its last state."""
        found = _bytes(self._live, self._read)
        whole = found[: found.rfind(b"\n") + 1]
        self._read += len(whole)
        return _shown(whole)

    def rest(self) -> list[str]:
        """What was not given yet, once the attempt is over."""
        return _shown(_bytes(self._sealed, self._read))


def _bytes(path: Path, start: int) -> bytes:
    """A regular file from a byte on; empty where there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return b""
        opened.seek(start)
        return opened.read(max(0, MOST - start))


def _shown(text: bytes) -> list[str]:
    lines = text.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [printable(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in lines]
