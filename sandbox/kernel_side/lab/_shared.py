"""Values shared by the cells of a study (prepared data, embeddings): built once, sealed on disk, mapped read-only.

Guarantees: a cell gets a value that was built for another cell only if its own value could not differ: key, source of
`build`, everything that it captures or names (`compute_fingerprint`), all visible program files, the share of training
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

A fingerprint covers a function's code, closure, defaults and bound object, and the parts of globals and modules whose
names occur in it. It is a hash of what pickle writes, with code in place of the names of the program's functions and
classes; library functions and classes count by name. The program's cell counts only as an object, since reads from it
are recorded when they happen (`lab._child`).
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
import types
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from lab import _child
from lab._job import JobFile, LabError, require_experiment, seed_all
from lab._record import write_atomically

_FINGERPRINTED_METHODS = ("__init__", "__call__", "__getitem__", "__len__", "__iter__", "__post_init__", "__new__")
"""Double-underscore methods that count as part of a class."""
_COMPARED_MODULE_PARTS = (
    str,
    int,
    float,
    complex,
    bytes,
    type(None),
    list,
    tuple,
    dict,
    np.ndarray,
    types.FunctionType,
)
"""Types of the values in modules of libraries that a program may have set."""


class NotComparable(Exception):
    """Raised when a function depends on a value that cannot be compared. The message names it."""


def compute_fingerprint(function: Callable[[], Any], folder: Path) -> str:
    """Return the fingerprint of a function of the program in `folder`. Raises `NotComparable`."""
    return FingerprintWalk(folder).compute(function, "")


class FingerprintWalk:
    """Hashes what pickle writes about a value, with code, classes and captured values in place of their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{os.path.realpath(folder)}/"
        self._seen: dict[int, int] = {}
        """Id of a function or class -> its number."""
        self._held: list[object] = []

    def compute(self, value: Any, where: str) -> str:
        """Return the hash of a value; `where` describes it in error messages. Raises `NotComparable`."""
        digest = hashlib.sha256()
        sink: Any = types.SimpleNamespace(write=digest.update)
        try:
            FingerprintPickler(sink, self).dump(value)
        except RecursionError:
            raise NotComparable(f"{where or 'something'}, which is nested too deeply") from None
        except NotComparable:
            raise
        except Exception:  # pickle and the objects raise many types
            raise NotComparable(f"{where or 'a value'}, of type {type(value).__name__}") from None
        return digest.hexdigest()

    def describe(self, value: Any) -> tuple[Any, ...] | None:
        """Return the parts that stand for a value; None if pickle describes it."""
        torch: Any = sys.modules.get("torch")
        if isinstance(value, types.FunctionType | type):
            if id(value) in self._seen:
                return "again", self._seen[id(value)]
            self._seen[id(value)] = len(self._seen)
            self._held.append(value)  # keeps its id from being reused
            return self._describe_class(value) if isinstance(value, type) else self._describe_function(value)
        if isinstance(value, types.CodeType):
            code = value.co_code, value.co_exceptiontable, value.co_names, value.co_varnames, value.co_freevars
            return "code", *code, value.co_consts
        if isinstance(value, types.ModuleType | types.GetSetDescriptorType | types.MemberDescriptorType):
            return type(value).__name__, value.__name__
        if isinstance(value, staticmethod | classmethod):
            return "wrapped", cast(Any, value).__func__
        if isinstance(value, property):
            return "property", value.fget, value.fset, value.fdel
        if isinstance(value, types.MappingProxyType):
            return "mapping", dict(cast(Any, value))
        if isinstance(value, os.PathLike):
            return "path", os.fspath(cast("os.PathLike[str]", value))
        if torch is not None and isinstance(value, torch.Tensor):
            plain: Any = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
            about = str(plain.dtype), tuple(plain.shape), str(value.device), value.requires_grad
            return "tensor", *about, plain.flatten().view(torch.uint8).numpy() if plain.numel() else b""
        if callable(value) and (wrapped := getattr(value, "__wrapped__", None)) is not None:
            return "wrapper", type(value), wrapped
        return None

    def _describe_function(self, function: types.FunctionType) -> tuple[Any, ...]:
        name, code = function.__qualname__, function.__code__
        captured = list[str]()
        for cell, free in zip(function.__closure__ or (), code.co_freevars, strict=True):
            with contextlib.suppress(ValueError):  # it is empty
                captured.append(self.compute(cell.cell_contents, f"{free!r} (in {name})"))
        known = function.__globals__
        if known.get("__name__") != "__main__" and not self._is_of_program(known.get("__file__")):
            return "library", function.__module__, name, captured
        names = _find_names(code)
        for one in sorted(names & known.keys()):
            value = known[one]
            captured.append(f"{one} {self.compute(value, f'the global {one!r} (in {name})')}")
            if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] != "lab":
                captured += self._list_module_parts(value, names, set())
        captured.append(self.compute((function.__defaults__, function.__kwdefaults__), f"a default of {name}"))
        captured.append(self.compute(vars(function), f"an attribute of {name}"))
        return "function", code, captured

    def _list_module_parts(self, module: types.ModuleType, names: set[str], looked: set[str]) -> Generator[str]:
        """Yield the named parts of a module, since the program may have changed them."""
        looked.add(module.__name__)
        is_own = self._is_of_program(getattr(module, "__file__", None))
        for name in sorted(names & vars(module).keys()):
            value, where = vars(module)[name], f"{module.__name__}.{name}"
            if isinstance(value, types.ModuleType):
                if value.__name__ not in looked:
                    yield from self._list_module_parts(value, names, looked)
            elif is_own or isinstance(value, _COMPARED_MODULE_PARTS):
                yield f"{where} {self.compute(value, where)}"

    def _describe_class(self, kind: type) -> tuple[Any, ...]:
        module = sys.modules.get(kind.__module__)
        name = kind.__module__, kind.__qualname__
        if kind.__module__ != "__main__" and not self._is_of_program(getattr(module, "__file__", None)):
            return "class", *name
        attributes = {
            name: self.compute(value, f"{kind.__qualname__}.{name}")
            for name, value in sorted(vars(kind).items())
            if name in _FINGERPRINTED_METHODS or not name.startswith(("__", "_abc_"))
        }
        return "class", *name, kind.__bases__, attributes

    def _is_of_program(self, file: object) -> bool:
        return isinstance(file, str) and os.path.realpath(file).startswith(self.folder)


