"""Write numbers and arrays of the experiment to plain files, which the host reads as untrusted."""

from __future__ import annotations

import decimal
import errno
import json
import math
import numbers
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from lab._job import LabError, add_cell_name, not_finite_error, read_job, require_experiment, resolve_cell

_NAME_PATTERN = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_ma: Any = np.ma
_SPLITS = ("train", "dev", "validation")
MAX_ABSOLUTE_VALUE = 1e100
"""Maximum magnitude of a value that the host accepts."""


def log(
    name: str,
    value: SupportsFloat,
    step: int | None = None,
    *,
    condition: str = "",
    dataset: str = "",
    split: str = "train",
) -> None:
    """Append one point of a curve. Raises `LabError` for a value that is not finite."""
    require_experiment("log")
    dataset, condition = resolve_cell(f"lab.log({name!r})", dataset, condition)
    _append_measurement("log", name, value, step=step, condition=condition, dataset=dataset, split=split)


def result(
    name: str, value: SupportsFloat, *, condition: str = "", dataset: str = "", split: str = "validation"
) -> None:
    """Append a final number that only the experiment can know; it is marked as reported by the code."""
    require_experiment("result")
    dataset, condition = resolve_cell(f"lab.result({name!r})", dataset, condition)
    if not condition or not dataset:
        raise LabError(f"lab.result({name!r}) needs condition= and dataset=, not {condition!r} and {dataset!r}")
    _append_measurement("result", name, value, step=None, condition=condition, dataset=dataset, split=split)


def save(name: str, array: object) -> None:
    """Save an array as arrays/<name>.npy, in a cell as arrays/<name>__<cell>.npy.

    Raises `LabError` for an array that cannot be read back without unpickling.
    """
    folder = require_experiment("save").folder / "arrays"
    file = add_cell_name(check_name("save", name.removesuffix(".npy")) + ".npy")
    values = to_array(array, f"lab.save({name!r})")
    if values.dtype.kind not in "biufU":
        raise LabError(f"lab.save({name!r}) takes a numeric array, not dtype {values.dtype}: save each part separately")
    folder.mkdir(exist_ok=True)
    write_atomically(folder / file, lambda part: copy_content(part, values))


def check_name(function: str, name: str) -> str:
    """Return the name if it is a valid file name. Raises `LabError`."""
    if not _NAME_PATTERN.fullmatch(name) or name.startswith("."):
        raise LabError(f"lab.{function} cannot use the name {name!r}: use only letters, digits and _ . -")
    return name


def to_array(values: object, where: str) -> NDArray[Any]:
    """Convert values to a numpy array: tensors of any device and type, lists of them, sparse matrices, Python numbers.

    Types that numpy lacks (bfloat16, float8) become float32, which represents all of their values.
    """
    try:
        array: NDArray[Any] = np.asarray(_to_numpy_input(values))
        is_numeric = array.dtype == object and array.size > 0
        if is_numeric and all(isinstance(value, numbers.Real | decimal.Decimal) for value in array.flat):
            return array.astype(np.float64)
        return array
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise LabError(f"{where}: not a rectangular array of numbers ({error})") from error


def _to_numpy_input(values: Any) -> Any:
    """Replace tensors and sparse matrices by values that numpy accepts."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        dense: Any = values.detach().cpu().to_dense().resolve_conj().resolve_neg()
        try:
            return dense.numpy()
        except TypeError:  # numpy has no such type
            return dense.float().numpy()
    if isinstance(values, list | tuple):
        items: list[Any] | tuple[Any, ...] = values  # pyrefly: ignore
        plain = all(issubclass(kind, int | float | np.generic) for kind in set(map(type, items)))
        return items if plain else [_to_numpy_input(item) for item in items]
    if _ma.is_masked(values):
        raise ValueError("some of its values are masked: fill them in, with .filled(value)")
    return values.toarray() if hasattr(values, "toarray") else values


class TooLarge(LabError):
    """Data to be saved exceeds its quota."""


def write_atomically(path: Path, write: Callable[[Path], object], *, limit: int | None = None, where: str = "") -> None:
    """Write a file or folder atomically, even if the process is killed.

    The temporary name is unique per process and thread. Raises `TooLarge` for more than `limit` bytes.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        write(part)
        if limit is not None and _measure_size(part) > limit:
            raise TooLarge(f"{where}: {_measure_size(part)} bytes, more than the {max(0, limit)} left of the quota")
        if path.is_dir():
            shutil.rmtree(path)
        os.replace(part, path)
    except BaseException:
        shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
        raise


def compute_quota_left(quota: int, path: Path, pattern: str = "[!.]*") -> int:
    """Return the bytes of a quota that are left for `path`, given the other files in its folder that match
    `pattern`."""
    return quota - sum(_measure_size(other) for other in path.parent.glob(pattern) if other != path)


def _measure_size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def to_path_or_array(content: object, where: str) -> Path | NDArray[Any]:
    """Return the given path of a file or folder, or the content as an array. Raises `LabError`."""
    if isinstance(content, str | Path):
        path = Path(content)
        if not path.exists():
            raise LabError(f"{where}: there is no file or folder {str(path)!r}")
        return path
    array = to_array(content, where)
    if array.dtype.kind not in "biufcU":
        given = type(content).__name__
        raise LabError(f"{where} takes a path or a numeric array, not {given}: write other data to a file")
    return array


def copy_content(target: Path, content: Path | NDArray[Any]) -> None:
    """Copy a file or folder, or write an array so that it can be read back without unpickling."""
    if isinstance(content, Path):
        (shutil.copytree if content.is_dir() else shutil.copyfile)(content, target)
        return
    with open(target, "wb") as file:
        np.save(file, content, allow_pickle=False)


def append_line(file: str, line: dict[str, Any]) -> None:
    """Append a JSON line to a file in the job's folder in one write, so that lines of several processes never mix."""
    text = (json.dumps(line, allow_nan=False) + "\n").encode()
    with open(read_job().folder / file, "ab", buffering=0) as lines:
        if lines.write(text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file)


def _append_measurement(function: str, name: str, value: object, *, step: int | None, **where: str) -> None:
    for key, text in (("name", name), *where.items()):
        if not isinstance(text, str):  # callers are not type checked
            raise LabError(f"lab.{function}: {key} must be a string, not {text!r}")
    if where["split"] not in _SPLITS:
        hint = "; submit test predictions with lab.submit" if where["split"] == "test" else ""
        raise LabError(f"lab.{function}({name!r}): unknown split {where['split']!r}, give one of {_SPLITS}{hint}")
    array = to_array(value, f"lab.{function}({name!r})")
    if array.size != 1 or array.dtype.kind not in "biuf":
        given = f"{type(value).__name__} of shape {array.shape} and dtype {array.dtype}"
        raise LabError(f"lab.{function}({name!r}) takes one number, not {given}")
    number = float(array.reshape(()))
    if not abs(number) <= MAX_ABSOLUTE_VALUE:
        why = (
            f"exceeds {MAX_ABSOLUTE_VALUE:g}: it diverged" if math.isfinite(number) else "is not finite: find the cause"
        )
        raise not_finite_error(f"lab.{function}: {name!r} is {number:g}, which {why}")
    line = {"name": name, "value": number, "step": None if step is None else int(step)}
    append_line("measurements.jsonl", line | where)
