"""The runs that a page shows, each folded once for all who look, and only as far as its log has grown.

A log is read when a page asks, at most every `POLL` seconds. What cannot be read any more, or has vanished, stays as it
was last seen, with the reason in `trouble`. Only the `FOLDED` runs looked at last are kept in memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from labwright.inspector.follow import HOLDER, Follower
from labwright.inspector.headline import Headline, headline_of
from labwright.inspector.status import Happened, Status, happened, status_in
from labwright.inspector.timeline import Timeline
from labwright.inspector.tree import Cells, Tree, tree_of
from labwright.record.cells import all_cells
from labwright.record.fold.state import RunState
from labwright.record.reading import SETTLED, RecordError, Stamp, is_run, stamps

POLL = 0.02
"""Seconds between two looks at a log."""
FOLDED = 8
LAST = 12
"""Things that happened, as shown."""
K = TypeVar("K")
T = TypeVar("T")


class Watched:
    """One run. `version` grows whenever something that is shown may have changed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.trouble = ""
        self.version = 0
        self.timeline = Timeline()
        self._follower = Follower(folder)
        self._latest: deque[Happened] = deque(maxlen=LAST)
        self._looked = -1e9
        self.held = threading.RLock()
        """Held while the state is folded, and by whoever reads more than one thing of it."""
        self._tree: tuple[int, Tree] | None = None
        self._cells: tuple[int, Cells] | None = None

    @property
    def state(self) -> RunState:
        return self._follower.state

    @property
    def working(self) -> bool:
        """Whether a process works on the run, as last asked."""
        return self._follower.process is not None

    def look(self) -> int:
        """Fold what is new; returns the version."""
        with self.held:
            now = time.monotonic()
            if now - self._looked >= POLL:
                self._looked = now
                self.version += self._read()
                before = self._follower.process
                self._follower.goes_on()
                self.version += before != self._follower.process
            return self.version

    def status(self) -> Status:
        return status_in(
            self.name,
            self.state,
            tuple(self._latest),
            self._follower.process,
            now=time.time(),
            folder=self.folder,
            cells=self.cells(),
        )

    def cells(self) -> Cells:
        """What became of all cells, made once for each version."""
        known = self._cells
        if known is None or known[0] != self.version:
            known = self._cells = self.version, all_cells(self.state)
        return known[1]

    def tree(self) -> Tree:
        """The tree, made once for each version."""
        known = self._tree
        if known is None or known[0] != self.version:
            known = self._tree = self.version, tree_of(self.state, self.cells())
        return known[1]

    def _read(self) -> bool:
        trouble, before = "", self._follower.seq
        try:
            for seq, event, at in self._follower.new():
                if seq == 1:  # the first one, or that of a log that replaced another
                    self._latest.clear()
                    self.timeline = Timeline()
                self.timeline.add(event, self.state)
                if (entry := happened(event, at, self.state)) is not None:
                    self._latest.append(entry)
                before = -1
        except RecordError as error:
            trouble = str(error) if self.folder.is_dir() else "the folder of this run is gone"
        changed = before != self._follower.seq or trouble != self.trouble
        self.trouble = trouble
        return changed


class RunLine:
    """A run in the list: its status and its best value, as last read; of its headline where that is asked for."""

    def __init__(self, run: Watched, headline: Headline | None = None, *, status: Status | None = None) -> None:
        self.name, self.trouble, self.status = run.name, run.trouble, status or run.status()
        tree = run.tree()
        self.metric = tree.metric
        rows = [row for stage in tree.stages for row in stage.nodes]
        values = {row.id: row.metric for row in rows}
        settled = tree.winner or next((stage.best for stage in reversed(tree.stages) if stage.best), None)
        found = [
            row.metric for row in rows if row.metric is not None and row.status == "good" and row.kind != "replicate"
        ]
        choose = max if tree.metric is not None and tree.metric.higher_is_better else min
        self.best = values.get(settled) if settled else choose(found, default=None)
        self.nodes = len(values)
        self.headline = headline
        self.settled = self.status.condition != "running" and time.time() - _changed(run.folder) / 1e9 > SETTLED
        """Whether it stays as it is until its log changes."""


class Runs:
    """The runs of a folder, or the one run that the folder is."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.single = is_run(place)
        self._open: dict[str, Watched] = {}
        self._lines: dict[str, tuple[tuple[Stamp, ...], float, RunLine]] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Names of runs, the newest first."""
        return [*self._folders()]

    def _folders(self) -> dict[str, Path]:
        """Folders of runs by their names as they can be shown, the newest first: a name need not be UTF-8."""
        try:
            found = (
                [self.place]
                if self.single
                else [one for one in self.place.iterdir() if not one.name.startswith(".") and is_run(one)]
            )
            return {
                os.fsencode(one.name).decode(errors="backslashreplace"): one
                for one in sorted(found, key=_changed, reverse=True)
            }
        except OSError:
            return {}

    def _folder(self, name: str) -> Path:
        return self.place if self.single else self._folders().get(name, self.place / name)

    def run(self, name: str) -> Watched | None:
        """A run by its name, as of now; None where there is none."""
        with self._lock:
            if name not in self._open and name not in self.names():
                return None
            folder = self._folder(name)
            known = kept(self._open, name, lambda: Watched(folder, name), most=FOLDED)
        known.look()
        return known

    def line(self, name: str) -> RunLine | None:
        """A run in the list; read again when its log has grown, or after a while since its process may have ended."""
        folder = self._folder(name)
        now, known = stamps(folder), self._lines.get(name)
        if known is not None and known[0] == now and (known[2].settled or time.monotonic() - known[1] < HOLDER):
            return known[2]
        run = self._open.get(name) or Watched(folder, name)
        with run.held:
            run.look()
            if not now and not run.state.events:
                return None
            line = RunLine(run, headline_of(run.state))
        self._lines[name] = now, time.monotonic(), line
        return line


def _changed(run: Path) -> float:
    return max((one[3] for one in stamps(run)), default=0)


def kept(known: dict[K, T], key: K, make: Callable[[], T], *, most: int) -> T:
    """What was made for a key; `most` things are kept, those asked for last."""
    known[key] = found = known.pop(key, None) or make()
    while len(known) > most:
        known.pop(next(iter(known)), None)
    return found
