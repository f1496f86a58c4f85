"""Prepare the folder of a cell before its code runs: source, inputs, and files of earlier attempts and other nodes.

An earlier attempt of the same node provides checkpoints, other nodes provide artifacts. Everything is copied as bytes,
never linked, since the code on both sides is untrusted. Artifacts must match their recorded hashes.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from labwright.record.python_syntax import collect_strings
from labwright.record.run_folder import hash_texts
from labwright.record.schema.data_plan import ResourceNeeds
from labwright.record.schema.nodes import Cell
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
from labwright.sandbox.cell_scheduler import CellOrder
from labwright.sandbox.job import ARTIFACTS, CHECKPOINTS, ArtifactFile, CellTask, ExecutorError, Job
from labwright.sandbox.settings import SandboxSettings

CELLS_FOLDER, KERNELS_FOLDER = "cells", "kernels"
"""Subfolders of a job's folder: for its cells, and for kernels to work in."""
MAX_COPIED_BYTES = 8 * 2**20
"""Views up to this size are copied to each cell, which is faster than starting another kernel."""


@dataclass(frozen=True)
class KernelScript:
    """A script to run in a kernel, with its folder prepared."""

    job: Job
    cell: Cell
    folder: Path
    """Folder of the cell, which is moved into that of the kernel while the code runs."""
    limit: float
    """Wall clock seconds."""
    views: dict[str, str]
    """Dataset name -> file with its view, relative to the script's folder if it is inside."""
    artifacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Node -> names of its artifacts; those that occur in the source are in inputs/artifacts/."""
    scorers: tuple[str, ...] = ()
    """Datasets whose frozen scorer takes artifacts."""
    pretrained: dict[str, str] = field(default_factory=dict[str, str])
    """`OWNER/NAME@REVISION` -> folder."""
    packages: Path | None = None
    """Folder of the packages installed for the run."""
    resumed: bool = False
    """Whether an earlier attempt left checkpoints."""
    readable: tuple[Path, ...] = ()
    """Dataset folders that the code reads directly."""
    mounted: tuple[str, ...] = ()
    """Datasets that its kernel mounts; the view of another one is copied to the cell."""
    gpus: int | None = None
    """Number of GPUs of its kernel; None: `sandbox.gpus_per_node`."""
    task: CellTask = field(default_factory=CellTask)
    alone: bool = False
    """Whether it may use the whole machine."""
    tree: str = ""
    """sha256 of the source files that the script sees."""
    arms: dict[str, str] = field(default_factory=dict[str, str])
    """Arm whose artifacts the cell reads -> name of the cell that wrote them, in inputs/arms/."""

    @property
    def needs(self) -> ResourceNeeds:
        """Memory and GPUs of its kernel."""
        return self.task.needs.model_copy(update={"hours": None, "gpus": self.gpus})

    @property
    def readable_paths(self) -> tuple[Path, ...]:
        """All paths, other than its folder, that its kernel must be able to read."""
        outside = filter(os.path.isabs, (*self.views.values(), *self.pretrained.values()))
        return (*self.readable, *map(Path, outside))


def prepare_workspace(
    job: Job, order: CellOrder, folder: Path, *, views: Path, settings: SandboxSettings
) -> KernelScript:
    """Fill the empty or new folder of a cell and return the script to run. Raises `ExecutorError`."""
    cell = order.cell
    try:
        folder.mkdir(parents=True, exist_ok=True)
        make_folder(folder, "figures")
        for name, text in order.source.items():
            write_file(folder, name, text)
        for place, sources in job.inputs.items():
            _copy_inputs(sources, folder, place)
        earlier = order.checkpoints
        resumed = earlier is not None and copy_checkpoints(earlier, folder, settings.checkpoint_bytes)
        _copy_artifacts(order.source, job.artifacts, folder, settings.artifact_bytes)
        if order.read_cell is not None and order.read_folder is not None:
            copy_arm_artifacts(order.read_folder, folder, order.read_cell.arm, settings.artifact_bytes)
    except (OSError, BadFile) as error:
        raise ExecutorError(f"cannot prepare {folder} for {job.name!r}: {error}") from error
    if job.entry not in order.source:
        raise ExecutorError(f"job {job.name!r} has no file {job.entry!r}")
    datasets = job.datasets if cell.is_script else (cell.dataset,)
    for name in datasets:
        if not (views / f"{name}.npz").is_file():
            raise ExecutorError(f"job {job.name!r} needs dataset {name!r}, which is missing in {views}")
    return KernelScript(
        job,
        cell,
        folder,
        order.limit,
        task=order.task,
        alone=order.alone,
        resumed=resumed,
        views={name: str((views / f"{name}.npz").absolute()) for name in datasets},
        readable=list_dataset_folders(datasets, views),
        mounted=job.datasets if cell.is_script else list_mounted_datasets(cell.dataset, views),
        gpus=0 if job.kind == "plot" else order.task.needs.gpus,
        artifacts={node: sorted({file.partition("/")[0] for file in files}) for node, files in job.artifacts.items()},
        tree=hash_texts({name: text for name, text in order.source.items() if name != PLOTS_FILE}),
        arms={} if order.read_cell is None else {order.read_cell.arm: order.read_cell.place_name},
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
    """Return the size of a view's arrays and its folder, if any. Raises `OSError`."""
    with np.load(view, allow_pickle=False) as file:
        about: dict[str, str] = json.loads(str(file["about"])) if "about" in file.files else {}
        return sum(member.file_size for member in file.zip.infolist()), about.get("path", "")


