"""`scientist status` and `scientist tree`: they read a record and change nothing."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console

from agent.commands.edge import DONE, WrongUse
from agent.commands.piped import until_left
from agent.outlook import ahead_of
from inspector.follow import process_on
from inspector.live import is_ascii, watch
from inspector.render import print_lines, status_lines, tree_lines
from inspector.status import status_of
from inspector.tree import tree_of
from record.fold.apply import fold
from record.folder import RunFolder
from record.reading import RecordError, is_run, read_events, read_state


def run_folder(path: Path) -> Path:
    """The path, when it is a run's folder. Raises `WrongUse`."""
    if not path.exists():
        raise WrongUse(f"there is no folder {path}: give the folder of a run, as runs/NAME")
    if not path.is_dir():
        raise WrongUse(f"{path} is a file: give the folder of a run, as runs/NAME")
    if not is_run(path):
        raise WrongUse(f"{path} is no run (it holds no run.db): give the folder of a run, as runs/NAME")
    try:
        read_events(RunFolder(path).db)
    except RecordError as error:
        raise WrongUse(str(error)) from None
    return path


def status(path: Path, *, as_json: bool) -> int:
    """Show where a run stands."""
    folder = run_folder(path)
    events = read_events(RunFolder(folder).db)
    found = status_of(str(path), events, process_on(folder), now=time.time(), last=8)
    found = found.model_copy(update={"ahead": ahead_of(fold(events))})
    if as_json:
        return _json(found)
    print_lines(Console(), status_lines(found))
    return DONE


def tree(path: Path, *, as_json: bool, watched: bool = False) -> int:
    """Show the nodes of a run by stage, or go on showing them until the run ends."""
    folder, console = run_folder(path), Console()
    if watched and as_json:
        raise WrongUse("--watch goes without --json; for JSON as it comes: scientist logs RUN --follow --json")
    if watched:
        with until_left():
            watch(folder, console)
        return DONE
    found = tree_of(read_state(folder))
    if as_json:
        return _json(found)
    print_lines(console, tree_lines(found, ascii=is_ascii(console)))
    return DONE


def _json(value: BaseModel) -> int:
    print(value.model_dump_json(indent=1))
    return DONE
