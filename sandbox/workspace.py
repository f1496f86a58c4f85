"""Prepare the folder of a job before its code runs: source, inputs, and files of earlier attempts and other nodes.

An earlier attempt of the same node provides checkpoints, other nodes provide artifacts. Everything is copied as bytes,
never linked, since the code on both sides is untrusted. Artifacts must match their recorded hashes.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from labwright.record.python_syntax import collect_strings
from labwright.record.run_folder import hash_texts
from labwright.record.source_tree import PLOTS_FILE
from labwright.record.untrusted_files import (
    FILE_NAME_PATTERN,
    MAX_FILE_BYTES,
    BadFile,
    copy_file,
    iterate_entries,
    list_folders,
    list_names,
    make_folder,
    make_harmless,
    move_path,
    remove_path,
    remove_tree,
    write_file,
)
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import KernelScript
from labwright.sandbox.job import ARTIFACTS, CHECKPOINTS, MEASUREMENTS, AttemptArtifacts, Job
from labwright.sandbox.settings import SandboxSettings

CELLS_FOLDER, KERNELS_FOLDER = "cells", "kernels"
"""Subfolders of a job of cells: for its cells, and for kernels to work in."""
_STALE_OUTPUTS = (MEASUREMENTS, "submissions.jsonl", "submissions", "sealed", "arrays", CHECKPOINTS, ARTIFACTS)
"""Files and folders that an earlier experiment may have left in the same folder."""
MAX_COPIED_BYTES = 8 * 2**20
"""Views up to this size are copied to each cell, which is faster than starting another kernel."""


def prepare_workspace(job: Job, views: Path, settings: SandboxSettings) -> KernelScript:
    """Prepare source and inputs and return the script to run. Raises `ExecutorError`.

    An experiment starts without files of an earlier one; plots keep its arrays, and only old figures are removed.
    """
    folder = job.folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*(_STALE_OUTPUTS if job.mode == "experiment" else ()), "figures"):
            remove_path(folder, name)
        make_folder(folder, "figures")
        for name, text in job.source.items():
            write_file(folder, name, text)
        for name, source in job.inputs.items():
            _copy_input(source, folder, name)
        resumed = job.earlier_folder is not None and _copy_checkpoints(
            job.earlier_folder, folder, settings.checkpoint_bytes
        )
        _copy_artifacts(job.source, job.artifacts, folder, settings.artifact_bytes)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder} for {job.name!r}: {error}") from error
    if job.entry not in job.source and not (folder / job.entry).is_file():
        raise ExecutorError(f"job {job.name!r} has no file {job.entry!r}")
    for name in job.datasets:
        if not (views / f"{name}.npz").is_file():
            raise ExecutorError(
                f"job {job.name!r} needs dataset {name!r}, which is missing in {views}: materialise it first"
            )
    return KernelScript(
        job,
        folder,
        resumed=resumed,
        views={name: str((views / f"{name}.npz").absolute()) for name in job.datasets},
        readable=list_dataset_folders(job.datasets, views),
        artifacts={node: left.names for node, left in job.artifacts.items()},
        tree=hash_texts({name: text for name, text in job.source.items() if name != PLOTS_FILE}),
    )


def list_mounted_datasets(dataset: str, views: Path) -> tuple[str, ...]:
    """Return the datasets that a kernel must mount for cells of this one: the dataset itself if it is large or a
    folder, otherwise none.

    A small view is copied to each cell instead (`copy_view`), so that one kernel can serve several datasets.
    """
    with suppress(OSError):  # `prepare_workspace` reports missing files
        size, folder = _read_view_head(views / f"{dataset}.npz")
        if size <= MAX_COPIED_BYTES and not folder:
            return ()
    return (dataset,)


def copy_view(script: KernelScript, dataset: str) -> KernelScript:
    """Copy the view of a dataset into the script's folder. Raises `ExecutorError`."""
    place = f"inputs/data/{dataset}.npz"
    try:
        (script.folder / place).parent.mkdir(parents=True)
        shutil.copyfile(script.views[dataset], script.folder / place)
    except OSError as error:
        raise ExecutorError(f"cannot prepare {script.folder}: {error}") from error
    return replace(script, views={dataset: place})


def list_dataset_folders(names: Iterable[str], views: Path) -> tuple[Path, ...]:
    """Return the folders of those datasets that are folders."""
    return tuple(Path(folder) for name in names if (folder := _read_view_head(views / f"{name}.npz")[1]))


def _read_view_head(view: Path) -> tuple[int, str]:
    """Return the size of a view's arrays and its folder, if any. Cached. Raises `OSError`."""
    status = view.stat()
    return _read_cached_view_head(view, status.st_size, status.st_mtime_ns)


@functools.lru_cache(256)
def _read_cached_view_head(view: Path, *_version: int) -> tuple[int, str]:
    with np.load(view, allow_pickle=False) as file:
        about: dict[str, str] = json.loads(str(file["about"])) if "about" in file.files else {}
        return sum(member.file_size for member in file.zip.infolist()), about.get("path", "")


