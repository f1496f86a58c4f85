"""The folder of a job, made ready before its code runs: source, inputs, and what earlier attempts left for it.

An earlier attempt of the same node leaves checkpoints, other nodes leave artifacts. Everything is copied, never linked,
and only its bytes are read here: the code of either side is untrusted. An artifact is copied only as it was recorded.
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

from labwright.record.folder_descriptors import remove_tree
from labwright.record.python_syntax import collect_strings
from labwright.record.run_folder import hash_texts
from labwright.record.source_tree import PLOTS_FILE
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.execution import KernelScript
from labwright.sandbox.job import ARTIFACTS, CHECKPOINTS, MEASUREMENTS, AttemptArtifacts, Job
from labwright.sandbox.safe_io import (
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
    write_file,
)
from labwright.sandbox.settings import SandboxSettings

CELLS_FOLDER, KERNELS_FOLDER = "cells", "kernels"
"""In the folder of a job of cells: those of its cells, and those in which kernels work."""
_STALE_OUTPUTS = (MEASUREMENTS, "submissions.jsonl", "submissions", "sealed", "arrays", CHECKPOINTS, ARTIFACTS)
"""What an earlier experiment in the same folder may have left there."""
MAX_COPIED_BYTES = 8 * 2**20
"""A view whose arrays have up to this size is copied to each cell: that takes less than another kernel."""


def prepare_workspace(job: Job, views: Path, settings: SandboxSettings) -> KernelScript:
    """What a kernel is started for, once source and inputs are in place. Raises `ExecutorError`.

    An experiment starts without what an earlier one left; plots keep its arrays and lose only old figures.
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
            raise ExecutorError(f"job {job.name!r} needs dataset {name!r}, which is not in {views}: materialise it")
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
    """The datasets that a kernel must see for cells of this one: itself where its view is large or points to a folder.

    A small view is copied to each cell instead (`copy_view`), so that one kernel serves cells of several datasets.
    """
    with suppress(OSError):  # what is not there is told by `prepare_workspace`
        size, folder = _read_view_head(views / f"{dataset}.npz")
        if size <= MAX_COPIED_BYTES and not folder:
            return ()
    return (dataset,)


def copy_view(script: KernelScript, dataset: str) -> KernelScript:
    """The script with the view of a dataset in its own folder. Raises `ExecutorError`."""
    place = f"inputs/data/{dataset}.npz"
    try:
        (script.folder / place).parent.mkdir(parents=True)
        shutil.copyfile(script.views[dataset], script.folder / place)
    except OSError as error:
        raise ExecutorError(f"cannot prepare {script.folder}: {error}") from error
    return replace(script, views={dataset: place})


def list_dataset_folders(names: Iterable[str], views: Path) -> tuple[Path, ...]:
    """The folders that views of these names point to, where a dataset is one."""
    return tuple(Path(folder) for name in names if (folder := _read_view_head(views / f"{name}.npz")[1]))


def _read_view_head(view: Path) -> tuple[int, str]:
    """Bytes of a view's arrays, and the folder that it points to, if any; read once. Raises `OSError`."""
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
        raise BadFile(f"input {name!r}: use letters, digits and _ . - only")
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
    """Copy the checkpoints of an earlier attempt; whether there are any.

    Where one cannot be read, all are left behind: the code begins anew. Raises `OSError`.
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
    """Put the checkpoints of an attempt that a kill cut short beside its draft, which is cleared before it runs again.

    Those of its cells too. Returns what to name as `Job.earlier`, None where there are none. Kept until
    `forget_rescued`.
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
    found = {
        f"{place}{CHECKPOINTS}": to for place, to in places.items() if _has_content(draft, f"{place}{CHECKPOINTS}")
    }
    if found:
        remove_tree(safe)
    for place, to in found.items():
        with suppress(BadFile):  # of several of one cell the first: what cannot be moved begins anew
            move_path(draft, place, safe, to)
    return safe if safe.is_dir() else None


def _list_checkpoint_folders(draft: Path, place: str) -> list[str]:
    """The folders that lie there; none where code put something else in its place."""
    with suppress(BadFile):
        return list_folders(draft, place)
    return []


def _has_content(draft: Path, place: str) -> bool:
    """Whether a folder with something in it lies there."""
    with suppress(BadFile):
        return next(iterate_entries(draft, place), None) is not None
    return False


def remove_rescued(draft: Path) -> None:
    """Remove what `rescue_checkpoints` kept for this draft, once the attempt is recorded."""
    remove_tree(_rescue_folder(draft), ignore_errors=True)


def _rescue_folder(draft: Path) -> Path:
    return draft.with_name(f"{draft.name}.rescued")


# --- artifacts --------------------------------------------------------------------------------------------------------


def _copy_artifacts(source: Mapping[str, str], known: Mapping[str, AttemptArtifacts], folder: Path, limit: int) -> None:
    """Copy the artifacts whose node and name the source writes out to `folder/inputs/artifacts/<node>/`.

    What it names and nobody left is passed over: `lab.artifact` says so. Raises `BadFile` for one that changed since it
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
                raise BadFile(f"artifact {file!r} of {node} is not what was recorded")


def copy_arm_artifacts(source: Path, folder: Path, arm: str, *, limit: int) -> None:
    """Copy what a cell of an arm left, in its sealed folder, to where a cell that reads it finds it.

    Raises `ExecutorError`.
    """
    place = f"inputs/arms/{arm}"
    try:
        make_folder(folder, place)
        for name, status in iterate_entries(source, ARTIFACTS):
            if stat.S_ISREG(status.st_mode):
                copy_file(source, f"{ARTIFACTS}/{name}", folder, f"{place}/{name}", limit)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot give {folder.name} what arm {arm!r} left: {error}") from error
