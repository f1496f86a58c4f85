"""Data of a run that is exported to trackers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import NamedTuple, Protocol

from labwright.inspector.live_view import RunFollower
from labwright.inspector.logs import find_node
from labwright.inspector.run_files import MAX_FILE_BYTES, list_files, read_bytes, read_curve_lines, read_curve_points
from labwright.inspector.safe_text import shorten, to_plain
from labwright.inspector.tree import build_tree
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run, read_events
from labwright.record.line_store import EVENTS_FILE
from labwright.record.reducers.event_fold import apply_event
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import Node

MAX_POINTS = 50_000
"""Maximum points of a node's curves that are exported."""


class TrackedRun(NamedTuple):
    """A node or the whole run, in the form of a tracker's run. Times are seconds since the epoch; `files` are paths
    in the run.
    """

    id: str
    name: str
    done: bool
    started_at: float
    ended_at: float
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]
    curves: tuple[tuple[str, int, float], ...]
    """Name, step and value of every value that the last attempt logged with a step."""
    files: tuple[str, ...]


class TrackedRecord(NamedTuple):
    """All exported data of a run."""

    run_folder: Path
    run: TrackedRun
    nodes: tuple[TrackedRun, ...]


class Tracker(Protocol):
    """A tracker that receives each node when it is finished, and updates of the whole run."""

    address: str
    """Where it writes."""

    def write_node(self, one: TrackedRun) -> None: ...
    def update_run(self, run: TrackedRun, step: int) -> None:
        """Write the metrics of the whole run after this number of events."""
        ...

    def close(self, run: TrackedRun) -> None: ...


OpenTracker = Callable[[Path, TrackedRun], Tracker]
Times = dict[str, list[float]]
"""Node -> times of its events; the empty name collects events without a node."""


def read_tracked_record(folder: Path) -> TrackedRecord:
    """Read the run of a folder. Raises `RecordError`."""
    state, times = RunState(), Times()
    for event, at in read_events(folder / EVENTS_FILE):
        apply_event(state, event, at)
        times.setdefault(find_node(event, state) or "", []).append(at)
    return TrackedRecord(
        folder, build_run(folder, state), tuple(build_node(folder, state, node, times) for node in state.nodes.values())
    )


def export_record(folder: Path, open_tracker: OpenTracker) -> Tracker:
    """Write the run of a folder to a tracker. Raises `RecordError`, `UsageError`."""
    record = read_tracked_record(folder)
    tracker = open_tracker(folder, record.run)
    for node in record.nodes:
        tracker.write_node(node)
    tracker.update_run(record.run, 0)
    tracker.close(record.run)
    return tracker


def build_run(folder: Path, state: RunState) -> TrackedRun:
    """Build the tracker run of the whole run in its current state."""
    started, plan, tree = state.started, state.search.data_plan, build_tree(state)
    best = next((row.metric for stage in tree.stages for row in stage.nodes if row.id == tree.winner), None)
    params = {"model": to_plain(started.model), "seed": str(started.seed)} if started else {}
    if plan is not None:
        params |= {
            "primary_metric": plan.primary_metric.name,
            "higher_is_better": str(plan.primary_metric.higher_is_better),
            "datasets": ", ".join(dataset.name for dataset in plan.datasets),
        }
    paper = state.paper.current.released.pdf if state.paper.current else None
    return TrackedRun(
        id=folder.name,
        name=shorten(started.idea.title, 120) if started else folder.name,
        done=state.process_end is not None,
        started_at=state.started_at,
        ended_at=state.last_event_at,
        params=params,
        curves=(),
        tags={"scientist.run": folder.name, "scientist.kind": "run", "scientist.winner": tree.winner or ""},
        metrics={
            "model_calls": state.calls.total_usage.calls,
            "usd": state.calls.total_usage.usd,
            "nodes": len(state.nodes),
        }
        | ({"best": best} if best is not None else {}),
        files=tuple(file for file in (paper, "idea.json", "data_plan.json", "config.yaml") if file),
    )


def copy_files(run: Path, logged: TrackedRun, place: Path) -> None:
    """Copy the files to a folder without following links; files that cannot be opened are left out."""
    for path in logged.files:
        content = read_bytes(run, path, MAX_FILE_BYTES)
        if content is not None:
            copy = place / path.removeprefix(f"nodes/{logged.id}/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)


def build_node(folder: Path, state: RunState, node: Node, times: Times) -> TrackedRun:
    """Build the tracker run of a node in its current state."""
    own = times.get(node.id, [state.last_event_at])
    tags = {
        "scientist.run": folder.name,
        "scientist.node": node.id,
        "scientist.kind": node.kind,
        "scientist.stage": node.stage,
        "scientist.status": node.status,
        "scientist.parent": node.parent or "",
        "scientist.suspect": shorten("; ".join(node.suspect), 400),
        "scientist.failure": shorten(f"{node.failure.kind}: {node.failure.message}", 400) if node.failure else "",
    }
    params = {
        "seed": str(node.seed),
        "varies": shorten(node.varies, 400),
        **{_to_key(name): shorten(str(value), 400) for name, value in node.setups.items()},
    }
    metrics = {
        _to_key(one.split, one.dataset, one.condition, one.name): one.value
        for one in (*node.measurements, *state.search.test_measurements.get(node.id, ()))
    }
    log = read_curve_lines(folder, state, node, None, MAX_FILE_BYTES)
    files = [file.path for file in list_files(folder, f"nodes/{node.id}/source")]
    if node.plottings:
        drawn = list_files(folder, f"nodes/{node.id}/plots{node.plot_count}/figures")
        files += [file.path for file in drawn if file.path.endswith(".png")]
    return TrackedRun(
        id=node.id,
        name=f"{node.id} {node.kind}: {shorten(node.varies or node.title, 80)}",
        done=node.is_finished,
        started_at=own[0],
        ended_at=own[-1],
        tags={name: text for name, text in tags.items() if text},
        params=params,
        metrics=metrics | {"seconds": sum(attempt.seconds for attempt in node.attempts)},
        curves=tuple(
            (f"curve/{_to_key(one.split, one.dataset, one.condition, one.name)}", one.step, one.value)
            for one in islice(read_curve_points(log), MAX_POINTS)
        ),
        files=tuple(files),
    )


def _to_key(*parts: str | None) -> str:
    """Build a name from characters that every tracker accepts."""
    return "/".join(re.sub(r"[^A-Za-z0-9_. -]", "_", part or "all")[:60] for part in parts)[:240]


# Mirror a run to a tracker while it is running: `scientist run --track wandb|mlflow[:DIR|URI]`. A thread follows the
# log like any other view, so a slow or unavailable tracker never delays the run. Failures are reported in one line;
# `scientist export` can write everything at any time.

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
