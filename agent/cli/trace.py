"""`scientist trace`: where a number that a paper prints comes from, and what makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agent.cli.edge import DONE, FINDINGS
from agent.cli.status import run_folder
from inspector.provenance import Candidate, Trace
from inspector.text import plain
from inspector.tracer import Tracer, number_of
from record.errors import WrongUse
from record.folder import RunFolder
from record.reading import read_state

SHOWN = 12
"""Candidates that are printed at most; `--json` has all."""
PLACES = 4


def trace(run: Path, number: str, json: bool) -> int:
    folder = run_folder(run)
    value = number_of(number)
    if value is None:
        raise WrongUse(f"{number!r} is no number: give it as the paper prints it, as 0.873 or -0.021")
    state = read_state(folder)
    if state.data_plan is None:
        raise WrongUse(f"{run} has no data plan yet: there is nothing to trace")
    found = Tracer(state, RunFolder(folder, state.version), run=shlex.quote(str(run))).number(value)
    if json:
        print(found.model_dump_json(indent=1))
    else:
        Console().print(*lines(found), sep="\n", soft_wrap=True, highlight=False)
    return DONE if found.candidates else FINDINGS


def lines(found: Trace) -> Iterator[Text]:
    """The answer as a page of text."""
    if not found.candidates:
        near = ", ".join(map(plain, found.nearest)) or "nothing is printed yet"
        yield Text(f"{found.number}: nothing in this paper is printed so; the nearest are {near}", style="red")
        return
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
        yield Text(f"  printed  {plain(place.file)}:{place.line}: {plain(place.text)}")
    if len(one.places) > PLACES:
        yield Text(f"           ... and in {len(one.places) - PLACES} more lines", style="dim")
    if not one.places:
        yield Text("  printed  nowhere in the paper", style="yellow")
    for origin in one.origins:
        yield Text(f"  node     {origin.node}, seed {origin.seed}: {origin.value:.6g} of {plain(origin.condition)}")
        for file in origin.files:
            known = file.sha256 or "no hash in the record; audit scores it again"
            changed = " CHANGED SINCE" if file.same is False else ""
            yield Text(f"             {plain(file.path)} ({file.holds}, {known}){changed}",
                       style="red" if changed else "dim")
    for text in one.data:
        yield Text(f"  data     {plain(text)}")
    for place in one.code:
        yield Text(f"  code     {plain(place.file)}:{place.line}: {plain(place.text)}")
    if one.again:
        yield Text(f"  again    {plain(one.again)}", style="green")
