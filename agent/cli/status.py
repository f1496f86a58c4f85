"""`scientist status`, `tree`, `logs`, `view` and `why`: they read a record and change nothing."""

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
from labwright.agent.cli.edge import DONE, until_reader_gone
from labwright.agent.cli.shown import answer, first, line
from labwright.agent.outlook import ahead_of, outlook
from labwright.inspector.follow import process_on
from labwright.inspector.live import is_ascii
from labwright.inspector.live import watch as watch_tree
from labwright.inspector.logs import Printed
from labwright.inspector.logs import logs as lines_of
from labwright.inspector.render import print_lines, status_lines, tree_lines
from labwright.inspector.status import status_of
from labwright.inspector.text import duration, plain
from labwright.inspector.tree import branch_text, tree_of
from labwright.inspector.why import ErrorCount, why_of
from labwright.inspector.why import Why as Reasons
from labwright.record.campaign import RUNS, is_campaign
from labwright.record.claims.differences import Difference
from labwright.record.errors import WrongUse
from labwright.record.events import Event
from labwright.record.fold.apply import fold
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.reading import RecordError, is_run, of_standing_paper, read_events
from labwright.record.zips import is_zip, open_run_folder, refuse_zip

MOST_COMPARED = 24
MOST_WAITING = 16


def events_of(path: Path) -> list[tuple[Event, float]]:
    """The log of a run's folder. Raises `WrongUse` for a path that is none, a zip included (`open_run_folder`)."""
    refuse_zip(path)
    wrong = (
        f"there is no folder {path}"
        if not path.exists()
        else f"{path} is a file"
        if not path.is_dir()
        else ""
        if is_run(path)
        else f"{path} is not a run (it holds no run.db)"
    )
    if wrong:
        raise WrongUse(f"{wrong}: give the folder of a run, as runs/NAME")
    try:
        return read_events(RunFolder(path).db)
    except RecordError as error:
        raise WrongUse(str(error)) from None


def state_of(path: Path) -> RunState:
    """The state of the run in a folder. Raises `WrongUse` for a path that is none."""
    return fold(events_of(path))


def state_of_paper(path: Path) -> RunState:
    """The state of the run in a folder as its paper stands: a later draft that was not released is left out."""
    return fold(of_standing_paper(events_of(path)))


def status(asked: Status) -> int:
    if is_campaign(asked.run):
        from labwright.agent.cli import campaign  # what makes runs, which no other view needs

        return campaign.shown(asked.run, json=asked.json)
    folder = open_run_folder(asked.run)
    events = events_of(folder)
    found = status_of(str(asked.run), events, process_on(folder), now=time.time(), last=8, folder=folder)
    found = found.model_copy(update={"ahead": ahead_of(fold(events))})
    if asked.json:
        print(found.model_dump_json(indent=1))
    else:
        print_lines(Console(), status_lines(found))
    return DONE


def tree(asked: Tree) -> int:
    if asked.watch and asked.json:
        raise WrongUse("--watch goes without --json; for JSON as it comes: scientist logs RUN --follow --json")
    folder = open_run_folder(asked.run)
    found, console = tree_of(state_of(folder)), Console()
    if asked.watch:
        with until_reader_gone():
            watch_tree(folder, console)
    elif asked.json:
        print(found.model_dump_json(indent=1))
    else:
        print_lines(console, tree_lines(found, ascii=is_ascii(console)))
    return DONE


def logs(asked: Logs) -> int:
    folder = open_run_folder(asked.run)
    nodes, node = state_of(folder).nodes, asked.node
    if node is not None and node not in nodes:
        there = f"it has {min(nodes)} to {max(nodes)}: see scientist tree {asked.run}" if nodes else "it has none yet"
        raise WrongUse(f"{asked.run} has no node {node!r}; {there}")
    console = Console(soft_wrap=True, highlight=False)
    with until_reader_gone():
        for one in lines_of(folder, node=node, every=asked.json, follow=asked.follow, last=asked.last):
            if one is None:
                console.file.flush()
            elif isinstance(one, Printed):
                output = {"type": "output", "node": one.node, "attempt": one.attempt, "text": one.text}
                if asked.json:
                    print(dumps(output, ensure_ascii=False))
                else:
                    console.print(Text(f"  | {one.text}"))
            elif asked.json:
                at = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
                print(dumps(one.model_dump() | {"at": at}, ensure_ascii=False))
            else:
                time_of_day = Text(f"{datetime.fromtimestamp(one.at):%Y-%m-%d %H:%M:%S}  ", style="dim")
                console.print(time_of_day.append(one.text or one.type, style="not dim"))
    return DONE


