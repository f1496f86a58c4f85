"""Values shared by the cells of a study (prepared data, embeddings): built once, sealed on disk, mapped read-only.

Guarantees: a cell gets a value that was built for another cell only if its own value could not differ: key, source of
`build`, everything that it captures or names (`lab._fingerprint`), all visible program files, the share of training
examples, and everything that the build read from its cell are equal. A build that captures an object that cannot be
compared is refused. Limits: dependence on the cell by files, environment, or internal state of a library is not
detected.

A value is built in a separate process, which runs the same program for the same cell up to that call, with a seed
derived only from key and source. Therefore its bytes do not depend on which cell comes first, and two arms with
different files draw the same numbers under the same key. A plain script builds it in place with the same seed, and then
continues with its own random numbers.

Arrays are stored one after the other in a file that is mapped into memory; the objects around them are pickled
(protocol 5).

Source: PEP 574, pickle protocol 5 with out-of-band data.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import mmap
import os
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lab import _child
from lab._fingerprint import NotComparable, compute_fingerprint
from lab._job import JobFile, LabError, require_experiment, seed_all
from lab._record import write_atomically

BUILT_NAME = ".shared"
"""Name of the file with the value, in the folder of the process that builds it."""
_ALIGNMENT_BYTES = 64
_READ_ERRORS = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    AttributeError,
    ImportError,
    LookupError,
    pickle.UnpicklingError,
)
"""Errors raised for a damaged file, or for objects that this code no longer knows."""


def shared(key: str, build: Callable[[], Any]) -> Any:
    """Return the result of `build()`, built once for all cells of a program; its arrays are read-only.

    Raises `LabError` if the build fails, or its result cannot be pickled.
    """
    current = require_experiment("shared")
    where = f"lab.shared({key!r})"
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers are not type checked)
        raise LabError(f"{where}: the key must be a string that identifies the value")
    text = ""
    with contextlib.suppress(OSError, TypeError):
        text = inspect.getsource(build)
    seed = int(_compute_sha256(key, text)[:7], 16)
    try:
        digest = _compute_sha256(key, text, compute_fingerprint(build, current.folder))[:40]
    except NotComparable as error:
        raise LabError(
            f"{where}: the build depends on {error}, which cannot be compared between "
            "cells: use numbers, strings, arrays, or lists or functions of these instead"
        ) from None
    if _child.is_building(digest):
        value, reads = _child.build_for_others(seed, build)
        _seal_value(current.folder / BUILT_NAME, value, reads, where, current.checkpoint_bytes)
        _child.exit_as_built(_compute_sha256(json.dumps(reads, sort_keys=True))[:16])
    if (path := find_value(current, digest)) is not None:
        return _read_value(path)
    if not _child.can_ask():
        path = _get_own_path(get_value_path(current, digest))
        with contextlib.suppress(*_READ_ERRORS):
            return _read_value(path)
        _seal_value(path, _build_aside(seed, build), {}, where, current.checkpoint_bytes)
    elif not _child.request_build(digest, where):
        return build()  # while another value is built that depends on this one
    elif (path := find_value(current, digest)) is None:
        raise LabError(f"{where} was built but cannot be read")
    return _read_value(path)


def get_value_path(current: JobFile, digest: str) -> Path:
    """Return the path prefix of the values of a digest, for this source and share of the data."""
    return Path(current.cache) / "shared" / _compute_sha256(digest, current.tree, str(current.data_share))[:40]


def find_value(current: JobFile, digest: str) -> Path | None:
    """Return the existing value with this digest that this cell would have built, if there is one."""
    place = get_value_path(current, digest)
    for path in sorted(place.parent.glob(f"{place.name}.*")):
        with contextlib.suppress(*_READ_ERRORS), open(path, "rb") as file:  # unreadable values are built again
            reads: dict[str, str] = json.loads(file.readline())["reads"]
            if current.cell is None or _child.matches_reads(reads, current.cell):
                return path
    return None


def _get_own_path(place: Path) -> Path:
    """Return the path at which a process that cannot request builds stores a value; it is shared if permitted."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(place.parent, os.W_OK):
        place = Path(tempfile.gettempdir(), "shared", place.name)
        place.parent.mkdir(exist_ok=True)
    return place.with_name(f"{place.name}.{'0' * 16}")


def _compute_sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _build_aside(seed: int, build: Callable[[], Any]) -> Any:
    """Return the result of `build()` with this seed, and restore the caller's random state."""
    with _preserve_random_state():
        seed_all(seed)
        return build()


@contextlib.contextmanager
def _preserve_random_state() -> Generator[None]:
    torch: Any = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if states[2] is not None:
            torch.set_rng_state(states[2])


def _seal_value(path: Path, value: object, reads: Mapping[str, str], where: str, limit: int) -> None:
    write_atomically(path, lambda part: _write_value(part, value, reads, where), limit=limit, where=where)


def _write_value(part: Path, value: object, reads: Mapping[str, str], where: str) -> None:
    buffers: list[pickle.PickleBuffer] = []
    try:
        packed = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        pieces = [buffer.raw() for buffer in buffers]
    except (pickle.PicklingError, AttributeError, TypeError, BufferError) as error:
        raise LabError(f"{where} cannot be pickled: {error}") from error
    sizes = [len(packed), *(piece.nbytes for piece in pieces)]
    with open(part, "wb") as file:
        file.write(json.dumps({"sizes": sizes, "reads": reads}).encode() + b"\n")
        for piece in (packed, *pieces):
            file.write(b"\0" * (-file.tell() % _ALIGNMENT_BYTES))
            file.write(piece)
        file.write(b"\0")  # an empty file cannot be mapped
    part.chmod(0o444)


def _read_value(path: Path) -> Any:
    with open(path, "rb") as file:
        sizes: list[int] = json.loads(file.readline())["sizes"]
        at = file.tell()
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pieces: list[memoryview] = []
    for size in sizes:
        at += -at % _ALIGNMENT_BYTES
        pieces.append(whole[at : at + size])
        at += size
    return pickle.loads(pieces[0], buffers=pieces[1:])