def _copy_inputs(sources: Sequence[Path], folder: Path, place: str) -> None:
    """Copy the plain files of folders (or single files) to a place in the folder; links are refused, not followed."""
    if not all(FILE_NAME_PATTERN.fullmatch(part) for part in place.split("/")):
        raise BadFile(f"input {place!r}: use only letters, digits and _ . -")
    if not any(source.is_file() for source in sources):
        make_folder(folder, place)
    for source in sources:
        if source.is_file():
            copy_file(source.parent, source.name, folder, place, MAX_FILE_BYTES)
            continue
        for file in os.listdir(source):
            if not file.startswith("."):
                copy_file(source, file, folder, f"{place}/{file}", MAX_FILE_BYTES)


# --- checkpoints ------------------------------------------------------------------------------------------------------


def copy_checkpoints(earlier: Path, folder: Path, limit: int) -> bool:
    """Copy the checkpoints of an earlier attempt; return whether any exist.

    If one cannot be read, or all have more than `limit` bytes, none is used and the code starts from scratch. Raises
    `OSError`.
    """
    try:
        names = list_names(earlier, CHECKPOINTS, "")
        for name in names:
            copy_file(earlier, f"{CHECKPOINTS}/{name}", folder, f"{CHECKPOINTS}/{name}", limit)
            limit -= (folder / CHECKPOINTS / name).stat().st_size
    except BadFile:
        remove_path(folder, CHECKPOINTS)
        return False
    return bool(names)


def rescue_checkpoints(draft: Path) -> Path | None:
    """Save the checkpoints of an interrupted attempt and its cells next to its draft, which is cleared before it runs
    again.

    Return the folder that has them in `cells/<cell.name>/`, or None if there are none. Kept until `remove_rescued`.
    """
    safe, found = _rescue_folder(draft), dict[str, str]()
    with suppress(BadFile):
        make_harmless(draft)
    kernels = [f"{KERNELS_FOLDER}/{name}" for name in _list_checkpoint_folders(draft, KERNELS_FOLDER)]
    for cells in (CELLS_FOLDER, *(place for kernel in kernels for place in (f"{kernel}/{CELLS_FOLDER}", kernel))):
        for name in _list_checkpoint_folders(draft, cells):
            place = f"{cells}/{name}/{CHECKPOINTS}"
            with suppress(BadFile):
                if next(iterate_entries(draft, place), None) is not None:
                    found[place] = f"{CELLS_FOLDER}/{name}/{CHECKPOINTS}"
    if found:
        remove_tree(safe)
    for place, target in found.items():
        with suppress(BadFile):  # only the first of several folders of a cell; files that cannot be moved are dropped
            move_path(draft, place, safe, target)
    return safe if safe.is_dir() else None


def _list_checkpoint_folders(draft: Path, place: str) -> list[str]:
    """List the folders in `place`; empty if code put another kind of file there."""
    with suppress(BadFile):
        return list_folders(draft, place)
    return []


def remove_rescued(draft: Path) -> None:
    """Remove the checkpoints that `rescue_checkpoints` saved for this draft, once the attempt is recorded."""
    remove_tree(_rescue_folder(draft), ignore_errors=True)


def _rescue_folder(draft: Path) -> Path:
    return draft.with_name(f"{draft.name}.rescued")


# --- artifacts --------------------------------------------------------------------------------------------------------


def _copy_artifacts(
    source: Mapping[str, str], known: Mapping[str, Mapping[str, ArtifactFile]], folder: Path, limit: int
) -> None:
    """Copy the artifacts whose node and name occur in the source to `folder/inputs/artifacts/<node>/`.

    Missing artifacts are ignored; `lab.artifact` reports them. Raises `BadFile` for an artifact that changed since it
    was recorded, `OSError`.
    """
    words = {word for text in source.values() for word in collect_strings(text)}
    for node in words & known.keys():
        for file, recorded in known[node].items():
            name, target = file.partition("/")[0], f"inputs/{ARTIFACTS}/{node}/{file}"
            if words.isdisjoint((name, name.removesuffix(".npy"))):
                continue
            if copy_file(recorded.folder, f"{ARTIFACTS}/{file}", folder, target, limit) != recorded.sha256:
                raise BadFile(f"artifact {file!r} of {node} was changed after it was recorded")


def copy_arm_artifacts(source: Path, folder: Path, arm: str, limit: int) -> None:
    """Copy the artifacts of an arm's cell from its sealed folder to a place where another cell can read them."""
    place = f"inputs/arms/{arm}"
    make_folder(folder, place)
    finished = set(list_names(source, ARTIFACTS, ""))  # others are in no record and count towards no limit
    for name, status in iterate_entries(source, ARTIFACTS):
        if stat.S_ISREG(status.st_mode) and name.partition("/")[0] in finished:
            copy_file(source, f"{ARTIFACTS}/{name}", folder, f"{place}/{name}", limit)
