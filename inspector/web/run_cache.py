"""Runs shown on a page. Each run is read once for all viewers; after that, only the new part of its log is read.

Logs are read on request, at most every `MIN_REFRESH_SECONDS`. If a run becomes unreadable or disappears, its last state
is kept with the reason in `trouble`. Only the most recently used runs are kept in memory.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from labwright.inspector.live_view import PROCESS_CHECK_SECONDS, RunFollower
from labwright.inspector.status import EventLine, RunStatus, build_event_line, build_status
from labwright.inspector.summary import Headline, build_headline
from labwright.inspector.tree import RunTree, build_tree
from labwright.record.event_log import LogStamp, is_run, pause_garbage_collection, read_log_stamp
from labwright.record.line_store import RecordError
from labwright.record.reducers.run_state import RunState

MIN_REFRESH_SECONDS = 0.02
"""Minimum seconds between reads of a log."""
MAX_RUNS_CACHED = 8
LAST_EVENTS_KEPT = 12
"""Number of events shown."""
K = TypeVar("K")
T = TypeVar("T")


class CachedRun:
    """One run. `version` grows whenever displayed data may have changed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.trouble = ""
        self.version = 0
        self._follower = RunFollower(folder)
        self.latest: deque[EventLine] = deque(maxlen=LAST_EVENTS_KEPT)
        self._looked = -1e9
        self.lock = threading.RLock()
        """Lock that is held while the state is updated, and by readers of more than one value."""
        self._tree: tuple[int, RunTree] | None = None
        self._frozen = 0
        """Number of events whose objects no garbage collection visits; they form no cycles."""

    @property
    def state(self) -> RunState:
        return self._follower.state

    @property
    def process(self) -> str | None:
        """The process that was working on the run at the last check."""
        return self._follower.process

    def refresh(self) -> int:
        """Apply new events and return the version."""
        with self.lock:
            now = time.monotonic()
            if now - self._looked >= MIN_REFRESH_SECONDS:
                self._looked = now
                self.version += self._read_new()
                before = self._follower.process
                self._follower.is_running()
                self.version += before != self._follower.process
            return self.version

    def read_status(self) -> RunStatus:
        here = Path.cwd()  # commands that the page shows work where it was started
        return build_status(
            str(self.folder.relative_to(here)) if here in self.folder.parents else self.name,
            self.state,
            tuple(self.latest),
            self.process,
            now=time.time(),
            folder=self.folder,
        )

    def build_tree(self) -> RunTree:
        """Return the tree, built once per version."""
        known = self._tree
        if known is None or known[0] != self.version:
            known = self._tree = self.version, build_tree(self.state)
        return known[1]

    def _read_new(self) -> bool:
        trouble, before = "", self._follower.seq
        try:
            with pause_garbage_collection():
                for seq, event, at in self._follower.read_new():
                    if seq == 1:  # the first event, also after the log was replaced
                        self.latest.clear()
                    if (entry := build_event_line(event, at, self.state)) is not None:
                        self.latest.append(entry)
                    before = -1
                if self._follower.seq > 1.25 * self._frozen:  # a full collection over 20,000 cells takes half a second
                    gc.freeze()
                    self._frozen = self._follower.seq
        except RecordError as error:
            trouble = str(error) if self.folder.is_dir() else "the folder of this run is missing"
        changed = before != self._follower.seq or trouble != self.trouble
        self.trouble = trouble
        return changed


class RunListEntry:
    """A run in the list, with status, best value and optionally headline, as last read."""

    def __init__(self, run: CachedRun, headline: Headline | None = None, *, status: RunStatus | None = None) -> None:
        self.name, self.trouble, self.status = run.name, run.trouble, status or run.read_status()
        tree = run.build_tree()
        self.metric = tree.metric
        values = {row.id: row.metric for row in tree.rows}
        good = {row.id for row in tree.rows if row.status == "good" and row.kind != "replicate"}
        found = {node: value for node, value in values.items() if value is not None and node in good}
        choose = max if tree.metric is not None and tree.metric.higher_is_better else min
        self.node = tree.best or choose(found, key=lambda node: found[node], default=None)
        """The best node so far."""
        self.best = values.get(self.node or "")
        self.nodes = len(values)
        self.headline = headline


class RunCollection:
    """The runs of a folder, or a single run."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.single = is_run(place)
        self._open: dict[str, CachedRun] = {}
        self._lines: dict[str, tuple[LogStamp | None, float, RunListEntry]] = {}
        self._lock = threading.Lock()

    def find_folders(self) -> dict[str, Path]:
        """Return the folders of runs by displayable name, newest first; file names need not be UTF-8."""
        try:
            found = [self.place] if self.single else [one for one in self.place.iterdir() if is_run(one)]
            return {
                os.fsencode(one.name).decode(errors="backslashreplace"): one
                for one in sorted(found, key=lambda run: (read_log_stamp(run) or (0, 0, 0))[2], reverse=True)
                if self.single or not one.name.startswith(".")
            }
        except OSError:
            return {}

    def _find_folder(self, name: str) -> Path:
        return self.place if self.single else self.find_folders().get(name, self.place / name)

    def find_run(self, name: str) -> CachedRun | None:
        """Return a run by name in its current state; None if it does not exist."""
        with self._lock:
            if name not in self._open and name not in self.find_folders():
                return None
            folder = self._find_folder(name)
            known = get_or_make(self._open, name, lambda: CachedRun(folder, name), max_entries=MAX_RUNS_CACHED)
        known.refresh()
        return known

    def find_entry(self, name: str) -> RunListEntry | None:
        """Return a list entry; it is read again if its log has grown or its process may have ended."""
        folder = self._find_folder(name)
        now, known = read_log_stamp(folder), self._lines.get(name)
        if (
            known is not None
            and known[0] == now
            and (known[2].status.condition != "running" or time.monotonic() - known[1] < PROCESS_CHECK_SECONDS)
        ):
            return known[2]
        run = self._open.get(name) or CachedRun(folder, name)
        with run.lock:
            run.refresh()
            if not now and not run.state.event_count:
                return None
            line = RunListEntry(run, build_headline(run.state))
        self._lines[name] = now, time.monotonic(), line
        return line


def get_or_make(known: dict[K, T], key: K, make: Callable[[], T], *, max_entries: int) -> T:
    """Return the value of a key, which is created if it is missing; only the `max_entries` most recently used
    values are kept.
    """
    known[key] = found = known.pop(key, None) or make()
    while len(known) > max_entries:
        known.pop(next(iter(known)), None)
    return found
