"""Values shared by the cells of a study (prepared data, embeddings): built once, sealed on disk, mapped read-only.

A cell builds a value in its own process, with a seed derived only from the key, and then continues with its own random
numbers. When the cell has ended, its zygote moves the value to where later cells find it (`lab._zygote`). Cells that
run in the meantime build the same value themselves.

Guarantees: a cell gets a value that was built for another cell only if key, the visible program files, the share of
training examples, and everything that `build` captures are equal (`compute_fingerprint`). A build that captures an
object that cannot be compared is refused. Limits: dependence on the cell by files, environment, or state of a library
is not detected.

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
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from lab._job import BuildState, JobFile, LabError, apply_job, require_experiment, seed_all
from lab._record import write_atomically
from lab._training import TrainingCounters

OWN_FOLDER = ".shared"
"""Folder of the values that a cell has built, within its own folder."""
NAME_PATTERN = re.compile(r"[0-9a-f]{40}")
_ALIGNMENT_BYTES = 64
_READ_ERRORS = (OSError, ValueError, EOFError, TypeError, AttributeError, ImportError, LookupError, pickle.PickleError)
"""Errors raised for a damaged file, or for objects that this code no longer knows."""


def shared(key: str, build: Callable[[], Any]) -> Any:
    """Return the result of `build()`, built once for all cells of a program; its arrays are read-only.

    Raises `LabError` if the result cannot be pickled, or if `build` captures what cannot be compared.
    """
    current = require_experiment("shared")
    where = f"lab.shared({key!r})"
    if not isinstance(key, str):  # callers are not type checked
        raise LabError(f"{where}: the key must be a string that identifies the value")
    try:
        name = _compute_sha256(key, compute_fingerprint(build, current.folder))[:40]
    except Exception as error:  # pickle and the captured objects raise many types
        raise LabError(
            f"{where}: the build captures a value that cannot be compared between cells ({error}): use numbers, "
            "strings, arrays, or lists or functions of these instead"
        ) from None
    own = current.folder / OWN_FOLDER / name
    for path in (own, get_value_path(current, name)):
        with contextlib.suppress(*_READ_ERRORS):
            return _read_value(path)
    value = _build_aside(int(_compute_sha256(key)[:7], 16), build)
    own.parent.mkdir(exist_ok=True)
    write_atomically(own, lambda part: _write_value(part, value, where), limit=current.checkpoint_bytes, where=where)
    return _read_value(own)


def get_value_path(current: JobFile, name: str) -> Path:
    """Return the path of a value for all cells with these source files and this share of the data."""
    return Path(current.cache) / "shared" / _compute_sha256(name, current.tree)[:40]


def _compute_sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _build_aside(seed: int, build: Callable[[], Any]) -> Any:
    """Return the result of `build()` with this seed (also as `lab.seed`); the caller's random numbers and counts of
    training continue as if it had not run."""
    torch: Any = sys.modules.get("torch")
    before, counts = (random.getstate(), np.random.get_state()), vars(TrainingCounters).copy()
    outer, BuildState.seed = BuildState.seed, seed
    with torch.random.fork_rng(range(torch.cuda.device_count())) if torch else contextlib.nullcontext():
        seed_all(seed)
        try:
            return build()
        finally:
            BuildState.seed = outer
            if not torch:  # if the build has imported it, it was seeded for the build
                apply_job()
            random.setstate(before[0])
            np.random.set_state(before[1])
            for name in ("steps", "rows", "parameters"):
                setattr(TrainingCounters, name, counts[name])


def _write_value(part: Path, value: object, where: str) -> None:
    buffers: list[pickle.PickleBuffer] = []
    try:
        packed = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        pieces = [buffer.raw() for buffer in buffers]
    except (pickle.PicklingError, AttributeError, TypeError, BufferError) as error:
        raise LabError(f"{where} cannot be pickled: {error}") from error
    with open(part, "wb") as file:
        file.write(json.dumps([len(packed), *(piece.nbytes for piece in pieces)]).encode() + b"\n")
        for piece in (packed, *pieces):
            file.write(b"\0" * (-file.tell() % _ALIGNMENT_BYTES))
            file.write(piece)
        file.write(b"\0")  # an empty file cannot be mapped


def _read_value(path: Path) -> Any:
    with open(path, "rb") as file:
        sizes: list[int] = json.loads(file.readline())
        at = file.tell()
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pieces: list[memoryview] = []
    for size in sizes:
        at += -at % _ALIGNMENT_BYTES
        pieces.append(whole[at : at + size])
        at += size
    return pickle.loads(pieces[0], buffers=pieces[1:])


# --- what a build captures --------------------------------------------------------------------------------------------


def compute_fingerprint(build: Callable[[], Any], folder: Path) -> str:
    """Return the hash of what pickle writes about a function of the program in `folder`, with captured values in place
    of the names of functions and classes. Raises what pickle raises for a value that it cannot write."""
    digest = hashlib.sha256()
    CapturePickler(types.SimpleNamespace(write=digest.update), folder).dump(build)
    return digest.hexdigest()


class CapturePickler(pickle.Pickler):
    """Writes values with what the program's functions and classes capture; nothing reads them back."""

    def __init__(self, sink: Any, folder: Path) -> None:
        super().__init__(sink, protocol=5)
        self._folder = f"{os.path.realpath(folder)}/"
        self._seen: dict[int, int] = {}
        """Id of a function or class -> its number."""

    def persistent_id(self, obj: Any) -> str | None:
        # a new string each time, since pickle would write which strings are one object; each cell has its own folder
        return "text " + obj.replace(self._folder, "./") if isinstance(obj, str) else None

    def reducer_override(self, obj: Any) -> Any:
        torch: Any = sys.modules.get("torch")
        if isinstance(obj, types.ModuleType):
            return id, (obj.__name__,)  # `id` stands for any function that has a name
        if isinstance(obj, os.PathLike):
            return id, (os.fspath(cast("os.PathLike[str]", obj)),)
        if torch is not None and isinstance(obj, torch.Tensor):
            plain: Any = obj.detach().cpu().resolve_conj().resolve_neg().contiguous()
            values = plain.flatten().view(torch.uint8).numpy() if plain.numel() else b""
            return id, (str(plain.dtype), tuple(plain.shape), str(obj.device), obj.requires_grad, values)
        if not isinstance(obj, types.FunctionType | type):
            return NotImplemented
        if id(obj) in self._seen:
            return id, (self._seen[id(obj)],)
        self._seen[id(obj)] = len(self._seen)
        name = obj.__module__, obj.__qualname__
        return id, (name, [*(self._list_attributes(obj) if isinstance(obj, type) else self._list_captures(obj))])

    def _list_captures(self, function: types.FunctionType) -> Iterator[Any]:
        """Yield the values that a function captures and, if it is the program's, those of globals that it names."""
        code, known = function.__code__, function.__globals__
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                yield cell.cell_contents
        if not self._is_of_program(known):
            return
        yield [*code.co_positions()]  # the files are equal, so its place says which function it is
        yield function.__defaults__, function.__kwdefaults__
        names = _find_names(code)
        for name in sorted(names & known.keys()):
            yield known[name]
            if isinstance(module := known[name], types.ModuleType) and self._is_of_program(vars(module)):
                yield [vars(module)[part] for part in sorted(names & vars(module).keys())]

    def _list_attributes(self, kind: type) -> Iterator[Any]:
        """Yield the bases and attributes of a class of the program."""
        if self._is_of_program(vars(sys.modules.get(kind.__module__, types))):
            yield kind.__bases__
            for name, value in sorted(vars(kind).items()):
                if isinstance(value, types.FunctionType) or not name.startswith(("__", "_abc_")):
                    plain: Any = getattr(value, "__func__", getattr(value, "fget", value))
                    yield None if inspect.isdatadescriptor(plain) else plain

    def _is_of_program(self, known: dict[str, Any]) -> bool:
        file = known.get("__file__")
        return known.get("__name__") == "__main__" or os.path.realpath(file or "/").startswith(self._folder)


def _find_names(code: types.CodeType) -> set[str]:
    inner = [_find_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)
