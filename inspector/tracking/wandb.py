"""Export a run to Weights & Biases: one run per node. Offline runs are written to a folder for a later `wandb sync`.

The extra `wandb` installs the package. Settings and environment variables keep it offline unless mirroring was
requested and an account is configured, and disable reports of machine, code and errors.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from labwright.inspector.tracking.tracked_runs import TrackedRun, copy_files
from labwright.record.errors import UsageError

OFFLINE_ENVIRONMENT = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_CONSOLE": "off",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
}


class WandbTracker:
    """Writes a run to W&B node by node. Every call raises `UsageError` if writing fails."""

    def __init__(
        self, run_folder: Path, run: TrackedRun, folder: Path, *, force: bool = False, mode: str = "offline"
    ) -> None:
        """`force` adds the run even if the folder already has it; `mode` is W&B's: offline or online."""
        os.environ.update(OFFLINE_ENVIRONMENT | {"WANDB_MODE": mode})
        try:
            self._wandb: Any = import_module("wandb")
        except ImportError:
            raise UsageError("Weights & Biases is not installed: pip install 'labwright[wandb]'") from None
        self._run_folder, self._whole, self._folder, self._mode = run_folder, run.id, folder, mode
        self.address = str(folder / "wandb")
        if not force and any(folder.glob(f"wandb/offline-run-*-{self._make_id(run)}")):
            raise UsageError(f"{run.id} is already in {folder}: choose another folder, or use --force to add it again")
        with self._translating_errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._open = self._begin_run(run)

    def write_node(self, one: TrackedRun) -> None:
        with self._translating_errors():
            run = self._begin_run(one)
            steps: dict[int, dict[str, float]] = {}
            for name, step, value in one.curves:
                steps.setdefault(step, {})[name] = value
            for step in sorted(steps):
                run.log(steps[step], step=step)
            run.summary.update(one.metrics)
            self._end_run(run, one)

    def update_run(self, run: TrackedRun, step: int) -> None:
        with self._translating_errors():
            self._open.config.update(run.params, allow_val_change=True)
            self._open.log(run.metrics, step=step)

    def close(self, run: TrackedRun) -> None:
        with self._translating_errors():
            self._end_run(self._open, run)
            self._wandb.teardown()  # W&B's process writes the files; they are complete once it has ended

    @contextmanager
    def _translating_errors(self) -> Generator[None]:
        try:
            yield
        except (OSError, self._wandb.Error) as error:
            raise UsageError(f"cannot write to W&B in {self._folder}: {str(error).splitlines()[0][:300]}") from None

    def _make_id(self, one: TrackedRun) -> str:
        """Return W&B's id of a run. It is the same for the same node, so a second sync adds nothing new."""
        name = one.id if one.id == self._whole else f"{self._whole}-{one.id}"
        return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[-120:]

    def _begin_run(self, one: TrackedRun) -> Any:
        return self._wandb.init(
            mode=self._mode,
            dir=str(self._folder),
            project="scientist",
            group=self._whole,
            id=self._make_id(one),
            name=one.name,
            job_type=one.tags.get("scientist.kind"),
            reinit="create_new",
            resume="allow",
            config={**one.params, **one.tags},
            settings=self._wandb.Settings(
                mode=self._mode,
                console="off",
                silent=True,
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
            ),
        )

    def _end_run(self, run: Any, one: TrackedRun) -> None:
        copy_files(self._run_folder, one, Path(run.dir))
        run.finish(exit_code=0 if one.done else 1)
