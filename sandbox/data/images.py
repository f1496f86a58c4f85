"""Read images as one array from a folder with one subfolder per class, or from an image column of a table.

Images are resized to the most common size (bilinear). The array has one channel if all images are grey, otherwise
three; 16-bit grey is reduced to 8 bits, transparency is dropped. A column of images or lists must be the only feature.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labwright.record.untrusted_files import raise_read_errors_as
from labwright.sandbox.data import Examples
from labwright.sandbox.data.frames import SPLIT_ALIASES, import_pyarrow, list_files
from labwright.sandbox.errors import DatasetError

Array = NDArray[Any]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
_IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "JPEG2000")
"""Accepted formats, regardless of the file name. For other formats, Pillow may start external programs (Ghostscript
for PostScript).
"""
_GREY_MODES = frozenset({"1", "L", "LA", "I;16", "I;16B", "I", "F"})


class ImageArray:
    """Images as (n, height, width, channels) uint8; rows are read on demand.

    Each of `sources` is a name for messages and a path or file. `resized` counts images that had a different size.
    Construction and indexing raise `DatasetError`.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, sources: Sequence[tuple[str, Any]]) -> None:
        self._sources = sources
        sizes = [_read_size(*source) for source in sources]
        self._size, most = Counter(size for size, _ in sizes).most_common(1)[0]
        self._mode = "L" if all(grey for _, grey in sizes) else "RGB"
        self.shape = (len(sources), self._size[1], self._size[0], len(self._mode))
        self.resized = len(sources) - most

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, rows: Any) -> Array:
        from PIL import Image

        chosen: list[int] = np.arange(len(self))[rows].tolist()
        x = np.empty((len(chosen), *self.shape[1:]), dtype=np.uint8)
        for i, (where, source) in enumerate(self._sources[row] for row in chosen):
            picture = _read_upright(where, source).convert(self._mode)
            x[i] = np.asarray(picture.resize(self._size, Image.Resampling.BILINEAR)).reshape(x.shape[1:])
        return x


_SIDEWAYS_ORIENTATIONS = (5, 6, 7, 8)
"""EXIF orientations that swap width and height."""


def _read_size(where: str, source: Any) -> tuple[tuple[int, int], bool]:
    """Return width and height of an image after EXIF rotation, and whether it is grey."""
    with _open_image(where, source) as picture:
        width, height = picture.size
        turned = picture.getexif().get(0x0112) in _SIDEWAYS_ORIENTATIONS
        return ((height, width) if turned else (width, height)), picture.mode in _GREY_MODES


def _read_upright(where: str, source: Any) -> Any:
    """Return an image after EXIF rotation as 8-bit grey (L) or RGB."""
    from PIL import Image, ImageOps

    with _open_image(where, source) as picture:
        picture.load()
        grey = picture.mode in _GREY_MODES
        if picture.mode.startswith("I"):
            picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
        return ImageOps.exif_transpose(picture).convert("L" if grey else "RGB")


@contextmanager
def _open_image(where: str, source: Any) -> Generator[Any]:
    from PIL import Image

    if hasattr(source, "seek"):
        source.seek(0)
    elif not source.is_file():  # reading a pipe might never end
        raise DatasetError(f"{where} is not a file")
    with raise_read_errors_as(f"{where} cannot be read as an image", DatasetError), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source, formats=_IMAGE_FORMATS) as picture:
            yield picture


# --- folders --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageFile:
    """One file of an image folder."""

    path: Path
    label: str
    split: str = ""


def list_images(root: Path) -> list[ImageFile]:
    """Return the images of a folder by class, sorted; empty if it has no class folders with images.

    Folders named after splits may contain the class folders. Raises `DatasetError` for links out of the folder.
    """
    below = _list_folders(root)
    parts = {folder: SPLIT_ALIASES[folder.name.lower()] for folder in below if folder.name.lower() in SPLIT_ALIASES}
    if "train" in parts.values() and len(parts) == len(below) and all(_list_folders(folder) for folder in parts):
        return [picture for folder, part in parts.items() for picture in _iterate_class_folders(root, folder, part)]
    return list(_iterate_class_folders(root, root))


def _list_folders(root: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))


def _iterate_class_folders(root: Path, folder: Path, part: str = "") -> Iterator[ImageFile]:
    for label in _list_folders(folder):
        for path in list_files(label, root):
            if path.suffix.lower() in IMAGE_SUFFIXES:
                yield ImageFile(path, label.name, part)


def examples_from_folder(files: Sequence[ImageFile], root: Path) -> Examples:
    """Return the examples of an image folder. Raises `DatasetError` for invalid images or a single class."""
    names = sorted({file.label for file in files})
    if len(names) < 2:
        raise DatasetError(
            f"it has only one class ({names[0]!r}): classification needs at least two folders of images, one per class"
        )
    x = ImageArray([(str(file.path.relative_to(root)), file.path) for file in files])
    warning = f"{x.resized} of {len(files)} images were resized to the most common size, {x.shape[2]} x {x.shape[1]}"
    return Examples(
        x,
        np.array([names.index(file.label) for file in files], dtype=np.int64),
        class_names=tuple(names),
        target="folder name",
        warnings=(warning,) if x.resized else (),
        split_names=np.array([file.split for file in files]) if files[0].split else None,
    )


def read_nested_column(table: Any, names: Sequence[str]) -> Any:
    """Return x if the only feature column contains images (`bytes`, `path`) or lists; None for plain columns.

    Raises `DatasetError` if there are other features or the lists differ in length.
    """
    types = import_pyarrow().types
    columns = [name for name in names if types.is_nested(table.schema.field(name).type)]
    if not columns:
        return None
    column = table.column(columns[0])
    if len(names) > 1:
        other = next(name for name in names if name != columns[0])
        raise DatasetError(
            f"column {columns[0]!r} contains {column.type} and must be the only feature: "
            f"omit the others (drop={other} ...), or use drop={columns[0]}"
        )
    if not (types.is_struct(column.type) and {"bytes", "path"} <= {field.name for field in column.type}):
        return _read_lists(columns[0], column)
    sources: list[tuple[str, Any]] = []
    for row, image in enumerate(column.to_pylist(), start=1):
        if image is None or (image["bytes"] is None and not image["path"]):
            raise DatasetError(f"image in row {row} is missing")
        sources.append(
            (
                f"image in row {row}",
                io.BytesIO(image["bytes"])
                if image["bytes"] is not None
                else _resolve_image_path(image["path"], getattr(table, "folder", None), row),
            )
        )
    return ImageArray(sources)


def _resolve_image_path(path: str, folder: Path | None, row: int) -> Path:
    """Return the image file that a table names. A Parquet file may come from an untrusted source, so its images
    must be in the table's folder. Raises `DatasetError`.
    """
    if folder is None:  # written by the datasets library
        return Path(path)
    with raise_read_errors_as(f"image in row {row} has a path that cannot be resolved", DatasetError):
        resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise DatasetError(
            f"image in row {row} is outside the table's folder ({path[:100]!r}): store its bytes in the table"
        )
    return resolved


def _read_lists(name: str, column: Any) -> Array:
    """Return a column of lists as (n, length, ...) int64 or float32."""
    try:
        array = np.array(column.to_pylist())
    except ValueError:  # numpy raises this for lists of different lengths
        raise DatasetError(
            f"column {name!r} contains lists of different lengths: pad them to the same length"
        ) from None
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise DatasetError(f"column {name!r} contains lists of {column.type}, which are not all numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DatasetError(f"column {name!r} contains lists with missing or infinite values")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
