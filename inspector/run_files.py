"""Open files of a run while ensuring that no path leads outside its folder.

Paths are walked from the run's folder one component at a time without following links, since generated code writes into
these folders. Withheld labels, the control folder, caches and hidden files are not shown.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from labwright.inspector.safe_text import to_printable
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import REPORT_FILES, RunFolder, list_result_folders
from labwright.record.schema import replace_unencodable
from labwright.record.schema.nodes import Attempt, Node
from labwright.record.untrusted_files import BadFile, open_existing, open_plain_file, open_subfolder

SHOWN_NAMES = frozenset(
    "nodes cells paper review literature probes config.yaml idea.json data_plan.json environment.txt packages.lock "
    "manifest.json library.bib".split()
) | {*REPORT_FILES}
"""Names in a run's folder that may be shown."""
MAX_FILE_BYTES = 64 * 2**20
"""Maximum bytes of a served file."""
MAX_TEXT_CHARACTERS = 200_000
"""Maximum characters of a file shown as text: for output its end, for code its beginning."""
MAX_FILES_LISTED = 400
_BLOCK_BYTES = 1 << 16


class PathRefusedError(Exception):
    """Raised if a path may not be shown or is not a file. The message gives the reason."""


class ListedFile(NamedTuple):
    """A file with its path within the run."""

    path: str
    size: int


def open_within(run: Path, path: str) -> int:
    """Open a regular file and return its descriptor, which the caller closes. Raises `PathRefusedError`."""
    names = path.split("/")
    if names[0] not in SHOWN_NAMES or any(not name or name.startswith(".") or "\0" in name for name in names):
        raise PathRefusedError("this path cannot be shown")
    try:
        with open_existing(run.resolve(), path) as (folder, name):
            return open_plain_file(name, folder)
    except (OSError, ValueError, BadFile):
        raise PathRefusedError("no such file") from None


def read_blocks(file: int, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file and close it."""
    with os.fdopen(file, "rb") as opened:
        while size > 0 and (block := opened.read(min(_BLOCK_BYTES, size))):
            size -= len(block)
            yield block


def read_bytes(run: Path, path: str, max_bytes: int) -> bytes | None:
    """Return the first `max_bytes` bytes of a file; None if it cannot be opened."""
    try:
        return b"".join(read_blocks(open_within(run, path), max_bytes))
    except (PathRefusedError, OSError):
        return None


def read_text(run: Path, path: str, *, end: bool = False, max_characters: int = MAX_TEXT_CHARACTERS) -> str | None:
    """Return a file as safe text, limited to its beginning or end; None if it cannot be opened."""
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
    left = size - max_characters
    return f"... {left} earlier bytes\n{text}" if end else f"{text}\n... {left} more bytes"


def list_files(run: Path, folder: str) -> tuple[ListedFile, ...]:
    """List regular files below a folder of the run by name, at most `MAX_FILES_LISTED`. Skips links, hidden files and
    names that cannot be in a URL."""
    found: list[ListedFile] = []
    with suppress(BadFile, OSError, RecursionError), open_subfolder(run.resolve(), folder) as top:
        for place, folders, names, opened in os.fwalk(dir_fd=top):  # leaves out folders that cannot be read
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = posixpath.normpath(f"{folder}/{place}/{name}")
                with suppress(OSError):  # it was removed meanwhile
                    about = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and not name.startswith(".") and replace_unencodable(path) == path:
                        found.append(ListedFile(path, about.st_size))
            if len(found) >= MAX_FILES_LISTED:
                break
    return tuple(found[:MAX_FILES_LISTED])


# --- curves ---------------------------------------------------------------------------------------------------------


class CurvePoint(NamedTuple):
    """A value with a step, logged by an attempt."""

    split: str
    dataset: str
    condition: str
    name: str
    step: int
    value: float


def read_curve_lines(run: Path, state: RunState, node: Node, attempt: Attempt | None, limit: int) -> list[bytes]:
    """Return the lines of `measurements.jsonl` of an attempt's cells, of each at most `limit` bytes."""
    return [
        line
        for place, result in list_result_folders(state, RunFolder(run), node, attempt)
        if result.curves_sha256
        for line in (read_bytes(run, f"{place.relative_to(run)}/measurements.jsonl", limit) or b"").splitlines()
    ]


def read_curve_points(lines: Iterable[bytes]) -> Iterator[CurvePoint]:
    """Yield the values with a step from the lines of a `measurements.jsonl`; skip invalid lines."""
    for line in lines:
        try:
            one: Any = json.loads(line)
            split, dataset, condition, name = (str(one[key]) for key in ("split", "dataset", "condition", "name"))
            if one["step"] is not None and math.isfinite(one["value"]):
                yield CurvePoint(split, dataset, condition, name, int(one["step"]), float(one["value"]))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue
