"""`scientist trace`: show the origin of a printed number and the command that reproduces it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.text import Text

from labwright.agent.cli.errors import DONE, FINDINGS
from labwright.agent.cli.output import format_line, print_result
from labwright.agent.cli.paper_commands import Trace
from labwright.agent.cli.status import read_paper_state
from labwright.agent.repository_setup import find_writing_lines
from labwright.inspector.number_tracer import NumberTracer, parse_number
from labwright.inspector.provenance import NumberTrace, TraceCandidate
from labwright.inspector.safe_text import to_plain
from labwright.record.claims.question_results import find_question_results
from labwright.record.errors import UsageError
from labwright.record.run_folder import RunFolder
from labwright.record.zips import open_run_folder

MAX_CANDIDATES = 12
"""Maximum number of candidates printed; `--json` has all."""
MAX_LOCATIONS = 4


def trace_number(args: Trace) -> int:
    folder = open_run_folder(args.run)
    state, value = read_paper_state(folder), parse_number(args.number)
    if value is None:
        raise UsageError(f"{args.number!r} is not a number: give it as printed in the paper, such as 0.873 or -0.021")
    if state.search.data_plan is None and state.repository.baseline is None and find_question_results(state) is None:
        raise UsageError(f"{args.run} has no data plan or results yet: there is nothing to trace")
    found = NumberTracer(state, RunFolder(folder, state.paper.version), run=shlex.quote(str(args.run))).trace_number(
        value
    )
    found = found.model_copy(
        update={
            "candidates": tuple(
                one.model_copy(update={"code": find_writing_lines(folder, state, one.key)})
                if one.kind == "claim" and one.grade == "logged" and not one.code
                else one
                for one in found.candidates
            )
        }
    )
    print_result(found, format_trace(found), json=args.json)
    return DONE if found.candidates else FINDINGS


def format_trace(found: NumberTrace) -> Iterator[Text]:
    """Format the trace as text."""
    if not found.candidates:
        near = ", ".join(found.nearest) or "none, nothing is printed yet"
        yield format_line(f"{found.number}: no such number in this paper; nearest: {near}", "red")
    if len(found.candidates) > 1:
        yield Text(f"{found.number} has {len(found.candidates)} possible origins:", style="bold")
    for one in found.candidates[:MAX_CANDIDATES]:
        yield from _format_candidate(one)
    if len(found.candidates) > MAX_CANDIDATES:
        yield Text(f"... {len(found.candidates) - MAX_CANDIDATES} more: --json", style="dim")


def _format_candidate(one: TraceCandidate) -> Iterator[Text]:
    head = Text(f"{to_plain(one.key) or one.kind}: ", style="bold")
    head.append(f"{to_plain(one.what)}, printed {to_plain(one.printed)}", style="not bold")
    yield head + Text(f", {one.grade}" if one.grade else "", style="cyan")
    for place in one.places[:MAX_LOCATIONS]:
        yield _format_row("printed", f"{place.file}:{place.line}: {place.text}")
    if len(one.places) > MAX_LOCATIONS:
        yield _format_row("", f"... and on {len(one.places) - MAX_LOCATIONS} more lines", "dim")
    if not one.places:
        yield _format_row("printed", "nowhere", "yellow")
    for origin in one.origins:
        yield _format_row("node", f"{origin.node}, seed {origin.seed}: {origin.value:.6g} of {origin.condition}")
        if origin.cell:
            by = f", measured by {origin.measured_by} and reused by {origin.node}" if origin.measured_by else ""
            yield _format_row("", f"  {origin.cell}{by}")
        for file in origin.files:
            known = file.sha256 or "no hash in the record; audit re-scores it"
            changed = " CHANGED SINCE" if file.same is False else ""
            yield _format_row("", f"  {file.path} ({file.holds}, {known}){changed}", "red" if changed else "dim")
    for text in one.data:
        yield _format_row("data", text)
    for place in one.code:
        yield _format_row("code", f"{place.file}:{place.line}: {place.text}")
    if one.reproduce_command:
        yield _format_row("rerun", one.reproduce_command, "green")


def _format_row(name: str, text: str, style: str = "") -> Text:
    return Text(f"  {name:<9}{to_plain(text)}", style=style)
