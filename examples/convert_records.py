"""Rewrite the recorded runs of this folder from format 3 to format 4, in which some events and fields have new names.

    .venv/bin/python examples/convert_records.py RUN.zip...

The format is open until the engine of studies is rebuilt; this file goes when it is closed.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from labwright.record.zips import open_run_folder

EVENTS = {
    "paused": "provider_outage",
    "unheeded": "command_ignored",
    "drifted": "prompt_changed",
    "limited": "limit_reached",
    "conceived": "idea_proposed",
    "settled": "stage_winner_chosen",
}
"""Type of an event before -> now."""
FIELDS = {
    "released": {"beside": "companion_files"},
    "drafted": {"told": "claims"},
    "scoped": {"told": "claims"},
    "reviewed": {"told": "claims"},
    "unheeded": {"told": "messages"},
    "limited": {"without": "skipped_kinds"},
    "branched": {"beyond": "later_ancestors"},
    "decided": {"mends": "repairs_children"},
    "proposed": {"mends": "repairs_children"},
    "executed": {"said": "self_reported"},
    "cell_executed": {"said": "self_reported"},
    "summarised": {"held": "supported_by_replicates"},
    "judged": {"told": "claims"},
    "assessed": {"told": "claims"},
    "code_read": {"told": "claims"},
}
"""Type of an event before -> name of a field anywhere within it before -> now."""


def rename_fields(value: Any, names: dict[str, str]) -> Any:
    """The value with the keys of its objects renamed, at every depth."""
    if isinstance(value, dict):
        return {names.get(key, key): rename_fields(one, names) for key, one in value.items()}
    return [rename_fields(one, names) for one in value] if isinstance(value, list) else value


def convert_event(body: str) -> tuple[str, str]:
    """Type and body of an event in the new format."""
    event: dict[str, Any] = json.loads(body)
    before = event["type"]
    event = rename_fields(event, FIELDS.get(before, {}))
    event["type"] = EVENTS.get(before, before)
    if before in ("started", "ideating", "code_taken"):
        event["format"] = 4
    return event["type"], json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def convert_run(path: Path) -> None:
    """Convert one zip in place."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / path.stem
        shutil.copytree(open_run_folder(path), run)
        with closing(sqlite3.connect(run / "run.db")) as db, db:
            for number, body in db.execute("SELECT seq, body FROM events").fetchall():
                db.execute("UPDATE events SET type = ?, body = ? WHERE seq = ?", (*convert_event(body), number))
        made = path.with_suffix(".new.zip")
        export = [sys.executable, "-m", "labwright", "export", str(run), "--zip", str(made), "--small", "--with-data"]
        subprocess.run(export, check=True, timeout=600)
        made.replace(path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        convert_run(Path(name))
