"""Images as one array: from a folder with a folder for each class, or from the one column of a table that holds them.

All are brought to the most common size (bilinear). Where every picture is grey there is one channel, otherwise three;
16-bit grey is reduced to 8, transparency is dropped. Such a column, as one of lists, must be the only feature.
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

from sandbox.data import Examples
from sandbox.data.columns import PARTS
from sandbox.data.files import files_in, pyarrow
from sandbox.errors import DatasetError
from sandbox.untrusted import read_as

Array = NDArray[Any]

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
_GREY = frozenset({"1", "L", "LA", "I;16", "I;16B", "I", "F"})


def stacked(sources: Sequence[tuple[str, Any]], limit: int) -> tuple[Array, int]:
    """Pictures as (n, height, width, channels) uint8, and how many of them had another size.

    `sources` are a name for messages and a path or file each. Raises `DatasetError`.
    """
    from PIL import Image

    drawn: list[Any] = []
    held = 0
    for where, source in sources:
        drawn.append(_upright(where, source))
        held += drawn[-1].width * drawn[-1].height * len(drawn[-1].getbands()) * 4
        if held > limit:
            raise DatasetError(f"{len(drawn)} of {len(sources)} images take {held} bytes in memory, more than "
                               f"sandbox.data_bytes ({limit}): make them smaller, or raise it")
    size, most = Counter(picture.size for picture in drawn).most_common(1)[0]
    mode = "L" if all(picture.mode == "L" for picture in drawn) else "RGB"
    x = np.empty((len(drawn), size[1], size[0], len(mode)), dtype=np.uint8)
    for i, picture in enumerate(drawn):
        x[i] = np.asarray(picture.convert(mode).resize(size, Image.Resampling.BILINEAR)).reshape(x.shape[1:])
    return x, len(drawn) - most


def _upright(where: str, source: Any) -> Any:
    """A picture as the camera lay, grey (L) or RGB, with 8 bits."""
    from PIL import Image, ImageOps

    with _opened(where, source) as picture:
        picture.load()
        grey = picture.mode in _GREY
        if picture.mode.startswith("I"):
            picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
        return ImageOps.exif_transpose(picture).convert("L" if grey else "RGB")


@contextmanager
def _opened(where: str, source: Any) -> Generator[Any]:
    from PIL import Image

    if hasattr(source, "seek"):
        source.seek(0)
    with (read_as(f"{where} cannot be read as an image", DatasetError, Image.DecompressionBombWarning,
                  Image.DecompressionBombError), warnings.catch_warnings()):
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source) as picture:
            yield picture


# --- folders --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """One file of an image folder."""

    path: Path
    label: str
    part: str = ""


def pictures(root: Path) -> list[Picture]:
    """The pictures of a folder by class, sorted; empty where it is no such folder.

    Folders named as splits may lie around those of the classes. Raises `DatasetError` for links out of the folder.
    """
    below = _folders(root)
    parts = {folder: PARTS[folder.name.lower()] for folder in below if folder.name.lower() in PARTS}
    if "train" in parts.values() and len(parts) == len(below) and all(_folders(folder) for folder in parts):
        return [picture for folder, part in parts.items() for picture in _by_class(root, folder, part)]
    return list(_by_class(root, root))


def _folders(root: Path) -> list[Path]:
    return sorted(Path(entry.path) for entry in os.scandir(root)
                  if entry.is_dir() and not entry.name.startswith("."))


def _by_class(root: Path, folder: Path, part: str = "") -> Iterator[Picture]:
    for label in _folders(folder):
        for path in files_in(label, root):
            if path.suffix.lower() in SUFFIXES:
                yield Picture(path, label.name, part)


def from_folder(files: Sequence[Picture], root: Path, limit: int) -> Examples:
    """The examples of an image folder. Raises `DatasetError` where a file is no image, or one class is all there is."""
    names = sorted({file.label for file in files})
    if len(names) < 2:
        raise DatasetError(f"it holds one class only ({names[0]!r}): a classification needs at least two folders of "
                           "images, one a class")
    x, resized = stacked([(str(file.path.relative_to(root)), file.path) for file in files], limit)
    warning = f"{resized} of {len(files)} images were resized to the most common size, {x.shape[2]} x {x.shape[1]}"
    return Examples(x, np.array([names.index(file.label) for file in files], dtype=np.int64),
                    class_names=tuple(names), target="folder name", warnings=(warning,) if resized else (),
                    parts=np.array([file.part for file in files]) if files[0].part else None)


def nested(table: Any, names: Sequence[str], limit: int) -> Array | None:
    """x, where the one feature column holds images (`bytes`, `path`) or lists; None for plain columns.

    Raises `DatasetError` where such a column does not stand alone, or its lists differ in length.
    """
    types = pyarrow().types
    columns = [name for name in names if types.is_nested(table.schema.field(name).type)]
    if not columns:
        return None
    column = table.column(columns[0])
    if len(names) > 1:
        other = next(name for name in names if name != columns[0])
        raise DatasetError(f"column {columns[0]!r} holds {column.type}, and such a column must be "
                           f"the only feature: leave the others out (drop={other} ...), or drop={columns[0]}")
    if not (types.is_struct(column.type) and {"bytes", "path"} <= {field.name for field in column.type}):
        return _lists(columns[0], column)
    sources: list[tuple[str, Any]] = []
    for row, image in enumerate(column.to_pylist(), start=1):
        if image is None or (image["bytes"] is None and not image["path"]):
            raise DatasetError(f"image in row {row} is missing")
        sources.append((f"image in row {row}", io.BytesIO(image["bytes"]) if image["bytes"] is not None
                        else Path(image["path"])))
    return stacked(sources, limit)[0]


def _lists(name: str, column: Any) -> Array:
    """(n, length, ...) int64 or float32."""
    try:
        array = np.array(column.to_pylist())
    except ValueError:  # numpy's word for lists of different lengths
        raise DatasetError(f"column {name!r} holds lists of different lengths: pad them to one length") from None
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise DatasetError(f"column {name!r} holds lists of {column.type}, which are not all numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DatasetError(f"column {name!r} holds lists with values that are missing or not finite")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
