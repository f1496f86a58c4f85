"""What one attempt leaves for another: checkpoints for the next attempt of its node, artifacts for other nodes.

Everything is copied, never linked, and never read by us beyond its bytes: the code of either side is untrusted. An
artifact is given on only as it was recorded.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from record.syntax import parse
from sandbox.untrusted import Unfit, names_in, open_regular, remove

CHECKPOINTS, ARTIFACTS = "checkpoints", "artifacts"
GIVEN = f"inputs/{ARTIFACTS}"
_MOST_FILES = 10_000
_CHUNK = 2**20


@dataclass(frozen=True)
class Left:
    """The artifacts of an attempt: its folder, and file under artifacts/ -> sha256, as recorded."""

    folder: Path
    files: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """What `lab.artifact` finds: files and folders."""
        return sorted({file.partition("/")[0] for file in self.files})


_NOTHING = Left(Path(), {})


# --- checkpoints ------------------------------------------------------------------------------------------------------


def give_checkpoints(earlier: Path, folder: Path, limit: int) -> bool:
    """Copy the checkpoints of an earlier attempt into a new folder; True where there are any.

    Raises `Unfit`, `OSError`.
    """
    names = names_in(earlier, CHECKPOINTS, "")
    for name in names:
        _copy(earlier, f"{CHECKPOINTS}/{name}", folder / CHECKPOINTS / name, limit)
    return bool(names)


def rescue_checkpoints(draft: Path) -> Path | None:
    """Put the checkpoints of an attempt that a kill cut short beside its draft, which is cleared before it runs again.

    Returns what to name as `Job.earlier`, None where there are none. Kept until `forget_rescued`.
    """
    safe = _rescued(draft)
    if (draft / CHECKPOINTS).is_dir() and not (draft / CHECKPOINTS).is_symlink() and os.listdir(draft / CHECKPOINTS):
        shutil.rmtree(safe, ignore_errors=True)
        safe.mkdir()
        os.rename(draft / CHECKPOINTS, safe / CHECKPOINTS)
    return safe if safe.is_dir() else None


def forget_rescued(draft: Path) -> None:
    """Remove what `rescue_checkpoints` kept for this draft, once the attempt is recorded."""
    shutil.rmtree(_rescued(draft), ignore_errors=True)


def _rescued(draft: Path) -> Path:
    return draft.with_name(f"{draft.name}.rescued")


# --- artifacts --------------------------------------------------------------------------------------------------------


def hash_artifacts(folder: Path, limit: int) -> dict[str, str]:
    """File under artifacts/ -> sha256. Raises `Unfit` for links, odd names, and more than `limit` bytes in all."""
    found: dict[str, str] = {}
    left = limit
    for relative in _files(folder):
        with open_regular(folder, f"{ARTIFACTS}/{relative}", left) as file:
            found[relative] = hashlib.file_digest(file, "sha256").hexdigest()
            left -= os.fstat(file.fileno()).st_size
    return found


def give_artifacts(source: Mapping[str, str], known: Mapping[str, Left], folder: Path, limit: int) -> None:
    """Copy the artifacts that the source names to `folder/inputs/artifacts/<node>/`.

    What it names and nobody left is passed over: `lab.artifact` says so. Raises `Unfit` for one that changed since it
    was recorded, `OSError`.
    """
    remove(folder, GIVEN)
    for node, name in sorted(wanted(source)):
        left = known.get(node, _NOTHING)
        for file, sha256 in left.files.items():
            if file.partition("/")[0] not in (name, f"{name}.npy"):
                continue
            if _copy(left.folder, f"{ARTIFACTS}/{file}", folder / GIVEN / node / file, limit) != sha256:
                raise Unfit(f"artifact {file!r} of {node} is not what was recorded")


def wanted(source: Mapping[str, str]) -> set[tuple[str, str]]:
    """Every (node, name) that a call of `lab.artifact` in the source writes out."""
    return {pair for text in source.values() for pair in _calls(text)}


def _calls(text: str) -> Iterator[tuple[str, str]]:
    try:
        nodes = list(ast.walk(parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for call in nodes:
        if isinstance(call, ast.Call) and _name(call.func) == "artifact":
            given = dict(zip(("name", "node"), call.args, strict=False)) | {
                one.arg: one.value for one in call.keywords if one.arg}
            words = [one.value for key in ("node", "name") if isinstance(one := given.get(key), ast.Constant)]
            match words:
                case [str(node), str(name)]:
                    yield node, name
                case _:
                    pass


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _files(folder: Path) -> list[str]:
    """Every file under artifacts/, relative to it; what `lab` was still writing is left out. Raises `Unfit`."""
    base = folder / ARTIFACTS
    found: list[str] = []
    for top in names_in(folder, ARTIFACTS, ""):
        if not (base / top).is_dir() or (base / top).is_symlink():
            found.append(top)
        for place, folders, files in os.walk(base / top):
            links = [one for one in folders if os.path.islink(os.path.join(place, one))]
            found += [os.path.relpath(os.path.join(place, one), base) for one in (*files, *links)]
            if len(found) > _MOST_FILES:
                raise Unfit(f"{ARTIFACTS}/ holds more than {_MOST_FILES} files: put them into one archive")
    for one in found:
        if not one.isprintable():
            raise Unfit(f"{ARTIFACTS}/ holds a file named {one!r}: name it in UTF-8, without control characters")
    return sorted(found)


def _copy(folder: Path, relative: str, target: Path, limit: int) -> str:
    """Copy a plain file; returns its sha256. Raises `Unfit`, `OSError`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open_regular(folder, relative, limit) as file, open(target, "xb") as copy:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()
