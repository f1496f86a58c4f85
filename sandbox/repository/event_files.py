"""Read scalars from TensorBoard event files, without TensorBoard.

A file is a sequence of records (length, its checksum, a protobuf `Event`, its checksum). Only the step and the scalars
of an event are read, as written by PyTorch's `add_scalar` and `tf.summary.scalar`. Checksums are not verified; a
truncated file yields the records before the cut.

Source: TensorFlow's tfrecord format, and its event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path

from labwright.record.untrusted_files import MAX_FILE_BYTES, iterate_entries, open_regular
from labwright.sandbox.repository.protobuf import iterate_fields

_MAX_EVENT_BYTES = 2**20
"""Larger events are not scalars (images, graphs) and are skipped."""
_MAX_FILES = 200
_MAX_ENTRIES = 20_000
EVENT_FILE_MARK = ".tfevents."
"""Part of the name of every event file."""


@dataclass
class TrackedScalars:
    """`rows`: the requested tags per step, in order; `tags`: all tags found; `files`: number of files read."""

    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    tags: set[str] = field(default_factory=set[str])
    files: int = 0


def read_scalar_rows(folder: Path, location: str, tags: set[str], since: float = 0.0) -> TrackedScalars:
    """Read the requested tags from the event files in a folder and its subfolders, except those older than `since`.

    Raises `BadFile` for a file that is too large or not regular.
    """
    found, by_step = TrackedScalars(), dict[int, dict[str, object]]()
    for name in list_newest_last(folder, location, EVENT_FILE_MARK, since)[-_MAX_FILES:]:
        found.files += 1
        for step, tag, value in read_scalars(folder, name):
            found.tags.add(tag)
            if tag in tags:
                by_step.setdefault(step, {"step": step})[tag] = value
    found.rows = [by_step[step] for step in sorted(by_step)]
    return found


def list_newest_last(folder: Path, location: str, name_part: str, since: float = 0.0) -> list[str]:
    """List the files in a folder and its subfolders whose name contains `name_part`, as relative paths, oldest first,
    without links and files older than `since`. Raises `BadFile` if a folder on the way is a link."""
    ages = {
        name: status.st_mtime
        for name, status in islice(iterate_entries(folder, "" if location == "." else location), _MAX_ENTRIES)
        if stat.S_ISREG(status.st_mode) and name_part in name.rpartition("/")[2] and status.st_mtime >= since
    }
    above = f"{location}/" if location != "." else ""
    return [f"{above}{name}" for name in sorted(ages, key=lambda name: (ages[name], name))]


def read_scalars(folder: Path, name: str) -> Iterator[tuple[int, str, float]]:
    """Yield step, tag and value of every scalar in a file. Raises `BadFile`."""
    with open_regular(folder, name, MAX_FILE_BYTES) as file:
        yield from _parse_scalars(file)


def _parse_scalars(file: BufferedReader) -> Iterator[tuple[int, str, float]]:
    for event in _iterate_records(file):
        step, summaries = 0, list[bytes]()
        for number, value in iterate_fields(event):
            if number == 2 and isinstance(value, int):
                step = value - 2**64 if value >= 2**63 else value
            elif number == 5 and isinstance(value, bytes):
                summaries.append(value)
        for summary in summaries:
            for number, value in iterate_fields(summary):
                if number == 1 and isinstance(value, bytes) and (scalar := _parse_scalar(value)) is not None:
                    yield step, *scalar


def _iterate_records(file: BufferedReader) -> Iterator[bytes]:
    while len(head := file.read(12)) == 12:
        length = int.from_bytes(head[:8], "little")
        if length > _MAX_EVENT_BYTES:
            file.seek(length + 4, os.SEEK_CUR)
            continue
        if len(event := file.read(length + 4)) < length + 4:
            return
        yield event[:length]


def _parse_scalar(summary: bytes) -> tuple[str, float] | None:
    """Return tag and value of a `Summary.Value`; None for an image, a histogram or text."""
    tag, found = "", None
    for number, value in iterate_fields(summary):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and isinstance(value, bytes) and len(value) == 4:
            found = float(struct.unpack("<f", value)[0])
        elif number == 8 and isinstance(value, bytes):
            found = _parse_tensor(value)
    return None if found is None else (tag, found)


def _parse_tensor(tensor: bytes) -> float | None:
    """Return the value of a tensor with a single float or double, else None."""
    fields = dict(iterate_fields(tensor))
    kind = {1: "<f", 2: "<d"}.get(int(code) if isinstance(code := fields.get(1), int) else 0)
    raw = fields.get(4) or fields.get(5) or fields.get(6)
    if kind is None or not isinstance(raw, bytes) or len(raw) != struct.calcsize(kind):
        return None
    return float(struct.unpack(kind, raw)[0])
