"""The folder of a job, made ready before its code runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from sandbox.execution import Script
from sandbox.handed_on import ARTIFACTS, CHECKPOINTS, give_artifacts, give_checkpoints
from sandbox.job import ExecutorError, Job
from sandbox.settings import SandboxSettings
from sandbox.untrusted import NAME, Unfit, open_regular, remove, write_whole

_OURS = ("measurements.jsonl", "submissions.jsonl", "submissions", "sealed", "arrays", CHECKPOINTS, ARTIFACTS)


def prepare(job: Job, views: Path, settings: SandboxSettings) -> Script:
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
            _copy(source, folder, name, settings.file_bytes)
        resumed = _resumed(job, folder, settings.checkpoint_bytes)
        give_artifacts(job.source, job.artifacts, folder, settings.artifact_bytes)
    except (OSError, Unfit) as error:
        raise ExecutorError(f"cannot prepare {folder} for {job.name!r}: {error}") from error
    if job.entry not in job.source and not (folder / job.entry).is_file():
        raise ExecutorError(f"job {job.name!r} has no file {job.entry!r}")
    return Script(folder, job.entry, seed=job.seed, mode=job.mode, views=_views(job, views), resumed=resumed,
                  readable=folders_of(job.datasets, views),
                  artifacts={node: left.names for node, left in job.artifacts.items()})


def _resumed(job: Job, folder: Path, limit: int) -> bool:
    """Whether checkpoints of an earlier attempt are there. What cannot be read is left behind: the code begins anew."""
    try:
        return job.earlier is not None and give_checkpoints(job.earlier, folder, limit)
    except Unfit:
        remove(folder, CHECKPOINTS)
        return False


def _views(job: Job, views: Path) -> dict[str, str]:
    found = {name: (views / f"{name}.npz").absolute() for name in job.datasets}
    for name, path in found.items():
        if not path.is_file():
            raise ExecutorError(f"job {job.name!r} needs dataset {name!r}, which is not in {views}: materialise it")
    return {name: str(path) for name, path in found.items()}


def folders_of(names: Iterable[str], views: Path) -> tuple[Path, ...]:
    """The folders that views of these names point to, where a dataset is one."""
    import numpy as np

    found: list[Path] = []
    for name in names:
        with np.load(views / f"{name}.npz", allow_pickle=False) as view:
            about: dict[str, str] = json.loads(str(view["about"])) if "about" in view.files else {}
        if about.get("path"):
            found.append(Path(about["path"]))
    return tuple(found)


def _copy(source: Path, folder: Path, name: str, limit: int) -> None:
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
        with open_regular(source, one, limit) as file, open(target / one, "wb") as copy:
            shutil.copyfileobj(file, copy)
