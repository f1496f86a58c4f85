"""A run mirrored into a tracker while it goes on: `scientist run --track wandb|mlflow[:DIR|URI]`.

A thread follows the log as any other view does, so that a tracker that is slow or away never holds up the run: what it
cannot be told is said in one line, and the record stays the truth (`scientist export` writes all of it at any time).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event as Flag
from threading import Thread

from labwright.inspector.follow import Follower
from labwright.inspector.logs import node_of
from labwright.inspector.tracking.logged import Logged, Sink, Times, node_logged, run_logged
from labwright.record.errors import WrongUse
from labwright.record.reading import RecordError, is_run

EVERY = 5.0
"""Seconds between two looks at the log."""
PATIENCE = 60.0
"""Seconds that a tracker gets for what is left when the run has ended."""
Open = Callable[[Path, Logged], Sink]


def tracker(asked: str) -> Open:
    """What opens the tracker that was asked for. Raises `WrongUse`, before anything is created."""
    name, _, place = asked.partition(":")
    if name not in ("wandb", "mlflow"):
        raise WrongUse(f"--track {asked}: give wandb or mlflow, with :DIR (or for MLflow :URI) for another place")
    if find_spec(name) is None:
        raise WrongUse(f"--track {name}: it is not installed: pip install 'labwright[{name}]'")

    def opened(folder: Path, run: Logged) -> Sink:
        if name == "mlflow":
            from labwright.inspector.tracking.mlflow import (
                MlflowStore,  # each tracker is an extra that need not be installed
            )

            return MlflowStore(
                folder, run, place or os.environ.get("MLFLOW_TRACKING_URI") or str(folder / "mlflow"), force=True
            )
        from labwright.inspector.tracking.wandb import WandbStore

        mode = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        return WandbStore(folder, run, Path(place).resolve() if place else folder, force=True, mode=mode)

    return opened


class Mirror(AbstractContextManager["Mirror"]):
    """Mirrors the run of a folder, which may not be there yet, until the context ends; `tell` gets one line."""

    def __init__(self, folder: Path, opened: Open, tell: Callable[[str], None], *, every: float = EVERY) -> None:
        self._folder, self._opened, self._tell, self._every = folder.resolve(), opened, tell, every
        self._over = Flag()
        self._sink: Sink | None = None
        self._follower, self._times = Follower(self._folder), Times()
        self._written = set[str]()
        self._thread = Thread(target=self._work, daemon=True, name="mirror")

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._tell("the tracker did not take all in time: write the rest with scientist export")

    def _work(self) -> None:
        try:
            while not self._over.wait(self._every):
                with suppress(RecordError):  # of a log that is being made
                    self._look()
            self._look()
            if self._sink is not None:
                self._sink.close(run_logged(self._folder, self._follower.state))
        except Exception as error:  # noqa: BLE001 - this thread's edge: whatever a tracker does, the run goes on
            self._tell(f"the tracker is told nothing more of this run: {str(error)[:300] or type(error).__name__}")

    def _look(self) -> None:
        if not is_run(self._folder):
            return
        before, state = self._follower.seq, self._follower.state
        for _, event, at in self._follower.new():
            state = self._follower.state
            self._times.setdefault(node_of(event, state) or "", []).append(at)
        if self._follower.seq == before or state.started is None:
            return
        run = run_logged(self._folder, state)
        self._sink = self._sink or self._opened(self._folder, run)
        for node in [node for node in state.nodes.values() if node.finished and node.id not in self._written]:
            self._sink.node(node_logged(self._folder, state, node, self._times))
            self._written.add(node.id)
        self._sink.update(run, self._follower.seq)
