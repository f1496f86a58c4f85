"""A run's log as it is now, written anew: one file that opens as the log of a run, the same for the same events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from record.log import SCHEMA, RecordError, read_rows


def snapshot(run: Path, target: Path) -> float:
    """Write the events of a run into a new database; the time of the last one, in seconds since the epoch.

    A run on a network filesystem, whose log is `events.jsonl`, gives a database too. Raises `RecordError`.
    """
    rows = read_rows(run / "run.db")
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as db:
            db.execute("PRAGMA page_size=4096")
            db.execute(SCHEMA)
            db.execute("BEGIN")
            db.executemany("INSERT INTO events (at, type, body) VALUES (?, json_extract(?, '$.type'), ?)",
                           [(at, body, body) for at, body in rows])
            db.execute("COMMIT")
    except sqlite3.Error as error:
        raise RecordError(f"cannot write a copy of the record to {target}: {error}") from error
    return rows[-1][0] if rows else 0.0
