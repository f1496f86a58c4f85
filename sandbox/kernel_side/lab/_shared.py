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
names occur in it. It recurses into functions and classes of the program, lists, dicts and anything that can be pickled;
arrays and tensors count by their bytes, library functions and classes by name. The program's cell counts only as an
object, since reads from it are recorded when they happen (`lab._child`).
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
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
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from lab import _child
from lab._job import JobFile, LabError, require_experiment, seed_all
from lab._record import write_atomically

_ATOMIC_TYPES: tuple[type, ...] = (
    str,
    int,
    float,
    complex,
    bytes,
    bool,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
)
_FINGERPRINTED_METHODS = ("__init__", "__call__", "__getitem__", "__len__", "__iter__", "__post_init__", "__new__")
"""Double-underscore methods that count as part of a class."""

_NAMED_TYPES: tuple[type, ...] = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    np.ufunc,
)


class NotComparable(Exception):
    """Raised when a function depends on a value that cannot be compared. The message names it."""


def compute_fingerprint(function: Callable[[], Any], folder: Path) -> str:
    """Return the fingerprint of a function of the program in `folder`. Raises `NotComparable`."""
    return _fingerprint_value(function, folder, "")


class FingerprintWalk:
    def __init__(self, folder: Path) -> None:
        self.digest = hashlib.sha256()
        self._folder = f"{os.path.realpath(folder)}/"
        self._seen: dict[int, int] = {}
        self._held: list[object] = []

    def add(self, value: Any, where: str) -> None:
        """Add a value; `where` describes it in error messages."""
        if type(value) in _ATOMIC_TYPES:
            # a build has a different folder
            self._update(type(value).__name__, repr(value).replace(self._folder, "./"))
            return
        if id(value) in self._seen:
            self._update("again", str(self._seen[id(value)]))
            return
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)  # keeps its id from being reused
        try:
            self._add_one(value, where)
        except RecursionError:
            raise NotComparable(f"{where or 'something'}, which is nested too deeply") from None

    def _update(self, *words: str) -> None:
        for word in words:
            text = word.encode(errors="surrogatepass")
            self.digest.update(f"{len(text)}:".encode() + text)

    def _add_all(self, kind: str, values: Iterable[Any], where: str) -> None:
        values = list(values)
        self._update(kind, str(len(values)))
        for value in values:
            self.add(value, where)

    def _add_one(self, value: Any, where: str) -> None:
        torch: Any = sys.modules.get("torch")
        if isinstance(value, _child.ProgramCell | _child.CellSetting):
            self._update("cell")
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, types.MethodType):
            method = cast(Any, value)
            self._add_all("method", (method.__func__, method.__self__), where or method.__name__)
        elif isinstance(value, functools.partial):
            part = cast(Any, value)
            self._add_all("partial", (part.func, *part.args, *sorted(part.keywords.items())), where or "a partial")
        elif isinstance(value, type):
            self._add_class(value, where)
        elif isinstance(value, types.ModuleType):
            self._update("module", value.__name__)
        elif isinstance(value, types.CodeType):
            self._add_code(value)
        elif isinstance(value, types.CellType):
            self._add_all("cell", [] if value == types.CellType() else [value.cell_contents], where)
        elif isinstance(value, staticmethod | classmethod):
            wrapper = cast(Any, value)
            self._add_all("wrapped", [wrapper.__func__], where)
        elif isinstance(value, property):
            self._add_all("property", (value.fget, value.fset, value.fdel), where)
        elif isinstance(value, types.MappingProxyType):
            view = cast(Any, value)
            self.add(dict(view), where)
        elif type(value) in (list, tuple):
            self._add_all(type(value).__name__, value, where)
        elif type(value) is dict:
            table = cast(dict[Any, Any], value)
            self._add_all("dict", (one for item in table.items() for one in item), where)
        elif type(value) in (set, frozenset):
            self._update("set", *sorted(_fingerprint_value(one, Path(self._folder), where) for one in value))
        elif torch is not None and isinstance(value, torch.Tensor):
            self._add_tensor(value, torch)
        elif type(value) in (np.ndarray, np.memmap) and value.dtype != object:
            self._update("array", str(value.dtype), str(value.shape))
            self.digest.update(
                np.ascontiguousarray(value).tobytes()
                if value.size < 64
                else np.ascontiguousarray(value).view(np.uint8).data
            )
        elif isinstance(value, os.PathLike):
            path = cast(Any, value)
            self._update("path")
            self.add(os.fspath(path), where)
        else:
            self._add_object(value, where)

    def _add_tensor(self, value: Any, torch: Any) -> None:
        plain: Any = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        self._update("tensor", str(plain.dtype), str(tuple(plain.shape)), str(value.device), str(value.requires_grad))
        self.digest.update(plain.flatten().view(torch.uint8).numpy().data if plain.numel() else b"")

    # --- code ---------------------------------------------------------------------------------------------------------

    def _add_function(self, function: types.FunctionType) -> None:
        name = function.__qualname__
        if not self._is_of_program(function):
            self._update("library", function.__module__ or "", name)
        else:
            self._add_code(function.__code__)
            self._add_globals(function.__globals__, _find_names(function.__code__), name)
        for cell, free in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            self.add(cell, f"{free!r} (in {name})")
        if self._is_of_program(function):
            self._add_all("defaults", (function.__defaults__, function.__kwdefaults__), f"a default of {name}")
            self._add_all("attributes", [vars(function)], f"an attribute of {name}")

    def _add_code(self, code: types.CodeType) -> None:
        self._update(
            "code",
            code.co_code.hex(),
            code.co_exceptiontable.hex(),
            *code.co_names,
            *code.co_varnames,
            *code.co_freevars,
        )
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant)
            else:
                self._update(repr(constant))

    def _add_globals(self, known: dict[str, Any], names: set[str], where: str) -> None:
        for name in sorted(names & known.keys()):
            self._update("global", name)
            value = known[name]
            self.add(value, f"the global {name!r} (in {where})")
            if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] != "lab":
                self._add_module(value, names, set())

    def _add_module(self, module: types.ModuleType, names: set[str], looked: set[str]) -> None:
        """Add the named parts of a module, since the program may have changed them."""
        looked.add(module.__name__)
        is_own = self._is_of_program_file(getattr(module, "__file__", None))
        for name in sorted(names & vars(module).keys()):
            value = vars(module)[name]
            if isinstance(value, types.ModuleType):
                if value.__name__ not in looked:
                    self._add_module(value, names, looked)
            elif is_own or isinstance(value, (*_ATOMIC_TYPES, list, tuple, dict, np.ndarray, types.FunctionType)):
                self._update("part", module.__name__, name)
                self.add(value, f"{module.__name__}.{name}")

    def _add_class(self, kind: type, where: str) -> None:
        module = sys.modules.get(kind.__module__)
        self._update("class", kind.__module__, kind.__qualname__)
        if kind.__module__ != "__main__" and not self._is_of_program_file(getattr(module, "__file__", None)):
            return
        self._add_all("bases", kind.__bases__, where)
        for name, value in sorted(vars(kind).items()):
            if name in _FINGERPRINTED_METHODS or not name.startswith(("__", "_abc_")):
                self._update("attribute", name)
                self.add(value, f"{kind.__qualname__}.{name}")

    def _is_of_program(self, function: types.FunctionType) -> bool:
        known = function.__globals__
        return known.get("__name__") == "__main__" or self._is_of_program_file(known.get("__file__"))

    def _is_of_program_file(self, file: object) -> bool:
        return isinstance(file, str) and os.path.realpath(file).startswith(self._folder)

    # --- objects ------------------------------------------------------------------------------------------------------

    def _add_object(self, value: Any, where: str) -> None:
        """Add an object that can be pickled, by the parts from which it would be restored."""
        kind = cast(type[Any], type(value))
        if kind in _NAMED_TYPES:
            self._update(
                "builtin", repr(getattr(value, "__module__", "")), getattr(value, "__qualname__", value.__name__)
            )
            return
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None and callable(value):
            self._add_all("wrapper", [kind, wrapped], where)
            return
        try:
            made = copyreg.dispatch_table[kind](value) if kind in copyreg.dispatch_table else value.__reduce_ex__(4)
        except Exception:
            raise NotComparable(f"{where or 'a value'}, of type {kind.__name__}") from None
        self._update("object")
        self.add(kind, where)
        if isinstance(made, str):
            self._update(made)
            return
        function, arguments, *rest = made
        state, items, pairs = (*rest, None, None, None)[:3]
        self._add_all(
            "made", (function, *arguments, state, *(items or ()), *(one for pair in pairs or () for one in pair)), where
        )


def _find_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _find_names(constant)
    return names


def _fingerprint_value(value: Any, folder: Path, where: str) -> str:
    walk = FingerprintWalk(folder)
    walk.add(value, where)
    return walk.digest.hexdigest()


# --- shared values ----------------------------------------------------------------------------------------------------


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
