"""Numbers out of the file that Weights & Biases leaves of a run while it is offline, without its client.

Offline nothing else holds them: summaries as JSON are written by its server. The file is a log of blocks, each record a
protobuf; of these the history (a row a step) and the summary are read. A file that was cut off gives what lies before.

Source: wandb's wandb_internal.proto (Record, HistoryRecord, SummaryRecord), and LevelDB's log format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from labwright.sandbox.repository.event_files import list_newest_last
from labwright.sandbox.repository.protobuf import iterate_fields
from labwright.sandbox.safe_io import MAX_FILE_BYTES, open_regular

_BLOCK_BYTES, _HEADER_BYTES = 32768, 7
_HISTORY_FIELD, _SUMMARY_FIELD = 2, 3
_FULL_RECORD, _LAST_PART = 1, 4
_MAGIC = b":W&B"


@dataclass
class WandbOfflineRun:
    """`rows`: the history, as it was logged; `summary`: the last of each value, or what the program chose to say."""

    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    summary: dict[str, object] = field(default_factory=dict[str, object])
    files: int = 0


def read_newest_run(folder: Path, location: str, since: float = 0.0) -> WandbOfflineRun:
    """Of the newest file in a folder and below. Nested keys are joined by dots.

    Raises: BadFile, for a file that is too large or no plain file; ValueError, for what is no such file.
    """
    names, found = list_newest_last(folder, location, ".wandb", since), WandbOfflineRun()
    found.files = len(names)
    if names:
        with open_regular(folder, names[-1], MAX_FILE_BYTES) as file:
            for record in _iterate_records(file):
                for number, content in iterate_fields(record):
                    if number == _HISTORY_FIELD and isinstance(content, bytes):
                        found.rows.append(dict(_iterate_items(content)))
                    elif number == _SUMMARY_FIELD and isinstance(content, bytes):
                        found.summary.update(_iterate_items(content))
    return found


def _iterate_records(file: BufferedReader) -> Iterator[bytes]:
    if file.read(_HEADER_BYTES)[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin as a file of Weights & Biases does")
    record = b""
    while True:
        left = _BLOCK_BYTES - file.tell() % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            file.read(left)
            continue
        if len(head := file.read(_HEADER_BYTES)) < _HEADER_BYTES:
            return
        _, length, kind = struct.unpack("<IHB", head)
        if len(piece := file.read(length)) < length:
            return
        record += piece
        if kind in (_FULL_RECORD, _LAST_PART):
            yield record
            record = b""


def _iterate_items(message: bytes) -> Iterator[tuple[str, object]]:
    """Key and value of what a record of the history or the summary sets."""
    for number, item in iterate_fields(message):
        if number == 1 and isinstance(item, bytes):
            held = [
                (at, value.decode("utf-8", errors="replace"))
                for at, value in iterate_fields(item)
                if isinstance(value, bytes)
            ]
            yield (
                ".".join(value for at, value in held if at in (1, 2)),
                json.loads(next((value for at, value in held if at == 16), "null")),
            )
