"""Mirror a run to MLflow or Weights & Biases: its scalars and status over time, and at the end its claims and paper.

One tracker run per run: nodes, values and curves are in the page, `scientist export` and `labwright.open_run`. The
extras `mlflow` and `wandb` install the packages. MLflow's telemetry and W&B's reports of machine, code and errors are
switched off.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, NamedTuple, Protocol

from labwright.inspector.live_view import RunFollower
from labwright.inspector.run_files import MAX_FILE_BYTES, read_bytes
from labwright.inspector.safe_text import shorten, to_plain
from labwright.inspector.status import find_condition
from labwright.inspector.tree import build_tree
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError, is_run
from labwright.record.reducers.run_state import RunState

TABLE_FILE, PAPER_FILE = "claims.csv", "paper.pdf"
SYNC_SECONDS = 5.0
"""Seconds between reads of the log."""
STOP_SECONDS = 60.0
"""Seconds that a tracker has for the remaining data after the run has ended."""


class Snapshot(NamedTuple):
    """The scalars and the texts of a run after `step` events. Times are seconds since the epoch."""

    run: str
    step: int
    started_at: float
    at: float
    ended: bool
    texts: dict[str, str]
    metrics: dict[str, float]


class Tracker(Protocol):
    """A tracker of one run, which it opens with its first snapshot. Every call raises `UsageError` if writing fails."""

    address: str
    """Where it writes."""

    def update(self, now: Snapshot) -> None: ...
    def close(self, now: Snapshot, files: Path) -> None:
        """End the tracker's run with the files of a folder."""
        ...


OpenTracker = Callable[[Path, Snapshot], Tracker]


def build_snapshot(run: str, state: RunState) -> Snapshot:
    started, plan, tree = state.started, state.search.data_plan, build_tree(state)
    best = next((row.metric for row in tree.rows if row.id == tree.winner), None)
    used = state.calls.total_usage
    return Snapshot(
        run=run,
        step=state.event_count,
        started_at=state.started_at,
        at=state.last_event_at,
        ended=state.process_end is not None,
        texts={
            "title": shorten(started.idea.title, 120) if started else run,
            "model": to_plain(started.model) if started else "",
            "seed": str(started.seed) if started else "",
            "metric": plan.primary_metric.name if plan is not None else "",
            "status": find_condition(state, None) if state.process_end is not None else state.phase,
        },
        metrics={"model_calls": used.calls, "usd": used.usd, "nodes": len(state.nodes)}
        | ({"best": best} if best is not None else {}),
    )


def close_tracker(tracker: Tracker, folder: Path, state: RunState) -> None:
    """End a tracker's run, with the table of claims and the paper, if there is one."""
    from labwright.inspector.frames import RunFrames  # pandas takes a second

    with tempfile.TemporaryDirectory() as place:
        claims: Any = RunFrames(state).claims
        claims.to_csv(Path(place, TABLE_FILE), index=False)
        printed = state.paper.current.released.pdf if state.paper.current else None
        paper = read_bytes(folder, printed, MAX_FILE_BYTES) if printed else None
        if paper is not None:
            Path(place, PAPER_FILE).write_bytes(paper)
        tracker.close(build_snapshot(folder.name, state), Path(place))


def send_run(folder: Path, state: RunState, open_tracker: OpenTracker) -> Tracker:
    """Write the present state of a run to a tracker. Raises `UsageError`."""
    tracker = open_tracker(folder, build_snapshot(folder.name, state))
    close_tracker(tracker, folder, state)
    return tracker


def choose_tracker(asked: str, *, force: bool = True, live: bool = True) -> OpenTracker:
    """Return a function that opens `wandb` or `mlflow`, with `:PLACE` for another place than the run's folder. Without
    `force`, a run that is already there is refused; W&B may be online only for a `live` run. Raises `UsageError` before
    anything is created.
    """
    name, _, place = asked.partition(":")
    if name not in ("wandb", "mlflow"):
        raise UsageError(f"--track {asked}: give wandb or mlflow, with :DIR (or for MLflow :URI) for another place")
    if find_spec(name) is None:
        raise UsageError(f"{name} is not installed: in the checkout, pip install '.[{name}]'")
    if name == "mlflow":
        server = place or os.environ.get("MLFLOW_TRACKING_URI")
        return lambda folder, now: MlflowTracker(now, server or str(folder / "mlflow"), force=force)
    online = "online" if os.environ.get("WANDB_API_KEY") else "offline"
    mode = os.environ.get("WANDB_MODE") or online if live else "offline"
    return lambda folder, now: WandbTracker(now, Path(place).resolve() if place else folder, force=force, mode=mode)


@contextmanager
def _translating_errors(name: str, place: str | Path, *faults: type[Exception]) -> Generator[None]:
    try:
        yield
    except (OSError, *faults) as error:
        raise UsageError(f"cannot write to {name} at {place}: {str(error).splitlines()[0][:300]}") from None


