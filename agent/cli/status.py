"""`scientist status`, `tree`, `logs`, `view` and `why`: read a record without changing anything."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.text import Text

from labwright.agent.cli.commands import Logs, Status, Tree, View, Why
from labwright.agent.cli.errors import DONE, ignoring_closed_output
from labwright.agent.cli.output import format_json, format_line, print_result, take_first
from labwright.agent.next_steps import estimate_remaining, find_next_steps
from labwright.inspector.diagnosis import ErrorCount, RunDiagnosis, diagnose_run
from labwright.inspector.live_view import is_ascii, watch_run
from labwright.inspector.logs import PrintedLine, read_logs
from labwright.inspector.render import format_status, format_tree, print_lines
from labwright.inspector.safe_text import format_duration, to_plain
from labwright.inspector.status import read_status
from labwright.inspector.tail import find_process
from labwright.inspector.tree import build_tree, format_branch_point
from labwright.record.campaign import RUNS_FOLDER, is_campaign
from labwright.record.claims.differences import ClaimDifference
from labwright.record.errors import UsageError
from labwright.record.events import Event
from labwright.record.log_reader import RecordError, drop_unreleased_rewrite, is_run, read_events
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.zips import is_zip, open_run_folder, refuse_zip

MAX_COMPARISONS = 24
MAX_WAITING = 16


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
    events = read_run_events(folder)
    found = read_status(str(args.run), events, find_process(folder), now=time.time(), last=8, folder=folder)
    found = found.model_copy(update={"remaining": estimate_remaining(fold_events(events))})
    if args.json:
        print(format_json(found))
    else:
        print_lines(Console(), format_status(found))
    return DONE


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
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
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


# --- why ------------------------------------------------------------------------------------------------------------


def show_diagnosis(args: Why) -> int:
    folder = open_run_folder(args.run)
    events = read_run_events(folder)
    found = diagnose_run(
        str(args.run), events, find_process(folder), next_steps=find_next_steps(fold_events(events)), now=time.time()
    )
    print_result(found, format_diagnosis(found), json=args.json)
    return DONE


def format_diagnosis(found: RunDiagnosis) -> Iterator[Text]:
    """Format the diagnosis as text."""
    who = f"running ({to_plain(found.process)})" if found.process else f"{found.condition}, no process"
    yield Text(f"{to_plain(found.run)}: ", style="bold") + Text(f"{who}, phase {found.phase}", style="not bold")
    yield from (Text(format_branch_point(one), style="dim") for one in found.ancestry)
    if found.paused:
        yield format_line(f"paused: {found.paused}", "bold yellow")
    doing = "waiting for the model, or processing its answer" if found.process else "started; resume continues it"
    best = f" ({found.best}, validation)" if found.best else ""
    waiting = [
        Text.assemble(
            (f"{one.node} {one.kind} ", "bold"),
            f"{one.step}: {to_plain(one.detail)} (for {format_duration(one.since)})",
        )
        for one in found.waiting
    ]
    for title, body in (
        ("answers", [format_line(one) for one in found.answers]),
        ("slots", [format_line(f"{one.number}: {one.why}") for one in found.slots]),
        ("unfinished", take_first(waiting, MAX_WAITING)),
        (
            "under way" if found.process else "unfinished steps",
            [
                format_line(f"{one}: {'scoring test predictions' if one.startswith('look ') else doing}")
                for one in found.work
            ],
        ),
        ("errors", [text for one in found.errors for text in _format_error(one)] or [Text("none", style="dim")]),
        (
            f"baseline difference{best}",
            take_first([_format_comparison(one) for one in found.comparisons], MAX_COMPARISONS)
            or [Text("no working node to compare yet", style="dim")],
        ),
        ("next", [format_line(f"{number}. {one}") for number, one in enumerate(found.next, 1)]),
    ):
        if body:
            yield Text(title, style="cyan")
            yield from (Text("  ") + text for text in body)


def _format_error(one: ErrorCount) -> list[Text]:
    nodes = ", ".join(one.nodes) + (", ..." if one.count > len(one.nodes) else "")
    head = Text(f"{one.kind} {one.count}", style="red")
    fixed = "" if one.kind == "killed" else f"; {one.fixed} fixed by debugging"  # nodes killed by the user have no bug
    head.append(f" ({nodes}{fixed}): {one.message}", style="default")
    return [head, *(Text(f"    {line}", style="dim") for line in one.example)]


def _format_comparison(one: ClaimDifference) -> Text:
    line = Text(f"{to_plain(one.dataset)} {to_plain(one.condition)} - {to_plain(one.other)}: ")
    line.append(f"{to_plain(one.name)} {one.mean:+.4g}", style="bold")
    if one.sd is not None and one.low is not None and one.high is not None:
        line.append(f" (sd {one.sd:.3g}, 95 % interval [{one.low:+.4g}, {one.high:+.4g}], n = {one.n})")
    elif one.n == 1:
        line.append(" (one seed: the noise is unknown)")
    known = one.n == 1 or one.sd is not None
    line.append(f"  {one.basis_text if known else 'identical for every seed'}", style="yellow")
    return line
