"""The events of a log that were added since one last looked, for whoever watches a run that another process writes.

Each look is one short read: WAL readers never hold up the writer, and no connection stays open between two looks. A log
that was put in the place of another is told by its file's identity, or by having become shorter.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from record import mirror
from record.events.event import EVENT, Event
from record.log import RecordError, read_events

Stamp = tuple[str, int, int, int]
"""Path, identity, size and time of change of a log's file."""
SETTLED = 10.0
"""Seconds after its last change during which a log is read at every look: SQLite shows a commit only once it is synced,
which is after the file has changed, and changes no file then."""


def stamps(run: Path) -> tuple[Stamp, ...]:
    """What changes whenever the log of a run folder does; empty where there is none."""
    found: list[Stamp] = []
    for name in ("run.db", "run.db-wal", mirror.NAME):
        try:
            at = (run / name).stat()
        except OSError:
            continue
        found.append((name, at.st_ino, at.st_size, at.st_mtime_ns))
    return tuple(found)


class Tail:
    """Reads one log from where it was left. `began_anew` says whether the last `read` started from the beginning."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.began_anew = True
        self._seen = 0
        self._stamps: tuple[Stamp, ...] = ()
        self._changed = 0.0

    def read(self) -> list[tuple[Event, float]]:
        """The events since the last call. Raises `RecordError`, also when the run is gone."""
        now = stamps(self.run)
        if now != self._stamps:
            self._changed = time.monotonic()
        elif now and time.monotonic() - self._changed > SETTLED:
            self.began_anew = False
            return []
        self.began_anew = not self._stamps or _identity(now) != _identity(self._stamps)
        found = self._new(0 if self.began_anew else self._seen)
        self._stamps = now
        return found

    def _new(self, seen: int) -> list[tuple[Event, float]]:
        path = self.run / "run.db"
        if (self.run / mirror.NAME).is_file() or not path.is_file():
            events = read_events(path)
            total, found = len(events), events[seen:]
        else:
            total, found = _rows_after(path, seen)
        if total < seen:
            self.began_anew = True
            return self._new(0)
        self._seen = total
        return found


def _identity(found: tuple[Stamp, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, inode) for name, inode, _, _ in found if name != "run.db-wal")


def _rows_after(path: Path, seen: int) -> tuple[int, list[tuple[Event, float]]]:
    """How many events there are, and those after the first `seen`. Raises `RecordError`."""
    try:
        with closing(sqlite3.connect(f"file:{path.resolve()}?mode=ro", uri=True, timeout=2.0)) as db:
            db.execute("BEGIN")
            total = int(db.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])
            rows = db.execute("SELECT at, body FROM events WHERE seq > ? ORDER BY seq", (seen,))
            return total, [(EVENT.validate_json(body), at) for at, body in rows]  # never all texts beside all events
    except sqlite3.Error as error:
        raise RecordError(f"cannot read the record {path}: {error}") from error
    except ValueError:
        raise RecordError(f"cannot read the record {path}: it has events that this version does not know") from None
