"""A run in Weights & Biases, offline: a folder for each node, which `wandb sync` may send later, if you want that.

The extra `wandb` brings the package. It is told to stay offline by its settings and by the environment, and to report
neither machine, code nor errors.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from inspector.tracking.logged import Logged, Record, copy_files
from record.errors import WrongUse

QUIET = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_CONSOLE": "off",
         "WANDB_DISABLE_GIT": "true", "WANDB_DISABLE_CODE": "true"}


def to_wandb(record: Record, place: Path, *, force: bool = False) -> str:
    """Write a run below a folder; returns where. Raises `WrongUse`."""
    os.environ.update(QUIET)
    try:
        wandb: Any = import_module("wandb")
    except ImportError:
        raise WrongUse("Weights & Biases is not installed: pip install 'scientist[wandb]'") from None
    folder = place.resolve()
    if not force and any(folder.glob(f"wandb/offline-run-*-{_id(record, record.run)}")):
        raise WrongUse(f"{record.run.id} is in {place} already: choose another folder, or --force adds it again")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in (record.run, *record.nodes):
            _one(wandb, record, one, folder)
        wandb.teardown()  # its own process writes the files: they are whole when it has ended
    except (OSError, wandb.Error) as error:
        raise WrongUse(f"W&B in {place} cannot be written: {str(error).splitlines()[0][:300]}") from None
    return str(folder / "wandb")


def _id(record: Record, one: Logged) -> str:
    """W&B's id of a run: the same for the same node, so that a second sync adds nothing new."""
    name = record.run.id if one is record.run else f"{record.run.id}-{one.id}"
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[-120:]


def _one(wandb: Any, record: Record, logged: Logged, folder: Path) -> None:
    run = wandb.init(
        mode="offline", dir=str(folder), project="scientist", group=record.run.id, id=_id(record, logged),
        name=logged.name, job_type=logged.tags.get("scientist.kind"), reinit="create_new",
        config={**logged.params, **logged.tags},
        settings=wandb.Settings(
            mode="offline", console="off", silent=True, disable_git=True, disable_code=True, save_code=False,
            x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True))
    steps: dict[int, dict[str, float]] = {}
    for name, step, value in logged.curves:
        steps.setdefault(step, {})[name] = value
    for step in sorted(steps):
        run.log(steps[step], step=step)
    run.summary.update(logged.metrics)
    copy_files(record, logged, Path(run.dir))
    run.finish(exit_code=0 if logged.done else 1)
