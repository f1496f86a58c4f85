"""Files of a run, opened so that no name leads out of it.

A path is walked from the run's folder one name at a time, and no link is followed on the way: generated code writes
into these folders. Withheld labels, the control folder, caches and hidden files are not shown.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from labwright.inspector.text import printable
from labwright.record.folder import open_regular
from labwright.record.nouns.frozen import encodable

SHOWN = frozenset(
    {
        "nodes",
        "cells",
        "paper",
        "review",
        "literature",
        "probes",
        "config.yaml",
        "idea.json",
        "data_plan.json",
        "environment.txt",
        "packages.lock",
        "manifest.json",
        "library.bib",
    }
)
"""What may be shown of a run's folder."""
LARGEST = 64 * 2**20
"""Bytes of a file that is handed out."""
TEXT = 200_000
"""Bytes of a file that is shown as text; of output its end, of code its beginning."""
LISTED = 400
_BLOCK = 1 << 16


class RefusedError(Exception):
    """A path is not one that is shown, or no file. The message says why."""


class Listed(NamedTuple):
    """A file by its path within the run."""

    path: str
    size: int


def open_within(run: Path, path: str) -> int:
    """A descriptor of a regular file; the caller closes it. Raises `RefusedError`."""
    names = path.split("/")
    if names[0] not in SHOWN or any(not name or name.startswith(".") or "\0" in name for name in names):
        raise RefusedError("this path is not shown")
    with ExitStack() as opened:
        folder: int | None = None
        try:
            for name in (str(run), *names[:-1]):
                follow = 0 if folder is None else os.O_NOFOLLOW
                folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=folder)
                opened.callback(os.close, folder)
            return open_regular(names[-1], folder)
        except (OSError, ValueError):
            raise RefusedError("there is no such file") from None


def blocks(file: int, size: int) -> Iterator[bytes]:
    """A file's first `size` bytes; closes it."""
    with os.fdopen(file, "rb") as opened:
        while size > 0 and (block := opened.read(min(_BLOCK, size))):
            size -= len(block)
            yield block


def bytes_of(run: Path, path: str, most: int) -> bytes | None:
    """A file's first `most` bytes; None where there is none."""
    try:
        return b"".join(blocks(open_within(run, path), most))
    except (RefusedError, OSError):
        return None


def text_of(run: Path, path: str, *, end: bool = False, most: int = TEXT) -> str | None:
    """A file as safe text, bounded: its beginning, or its end; None where there is none."""
    try:
        file = open_within(run, path)
    except RefusedError:
        return None
    with os.fdopen(file, "rb") as opened:
        size = os.fstat(file).st_size
        if end and size > most:
            opened.seek(size - most)
        text = printable(opened.read(most).decode("utf-8", "replace"))
    if size <= most:
        return text
    return f"... {size - most} bytes before\n{text}" if end else f"{text}\n... {size - most} bytes after"


def listed(run: Path, folder: str) -> tuple[Listed, ...]:
    """Regular files below a folder of the run, by name; links, hidden ones and names that no
    address can have left out, 400 at most."""
    found: list[Listed] = []
    for place, folders, names in os.walk(run / folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            try:
                about = path.lstat()
            except OSError:
                continue
            inner = str(path.relative_to(run))
            if stat.S_ISREG(about.st_mode) and not name.startswith(".") and encodable(inner) == inner:
                found.append(Listed(inner, about.st_size))
        if len(found) >= LISTED:
            break
    return tuple(found[:LISTED])


# --- curves ---------------------------------------------------------------------------------------------------------


class CurvePoint(NamedTuple):
    """A value with a step that an attempt logged."""

    split: str
    dataset: str
    condition: str
    name: str
    step: int
    value: float


def curve_points(lines: Iterable[bytes]) -> Iterator[CurvePoint]:
    """The values with a step in the lines of a `measurements.jsonl`; what is not one is left out."""
    for line in lines:
        try:
            one: Any = json.loads(line)
            if one["step"] is not None and math.isfinite(one["value"]):
                yield CurvePoint(
                    str(one["split"]),
                    str(one["dataset"]),
                    str(one["condition"]),
                    str(one["name"]),
                    int(one["step"]),
                    float(one["value"]),
                )
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
