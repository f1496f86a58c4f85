"""`scientist trace`: show the origin of a printed number and the command that reproduces it.

Also `scientist audit`.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from labwright.agent.audit import AuditReport, audit_run
from labwright.agent.cli.commands import Audit, Trace
from labwright.agent.cli.errors import DONE, FINDINGS, format_line, print_result, take_first
from labwright.agent.cli.status import read_paper_state, read_run_events
from labwright.agent.repository_setup import find_writing_lines
from labwright.inspector.number_tracer import NumberTracer, parse_number
from labwright.inspector.provenance import NumberOrigin, NumberTrace, TraceCandidate
from labwright.inspector.safe_text import to_plain
from labwright.record.claims.question_results import find_question_results
from labwright.record.errors import UsageError
from labwright.record.run_folder import RunFolder
from labwright.record.table import Table, format_quantity
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex_runner import TexError
from labwright.review.external_papers.verdicts import ExternalPaperAudit, NumberVerdict, audit_paper

MAX_CANDIDATES = 12
"""Maximum number of candidates printed; `--json` has all."""
MAX_LOCATIONS = 4
MAX_SEEDS = 30
"""Maximum number of seeds printed of a number with one possible origin, else `MAX_LOCATIONS`."""


def trace_number(args: Trace) -> int:
    folder = open_run_folder(args.run)
    state, value = read_paper_state(folder), parse_number(args.number)
    if value is None:
        raise UsageError(f"{args.number!r} is not a number: give it as printed in the paper, such as 0.873 or -0.021")
    if state.search.data_plan is None and state.repository.baseline is None and find_question_results(state) is None:
        raise UsageError(f"{args.run} has no data plan or results yet: there is nothing to trace")
    tracer = NumberTracer(state, RunFolder(folder, state.paper.version), run=shlex.quote(str(args.run)))
    found = tracer.trace_number(value)
    traced = list(found.candidates)
    for at, one in enumerate(traced):
        if one.kind == "claim" and one.grade == "logged" and not one.code:
            traced[at] = one.model_copy(update={"code": find_writing_lines(folder, state, one.key)})
    found = found.model_copy(update={"candidates": tuple(traced)})
    print_result(found, format_trace(found), json=args.json)
    return DONE if found.candidates else FINDINGS


def format_trace(found: NumberTrace) -> Iterator[Text | Table]:
    """Format the trace as text."""
    if not found.candidates:
        near = ", ".join(found.nearest) or "none, nothing is printed yet"
        yield format_line(f"{found.number}: no such number in this paper; nearest: {near}", "red")
    if len(found.candidates) > 1:
        yield Text(f"{found.number} has {len(found.candidates)} possible origins:", style="bold")
    for one in found.candidates[:MAX_CANDIDATES]:
        yield from _format_candidate(one, MAX_SEEDS if len(found.candidates) == 1 else MAX_LOCATIONS)
    if len(found.candidates) > MAX_CANDIDATES:
        yield Text(f"... {len(found.candidates) - MAX_CANDIDATES} more: --json", style="dim")


def _format_candidate(one: TraceCandidate, most: int) -> Iterator[Text | Table]:
    head = Text(f"{to_plain(one.key) or one.kind}: ", style="bold")
    head.append(f"{to_plain(one.what)}, printed {to_plain(one.printed)}", style="not bold")
    yield head + Text(f", {one.grade}" if one.grade else "", style="cyan")
    places = [_format_row("printed", f"{place.file}:{place.line}: {place.text}") for place in one.places]
    yield from take_first(places, MAX_LOCATIONS)
    if not one.places:
        yield _format_row("printed", "nowhere", "yellow")
    if one.origins:
        yield from _format_origins(one.origins, most)
    for text in one.data:
        yield _format_row("data", text)
    for place in one.code:
        yield _format_row("code", f"{place.file}:{place.line}: {place.text}")
    if one.reproduce_command:
        yield _format_row("rerun", one.reproduce_command, "green")


def _format_origins(origins: Sequence[NumberOrigin], most: int) -> Iterator[Text | Table]:
    """Format a table of the values with a row for each node and seed, the first file, and the files that changed."""
    conditions = [*dict.fromkeys(one.condition for one in origins)]
    rows = dict[tuple[str, int], dict[str, NumberOrigin]]()
    for one in origins:
        rows.setdefault((one.node, one.seed), {})[one.condition] = one
    titles = ["effect" if " " in one else one for one in conditions]
    if len(titles) > 1:  # a narrow terminal breaks them between arm and level
        titles = [one.replace("@", " @") for one in titles]
    values = [
        ["", *key, *(f"{found[one].value:.6g}" if one in found else "" for one in conditions)]
        + [one.cell for one in found.values() if len(conditions) == 1]
        for key, found in rows.items()
    ]
    left_out = f"  ... {format_quantity(len(rows) - most, 'more seed')}: --json"
    yield Table.of(
        ("", "node", "seed", *titles, *["cell"] * (len(conditions) == 1)),
        values[:most],
        notes=[left_out] * (len(rows) > most),
    )
    reused = [
        _format_row("", f"{one.cell}, measured by {one.measured_by} and reused by {one.node}")
        for one in origins
        if one.measured_by
    ]
    yield from take_first(reused, MAX_LOCATIONS)
    files = {file.path: file for one in origins for file in one.files}.values()
    for file in [*files][:1]:
        more = f", and {len(files) - 1} more" if len(files) > 1 else ""
        yield _format_row("files", f"{file.path} ({file.holds}){more}: hashes with --json", "dim")
    changed = [_format_row("", f"{file.path} CHANGED SINCE", "red") for file in files if file.same is False]
    yield from take_first(changed, MAX_LOCATIONS)


def _format_row(name: str, text: str, style: str = "") -> Text:
    return Text(f"  {name:<9}{to_plain(text)}", style=style)


# `scientist audit`: check that every number of a paper is bound to the record, and that no file differs from the
# record. The numbers of an external paper are looked up in its result files, and its arithmetic is checked.

KIND_STYLES = {"found": "green", "derivable": "green", "ambiguous": "yellow", "unsupported": "red"}


def audit(args: Audit) -> int:
    path, results = open_run_folder(args.path), args.results
    if not path.exists():
        raise UsageError(f"{path} does not exist: give the folder of a run, or a paper (.md, .tex, .pdf, .txt)")
    if path.is_file():
        try:
            paper = asyncio.run(audit_paper(path, results=results))
        except TexError as error:
            raise UsageError(str(error)) from None
        print_result(paper_audit_to_json(paper), format_paper_audit(paper), json=args.json)
        return FINDINGS if paper.finding_count else DONE
    if results is not None:
        raise UsageError(f"{args.path} is not a paper: --results goes with a paper (.md, .tex, .pdf), not with a run")
    read_run_events(path)  # raises if this is not a run
    report = audit_run(path)
    print_result(
        {
            "unbound": report.unbound_count,
            "released": report.released,
            "counts": report.counts,
            "findings": [asdict(finding) for finding in report.findings],
        },
        format_run_audit(report),
        json=args.json,
    )
    return FINDINGS if report.findings else DONE


MAX_SIMILAR_SHOWN = 20
"""Identical findings that are printed: an incomplete copy of a run can miss thousands of files."""


def format_run_audit(report: AuditReport) -> Iterator[Text]:
    """Format the findings, one per line, then the number of checked items. Repeated findings are truncated."""
    same = Counter((finding.kind, finding.what) for finding in report.findings)
    printed = Counter[tuple[str, str]]()
    for finding in report.findings:
        colour, alike = "yellow" if finding.kind == "not checked" else "red", (finding.kind, finding.what)
        printed[alike] += 1
        text = f"{finding.where}: {finding.what}"
        if printed[alike] == same[alike] > MAX_SIMILAR_SHOWN:
            text = f"and {same[alike] - MAX_SIMILAR_SHOWN} more like this (--json lists all)"
        if printed[alike] <= MAX_SIMILAR_SHOWN or printed[alike] == same[alike]:
            yield format_line(text, colour, label=f"{finding.kind}: ")
    counts = [f"{n} {re.sub(r's$|s(?= )', '', what, count=1) if n == 1 else what}" for what, n in report.counts.items()]
    yield format_line(f"checked {', '.join(counts) or 'nothing'}")
    number = len(report.findings)
    verdict = "clean" if not number else format_quantity(number, "finding")
    unbound, meaning = f"{report.unbound_count} unbound", "no checked file or value differs from the record"
    if "bound values" in report.counts:
        meaning += ", and each number, figure and citation of the paper comes from it"
    elif report.released:
        unbound = "the numbers of the paper were not compared with the record"
    yield Text(f"{verdict}: {unbound}" + f" ({meaning})" * (not number), style="red" if number else "green")


# --- external papers ------------------------------------------------------------------------------------------------


def paper_audit_to_json(report: ExternalPaperAudit) -> dict[str, Any]:
    """Convert a report to plain values for JSON (see docs/audit.md)."""
    return {
        "paper": report.paper,
        "sha256": report.sha256,
        "findings": report.finding_count,
        "numbers": report.number_count,
        "counts": report.class_counts if report.verdicts else {},
        "in_reports_only": report.prose_only_count,
        "missing": [
            {"number": one.claim.number.text, "where": one.claim.where, "context": one.claim.context}
            for one in report.missing_results
        ],
        "contradictions": [asdict(one) for one in report.contradictions],
        "results": {"files": list(report.result_files), "numbers": report.result_value_count},
        "verdicts": [
            {
                "number": one.claim.number.text,
                "class": one.kind,
                "where": one.claim.where,
                "context": one.claim.context,
                "evidence": one.evidence,
                "chance": round(one.chance, 4),
                "in_reports_only": one.from_prose,
            }
            for one in report.verdicts
        ],
        "left_out": report.left_out,
    }


def format_paper_audit(report: ExternalPaperAudit) -> Iterator[Text | Table]:
    """Format every number in a table, then findings and counts."""
    if report.verdicts:
        rows = (
            (one.claim.number.text, Text(one.kind, KIND_STYLES[one.kind]), one.claim.where, _format_evidence(one))
            for one in report.verdicts
        )
        yield Table.of(("number", "class", "where", "evidence"), rows)
    for one in report.contradictions:
        yield format_line(f"{one.where}: {one.description}", "red", label=f"{one.kind}: ")
    missing = [
        f"{one.claim.where}: {one.claim.number.text} in {one.claim.context[:100]!r}" for one in report.missing_results
    ]
    more = [f"and {len(missing) - MAX_SIMILAR_SHOWN} more (--json lists all)"] * (len(missing) > MAX_SIMILAR_SHOWN)
    for text in (*missing[:MAX_SIMILAR_SHOWN], *more):
        yield format_line(text, "red", label="in no result file: ")
    yield from (format_line(f"not read: {left_out}", "dim") for left_out in report.left_out)
    if not report.verdicts:
        yield format_line(
            f"{format_quantity(report.number_count, 'number')} read; give --results DIR to look them up in result files"
        )
    else:
        counts = ", ".join(f"{number} {name}" for name, number in report.class_counts.items())
        yield format_line(
            f"{report.number_count} numbers looked up among {report.result_value_count} numbers of "
            f"{len(report.result_files)} result files: {counts} ({report.prose_only_count} found in reports only)"
        )
    counted = (
        (len(report.missing_results), "result", "in no result file"),
        (len(report.contradictions), "contradiction", "in arithmetic"),
    )
    found = [f"{format_quantity(count, what)} {where}" for count, what, where in counted if count]
    yield format_line(f"findings: {'; '.join(found) or 'none'}", "red" if found else "green")
    done = "numbers were looked up and recalculated" if report.verdicts else "only the arithmetic was checked"
    yield format_line(f"{done}; whether the results are real is for a judge to decide")


def _format_evidence(one: NumberVerdict) -> str:
    if one.kind == "unsupported":
        return one.claim.context[:120]
    chance = f"; {one.chance:.0%} of such numbers would match by chance" if one.kind == "ambiguous" else ""
    return one.evidence + (", a report" if one.kind == "found" and one.from_prose else "") + chance
