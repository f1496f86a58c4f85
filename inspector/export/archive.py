"""A run as a zip file that opens as a run again: the same bytes for the same files and events.

In it are the log, written anew, and what a run's folder holds by these names. Never in it are caches, the lock, orders
to the process, hidden and unfinished files, and links. What a file's name or content forbids is told. The data are in
it only where they are asked for, and then all: withheld labels are secret from experiments, not from the run's owner.

What it does not guarantee: that an audit of a run unpacked without data can check everything (no score is computed
again), or one moment of time: of a run that goes on, files may be newer than the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

from labwright.record.folder import open_regular
from labwright.record.reading import snapshot

CONTAINED = frozenset(
    {
        "nodes",
        "cells",
        "paper",
        "review",
        "literature",
        "probes",
        "templates",
        "prompts",
        "code",
        "branch",
        "config.yaml",
        "idea.json",
        "data_plan.json",
        "environment.txt",
        "packages.lock",
        "manifest.json",
        "library.bib",
    }
)
WITH_DATA = ("context", "data")
"""Datasets as experiments saw them, withheld labels, scorers; and documents that the person gave."""
BLOCK = 1 << 20
NAME = re.compile(r"[^\\\x00-\x1f\x7f\ud800-\udfff]+")
"""Names of files that every system unpacks to one file of that name."""


class Packed(NamedTuple):
    """How many files a zip has, and which files were left out for a reason that one should know."""

    files: int
    left_out: tuple[str, ...]


def pack(run: Path, target: IO[bytes], *, with_data: bool = False, secrets: Sequence[bytes] = ()) -> Packed:
    """Write a run's zip. A file that has one of the `secrets` in it is left out. Raises `RecordError`, `OSError`."""
    left: list[str] = []
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(target, "w", strict_timestamps=True) as packed:
        log = Path(place) / "run.db"
        year, *rest = datetime.fromtimestamp(snapshot(run, log), UTC).timetuple()[:6]
        moment = (min(2107, max(1980, year)), *rest)
        tops = sorted(CONTAINED) + (sorted(WITH_DATA) if with_data else [])
        files = (found for top in tops for found in _files(run, top, left))
        for file, name in chain([(os.open(log, os.O_RDONLY), "run.db")], files):
            with os.fdopen(file, "rb") as opened:
                if _holds(opened, secrets):
                    left.append(f"{name} (it holds a key)")
                    continue
                opened.seek(0)
                about = zipfile.ZipInfo(f"{run.resolve().name}/{name}", moment)  # pyright: ignore[reportArgumentType]
                about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 3
                about.external_attr = (stat.S_IFREG | 0o644) << 16
                with packed.open(about, "w", force_zip64=True) as made:
                    shutil.copyfileobj(opened, made, BLOCK)
        return Packed(len(packed.namelist()), tuple(left))


def _holds(file: IO[bytes], secrets: Sequence[bytes]) -> bool:
    """Whether one of them stands in a file, which is read by blocks that overlap."""
    overlap, before = max(map(len, secrets), default=1) - 1, b""
    while secrets and (block := file.read(BLOCK)):
        text = before + block
        if any(secret in text for secret in secrets):
            return True
        before = text[-overlap:] if overlap else b""
    return False


def _files(run: Path, top: str, left: list[str]) -> Iterator[tuple[int, str]]:
    """Regular files at or below a name, by name, each open; what is a link or not a file is added to `left`."""
    place = run / top
    if place.is_symlink() or place.parent.is_symlink():
        left.append(f"{top} (a link)")
    elif place.is_file():
        yield from _opened(None, str(place), top, left)
    elif place.is_dir():
        for folder, folders, names, handle in os.fwalk(place, follow_symlinks=False):
            inner = Path(folder).relative_to(run).as_posix()
            left += [f"{inner}/{name} (a link)" for name in sorted(folders) if (Path(folder) / name).is_symlink()]
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    yield from _opened(handle, name, f"{inner}/{name}", left)


def _opened(folder: int | None, name: str, path: str, left: list[str]) -> Iterator[tuple[int, str]]:
    if NAME.fullmatch(path) is None:
        left.append(f"{path!r} (its name)")
        return
    try:
        file = open_regular(name, folder)
    except OSError as error:
        left.append(f"{path} ({error.strerror})")
    else:
        yield file, path


def event_lines(rows: Iterable[tuple[float, str]]) -> Iterator[str]:
    """A line for each event: its number, when it was committed (seconds since the epoch), its type, its own fields."""
    for seq, (at, body) in enumerate(rows, 1):
        yield json.dumps({"seq": seq, "at": at} | json.loads(body), ensure_ascii=False, separators=(",", ":"))