class MlflowTracker:
    """A run in MLflow's experiment `scientist`. A folder gets a separate database (`mlflow.db`, files in
    `artifacts/`); an address is used as MLflow's tracking URI. A run that is already there is continued."""

    def __init__(self, now: Snapshot, place: str, *, force: bool) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
        tracking, of = import_module("mlflow.tracking"), import_module("mlflow.exceptions")
        self._writing = lambda: _translating_errors("MLflow", place, of.MlflowException)
        self.address, artifacts = place, None  # the server chooses where files are stored
        if "://" not in place:
            own = Path(place).resolve()
            own.mkdir(parents=True, exist_ok=True)
            self.address, artifacts = f"sqlite:///{own / 'mlflow.db'}", (own / "artifacts").as_uri()
        with self._writing():
            self._client = tracking.MlflowClient(tracking_uri=self.address)
            found = self._client.get_experiment_by_name("scientist")
            made = found.experiment_id if found else self._client.create_experiment("scientist", artifacts)
            there = self._client.search_runs([made], f"tags.`scientist.run` = '{now.run}'", max_results=1)
            if there and not force:
                raise UsageError(f"{now.run} is already in this MLflow: use --force to continue it")
            if there:
                self._run: str = there[0].info.run_id
                self._client.update_run(self._run, status="RUNNING")
            else:
                begun, tags = round(now.started_at * 1000), {"scientist.run": now.run}
                self._run = self._client.create_run(made, begun, tags, now.texts["title"]).info.run_id

    def update(self, now: Snapshot) -> None:
        of: Any = import_module("mlflow.entities")
        metrics = [of.Metric(name, value, round(now.at * 1000), now.step) for name, value in now.metrics.items()]
        tags = [of.RunTag(f"scientist.{name}", text) for name, text in now.texts.items()]
        with self._writing():
            self._client.log_batch(self._run, metrics=metrics, tags=tags)

    def close(self, now: Snapshot, files: Path) -> None:
        self.update(now)
        with self._writing():
            self._client.log_artifacts(self._run, str(files))
            self._client.set_terminated(self._run, "FINISHED" if now.ended else "KILLED", round(now.at * 1000))


class WandbTracker:
    """A run in W&B's project `scientist`, written to a folder; offline, for a later `wandb sync`."""

    def __init__(self, now: Snapshot, folder: Path, *, force: bool, mode: str) -> None:
        """`mode` is W&B's: offline or online."""
        off = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_CONSOLE": "off"}
        os.environ.update(off | {"WANDB_MODE": mode, "WANDB_DISABLE_GIT": "true", "WANDB_DISABLE_CODE": "true"})
        self._wandb: Any = import_module("wandb")
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in now.run)[-120:]
        self.address = str(folder / "wandb")
        if not force and any(folder.glob(f"wandb/offline-run-*-{name}")):
            raise UsageError(f"{now.run} is already in {folder}: choose another folder, or use --force to add it again")
        self._writing = lambda: _translating_errors("W&B", folder, self._wandb.Error)
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            quiet = dict.fromkeys(("silent", "disable_git", "disable_code", "x_disable_stats"), True)
            unseen = {"x_disable_meta": True, "x_disable_machine_info": True, "save_code": False, "console": "off"}
            self._run = self._wandb.init(
                mode=mode,
                dir=str(folder),
                project="scientist",
                id=name,
                name=now.texts["title"],
                reinit="create_new",
                resume="allow",
                settings=self._wandb.Settings(mode=mode, **quiet, **unseen),
            )

    def update(self, now: Snapshot) -> None:
        with self._writing():
            self._run.config.update(now.texts, allow_val_change=True)
            self._run.log(now.metrics, step=now.step)

    def close(self, now: Snapshot, files: Path) -> None:
        self.update(now)
        with self._writing():
            for file in files.iterdir():
                Path(self._run.dir, file.name).write_bytes(file.read_bytes())
            self._run.finish(exit_code=0 if now.ended else 1)
            self._wandb.teardown()  # W&B's process writes the files; they are complete once it has ended


class TrackerSync(AbstractContextManager["TrackerSync"]):
    """Mirrors the run in a folder, which may not exist yet, until the context ends; `tell` receives messages of one
    line. A thread follows the log like any other view, so a slow or unavailable tracker never delays the run."""

    def __init__(
        self, folder: Path, open_tracker: OpenTracker, tell: Callable[[str], None], sync_seconds: float = SYNC_SECONDS
    ) -> None:
        self._folder, self._opened, self._tell, self._every = folder.resolve(), open_tracker, tell, sync_seconds
        self._over = Flag()
        self._sink: Tracker | None = None
        self._follower = RunFollower(self._folder)
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
                close_tracker(self._sink, self._folder, self._follower.state)
        except Exception as error:  # noqa: BLE001 - no tracker error may stop the run
            self._tell(f"mirroring to the tracker stopped: {str(error)[:300] or type(error).__name__}")

    def _sync(self) -> None:
        if not is_run(self._folder) or not [*self._follower.read_new()]:
            return
        state = self._follower.state
        if state.started is not None:
            now = build_snapshot(self._folder.name, state)
            self._sink = self._sink or self._opened(self._folder, now)
            self._sink.update(now)
