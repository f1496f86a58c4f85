"""The folder of a job, made ready before its code runs: source, inputs, and what earlier attempts left for it.

An earlier attempt of the same node leaves checkpoints, other nodes leave artifacts. Everything is copied, never linked,
and only its bytes are read here: the code of either side is untrusted. An artifact is copied only as it was recorded.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from record.syntax import parse
from sandbox.errors import ExecutorError
from sandbox.execution import Script
from sandbox.job import ARTIFACTS, CHECKPOINTS, MEASUREMENTS, Artifacts, Job
from sandbox.settings import SandboxSettings
from sandbox.untrusted import FILE_BYTES, NAME, Unfit, names_in, open_regular, remove, write_whole

GIVEN = f"inputs/{ARTIFACTS}"
_CHUNK = 2**20


_NOTHING = Artifacts(Path(), {})


# --- checkpoints ------------------------------------------------------------------------------------------------------


def copy_checkpoints(earlier: Path, folder: Path, limit: int) -> bool:
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


def copy_artifacts(source: Mapping[str, str], known: Mapping[str, Artifacts], folder: Path, limit: int) -> None:
    """Copy the artifacts that the source names to `folder/inputs/artifacts/<node>/`.

    What it names and nobody left is passed over: `lab.artifact` says so. Raises `Unfit` for one that changed since it
    was recorded, `OSError`.
    """
    remove(folder, GIVEN)
    for node, name in sorted(named_artifacts(source)):
        left = known.get(node, _NOTHING)
        for file, sha256 in left.files.items():
            if file.partition("/")[0] not in (name, f"{name}.npy"):
                continue
            if _copy(left.folder, f"{ARTIFACTS}/{file}", folder / GIVEN / node / file, limit) != sha256:
                raise Unfit(f"artifact {file!r} of {node} is not what was recorded")


def named_artifacts(source: Mapping[str, str]) -> set[tuple[str, str]]:
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


def _copy(folder: Path, relative: str, target: Path, limit: int) -> str:
    """Copy a plain file; returns its sha256. Raises `Unfit`, `OSError`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open_regular(folder, relative, limit) as file, open(target, "xb") as copy:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()


_OURS = (MEASUREMENTS, "submissions.jsonl", "submissions", "sealed", "arrays", CHECKPOINTS, ARTIFACTS)


def prepare_workspace(job: Job, views: Path, settings: SandboxSettings) -> Script:
    """What a kernel is started for, once source and inputs are in place. Raises `ExecutorError`.

    An experiment starts without the leavings of an earlier one; plots keep its arrays and lose only old figures.
    """
    folder = job.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _OURS if job.mode == "experiment" else ():
            remove(folder, name)
        remove(folder, "figures")
        (folder / "figures").mkdir()
        for name, text in job.source.items():
            write_whole(folder, name, text)
        for name, source in job.inputs.items():
            _copy_input(source, folder, name)
        resumed = _resumed(job, folder, settings.checkpoint_bytes)
        copy_artifacts(job.source, job.artifacts, folder, settings.artifact_bytes)
    except (OSError, Unfit) as error:
        raise ExecutorError(f"cannot prepare {folder} for {job.name!r}: {error}") from error
    if job.entry not in job.source and not (folder / job.entry).is_file():
        raise ExecutorError(f"job {job.name!r} has no file {job.entry!r}")
    return Script(folder, job.entry, seed=job.seed, mode=job.mode, views=_views(job, views), resumed=resumed,
                  readable=dataset_folders(job.datasets, views),
                  artifacts={node: left.names for node, left in job.artifacts.items()})


def _resumed(job: Job, folder: Path, limit: int) -> bool:
    """Whether checkpoints of an earlier attempt are there. What cannot be read is left behind: the code begins anew."""
    try:
        return job.earlier is not None and copy_checkpoints(job.earlier, folder, limit)
    except Unfit:
        remove(folder, CHECKPOINTS)
        return False


def _views(job: Job, views: Path) -> dict[str, str]:
    found = {name: (views / f"{name}.npz").absolute() for name in job.datasets}
    for name, path in found.items():
        if not path.is_file():
            raise ExecutorError(f"job {job.name!r} needs dataset {name!r}, which is not in {views}: materialise it")
    return {name: str(path) for name, path in found.items()}


def dataset_folders(names: Iterable[str], views: Path) -> tuple[Path, ...]:
    """The folders that views of these names point to, where a dataset is one."""
    found: list[Path] = []
    for name in names:
        with np.load(views / f"{name}.npz", allow_pickle=False) as view:
            about: dict[str, str] = json.loads(str(view["about"])) if "about" in view.files else {}
        if about.get("path"):
            found.append(Path(about["path"]))
    return tuple(found)


def _copy_input(source: Path, folder: Path, name: str) -> None:
    """Copy the plain files of a folder (or one file) to inputs/<name>; links are refused, not followed."""
    if not NAME.fullmatch(name):
        raise Unfit(f"input {name!r}: use letters, digits and _ . - only")
    remove(folder, f"inputs/{name}")
    target = folder / "inputs" / name
    if source.is_file():
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
        return
    target.mkdir(parents=True)
    for one in sorted(os.listdir(source)):
        if one.startswith("."):
            continue
        with open_regular(source, one, FILE_BYTES) as file, open(target / one, "wb") as copy:
            shutil.copyfileobj(file, copy)
