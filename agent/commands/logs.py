"""`scientist logs`: the events of a run in words, or those of a node with what its code printed. It changes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent.commands.edge import DONE, WrongUse
from agent.commands.look import run_folder
from agent.commands.piped import until_left
from inspector.logs import Line, Printed
from inspector.logs import logs as lines_of
from record.reading import read_state


def logs(path: Path, *, node: str | None, follow: bool, last: int | None, as_json: bool) -> int:
    """Print what happened, and go on with it while it happens."""
    folder = run_folder(path)
    if node is not None and node not in (nodes := read_state(folder).nodes):
        raise WrongUse(f"{path} has no node {node!r}; " + (f"it has {min(nodes)} to {max(nodes)}: see scientist tree "
                                                           f"{path}" if nodes else "it has none yet"))
    console = Console(soft_wrap=True, highlight=False)
    with until_left():
        for line in lines_of(folder, node=node, every=as_json, follow=follow, last=last):
            if line is None:
                console.file.flush()
            elif as_json:
                print(json.dumps(as_values(line), ensure_ascii=False))
            else:
                console.print(as_text(line))
    return DONE


def as_values(line: Line) -> dict[str, Any]:
    """A line as `--json` prints it."""
    if isinstance(line, Printed):
        return {"type": "output", "node": line.node, "attempt": line.attempt, "text": line.text}
    return line.model_dump() | {"at": datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")}


def as_text(line: Line) -> Text:
    """A line with its local time; what code printed is set in."""
    if isinstance(line, Printed):
        return Text(f"  | {line.text}")
    shown = Text(f"{datetime.fromtimestamp(line.at):%Y-%m-%d %H:%M:%S}  ", style="dim")
    return shown.append(line.text or line.type, style="not dim")
