"""What the cells of a study have in common (data made ready, embeddings): built once, sealed on disk, mapped read-only.

Kept: a cell is given what was built for another one only where that could not have been different: key, text of
`build`, everything that it captures or names (`lab._fingerprint`), all files of the program that the code sees and the
share of the training examples are the same, and so is all that the build has read of its cell. A build that captures
what cannot be compared is refused. Not kept: a build that depends on its cell by way of files, of the environment, or
of the state of a library.

A value is built in a process of its own, which runs the same program for the same cell up to there, with a seed that
follows from key and text alone. So it has the same bytes whichever cell comes first, and what two arms that see
different files draw under one key is the same too. A script that does all at once builds it in place, with the same
seed, and goes on with its own random numbers.

Arrays lie side by side in one file, which is mapped into memory; whatever holds them is pickled (protocol 5).

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
"""Where a process that builds a value leaves it, in its folder."""
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
"""What is raised over a file that is not what was sealed, or holds what this code does not know any more."""


def shared(key: str, build: Callable[[], Any]) -> Any:
    """What `build()` returns, built once for all cells of a program; its arrays are read-only.

    Raises `LabError` where it fails, or returns what cannot be pickled.
    """
    current = require_experiment("shared")
    where = f"lab.shared({key!r})"
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers are not type checked)
        raise LabError(f"{where}: the key must be a string that names what the value depends on")
    text = ""
    with contextlib.suppress(OSError, TypeError):
        text = inspect.getsource(build)
    seed = int(_compute_sha256(key, text)[:7], 16)
    try:
        digest = _compute_sha256(key, text, compute_fingerprint(build, current.folder))[:40]
    except NotComparable as error:
        raise LabError(
            f"{where}: what it builds depends on {error}, of which cannot be told whether it is the same in "
            "other cells: use numbers, texts, arrays, and lists or functions of these there"
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
        return build()  # on the way to another value, which this one needs while it is built
    elif (path := find_value(current, digest)) is None:
        raise LabError(f"{where} was built, and cannot be read")
    return _read_value(path)


def get_value_path(current: JobFile, digest: str) -> Path:
    """Where the values of a digest lie, whose names begin with this one: those of this source and share of the data."""
    return Path(current.cache) / "shared" / _compute_sha256(digest, current.tree, str(current.data_share))[:40]


def find_value(current: JobFile, digest: str) -> Path | None:
    """The value of that digest which this cell would have built, if it was."""
    place = get_value_path(current, digest)
    for path in sorted(place.parent.glob(f"{place.name}.*")):
        with contextlib.suppress(*_READ_ERRORS), open(path, "rb") as file:  # what cannot be read is built again
            reads: dict[str, str] = json.loads(file.readline())["reads"]
            if current.cell is None or _child.matches_reads(reads, current.cell):
                return path
    return None


def _get_own_path(place: Path) -> Path:
    """Where a process that can ask nobody leaves a value: for others too, where it may."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(place.parent, os.W_OK):
        place = Path(tempfile.gettempdir(), "shared", place.name)
        place.parent.mkdir(exist_ok=True)
    return place.with_name(f"{place.name}.{'0' * 16}")


def _compute_sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _build_aside(seed: int, build: Callable[[], Any]) -> Any:
    """What `build()` returns with that seed; the random numbers of the caller go on as if it had not been."""
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
        file.write(b"\0")  # what is empty cannot be mapped
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
