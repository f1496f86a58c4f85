"""Convert recorded runs from format 4, whose log is a database, to format 5, whose log is a file of lines.

    .venv/bin/python examples/convert_records.py RUN.zip...

The events are unchanged, except for the format, which is now in the first line of the log, and fields without a use.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from labwright.record.line_store import EVENTS_FILE, LogRow, write_rows
from labwright.record.zips import open_run_folder

UNUSED = (("sign", {"kind", "why", "suspect"}), ("flagged", {"against", "provenance", "ran"}))
"""(unused field, fields of the objects that had it)."""


def convert_event(at: float, body: str) -> LogRow:
    """Return a row in the new format."""
    event: dict[str, Any] = json.loads(body)
    event.pop("format", None)
    event.get("settings", {}).pop("network_folder", None)
    return at, json.dumps(remove_unused(event), ensure_ascii=False, separators=(",", ":"))


def remove_unused(value: Any) -> Any:
    """Return a value without the fields that format 5 does not have, at every depth."""
    if isinstance(value, dict):
        found: dict[str, Any] = value  # pyrefly: ignore
        return {
            key: remove_unused(one)
            for key, one in found.items()
            if not any(key == name and fields <= found.keys() for name, fields in UNUSED)
        }
    return [remove_unused(one) for one in value] if isinstance(value, list) else value  # pyrefly: ignore


def convert_run(path: Path) -> None:
    """Convert one zip in place."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / path.stem
        shutil.copytree(open_run_folder(path), run)
        with closing(sqlite3.connect(run / "run.db")) as db:
            rows = db.execute("SELECT at, body FROM events ORDER BY seq").fetchall()
        write_rows(run / EVENTS_FILE, "run", [convert_event(*row) for row in rows if '"type":"scoped"' not in row[1]])
        (run / "run.db").unlink()
        with zipfile.ZipFile(path) as packed:
            small = ["--small"] if len(packed.namelist()) == 1 else []
        made = path.with_suffix(".new.zip")
        export = [sys.executable, "-m", "labwright", "export", str(run), "--zip", str(made), *small, "--with-data"]
        subprocess.run(export, check=True, timeout=600)
        made.replace(path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        convert_run(Path(name))
