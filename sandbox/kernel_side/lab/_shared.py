"""What the cells of a study have in common (data made ready, embeddings): built once, sealed on disk, mapped read-only.

A value depends on its key, the text of `build` with the numbers and texts that it captures, every file of the program
that the code sees, the share of the training examples that it is given, and nothing else; a build that reads of its
cell what the key does not name is refused. It is built in a process of its own, which runs the same program for the
same cell up to there, with a seed that follows from key and text alone. So it has the same bytes whichever cell comes
first, and what two arms that see different files draw under one key is the same too. A script that does all at once
builds it in place, with the same seed, and goes on with its own random numbers.

Arrays lie side by side in one file, which is mapped into memory; whatever holds them is pickled (protocol 5).

Source: PEP 574, pickle protocol 5 with out-of-band data.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import json
import mmap
import pickle
import random
import sys
import types
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from lab import _child
from lab._job import LabError, experiment, seed_all
from lab._record import write_whole

_ALIGNED = 64
_PLAIN: tuple[type, ...] = (str, int, float, np.number)
_ODD = (OSError, ValueError, EOFError, TypeError, AttributeError, ImportError, LookupError, pickle.UnpicklingError)
"""What is raised over a file that is not what was sealed, or holds what this code does not know any more."""


def shared(key: str, build: Callable[[], Any]) -> Any:
    """What `build()` returns, built once for all cells of a program; its arrays are read-only.

    Raises `LabError` where it fails, or returns what cannot be pickled.
    """
    current = experiment("shared")
    where = f"lab.shared({key!r})"
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers are not type checked)
        raise LabError(f"{where}: the key must be a string that names what the value depends on")
    text = ""
    with contextlib.suppress(OSError, TypeError):
        text = inspect.getsource(build)
    seed = int(_sha256(key, text)[:7], 16)
    digest = _sha256(key, text, current.tree, _captured(build), str(current.data_share))[:40]
    path = Path(current.cache) / "shared" / digest
    if _child.builds(digest):
        _build(path, lambda: _child.at_last(key, seed, build), where, current.checkpoint_bytes)
        _child.built()
    with contextlib.suppress(*_ODD):  # of a file that cannot be read the value is built again
        if path.is_file():
            return _read(path)
    path.unlink(missing_ok=True)
    if not _child.asks():
        _build(path, lambda: _aside(seed, build), where, current.checkpoint_bytes)
    elif not _child.ask(digest, where):
        return build()  # on the way to another value, which this one needs while it is built
    return _read(path)


def _captured(build: Callable[[], Any]) -> str:
    """The numbers and texts that a function holds besides its text: from around it, and as defaults."""
    cells = getattr(build, "__closure__", None) or ()
    values: list[Any] = [cell.cell_contents for cell in cells if cell != types.CellType()]
    values += getattr(build, "__defaults__", None) or ()
    return repr([value for value in values if isinstance(value, _PLAIN)])


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _aside(seed: int, build: Callable[[], Any]) -> Any:
    """What `build()` returns with that seed; the random numbers of the caller go on as if it had not been."""
    with _put_back():
        seed_all(seed)
        return build()


@contextlib.contextmanager
def _put_back() -> Generator[None]:
    torch: Any = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if states[2] is not None:
            torch.set_rng_state(states[2])


def _build(path: Path, make: Callable[[], Any], where: str, limit: int) -> None:
    """Seal a value, unless another process of the run does so meanwhile, for which this one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # dies with its process
        if not path.is_file():
            value = make()
            write_whole(path, lambda part: _write(part, value, where), limit=limit, where=where)


def _write(part: Path, value: object, where: str) -> None:
    buffers: list[pickle.PickleBuffer] = []
    try:
        packed = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        pieces = [buffer.raw() for buffer in buffers]
    except (pickle.PicklingError, AttributeError, TypeError, BufferError) as error:
        raise LabError(f"{where} cannot be pickled: {error}") from error
    sizes = [len(packed), *(piece.nbytes for piece in pieces)]
    with open(part, "wb") as file:
        file.write(json.dumps(sizes).encode() + b"\n")
        for piece in (packed, *pieces):
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            file.write(piece)
        file.write(b"\0")  # what is empty cannot be mapped
    part.chmod(0o444)


def _read(path: Path) -> Any:
    with open(path, "rb") as file:
        sizes: list[int] = json.loads(file.readline())
        at = file.tell()
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pieces: list[memoryview] = []
    for size in sizes:
        at += -at % _ALIGNED
        pieces.append(whole[at:at + size])
        at += size
    return pickle.loads(pieces[0], buffers=pieces[1:])
