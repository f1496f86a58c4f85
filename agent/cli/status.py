"""`scientist status`, `tree`, `logs` and `view`: they read a record and change nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.cli.commands import Logs, Status, Tree, View
from agent.cli.edge import DONE, until_reader_gone
from agent.outlook import ahead_of
from inspector.follow import process_on
from inspector.live import is_ascii
from inspector.live import watch as watch_tree
from inspector.logs import Printed
from inspector.logs import logs as lines_of
from inspector.render import print_lines, status_lines, tree_lines
from inspector.status import status_of
from inspector.tree import tree_of
from record.errors import WrongUse
from record.fold.apply import fold
from record.folder import RunFolder
from record.reading import RecordError, is_run, read_events, read_state


def run_folder(path: Path) -> Path:
    """The path, where it is a run's folder. Raises `WrongUse`."""
    wrong = (f"there is no folder {path}" if not path.exists() else f"{path} is a file" if not path.is_dir() else
             "" if is_run(path) else f"{path} is no run (it holds no run.db)")
    if wrong:
        raise WrongUse(f"{wrong}: give the folder of a run, as runs/NAME")
    try:
        read_events(RunFolder(path).db)
    except RecordError as error:
        raise WrongUse(str(error)) from None
    return path


def status(asked: Status) -> int:
    folder = run_folder(asked.run)
    events = read_events(RunFolder(folder).db)
    found = status_of(str(asked.run), events, process_on(folder), now=time.time(), last=8)
    found = found.model_copy(update={"ahead": ahead_of(fold(events))})
    if asked.json:
        print(found.model_dump_json(indent=1))
    else:
        print_lines(Console(), status_lines(found))
    return DONE


def tree(asked: Tree) -> int:
    folder, console = run_folder(asked.run), Console()
    if asked.watch and asked.json:
        raise WrongUse("--watch goes without --json; for JSON as it comes: scientist logs RUN --follow --json")
    found = tree_of(read_state(folder))
    if asked.watch:
        with until_reader_gone():
            watch_tree(folder, console)
    elif asked.json:
        print(found.model_dump_json(indent=1))
    else:
        print_lines(console, tree_lines(found, ascii=is_ascii(console)))
    return DONE


def logs(asked: Logs) -> int:
    folder, node = run_folder(asked.run), asked.node
    if node is not None and node not in (nodes := read_state(folder).nodes):
        there = f"it has {min(nodes)} to {max(nodes)}: see scientist tree {asked.run}" if nodes else "it has none yet"
        raise WrongUse(f"{asked.run} has no node {node!r}; {there}")
    console = Console(soft_wrap=True, highlight=False)
    with until_reader_gone():
        for line in lines_of(folder, node=node, every=asked.json, follow=asked.follow, last=asked.last):
            if line is None:
                console.file.flush()
            elif isinstance(line, Printed):
                output = {"type": "output", "node": line.node, "attempt": line.attempt, "text": line.text}
                if asked.json:
                    print(dumps(output, ensure_ascii=False))
                else:
                    console.print(Text(f"  | {line.text}"))
            elif asked.json:
                at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")
                print(dumps(line.model_dump() | {"at": at}, ensure_ascii=False))
            else:
                time_of_day = Text(f"{datetime.fromtimestamp(line.at):%Y-%m-%d %H:%M:%S}  ", style="dim")
                console.print(time_of_day.append(line.text or line.type, style="not dim"))
    return DONE


def view(asked: View) -> int:
    # the web toolkit, which no other command of this module needs
    from inspector.web.server import serve

    def announce(address: str) -> None:
        print(f"open {address}", flush=True)
        may = "read the runs" if asked.read_only else "read the runs and steer them"
        print(f"(on this machine only; whoever has the address can {may}; Ctrl-C ends it)", flush=True)

    place = asked.place
    if not place.is_dir():
        raise WrongUse(f"there is no folder {place}: give the folder of a run, or one that holds runs")
    if is_run(place):
        run_folder(place)  # one that cannot be read is refused before anything is served
    serve(place.resolve(), port=asked.port, tell=announce, read_only=asked.read_only)
    return DONE
