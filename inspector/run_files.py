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

from labwright.inspector.safe_text import to_printable
from labwright.record.run_folder import open_regular
from labwright.record.schema.frozen_model import replace_unencodable

SHOWN_NAMES = frozenset(
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
MAX_FILE_BYTES = 64 * 2**20
"""Bytes of a file that is handed out."""
MAX_TEXT_CHARACTERS = 200_000
"""Bytes of a file that is shown as text; of output its end, of code its beginning."""
MAX_FILES_LISTED = 400
_BLOCK_BYTES = 1 << 16


class PathRefusedError(Exception):
    """A path is not one that is shown, or no file. The message says why."""


class ListedFile(NamedTuple):
    """A file by its path within the run."""

    path: str
    size: int


def open_within(run: Path, path: str) -> int:
    """A descriptor of a regular file; the caller closes it. Raises `RefusedError`."""
    names = path.split("/")
    if names[0] not in SHOWN_NAMES or any(not name or name.startswith(".") or "\0" in name for name in names):
        raise PathRefusedError("this path is not shown")
    with ExitStack() as opened:
        folder: int | None = None
        try:
            for name in (str(run), *names[:-1]):
                follow = 0 if folder is None else os.O_NOFOLLOW
                folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=folder)
                opened.callback(os.close, folder)
            return open_regular(names[-1], folder)
        except (OSError, ValueError):
            raise PathRefusedError("there is no such file") from None


def read_blocks(file: int, size: int) -> Iterator[bytes]:
    """A file's first `size` bytes; closes it."""
    with os.fdopen(file, "rb") as opened:
        while size > 0 and (block := opened.read(min(_BLOCK_BYTES, size))):
            size -= len(block)
            yield block


def read_bytes(run: Path, path: str, max_bytes: int) -> bytes | None:
    """A file's first `most` bytes; None where there is none."""
    try:
        return b"".join(read_blocks(open_within(run, path), max_bytes))
    except (PathRefusedError, OSError):
        return None


def read_text(run: Path, path: str, *, end: bool = False, max_characters: int = MAX_TEXT_CHARACTERS) -> str | None:
    """A file as safe text, bounded: its beginning, or its end; None where there is none."""
    try:
        file = open_within(run, path)
    except PathRefusedError:
        return None
    with os.fdopen(file, "rb") as opened:
        size = os.fstat(file).st_size
        if end and size > max_characters:
            opened.seek(size - max_characters)
        text = to_printable(opened.read(max_characters).decode("utf-8", "replace"))
    if size <= max_characters:
        return text
    return (
        f"... {size - max_characters} bytes before\n{text}"
        if end
        else f"{text}\n... {size - max_characters} bytes after"
    )


def list_files(run: Path, folder: str) -> tuple[ListedFile, ...]:
    """Regular files below a folder of the run, by name; links, hidden ones and names that no
    address can have left out, 400 at most."""
    found: list[ListedFile] = []
    for place, folders, names in os.walk(run / folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            try:
                about = path.lstat()
            except OSError:
                continue
            inner = str(path.relative_to(run))
            if stat.S_ISREG(about.st_mode) and not name.startswith(".") and replace_unencodable(inner) == inner:
                found.append(ListedFile(inner, about.st_size))
        if len(found) >= MAX_FILES_LISTED:
            break
    return tuple(found[:MAX_FILES_LISTED])


# --- curves ---------------------------------------------------------------------------------------------------------


class CurvePoint(NamedTuple):
    """A value with a step that an attempt logged."""

    split: str
    dataset: str
    condition: str
    name: str
    step: int
    value: float


def read_curve_points(lines: Iterable[bytes]) -> Iterator[CurvePoint]:
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
