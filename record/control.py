"""How other processes speak to a running one: a small file in `control/`, which the writer turns into an event."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

from pydantic import ValidationError

from record.events import Commanded
from record.folder import RunFolder, write_file


def send(run: Path, command: Commanded) -> Path:
    """Drop a command for the process that works on a run. Returns the file, which vanishes when it was taken."""
    path = RunFolder(run).control / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
    write_file(path, command.model_dump_json())
    return path


def take(run: Path) -> list[tuple[Path, Commanded | str]]:
    """The waiting commands in order, each with its file (delete it once the event is committed).

    A file that is no command comes as a string that says so; it must be deleted too, and reported.
    """
    waiting: list[tuple[Path, Commanded | str]] = []
    for path in sorted(RunFolder(run).control.glob("[!.]*.json")):
        try:
            waiting.append((path, Commanded.model_validate(json.loads(path.read_text()))))
        except (ValidationError, ValueError, OSError) as error:
            waiting.append((path, f"{path.name} is no command: {str(error).splitlines()[0]}"))
    return waiting
