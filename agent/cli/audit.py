"""`scientist audit`: check that every number of a paper is bound to the record, and that no file differs from the
record.

An external paper is checked against its result files and its code, and for internal consistency.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from labwright.agent.audit import AuditReport, audit_run
from labwright.agent.cli.errors import DONE, FINDINGS
from labwright.agent.cli.output import build_table, format_line, print_result
from labwright.agent.cli.paper_commands import Audit
from labwright.agent.cli.status import read_run_events
from labwright.record.errors import UsageError
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex_runner import TexError
from labwright.review.external_papers import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.provenance import format_provenance
from labwright.review.external_papers.verdicts import NumberVerdict

KIND_STYLES = {"found": "green", "derivable": "green", "ambiguous": "yellow", "unsupported": "red"}
GRADE_STYLES = {"measured": "green", "reported": "yellow", "neither": "red"}


def audit(args: Audit) -> int:
    path, results, code = open_run_folder(args.path), args.results, args.code
    if path.is_file():
        try:
            paper = asyncio.run(audit_paper(path, results=results, code=code))
        except TexError as error:
            raise UsageError(str(error)) from None
        print_result(paper_audit_to_json(paper), format_paper_audit(paper), json=args.json)
        return FINDINGS if paper.finding_count or paper.missing_results else DONE
    if results is not None or code is not None:
        raise UsageError(
            f"{args.path} is not a paper: --results and --code go with a paper (.md, .tex, .pdf), not with a run"
        )
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
        if printed[alike] <= MAX_SIMILAR_SHOWN:
            yield format_line(f"{finding.where}: {finding.what}", colour, label=f"{finding.kind}: ")
        elif printed[alike] == same[alike]:
            yield format_line(
                f"and {same[alike] - MAX_SIMILAR_SHOWN} more like this (--json lists all)",
                colour,
                label=f"{finding.kind}: ",
            )
    yield format_line(f"checked {', '.join(f'{number} {what}' for what, number in report.counts.items()) or 'nothing'}")
    number = len(report.findings)
    verdict = f"{number} finding{'s' * (number != 1)}" if number else "clean"
    yield Text(f"{verdict}: {report.unbound_count} unbound", style="red" if number else "green")


# --- external papers ------------------------------------------------------------------------------------------------


def paper_audit_to_json(report: ExternalPaperAudit) -> dict[str, Any]:
    """Convert a report to plain values for JSON (see docs/audit.md)."""
    return {
        "paper": report.paper,
        "sha256": report.sha256,
        "findings": report.finding_count + len(report.missing_results),
        "standing": report.outcome,
        "suspicion": round(report.suspicion, 3),
        "numbers": report.number_count,
        "counts": report.class_counts if report.verdicts else {},
        "grades": report.grade_counts if report.verdicts else {},
        "in_reports_only": report.prose_only_count,
        "missing": [
            {"number": one.claim.number.text, "where": one.claim.where, "context": one.claim.context}
            for one in report.missing_results
        ],
        "signs": [asdict(one) | {"finding": one.is_finding} for one in report.signs],
        "provenance": {
            "ran": report.provenance.run_status,
            "shown_by": report.provenance.shown_by,
            "writers": report.provenance.writers,
        },
        "results": {"files": list(report.result_files), "numbers": report.result_value_count},
        "verdicts": [
            {
                "number": one.claim.number.text,
                "class": one.kind,
                "where": one.claim.where,
                "context": one.claim.context,
                "evidence": one.evidence,
                "chance": round(one.chance, 4),
                "grade": grade,
                "in_reports_only": one.from_prose,
            }
            for one, grade in zip(report.verdicts, report.grades, strict=True)
        ],
        "inconsistencies": [
            {"kind": one.kind, "where": one.where, "what": one.description} for one in report.inconsistencies
        ],
        "code": {"files": report.code_file_count, "findings": [one.model_dump() for one in report.code_findings]},
        "left_out": report.left_out,
    }


def format_paper_audit(report: ExternalPaperAudit) -> Iterator[Text | Table]:
    """Format every number in a table, then provenance, evidence against the paper, counts and conclusion."""
    if report.verdicts:
        yield build_table(
            "number",
            "class",
            "grade",
            "where",
            "evidence",
            rows=(
                (
                    one.claim.number.text,
                    Text(one.kind, style=KIND_STYLES[one.kind]),
                    Text(grade, style=GRADE_STYLES[grade]),
                    one.claim.where,
                    _format_evidence(one),
                )
                for one, grade in zip(report.verdicts, report.grades, strict=True)
            ),
        )
    yield from (format_line(text, "dim") for text in format_provenance(report.provenance))
    yield from (
        format_line(str(one), "red" if one in report.counted_signs else "yellow", label=f"{one.kind}: ")
        for one in report.signs
    )
    yield from (
        format_line(
            f"{one.where}: {one.description}", "red" if report.counted_signs else "yellow", label=f"{one.kind}: "
        )
        for one in report.inconsistencies
    )
    yield from (
        format_line(str(finding), "red" if finding.suspect else "yellow", label=f"code, {finding.kind}: ")
        for finding in report.code_findings
    )
    yield from (
        format_line(
            f"{one.claim.where}: {one.claim.number.text} in {one.claim.context[:100]!r}",
            "red",
            label="in no result file: ",
        )
        for one in report.missing_results[:MAX_SIMILAR_SHOWN]
    )
    if (more := len(report.missing_results) - MAX_SIMILAR_SHOWN) > 0:
        yield format_line(f"and {more} more (--json lists all)", "red", label="in no result file: ")
    yield from (format_line(f"not read: {left_out}", "dim") for left_out in report.left_out)
    if report.verdicts:
        counts, grades = (
            ", ".join(f"{number} {name}" for name, number in counted.items())
            for counted in (report.class_counts, report.grade_counts)
        )
        yield format_line(
            f"{report.number_count} numbers: {counts} ({report.prose_only_count} found in reports only), against "
            f"{report.result_value_count} numbers of {len(report.result_files)} result files; {grades}"
        )
    else:
        yield format_line(f"{report.number_count} numbers read; give --results DIR to check them against result files")
    if report.code_file_count:
        yield format_line(f"{len(report.code_findings)} static findings in {report.code_file_count} code files")
    yield format_line(*_format_conclusion(report))


def _format_conclusion(report: ExternalPaperAudit) -> tuple[str, str]:
    """Return the last line and its colour."""
    return {
        "against": (f"findings: {report.finding_count + len(report.missing_results)}", "red"),
        "missing": (
            f"findings: {len(report.missing_results)} results that are neither in a result file nor derivable from "
            "one; no other findings",
            "red",
        ),
        "not shown": ("no findings, but nothing shows that the numbers were measured", "yellow"),
        "measured": ("no findings; the numbers are in files written by programs that ran", "green"),
        "not asked": ("no findings; give --results to check where the numbers come from", "green"),
    }[report.outcome]


def _format_evidence(one: NumberVerdict) -> str:
    if one.kind == "unsupported":
        return one.claim.context[:120]
    chance = f"; {one.chance:.0%} of such numbers would match by chance" if one.kind == "ambiguous" else ""
    return one.evidence + (", a report" if one.kind == "found" and one.from_prose else "") + chance
