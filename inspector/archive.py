"""Pack a run as a zip file that can be opened as a run: the same files and events give the same bytes.

It contains the log and the model calls, both rewritten, and the files in `ARCHIVED_NAMES`. It never contains caches,
the lock, control commands, hidden or unfinished files, or links; files excluded by name or content are reported. Data
are included only on request, and then completely, since withheld labels are secret from experiments but not from the
run's owner.

Limits: without data, an audit of the unpacked run cannot re-compute scores. While a run is running, files may be newer
than the log.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path, PurePath
from typing import IO, NamedTuple

from labwright.inspector.run_files import SHOWN_NAMES
from labwright.record import llm_calls
from labwright.record.event_log import read_rows
from labwright.record.line_store import EVENTS_FILE, write_rows
from labwright.record.untrusted_files import open_plain_file
from labwright.record.zips import INNER, NAME

ARCHIVED_NAMES = SHOWN_NAMES | {"templates", "prompts", "code", "branch"}
DATA_FOLDERS = ("context", "data")
"""Datasets in the form that experiments saw, withheld labels, scorers, and the user's documents."""
BLOCK_BYTES = 1 << 20
COMMENT = (
    b"A run of scientist. Read it as it is: scientist view FILE, scientist status FILE, scientist trace FILE NUMBER"
)
"""Comment of every zip, which unzip prints."""


class ArchiveSummary(NamedTuple):
    """Number of files in a zip, and the files that were left out, with reasons."""

    files: int
    left_out: tuple[str, ...]


def pack_run(
    run: Path, target: IO[bytes], *, with_data: bool = False, small: bool = False, secrets: Sequence[bytes] = ()
) -> ArchiveSummary:
    """Write a run's zip. Files that contain one of the `secrets` are left out. Raises `RecordError`, `OSError`.

    With `small`, the zip contains a single file, `INNER`: an uncompressed zip that is compressed as a whole, so that
    content shared by many files is stored once.
    """
    if not small:
        return _pack(run, target, zipfile.ZIP_DEFLATED, with_data=with_data, secrets=secrets)
    with tempfile.TemporaryFile() as plain, tempfile.TemporaryFile() as sorted_:
        found = _pack(run, plain, zipfile.ZIP_STORED, with_data=with_data, secrets=secrets)
        with zipfile.ZipFile(plain) as source, zipfile.ZipFile(sorted_, "w") as inner:
            about = source.infolist()
            for one in sorted(about, key=lambda one: (PurePath(one.filename).suffix, one.file_size, one.CRC)):
                copy = zipfile.ZipInfo(one.filename, one.date_time)
                copy.create_system, copy.external_attr, copy.file_size = 3, one.external_attr, one.file_size
                with source.open(one) as opened, inner.open(copy, "w") as made:
                    shutil.copyfileobj(opened, made, BLOCK_BYTES)
        whole = zipfile.ZipInfo(INNER, max(one.date_time for one in about))
        whole.compress_type, whole.file_size = zipfile.ZIP_LZMA, sorted_.seek(0, os.SEEK_END)
        whole.create_system, whole.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        sorted_.seek(0)
        with zipfile.ZipFile(target, "w") as packed, packed.open(whole, "w", force_zip64=_is_large(whole)) as made:
            shutil.copyfileobj(sorted_, made, BLOCK_BYTES)
            packed.comment = COMMENT
    return found


def _is_large(about: zipfile.ZipInfo) -> bool:
    """Check whether a member may need zip64 (2 GiB and more)."""
    return about.file_size > BLOCK_BYTES << 10


def _pack(
    run: Path, target: IO[bytes], compression: int, *, with_data: bool, secrets: Sequence[bytes]
) -> ArchiveSummary:
    left: list[str] = []
    with (
        tempfile.TemporaryDirectory() as place,
        zipfile.ZipFile(target, "w", compresslevel=9, strict_timestamps=True) as packed,
    ):
        log, asked = Path(place) / EVENTS_FILE, Path(place) / llm_calls.EXCHANGES_FILE
        rows = read_rows(run / EVENTS_FILE)
        write_rows(log, "run", rows)
        year, *rest = datetime.fromtimestamp(rows[-1][0] if rows else 0, UTC).timetuple()[:6]
        moment = (min(2107, max(1980, year)), *rest)
        tops = sorted(ARCHIVED_NAMES) + (sorted(DATA_FOLDERS) if with_data else [])
        files = (found for top in tops for found in _find_files(run, top, left))
        llm_calls.copy_exchanges(run, Path(place))
        stores = [(os.open(one, os.O_RDONLY), one.name) for one in (log, asked) if one.is_file()]
        for file, name in chain(stores, files):
            with os.fdopen(file, "rb") as opened:
                if _contains_secret(opened, secrets):
                    left.append(f"{name} (contains an API key)")
                    continue
                opened.seek(0)
                about = zipfile.ZipInfo(f"{run.resolve().name}/{name}", moment)  # pyrefly: ignore
                about.compress_type, about.create_system = compression, 3
                about.external_attr = (stat.S_IFREG | 0o644) << 16
                about.file_size = os.fstat(file).st_size
                with packed.open(about, "w", force_zip64=_is_large(about)) as made:
                    shutil.copyfileobj(opened, made, BLOCK_BYTES)
        packed.comment = COMMENT
        return ArchiveSummary(len(packed.namelist()), tuple(left))


def _contains_secret(file: IO[bytes], secrets: Sequence[bytes]) -> bool:
    """Check whether a file contains a secret, reading overlapping blocks."""
    overlap, before = max(map(len, secrets), default=1) - 1, b""
    while secrets and (block := file.read(BLOCK_BYTES)):
        text = before + block
        if any(secret in text for secret in secrets):
            return True
        before = text[-overlap:] if overlap else b""
    return False


def _find_files(run: Path, top: str, left: list[str]) -> Iterator[tuple[int, str]]:
    """Yield open regular files at or below a name, in order; links and non-files are added to `left`."""
    place = run / top
    if place.is_symlink() or place.parent.is_symlink():
        left.append(f"{top} (a link)")
    elif place.is_file():
        yield from _open_files(None, str(place), top, left)
    elif place.is_dir():
        for folder, folders, names, handle in os.fwalk(place, follow_symlinks=False):
            inner = Path(folder).relative_to(run).as_posix()
            left += [f"{inner}/{name} (a link)" for name in sorted(folders) if (Path(folder) / name).is_symlink()]
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    yield from _open_files(handle, name, f"{inner}/{name}", left)


def _open_files(folder: int | None, name: str, path: str, left: list[str]) -> Iterator[tuple[int, str]]:
    if NAME.fullmatch(path) is None:
        left.append(f"{path!r} (its name)")
        return
    try:
        file = open_plain_file(name, folder)
    except OSError as error:
        left.append(f"{path} ({error.strerror})")
    else:
        yield file, path


def format_events(rows: Iterable[tuple[float, str]]) -> Iterator[str]:
    """Yield a JSON line per event: number, commit time (seconds since the epoch), type and fields."""
    for seq, (at, body) in enumerate(rows, 1):
        yield json.dumps({"seq": seq, "at": at} | json.loads(body), ensure_ascii=False, separators=(",", ":"))
