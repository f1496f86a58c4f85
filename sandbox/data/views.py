"""Views and labels on disk: archives as `numpy.savez` writes them, written and read in pieces.

Members are not compressed, and their values begin at multiples of 64 bytes, so that a kernel maps them into memory
instead of loading them (`lab._data`). What is written is whole or not there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from labwright.sandbox.errors import DatasetError

Array = NDArray[Any]

PIECE_BYTES = 2**26
"""Bytes that are held at a time, about."""
_ALIGNMENT_BYTES = 64
_PADDING_FIELD_ID = 0xD935
"""The kind of extra field that pads (as of APK files); readers pass over it."""
_MIN_FREE_BYTES = 2**30
"""Bytes of a disk that stay free."""


@dataclass(frozen=True)
class ArrayStream:
    """An array that comes in pieces along its first axis."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[Array]

    @classmethod
    def from_array(cls, array: Array) -> ArrayStream:
        """All of an array at once."""
        return cls(array.dtype, array.shape, (array,))


def iterate_slices(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of so many rows, each of about `PIECE` bytes."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


class DiskTable:
    """A table on disk, column by column: (n, columns), of which rows are read when they are asked for."""

    ndim = 2

    def __init__(self, rows: int, dtype: np.dtype[Any]) -> None:
        self._rows, self.dtype = rows, dtype
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the table does
        self._count = 0

    def __del__(self) -> None:
        self._file.close()

    @classmethod
    def create_empty(cls, rows: int) -> DiskTable:
        """A table of float64 without a column yet."""
        return cls(rows, np.dtype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self._count

    def __len__(self) -> int:
        return self._rows

    def append(self, values: Array) -> None:
        """Add a column. Raises `DatasetError` where the disk is full."""
        try:
            self._file.write(to_bytes(values.astype(self.dtype)))
            self._file.flush()
        except OSError as error:
            raise DatasetError(f"a copy of it in {tempfile.gettempdir()} cannot be written: {error.strerror}") from None
        self._count += 1

    def map_columns(self) -> Array:
        """(columns, n), mapped."""
        return np.memmap(self._file, self.dtype, "r", shape=(self._count, self._rows))

    def __getitem__(self, rows: Any) -> Array:
        return np.ascontiguousarray(self.map_columns()[:, rows].T)


def to_bytes(piece: Array) -> Any:
    """The bytes of an array of any kind, in the order of its rows; of texts each with an end."""
    if piece.dtype == object:
        return b"".join(text.encode() + b"\0" for text in piece)
    return np.ascontiguousarray(piece).reshape(-1).view(np.uint8) if piece.size else b""


class ArrayFingerprint:
    """The sha256 of arrays, to be fed in the order of their names."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def hash_stream(self, key: str, stream: ArrayStream) -> ArrayStream:
        """The same stream, which is hashed as it passes."""
        self._digest.update(json.dumps([key, str(stream.dtype), stream.shape]).encode())

        def hashed() -> Iterator[Array]:
            for piece in stream.pieces:
                self._digest.update(to_bytes(piece))
                yield piece

        return ArrayStream(stream.dtype, stream.shape, hashed())

    def __str__(self) -> str:
        return self._digest.hexdigest()


class ArrayArchive:
    """An archive that is being written."""

    def __init__(self, file: zipfile.ZipFile, folder: Path) -> None:
        self._file, self._folder = file, folder

    def add(self, key: str, stream: ArrayStream) -> None:
        """Write an array as its pieces come. Raises `DatasetError` where the disk is too small for it."""
        info = zipfile.ZipInfo(f"{key}.npy")
        begins = cast("Any", self._file).start_dir + 30 + len(info.filename) + 20 + 4  # header, sizes, this extra field
        info.extra = struct.pack("<HH", _PADDING_FIELD_ID, -begins % _ALIGNMENT_BYTES) + bytes(
            -begins % _ALIGNMENT_BYTES
        )
        size, free = math.prod(stream.shape) * stream.dtype.itemsize, shutil.disk_usage(self._folder).free
        if size > PIECE_BYTES and size > free - _MIN_FREE_BYTES:
            raise DatasetError(
                f"its {key} takes {size} bytes on disk, and {free} are free where the run lies: free "
                "some space, or choose another --runs"
            )
        with self._file.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member,
                {"descr": np.lib.format.dtype_to_descr(stream.dtype), "fortran_order": False, "shape": stream.shape},
            )
            for piece in stream.pieces:
                member.write(to_bytes(piece))


@contextmanager
def write_archives(*paths: Path) -> Generator[tuple[ArrayArchive, ...]]:
    """Archives to be filled: whole at their places once all is done, or none of them there."""
    parts = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in paths]
    try:
        with ExitStack() as stack:
            for part in parts:
                part.parent.mkdir(parents=True, exist_ok=True)
            yield tuple(ArrayArchive(stack.enter_context(zipfile.ZipFile(part, "w")), part.parent) for part in parts)
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def list_keys(path: Path) -> list[str]:
    """The arrays of an archive by name."""
    with zipfile.ZipFile(path) as file:
        return [name.removesuffix(".npy") for name in file.namelist()]


@contextmanager
def open_array(path: Path, key: str) -> Generator[ArrayStream]:
    """An array of an archive, whose pieces are bytes. Raises `ValueError`, `OSError` and what zipfile raises."""
    with zipfile.ZipFile(path) as file, file.open(f"{key}.npy") as member:
        header = (
            np.lib.format.read_array_header_1_0
            if np.lib.format.read_magic(member) == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(member)

        def pieces() -> Iterator[Array]:
            while data := member.read(PIECE_BYTES):
                yield np.frombuffer(data, dtype=np.uint8)

        yield ArrayStream(dtype, shape, pieces())
