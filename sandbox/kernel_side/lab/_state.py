"""State that outlives this process: checkpoints for another attempt of this node, artifacts for other cells and nodes.

Also gives access to models fetched by the host. Checkpoints are pickled (by torch if loaded) and only read in kernels:
the host copies them without reading them.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from lab._job import BuildState, LabError, add_cell_name, require_experiment
from lab._record import check_name, compute_quota_left, copy_content, to_path_or_array, write_atomically


def checkpoint(state: object, name: str = "state") -> None:
    """Save a state under a name atomically, replacing the previous one.

    Raises `LabError` if it cannot be pickled or the checkpoints exceed the quota.
    """
    current = require_experiment("checkpoint")
    path = current.folder / "checkpoints" / check_name("checkpoint", name)
    path.parent.mkdir(exist_ok=True)
    left = compute_quota_left(current.checkpoint_bytes, path)
    write_value(path, state, limit=left, where=f"lab.checkpoint({name!r})")


def restore(name: str = "state") -> Any:
    """Return the last state saved under this name by this attempt, or by an interrupted attempt of this node; None if
    no state was saved.

    Tensors are on their original device. Raises `LabError` if the state cannot be read.
    """
    path = require_experiment("restore").folder / "checkpoints" / check_name("restore", name)
    if not path.is_file():
        return None
    try:
        return read_value(path)
    except Exception as error:
        raise LabError(f"lab.restore({name!r}) cannot read the state: {type(error).__name__}: {error}") from error


def write_value(path: Path, value: object, *, limit: int, where: str) -> None:
    """Write a value atomically. Raises `LabError`, and `TooLarge` for more than `limit` bytes."""

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
    """Read a value written by `write_value`."""
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
    """Save a file, a folder (by path) or an array for other nodes or cells, replacing an artifact of the same name.

    In a cell, the name of the cell is added before the extension. Raises `LabError` if the content is invalid or the
    artifacts of this attempt exceed the quota.
    """
    current = require_experiment("save_artifact")
    where = f"lab.save_artifact({name!r})"
    file = check_name("save_artifact", name)
    given = to_path_or_array(content, where)
    if not isinstance(given, Path):
        file = f"{file.removesuffix('.npy')}.npy"
    path = current.folder / "artifacts" / add_cell_name(file)
    path.parent.mkdir(exist_ok=True)
    left = compute_quota_left(current.artifact_bytes, path)
    write_atomically(path, lambda part: copy_content(part, given), limit=left, where=where)


def artifact(name: str, node: str = "", *, arm: str = "") -> Path:
    """Return the path of an artifact of another node, or of another arm's cell: a file (for an array, name.npy) or a
    folder.

    Raises `LabError` if it does not exist or its use was not visible in the source.
    """
    current = require_experiment("artifact")
    if bool(node) == bool(arm):
        raise LabError(f"lab.artifact({name!r}) needs either node= or arm=")
    if arm:
        return _find_arm_artifact(name, arm)
    left = current.artifacts.get(node, [])
    for file in (name, f"{name}.npy"):
        if file in left:
            path = current.folder / "inputs" / "artifacts" / node / file
            if path.exists():
                return path
            raise LabError(
                f"lab.artifact({name!r}, node={node!r}) was not copied: write both as plain strings in the call"
            )
    has = "; ".join(f"{other}: {', '.join(names)}" for other, names in sorted(current.artifacts.items())) or "none"
    raise LabError(f"no artifact {name!r} of node {node!r}; artifacts of this run: {has}")


def _find_arm_artifact(name: str, arm: str) -> Path:
    current = require_experiment("artifact")
    where = f"lab.artifact({name!r}, arm={arm!r})"
    if BuildState.seed is not None:
        raise LabError(
            f"{where}: a shared value cannot read artifacts of an arm; read them before, and let it capture them"
        )
    if arm not in current.arms:
        own = current.cell.arm if current.cell else "..."
        raise LabError(f"{where}: declare it with lab.measure(function, reads={{{own!r}: {arm!r}}}) as a literal")
    folder = current.folder / "inputs" / "arms" / arm
    for file in (name, f"{name}.npy"):
        if (path := folder / add_cell_name(file, current.arms[arm])).exists():
            return path
    has = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
    raise LabError(f"{where}: the cell {current.arms[arm]} saved no such artifact; it saved: {has}")


def pretrained(id: str, revision: str | None = None) -> Path:
    """Return the folder of a pretrained model, for `from_pretrained`. Raises `LabError` if the model was not
    fetched.
    """
    has = require_experiment("pretrained").pretrained
    named = [(*name.rpartition("@")[::2], path) for name, path in has.items()]
    fits = [path for own, other, path in named if own == id and revision in (None, other)]
    if len(fits) != 1:
        wanted = id if revision is None else f"{id}@{revision}"
        found = "several revisions" if fits else "no pretrained model"
        raise LabError(f"{found} {wanted!r} in this run; it has: {', '.join(sorted(has)) or 'none'}")
    return Path(fits[0])
