"""Store views and labels on disk in the format of `numpy.savez`, written and read in pieces.

Members are uncompressed, and their values start at multiples of 64 bytes, so kernels can memory-map them (`lab._data`).
Archives are written atomically.
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
"""Approximate number of bytes in memory at a time."""
_ALIGNMENT_BYTES = 64
_PADDING_FIELD_ID = 0xD935
"""Type of the zip extra field used as padding (as in APK files); readers ignore it."""
_MIN_FREE_BYTES = 2**30
"""Bytes that must stay free on the disk."""


@dataclass(frozen=True)
class ArrayStream:
    """An array that is read in pieces along its first axis."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[Array]

    @classmethod
    def from_array(cls, array: Array) -> ArrayStream:
        """Return a stream with the whole array as one piece."""
        return cls(array.dtype, array.shape, (array,))


def iterate_slices(rows: int, row_bytes: int) -> Iterator[slice]:
    """Return slices of about `PIECE_BYTES` bytes that cover the rows."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


class DiskTable:
    """A table (n, columns) stored on disk by column; rows are read on demand."""

    ndim = 2

    def __init__(self, rows: int, dtype: np.dtype[Any]) -> None:
        self._rows, self.dtype = rows, dtype
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the table does
        self._count = 0

    def __del__(self) -> None:
        self._file.close()

    @classmethod
    def create_empty(cls, rows: int) -> DiskTable:
        """Return an empty float64 table without columns."""
        return cls(rows, np.dtype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows, self._count

    def __len__(self) -> int:
        return self._rows

    def append(self, values: Array) -> None:
        """Add a column. Raises `DatasetError` if the disk is full."""
        try:
            self._file.write(to_bytes(values.astype(self.dtype)))
            self._file.flush()
        except OSError as error:
            raise DatasetError(f"cannot write a copy to {tempfile.gettempdir()}: {error.strerror}") from None
        self._count += 1

    def map_columns(self) -> Array:
        """Return the columns memory-mapped, (columns, n)."""
        return np.memmap(self._file, self.dtype, "r", shape=(self._count, self._rows))

    def __getitem__(self, rows: Any) -> Array:
        return np.ascontiguousarray(self.map_columns()[:, rows].T)


def to_bytes(piece: Array) -> Any:
    """Return the bytes of an array in row order; strings are NUL-terminated."""
    if piece.dtype == object:
        return b"".join(text.encode() + b"\0" for text in piece)
    return np.ascontiguousarray(piece).reshape(-1).view(np.uint8) if piece.size else b""


class ArrayFingerprint:
    """The sha256 of several arrays, which must be added in the order of their names."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def hash_stream(self, key: str, stream: ArrayStream) -> ArrayStream:
        """Return the same stream; it is hashed while it is read."""
        self._digest.update(json.dumps([key, str(stream.dtype), stream.shape]).encode())

        def hashed() -> Iterator[Array]:
            for piece in stream.pieces:
                self._digest.update(to_bytes(piece))
                yield piece

        return ArrayStream(stream.dtype, stream.shape, hashed())

    def __str__(self) -> str:
        return self._digest.hexdigest()


class ArrayArchive:
    """An archive open for writing."""

    def __init__(self, file: zipfile.ZipFile, folder: Path) -> None:
        self._file, self._folder = file, folder

    def add(self, key: str, stream: ArrayStream) -> None:
        """Write an array piece by piece. Raises `DatasetError` if the disk is too small."""
        info = zipfile.ZipInfo(f"{key}.npy")
        begins = cast("Any", self._file).start_dir + 30 + len(info.filename) + 20 + 4  # header, sizes, this extra field
        info.extra = struct.pack("<HH", _PADDING_FIELD_ID, -begins % _ALIGNMENT_BYTES) + bytes(
            -begins % _ALIGNMENT_BYTES
        )
        size, free = math.prod(stream.shape) * stream.dtype.itemsize, shutil.disk_usage(self._folder).free
        if size > PIECE_BYTES and size > free - _MIN_FREE_BYTES:
            raise DatasetError(
                f"{key} needs {size} bytes, but the disk of the run has only {free} bytes free: free "
                "some space or choose another --runs"
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
    """Open archives for writing. Its files appear at their paths together or not at all."""
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
    """Return the names of the arrays in an archive."""
    with zipfile.ZipFile(path) as file:
        return [name.removesuffix(".npy") for name in file.namelist()]


@contextmanager
def open_array(path: Path, key: str) -> Generator[ArrayStream]:
    """Open an array of an archive; its pieces are bytes. Raises `ValueError`, `OSError` and the errors of zipfile."""
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
