"""What outlives this process: checkpoints for a second attempt of this node, artifacts for other cells and nodes; and
models that the host fetched.

Checkpoints are pickled (by torch where it is loaded) and only ever read by kernels: the host copies them unread.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from lab import _child
from lab._cells import add_cell_name
from lab._job import LabError, require_experiment
from lab._record import check_name, compute_quota_left, copy_content, to_path_or_array, write_atomically


def checkpoint(state: object, name: str = "state") -> None:
    """Keep a state under a name, whole or not at all; it replaces the one before.

    Raises `LabError` where it cannot be pickled or the checkpoints grow beyond the quota.
    """
    current = require_experiment("checkpoint")
    path = current.folder / "checkpoints" / check_name("checkpoint", name)
    path.parent.mkdir(exist_ok=True)
    write_value(
        path, state, limit=compute_quota_left(current.checkpoint_bytes, path), where=f"lab.checkpoint({name!r})"
    )


def restore(name: str = "state") -> Any:
    """The state that was last kept under this name, by this attempt or one of this node that was cut; None without.

    Tensors are on the device that they were on. Raises `LabError` for a state that cannot be read.
    """
    path = require_experiment("restore").folder / "checkpoints" / check_name("restore", name)
    if not path.is_file():
        return None
    try:
        return read_value(path)
    except Exception as error:
        raise LabError(f"lab.restore({name!r}) cannot read the state: {type(error).__name__}: {error}") from error


def write_value(path: Path, value: object, *, limit: int, where: str) -> None:
    """Write a value whole or not at all. Raises `LabError`, `TooLarge` beyond `limit` bytes."""

    def write(part: Path) -> None:
        torch: Any = sys.modules.get("torch")
        try:
            if torch is not None:
                torch.save(value, part)
            else:
                with open(part, "wb") as file:
                    pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise LabError(f"{where} cannot be pickled: {error}") from error

    write_atomically(path, write, limit=limit, where=where)


def read_value(path: Path) -> Any:
    """The value of a file that `keep` wrote."""
    with open(path, "rb") as file:
        by_torch = file.read(2) == b"PK"
        file.seek(0)
        if not by_torch:
            return pickle.load(file)
    import torch

    device = None if torch.cuda.is_available() else "cpu"
    return torch.load(path, map_location=device, weights_only=False)


# --- artifacts and models -------------------------------------------------------------------------------------------


def save_artifact(name: str, content: object) -> None:
    """Leave a file, a folder (by path) or an array for others; under the same name it is replaced.

    In a cell its name ends in that of the cell, before any ending. Raises `LabError` where there is nothing to leave,
    or the artifacts of this attempt grow beyond the quota.
    """
    current = require_experiment("save_artifact")
    where = f"lab.save_artifact({name!r})"
    file = check_name("save_artifact", name)
    given = to_path_or_array(content, where)
    if not isinstance(given, Path):
        file = f"{file.removesuffix('.npy')}.npy"
    path = current.folder / "artifacts" / add_cell_name(file)
    path.parent.mkdir(exist_ok=True)
    write_atomically(
        path,
        lambda part: copy_content(part, given),
        limit=compute_quota_left(current.artifact_bytes, path),
        where=where,
    )


def artifact(name: str, node: str = "", *, arm: str = "") -> Path:
    """The path of what another node left under that name, or the cell of another arm: a file (an array: name.npy) or a
    folder.

    Raises `LabError` where it left no such thing, or it could not be foreseen that this code wants it.
    """
    current = require_experiment("artifact")
    if bool(node) == bool(arm):
        raise LabError(f"lab.artifact({name!r}) needs node= or arm=, one of them")
    if arm:
        return _find_arm_artifact(name, arm)
    left = current.artifacts.get(node, [])
    for file in (name, f"{name}.npy"):
        if file in left:
            path = current.folder / "inputs" / "artifacts" / node / file
            if path.exists():
                return path
            raise LabError(
                f"lab.artifact({name!r}, node={node!r}) was not brought along: write name and node as plain "
                "strings in the call, so that they can be read off the source"
            )
    has = "; ".join(f"{other}: {', '.join(names)}" for other, names in sorted(current.artifacts.items())) or "none"
    raise LabError(f"no artifact {name!r} of node {node!r}; artifacts of this run: {has}")


def _find_arm_artifact(name: str, arm: str) -> Path:
    current = require_experiment("artifact")
    where = f"lab.artifact({name!r}, arm={arm!r})"
    if arm not in current.arms:
        raise LabError(
            f"{where}: this cell reads no arm {arm!r}: say so, lab.measure(function, reads="
            f"{{{current.cell.arm if current.cell else '...'!r}: {arm!r}}}), written out"
        )
    _child.record_all_reads()
    folder = current.folder / "inputs" / "arms" / arm
    for file in (name, f"{name}.npy"):
        if (path := folder / add_cell_name(file, current.arms[arm])).exists():
            return path
    has = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
    raise LabError(f"{where}: the cell {current.arms[arm]} left no such artifact; it left: {has}")


def pretrained(id: str, revision: str | None = None) -> Path:
    """The folder of a pretrained model, for `from_pretrained`. Raises `LabError` where it was not fetched."""
    has = require_experiment("pretrained").pretrained
    fits = [
        path
        for name, path in has.items()
        if name.rpartition("@")[0] == id and revision in (None, name.rpartition("@")[2])
    ]
    if len(fits) != 1:
        wanted = id if revision is None else f"{id}@{revision}"
        raise LabError(
            f"{'several revisions' if fits else 'no pretrained model'} {wanted!r} in this run; it has: "
            f"{', '.join(sorted(has)) or 'none'}"
        )
    return Path(fits[0])
