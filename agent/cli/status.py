"""`scientist status`, `tree`, `logs` and `view`: read a record without changing anything."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.cli.commands import ListRuns, Logs, Status, Tree, View
from labwright.agent.cli.errors import DONE, ignoring_closed_output
from labwright.agent.cli.output import format_json
from labwright.agent.cli.output import print_lines as print_table_lines
from labwright.agent.next_steps import estimate_remaining, find_next_steps
from labwright.inspector.diagnosis import diagnose_run
from labwright.inspector.live_view import is_ascii, watch_run
from labwright.inspector.logs import PrintedLine, read_logs
from labwright.inspector.render import format_status, format_tree, print_lines
from labwright.inspector.safe_text import format_age
from labwright.inspector.status import read_status
from labwright.inspector.summary import RunListRow, build_list_row, format_short
from labwright.inspector.tail import find_process
from labwright.inspector.tree import build_tree
from labwright.record.campaign import RUNS_FOLDER, is_campaign
from labwright.record.errors import UsageError
from labwright.record.events import Event
from labwright.record.log_reader import RecordError, drop_unreleased_rewrite, is_run, read_events
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.table import Table
from labwright.record.zips import is_zip, open_run_folder, refuse_zip


def read_run_events(path: Path) -> list[tuple[Event, float]]:
    """Read the log of a run folder. Raises `UsageError` if the path is not a run folder (a zip needs
    `open_run_folder`)."""
    refuse_zip(path)
    wrong = (
        f"{path} does not exist"
        if not path.exists()
        else f"{path} is a file, not a folder"
        if not path.is_dir()
        else ""
        if is_run(path)
        else f"{path} is not a run (it has no log of one)"
    )
    if wrong:
        raise UsageError(f"{wrong}: give the folder of a run, such as runs/NAME")
    try:
        return read_events(RunFolder(path).events)
    except RecordError as error:
        raise UsageError(str(error)) from None


def read_run_state(path: Path) -> RunState:
    """Read the state of the run in a folder. Raises `UsageError` if the path is not a run folder."""
    return fold_events(read_run_events(path))


def read_paper_state(path: Path) -> RunState:
    """Read the state of a run at the release of its paper, ignoring a later draft that was not released."""
    return fold_events(drop_unreleased_rewrite(read_run_events(path)))


def show_status(args: Status) -> int:
    if is_campaign(args.run):
        from labwright.agent.cli import campaign  # heavy import, only needed here

        return campaign.show_campaign(args.run, json=args.json)
    folder = open_run_folder(args.run)
    events, process, now = read_run_events(folder), find_process(folder), time.time()
    state = fold_events(events)
    found = read_status(str(args.run), events, process, now=now, last=8, folder=folder).model_copy(
        update={
            "remaining": estimate_remaining(state),
            "diagnosis": diagnose_run(state, process, next_steps=find_next_steps(state), now=now),
        }
    )
    if args.json:
        print(format_json(found))
    elif args.short:
        print(format_short(found))
    else:
        print_lines(Console(), format_status(found))
    return DONE


LIST_WIDTH = 500
"""Names of runs are never folded, so that they can be copied; a narrow terminal wraps the lines itself."""


def list_runs(args: ListRuns) -> int:
    from labwright.inspector.web.run_cache import RunCollection  # reads runs as the page does

    place = args.folder / RUNS_FOLDER if is_campaign(args.folder) else args.folder
    if not place.is_dir():
        raise UsageError(f"{place} is not a folder: give a folder of runs")
    runs, now = RunCollection(place), time.time()
    entries = [one for name in runs.list_names() if (one := runs.find_entry(name)) is not None]
    rows = [build_list_row(one.status, now) for one in entries]
    if args.json:
        print(dumps([one.model_dump() for one in rows], indent=1))
    elif rows:
        print_table_lines([_build_run_table(rows)], Console(highlight=False, width=LIST_WIDTH))
    else:
        print(f"{place} has no runs")
    return DONE


def _build_run_table(rows: Sequence[RunListRow]) -> Table:
    return Table.of(
        ("run", "kind", "condition", "verdicts", "hours", "cost", "age"),
        (
            (
                one.run,
                one.kind,
                one.condition if one.condition in ("done", "failed") else f"{one.condition}, {one.phase}",
                one.verdicts or "-",
                f"{one.hours:.2f}",
                f"${one.usd:.2f}",
                "-" if one.age is None else format_age(one.age),
            )
            for one in rows
        ),
    )


def show_tree(args: Tree) -> int:
    if args.watch and args.json:
        raise UsageError(
            "--watch cannot be combined with --json; for streaming JSON: scientist logs RUN --follow --json"
        )
    folder = open_run_folder(args.run)
    found, console = build_tree(read_run_state(folder)), Console()
    if args.watch:
        with ignoring_closed_output():
            watch_run(folder, console)
    elif args.json:
        print(format_json(found))
    else:
        print_lines(console, format_tree(found, ascii=is_ascii(console)))
    return DONE


def show_logs(args: Logs) -> int:
    folder = open_run_folder(args.run)
    nodes, node = read_run_state(folder).nodes, args.node
    if node is not None and node not in nodes:
        there = f"it has {min(nodes)} to {max(nodes)}: see scientist tree {args.run}" if nodes else "it has none yet"
        raise UsageError(f"{args.run} has no node {node!r}; {there}")
    console = Console(soft_wrap=True, highlight=False)
    with ignoring_closed_output():
        for one in read_logs(folder, node=node, every=args.json, follow=args.follow, last=args.last):
            if one is None:
                console.file.flush()
            elif isinstance(one, PrintedLine):
                output = {"type": "output", "node": one.node, "attempt": one.attempt, "text": one.text}
                if args.json:
                    print(dumps(output))
                else:
                    console.print(Text(f"  | {one.text}"))
            elif args.json:
                at = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
                print(dumps(one.model_dump() | {"at": at}))
            else:
                time_of_day = Text(f"{datetime.fromtimestamp(one.at):%Y-%m-%d %H:%M:%S}  ", style="dim")
                console.print(time_of_day.append(one.text or one.type, style="not dim"))
    return DONE


def serve_page(args: View) -> int:
    # the web toolkit is imported only when needed
    from labwright.inspector.web.server import serve_pages

    def announce(address: str) -> None:
        print(f"open {address}", flush=True)
        may = "read the runs" if args.read_only or is_zip(args.place) else "read and control the runs"
        print(f"(on this machine only; anyone with the address can {may}; press Ctrl-C to stop)", flush=True)

    if is_zip(args.place):  # exit cleanly on SIGTERM, so that unpacked files are removed
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    place = open_run_folder(args.place)
    if is_campaign(place):
        place = place / RUNS_FOLDER
    if not place.is_dir():
        raise UsageError(f"{place} is not a folder: give the folder or zip of a run, or a folder of runs")
    if is_run(place):
        read_run_events(place)  # raises before anything is served
    serve_pages(
        place.resolve(),
        port=args.port,
        on_address=announce,
        read_only=args.read_only or is_zip(args.place),
        estimate=lambda state: (estimate_remaining(state), find_next_steps(state)),
    )
    return DONE
