"""`scientist why`: what a run waits for, what failed, what was measured, what comes next. It changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.text import Text

from agent.cli.commands import Why
from agent.cli.edge import DONE
from agent.cli.shown import answer, first, line
from agent.cli.status import run_folder
from agent.outlook import outlook
from inspector.follow import process_on
from inspector.text import duration, plain
from inspector.tree import branch_text
from inspector.why import ErrorCount, why_of
from inspector.why import Why as Reasons
from record.claims.differences import Difference
from record.fold.apply import fold
from record.folder import RunFolder
from record.reading import read_events

MOST_COMPARED = 24
MOST_WAITING = 16


def why(asked: Why) -> int:
    folder = run_folder(asked.run)
    events = read_events(RunFolder(folder).db)
    found = why_of(str(asked.run), events, process_on(folder), outlook=outlook(fold(events)), now=time.time())
    answer(found, lines(found), json=asked.json)
    return DONE


def lines(found: Reasons) -> Iterator[Text]:
    """The answer as a page of text."""
    who = f"running ({plain(found.process)})" if found.process else f"{found.condition}, no process works on it"
    yield Text(f"{plain(found.run)}: ", style="bold") + Text(f"{who}, phase {found.phase}", style="not bold")
    yield from (Text(branch_text(one), style="dim") for one in found.ancestry)
    if found.paused:
        yield line(f"paused: {found.paused}", "bold yellow")
    doing = "calling the model, or working on its answer" if found.process else "started; resume continues it"
    best = f" ({found.best}, validation)" if found.best else ""
    waiting = [Text.assemble((f"{one.node} {one.kind} ", "bold"),
                             f"{one.step}: {plain(one.detail)} (for {duration(one.since)})") for one in found.waiting]
    for title, body in (
            ("answers", [line(one) for one in found.answers]),
            ("slots", [line(f"{one.number}: {one.why}") for one in found.slots]),
            ("unfinished", first(waiting, MOST_WAITING)),
            ("under way" if found.process else "unfinished steps", [line(f"{one}: {doing}") for one in found.work]),
            ("errors", [text for one in found.errors for text in _error(one)] or [Text("none", style="dim")]),
            (f"baseline difference{best}", first([_compared(one) for one in found.comparisons], MOST_COMPARED)
             or [Text("no node works yet that could be compared", style="dim")]),
            ("next", [line(f"{number}. {one}") for number, one in enumerate(found.next, 1)])):
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
    words = {**dict.fromkeys(("improved", "worsened"), f"{plain(one.better)} is better"),
             "unknown": f"unknown: n = {one.n} < 5"}
    known = one.n == 1 or one.sd is not None
    line.append(f"  {words.get(one.called, one.called) if known else 'unknown: the same for every seed'}",
                style="green" if one.called == "improved" else "yellow")
    return line