def _copy_input(source: Path, folder: Path, name: str) -> None:
    """Copy the plain files of a folder (or one file) to inputs/<name>; links are refused, not followed."""
    if not FILE_NAME_PATTERN.fullmatch(name):
        raise BadFile(f"input {name!r}: use only letters, digits and _ . -")
    target = f"inputs/{name}"
    remove_path(folder, target)
    if source.is_file():
        copy_file(source.parent, source.name, folder, target, MAX_FILE_BYTES)
        return
    make_folder(folder, target)
    for file in os.listdir(source):
        if not file.startswith("."):
            copy_file(source, file, folder, f"{target}/{file}", MAX_FILE_BYTES)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def _copy_checkpoints(earlier: Path, folder: Path, limit: int) -> bool:
    """Copy the checkpoints of an earlier attempt; return whether any exist.

    If a checkpoint cannot be read, none is used and the code starts from scratch. Raises `OSError`.
    """
    try:
        names = list_names(earlier, CHECKPOINTS, "")
        for name in names:
            copy_file(earlier, f"{CHECKPOINTS}/{name}", folder, f"{CHECKPOINTS}/{name}", limit)
    except BadFile:
        remove_path(folder, CHECKPOINTS)
        return False
    return bool(names)


def rescue_checkpoints(draft: Path) -> Path | None:
    """Save the checkpoints of an interrupted attempt and its cells next to its draft, which is cleared before it runs
    again.

    Return the folder for `Job.earlier_folder`, or None if there are no checkpoints. Kept until `remove_rescued`.
    """
    safe = _rescue_folder(draft)
    with suppress(BadFile):
        make_harmless(draft)
    places = {"": CHECKPOINTS} | {
        f"{cells}/{name}/": f"{CELLS_FOLDER}/{name}/{CHECKPOINTS}"
        for cells in (
            CELLS_FOLDER,
            *(
                f"{KERNELS_FOLDER}/{kernel}/{CELLS_FOLDER}"
                for kernel in _list_checkpoint_folders(draft, KERNELS_FOLDER)
            ),
        )
        for name in _list_checkpoint_folders(draft, cells)
    }
    existing = {
        f"{place}{CHECKPOINTS}": to for place, to in places.items() if _has_content(draft, f"{place}{CHECKPOINTS}")
    }
    if existing:
        remove_tree(safe)
    for place, to in existing.items():
        with suppress(BadFile):  # for a cell with several folders, the first; files that cannot be moved are dropped
            move_path(draft, place, safe, to)
    return safe if safe.is_dir() else None


def _list_checkpoint_folders(draft: Path, place: str) -> list[str]:
    """List the folders in `place`; empty if code put another kind of file there."""
    with suppress(BadFile):
        return list_folders(draft, place)
    return []


def _has_content(draft: Path, place: str) -> bool:
    """Whether `place` is a non-empty folder."""
    with suppress(BadFile):
        return next(iterate_entries(draft, place), None) is not None
    return False


def remove_rescued(draft: Path) -> None:
    """Remove the checkpoints that `rescue_checkpoints` saved for this draft, once the attempt is recorded."""
    remove_tree(_rescue_folder(draft), ignore_errors=True)


def _rescue_folder(draft: Path) -> Path:
    return draft.with_name(f"{draft.name}.rescued")


# --- artifacts --------------------------------------------------------------------------------------------------------


def _copy_artifacts(source: Mapping[str, str], known: Mapping[str, AttemptArtifacts], folder: Path, limit: int) -> None:
    """Copy the artifacts whose node and name occur in the source to `folder/inputs/artifacts/<node>/`.

    Missing artifacts are ignored; `lab.artifact` reports them. Raises `BadFile` for an artifact that changed since it
    was recorded, `OSError`.
    """
    given = f"inputs/{ARTIFACTS}"
    remove_path(folder, given)
    words = {word for text in source.values() for word in collect_strings(text)}
    for node in words & known.keys():
        for file, digest in known[node].files.items():
            name = file.partition("/")[0]
            if (
                not words.isdisjoint((name, name.removesuffix(".npy")))
                and copy_file(known[node].folder, f"{ARTIFACTS}/{file}", folder, f"{given}/{node}/{file}", limit)
                != digest
            ):
                raise BadFile(f"artifact {file!r} of {node} was changed after it was recorded")


def copy_arm_artifacts(source: Path, folder: Path, arm: str, *, limit: int) -> None:
    """Copy the artifacts of an arm's cell from its sealed folder to a place where another cell can read them.

    Raises `ExecutorError`.
    """
    place = f"inputs/arms/{arm}"
    try:
        make_folder(folder, place)
        for name, status in iterate_entries(source, ARTIFACTS):
            if stat.S_ISREG(status.st_mode):
                copy_file(source, f"{ARTIFACTS}/{name}", folder, f"{place}/{name}", limit)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot copy the artifacts of arm {arm!r} to {folder.name}: {error}") from error