class FingerprintPickler(pickle.Pickler):
    """Writes values for `FingerprintWalk`; nothing reads them back."""

    def __init__(self, sink: Any, walk: FingerprintWalk) -> None:
        super().__init__(sink, protocol=5)
        self._walk = walk

    def persistent_id(self, obj: Any) -> str | None:
        if isinstance(obj, str):  # a new string each time, since pickle would write which strings are one object
            return "text " + obj.replace(self._walk.folder, "./")  # a build has a different folder
        return "cell" if isinstance(obj, _child.ProgramCell | _child.CellSetting) else None

    def reducer_override(self, obj: Any) -> Any:
        parts = self._walk.describe(obj)
        return NotImplemented if parts is None else (id, parts)  # `id` stands for any function that has a name


def _find_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _find_names(constant)
    return names


# --- shared values ----------------------------------------------------------------------------------------------------


BUILT_NAME = ".shared"
"""Name of the file with the value, in the folder of the process that builds it."""
_ALIGNMENT_BYTES = 64
_READ_ERRORS = (OSError, ValueError, EOFError, TypeError, AttributeError, ImportError, LookupError, pickle.PickleError)
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
            f"{where}: the build depends on {error}, which cannot be compared between cells: use numbers, strings, "
            "arrays, or lists or functions of these instead"
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
    torch: Any = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state()
    seed_all(seed)
    try:
        return build()
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