def view(asked: View) -> int:
    # the web toolkit, which no other command of this module needs
    from labwright.inspector.web.server import serve

    def announce(address: str) -> None:
        print(f"open {address}", flush=True)
        may = "read the runs" if asked.read_only or is_zip(asked.place) else "read the runs and steer them"
        print(f"(on this machine only; whoever has the address can {may}; Ctrl-C ends it)", flush=True)

    if is_zip(asked.place):  # what is unpacked is removed also when a service manager ends it
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    place = open_run_folder(asked.place)
    if is_campaign(place):
        place = place / RUNS
    if not place.is_dir():
        raise WrongUse(f"there is no folder {place}: give the folder or the zip of a run, or a folder that holds runs")
    if is_run(place):
        events_of(place)  # one that cannot be read is refused before anything is served
    serve(
        place.resolve(),
        port=asked.port,
        tell=announce,
        read_only=asked.read_only or is_zip(asked.place),
        foresee=lambda state: (ahead_of(state), outlook(state)),
    )
    return DONE


# --- why ------------------------------------------------------------------------------------------------------------


def why(asked: Why) -> int:
    folder = open_run_folder(asked.run)
    events = events_of(folder)
    found = why_of(str(asked.run), events, process_on(folder), outlook=outlook(fold(events)), now=time.time())
    answer(found, why_lines(found), json=asked.json)
    return DONE


def why_lines(found: Reasons) -> Iterator[Text]:
    """The answer as a page of text."""
    who = f"running ({plain(found.process)})" if found.process else f"{found.condition}, no process works on it"
    yield Text(f"{plain(found.run)}: ", style="bold") + Text(f"{who}, phase {found.phase}", style="not bold")
    yield from (Text(branch_text(one), style="dim") for one in found.ancestry)
    if found.paused:
        yield line(f"paused: {found.paused}", "bold yellow")
    doing = "calling the model, or working on its answer" if found.process else "started; resume continues it"
    best = f" ({found.best}, validation)" if found.best else ""
    waiting = [
        Text.assemble(
            (f"{one.node} {one.kind} ", "bold"), f"{one.step}: {plain(one.detail)} (for {duration(one.since)})"
        )
        for one in found.waiting
    ]
    for title, body in (
        ("answers", [line(one) for one in found.answers]),
        ("slots", [line(f"{one.number}: {one.why}") for one in found.slots]),
        ("unfinished", first(waiting, MOST_WAITING)),
        ("under way" if found.process else "unfinished steps", [line(f"{one}: {doing}") for one in found.work]),
        ("errors", [text for one in found.errors for text in _error(one)] or [Text("none", style="dim")]),
        (
            f"baseline difference{best}",
            first([_compared(one) for one in found.comparisons], MOST_COMPARED)
            or [Text("no node works yet that could be compared", style="dim")],
        ),
        ("next", [line(f"{number}. {one}") for number, one in enumerate(found.next, 1)]),
    ):
        if body:
            yield Text(title, style="cyan")
            yield from (Text("  ") + text for text in body)


def _error(one: ErrorCount) -> list[Text]:
    nodes = ", ".join(one.nodes) + (", ..." if one.count > len(one.nodes) else "")
    head = Text(f"{one.kind} {one.count}", style="red")
    fixed = "" if one.kind == "killed" else f"; {one.fixed} fixed by debugging"  # what a person killed has no bug
    head.append(f" ({nodes}{fixed}): {one.message}", style="default")
    return [head, *(Text(f"    {line}", style="dim") for line in one.example)]


def _compared(one: Difference) -> Text:
    line = Text(f"{plain(one.dataset)} {plain(one.condition)} - {plain(one.other)}: ")
    line.append(f"{plain(one.name)} {one.mean:+.4g}", style="bold")
    if one.sd is not None and one.low is not None and one.high is not None:
        line.append(f" (sd {one.sd:.3g}, 95 % interval [{one.low:+.4g}, {one.high:+.4g}], n = {one.n})")
    elif one.n == 1:
        line.append(" (one seed: the noise is unknown)")
    words = {
        **dict.fromkeys(("improved", "worsened"), f"{plain(one.better)} is better"),
        "unknown": f"unknown: n = {one.n} < 5",
    }
    known = one.n == 1 or one.sd is not None
    said = words.get(one.called, one.outcome) if known else "unknown: the same for every seed"
    line.append(f"  {', '.join((said, *one.caveats))}", style="green" if one.called == "improved" else "yellow")
    return line
