"""`scientist trace`: where a number that a paper prints comes from, and what makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.text import Text

from agent.cli.edge import DONE, FINDINGS
from agent.cli.paper_commands import Trace
from agent.cli.shown import answer, line
from agent.cli.status import state_of
from inspector.provenance import Candidate
from inspector.provenance import Trace as NumberTrace
from inspector.text import plain
from inspector.tracer import Tracer, number_of
from record.errors import WrongUse
from record.folder import RunFolder

SHOWN = 12
"""Candidates that are printed at most; `--json` has all."""
PLACES = 4


def trace(asked: Trace) -> int:
    state, value = state_of(asked.run), number_of(asked.number)
    if value is None:
        raise WrongUse(f"{asked.number!r} is not a number: give it as the paper prints it, as 0.873 or -0.021")
    if state.data_plan is None:
        raise WrongUse(f"{asked.run} has no data plan yet: there is nothing to trace")
    found = Tracer(state, RunFolder(asked.run, state.version), run=shlex.quote(str(asked.run))).number(value)
    answer(found, lines(found), json=asked.json)
    return DONE if found.candidates else FINDINGS


def lines(found: NumberTrace) -> Iterator[Text]:
    """The answer as a page of text."""
    if not found.candidates:
        near = ", ".join(found.nearest) or "nothing is printed yet"
        yield line(f"{found.number}: nothing in this paper is printed like this; the nearest are {near}", "red")
    if len(found.candidates) > 1:
        yield Text(f"{found.number} may be any of {len(found.candidates)}:", style="bold")
    for one in found.candidates[:SHOWN]:
        yield from _candidate(one)
    if len(found.candidates) > SHOWN:
        yield Text(f"... {len(found.candidates) - SHOWN} more: --json", style="dim")


def _candidate(one: Candidate) -> Iterator[Text]:
    head = Text(f"{plain(one.key) or one.kind}: ", style="bold")
    head.append(f"{plain(one.what)}, printed {plain(one.printed)}", style="not bold")
    yield head + Text(f", {one.grade}" if one.grade else "", style="cyan")
    for place in one.places[:PLACES]:
        yield _row("printed", f"{place.file}:{place.line}: {place.text}")
    if len(one.places) > PLACES:
        yield _row("", f"... and in {len(one.places) - PLACES} more lines", "dim")
    if not one.places:
        yield _row("printed", "nowhere in the paper", "yellow")
    for origin in one.origins:
        yield _row("node", f"{origin.node}, seed {origin.seed}: {origin.value:.6g} of {origin.condition}")
        if origin.cell:
            by = f", measured by {origin.measured_by} and taken over by {origin.node}" if origin.measured_by else ""
            yield _row("", f"  {origin.cell}{by}")
        for file in origin.files:
            known = file.sha256 or "no hash in the record; audit scores it again"
            changed = " CHANGED SINCE" if file.same is False else ""
            yield _row("", f"  {file.path} ({file.holds}, {known}){changed}", "red" if changed else "dim")
    for text in one.data:
        yield _row("data", text)
    for place in one.code:
        yield _row("code", f"{place.file}:{place.line}: {place.text}")
    if one.again:
        yield _row("again", one.again, "green")


def _row(name: str, text: str, style: str = "") -> Text:
    return Text(f"  {name:<9}{plain(text)}", style=style)
