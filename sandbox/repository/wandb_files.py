"""Read the values in the file of an offline Weights & Biases run, without its client.

An offline run stores its values only in this file; JSON summaries are written by the server. The file is a block log of
protobuf records; only the history (one row per step) and the summary are read. A truncated file yields the records
before the cut.

Source: wandb's wandb_internal.proto (Record, HistoryRecord, SummaryRecord), and LevelDB's log format.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from labwright.record.untrusted_files import MAX_FILE_BYTES, open_regular
from labwright.sandbox.repository.event_files import list_newest_last
from labwright.sandbox.repository.protobuf import iterate_fields

_BLOCK_BYTES, _HEADER_BYTES = 32768, 7
_HISTORY_FIELD, _SUMMARY_FIELD = 2, 3
_FULL_RECORD, _LAST_PART = 1, 4
_MAGIC = b":W&B"


@dataclass
class WandbOfflineRun:
    """`rows`: the history as logged; `summary`: the last value per key, or the value that the program set."""

    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    summary: dict[str, object] = field(default_factory=dict[str, object])
    files: int = 0


def read_newest_run(folder: Path, location: str, since: float = 0.0) -> WandbOfflineRun:
    """Read the newest run file in a folder and its subfolders. Nested keys are joined by dots.

    Raises `BadFile` for a file that is too large or not regular, `ValueError` for another format.
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
        raise ValueError("it is not a Weights & Biases run file")
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
    """Yield the keys and values that a history or summary record sets."""
    for number, item in iterate_fields(message):
        if number == 1 and isinstance(item, bytes):
            fields = [
                (at, value.decode("utf-8", errors="replace"))
                for at, value in iterate_fields(item)
                if isinstance(value, bytes)
            ]
            yield (
                ".".join(value for at, value in fields if at in (1, 2)),
                json.loads(next((value for at, value in fields if at == 16), "null")),
            )
