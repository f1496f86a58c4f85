"""Files that nodes of a run leave for each other, and models that the host fetched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lab._job import LabError, experiment
from lab._record import as_array, named, part_of, save_array, write_whole


def save_artifact(name: str, content: object) -> None:
    """Leave a file, a folder (by path) or an array for other nodes; under the same name it is replaced.

    Raises `LabError` where there is nothing to leave, or the artifacts of this attempt grow beyond the quota.
    """
    current = experiment("save_artifact")
    folder = current.folder / "artifacts"
    folder.mkdir(exist_ok=True)
    path = folder / named("save_artifact", name)
    if isinstance(content, str | Path):
        source = Path(content)
        if not source.exists():
            raise LabError(f"lab.save_artifact({name!r}): there is no file or folder {str(source)!r}")
        _check_quota(path, _size(source), current.artifact_bytes)
        _copy(source, path)
        return
    array = as_array(content, f"lab.save_artifact({name!r})")
    if array.dtype.kind not in "biufcU":
        raise LabError(f"lab.save_artifact({name!r}) takes a path or a numeric array, not {type(content).__name__}: "
                       "write other things to a file and give its path")
    path = folder / f"{name.removesuffix('.npy')}.npy"
    _check_quota(path, array.nbytes, current.artifact_bytes)
    write_whole(path, lambda part: save_array(part, array))


def artifact(name: str, node: str) -> Path:
    """The path of what another node left under that name: a file (an array: name.npy) or a folder.

    Raises `LabError` where the node left no such thing, or it could not be foreseen that this code wants it.
    """
    current = experiment("artifact")
    left = current.artifacts.get(node, [])
    for one in (name, f"{name}.npy"):
        if one in left:
            path = current.folder / "inputs" / "artifacts" / node / one
            if path.exists():
                return path
            raise LabError(f"lab.artifact({name!r}, node={node!r}) was not brought along: write name and node as plain "
                           "strings in the call, so that they can be read off the source")
    has = "; ".join(f"{one}: {', '.join(names)}" for one, names in sorted(current.artifacts.items())) or "none"
    raise LabError(f"no artifact {name!r} of node {node!r}; artifacts of this run: {has}")


def pretrained(id: str, revision: str | None = None) -> Path:
    """The folder of a pretrained model, for `from_pretrained`. Raises `LabError` where it was not fetched."""
    has = experiment("pretrained").pretrained
    fits = [path for one, path in has.items()
            if one.rpartition("@")[0] == id and revision in (None, one.rpartition("@")[2])]
    if len(fits) != 1:
        wanted = id if revision is None else f"{id}@{revision}"
        raise LabError(f"{'several revisions' if fits else 'no pretrained model'} {wanted!r} in this run; it has: "
                       f"{', '.join(sorted(has)) or 'none'}")
    return Path(fits[0])


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder beside the target, then rename it there."""
    part = part_of(target)
    if source.is_dir():
        shutil.copytree(source, part)
    else:
        shutil.copyfile(source, part)
    if target.is_dir():
        shutil.rmtree(target)
    os.replace(part, target)


def _check_quota(path: Path, size: int, quota: int) -> None:
    others = sum(_size(one) for one in path.parent.iterdir() if one != path and not one.name.startswith("."))
    if others + size > quota:
        raise LabError(f"lab.save_artifact({path.name!r}): {size} bytes, more than the {max(0, quota - others)} that "
                       f"are left of the {quota} of one attempt")


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
