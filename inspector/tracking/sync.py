"""Mirror a run to a tracker while it is running: `scientist run --track wandb|mlflow[:DIR|URI]`.

A thread follows the log like any other view, so a slow or unavailable tracker never delays the run. Failures are
reported in one line; `scientist export` can write everything at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from labwright.inspector.logs import find_node
from labwright.inspector.tail import RunFollower
from labwright.inspector.tracking.tracked_runs import OpenTracker, Times, TrackedRun, Tracker, build_node, build_run
from labwright.record.errors import UsageError
from labwright.record.log_reader import RecordError, is_run

SYNC_SECONDS = 5.0
"""Seconds between reads of the log."""
STOP_SECONDS = 60.0
"""Seconds that a tracker has for the remaining data after the run has ended."""


def choose_tracker(asked: str) -> OpenTracker:
    """Return a function that opens the requested tracker. Raises `UsageError` before anything is created."""
    name, _, place = asked.partition(":")
    if name not in ("wandb", "mlflow"):
        raise UsageError(f"--track {asked}: give wandb or mlflow, with :DIR (or for MLflow :URI) for another place")
    if find_spec(name) is None:
        raise UsageError(f"--track {name}: not installed: pip install 'labwright[{name}]'")

    def opened(folder: Path, run: TrackedRun) -> Tracker:
        if name == "mlflow":
            from labwright.inspector.tracking.mlflow import MlflowTracker  # optional extra

            return MlflowTracker(
                folder, run, place or os.environ.get("MLFLOW_TRACKING_URI") or str(folder / "mlflow"), force=True
            )
        from labwright.inspector.tracking.wandb import WandbTracker

        mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        return WandbTracker(folder, run, Path(place).resolve() if place else folder, force=True, mode=mode)

    return opened


class TrackerSync(AbstractContextManager["TrackerSync"]):
    """Mirrors the run in a folder, which may not exist yet, until the context ends; `tell` receives messages of one
    line."""

    def __init__(
        self,
        folder: Path,
        open_tracker: OpenTracker,
        tell: Callable[[str], None],
        *,
        sync_seconds: float = SYNC_SECONDS,
    ) -> None:
        self._folder, self._opened, self._tell, self._every = folder.resolve(), open_tracker, tell, sync_seconds
        self._over = Flag()
        self._sink: Tracker | None = None
        self._follower, self._times = RunFollower(self._folder), Times()
        self._written = set[str]()
        self._thread = Thread(target=self._run, daemon=True, name="mirror")

    def __enter__(self) -> TrackerSync:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            self._tell("the tracker did not finish in time: write the rest with scientist export")

    def _run(self) -> None:
        try:
            while not self._over.wait(self._every):
                with suppress(RecordError):  # the log may not exist yet
                    self._sync()
            self._sync()
            if self._sink is not None:
                self._sink.close(build_run(self._folder, self._follower.state))
        except Exception as error:  # noqa: BLE001 - no tracker error may stop the run
            self._tell(f"mirroring to the tracker stopped: {str(error)[:300] or type(error).__name__}")

    def _sync(self) -> None:
        if not is_run(self._folder):
            return
        before, state = self._follower.seq, self._follower.state
        for _, event, at in self._follower.read_new():
            state = self._follower.state
            self._times.setdefault(find_node(event, state) or "", []).append(at)
        if self._follower.seq == before or state.started is None:
            return
        run = build_run(self._folder, state)
        self._sink = self._sink or self._opened(self._folder, run)
        for node in [node for node in state.nodes.values() if node.is_finished and node.id not in self._written]:
            self._sink.write_node(build_node(self._folder, state, node, self._times))
            self._written.add(node.id)
        self._sink.update_run(run, self._follower.seq)
