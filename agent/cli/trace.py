"""`scientist trace`: where a number that a paper prints comes from, and what makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from labwright.agent.ablation import LOG as ABLATION
from labwright.agent.cli.edge import DONE, FINDINGS
from labwright.agent.cli.paper_commands import Trace
from labwright.agent.cli.shown import answer, line
from labwright.agent.cli.status import state_of_paper
from labwright.agent.code import lines_that_write
from labwright.inspector.provenance import Candidate
from labwright.inspector.provenance import Trace as NumberTrace
from labwright.inspector.text import plain
from labwright.inspector.tracer import Tracer, number_of
from labwright.record.errors import WrongUse
from labwright.record.fold.apply import fold
from labwright.record.folder import RunFolder
from labwright.record.nouns.repository import written
from labwright.record.reading import read_events
from labwright.record.zips import open_run_folder
from labwright.stages.repository.reporting import key_of, shown

SHOWN = 12
"""Candidates that are printed at most; `--json` has all."""
PLACES = 4


def trace(asked: Trace) -> int:
    if (asked.run / ABLATION).is_file():
        return _in_ablation(asked)
    folder = open_run_folder(asked.run)
    state, value = state_of_paper(folder), number_of(asked.number)
    if value is None:
        raise WrongUse(f"{asked.number!r} is not a number: give it as the paper prints it, as 0.873 or -0.021")
    if state.data_plan is None:
        raise WrongUse(f"{asked.run} has no data plan yet: there is nothing to trace")
    found = Tracer(state, RunFolder(folder, state.version), run=shlex.quote(str(asked.run))).number(value)
    found = found.model_copy(
        update={
            "candidates": tuple(
                one.model_copy(update={"code": lines_that_write(folder, state, one.key)})
                if one.kind == "claim" and one.grade == "logged" and not one.code
                else one
                for one in found.candidates
            )
        }
    )
    answer(found, lines(found), json=asked.json)
    return DONE if found.candidates else FINDINGS


def _in_ablation(asked: Trace) -> int:
    """A number of an ablation: its runs, what they printed, and the patch that took the part out."""
    code, value = fold(read_events(asked.run / ABLATION)).code, number_of(asked.number)
    keys = [
        key
        for key, texts in (shown(code) if code.command is not None else {}).items()
        if any(value in (plain, plain.lstrip("-")) for text in texts if (plain := number_of(text)) is not None)
    ]
    rows = {
        key_of(code, one.part): (one.part, one.mutation, one.where, one.runs)
        for one in (code.settled.results if code.settled is not None else ())
    }
    if code.baseline is not None and code.command is not None:
        rows[key_of(code, "baseline")] = (
            "baseline",
            "the repository as it is",
            f"tree {code.baseline.tree[:12]}",
            code.baseline.runs,
        )
    runs = {one.run.id: one.run for one in code.runs.values()}
    base = code.baseline.tree if code.baseline is not None else ""
    git = f"git --git-dir {shlex.quote(str(asked.run / 'mirror'))} diff --no-ext-diff --no-textconv {base}"

    def told(name: str) -> dict[str, Any]:
        run = runs[name]
        return {
            "id": name,
            "seed": run.seed,
            "value": run.value,
            "argv": list(run.argv),
            "output": str(asked.run / "runs" / name / "output.txt"),
            "patch": f"{git} {run.tree}" if run.tree != base else "",
        }

    found = [
        {"key": key, "part": row[0], "mutation": row[1], "where": row[2], "runs": [told(name) for name in row[3]]}
        for key in keys
        if (row := rows.get(key.rpartition(".")[0])) is not None
    ]
    answer({"number": asked.number, "candidates": found}, _ablation_lines(asked, keys, found), json=asked.json)
    return DONE if keys else FINDINGS


def _ablation_lines(asked: Trace, keys: Sequence[str], found: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    if not keys:
        yield line(f"{asked.number}: nothing in this ablation is printed like this", "red")
    for one in found:
        yield line(f"{one['key']}: {one['mutation']}, {one['where']}", "bold")
        for run in one["runs"]:
            yield _row("run", f"{run['id']}, seed {run['seed']}: {run['value']!r}, {written(run['argv'])}")
            yield _row("", f"  {run['output']}", "dim")
        patches = dict.fromkeys(run["patch"] for run in one["runs"] if run["patch"])
        yield from (_row("patch", patch, "green") for patch in patches)


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
