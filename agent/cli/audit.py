"""`scientist audit`: is every number of a paper tied to the record, and is every file what the record says?

A paper that is not ours is checked against its result files, its code and itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from labwright.agent.audit import AuditReport
from labwright.agent.audit import audit as audit_run
from labwright.agent.cli.edge import DONE, FINDINGS
from labwright.agent.cli.paper_commands import Audit
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.cli.status import events_of
from labwright.record.errors import WrongUse
from labwright.record.zips import open_run_folder
from labwright.review.evidence.tex import TexError
from labwright.review.foreign import ForeignAudit, audit_paper
from labwright.review.foreign.provenance import provenance_lines
from labwright.review.foreign.verdicts import Verdict

STYLES = {"found": "green", "derivable": "green", "ambiguous": "yellow", "unsupported": "red"}
GRADES = {"measured": "green", "reported": "yellow", "neither": "red"}


def audit(asked: Audit) -> int:
    path, results, code = open_run_folder(asked.path), asked.results, asked.code
    if path.is_file():
        try:
            paper = asyncio.run(audit_paper(path, results=results, code=code))
        except TexError as error:
            raise WrongUse(str(error)) from None
        answer(paper_as_plain(paper), paper_lines(paper), json=asked.json)
        return FINDINGS if paper.findings or paper.missing else DONE
    if results is not None or code is not None:
        raise WrongUse(
            f"{asked.path} is not a paper: --results and --code go with a paper (.md, .tex, .pdf), not with a run"
        )
    events_of(path)  # refused where it is none
    report = audit_run(path)
    answer(
        {
            "unbound": report.unbound,
            "released": report.released,
            "counts": report.counts,
            "findings": [asdict(finding) for finding in report.findings],
        },
        run_lines(report),
        json=asked.json,
    )
    return FINDINGS if report.findings else DONE


MOST_ALIKE = 20
"""Findings in the same words of different files that are printed: a copy made without some files misses thousands."""


def run_lines(report: AuditReport) -> Iterator[Text]:
    """Findings, one a line, then what was checked. Of many that say the same of different files, a few lines."""
    same = Counter((finding.kind, finding.what) for finding in report.findings)
    told = Counter[tuple[str, str]]()
    for finding in report.findings:
        colour, alike = "yellow" if finding.kind == "not checked" else "red", (finding.kind, finding.what)
        told[alike] += 1
        if told[alike] <= MOST_ALIKE:
            yield line(f"{finding.where}: {finding.what}", colour, label=f"{finding.kind}: ")
        elif told[alike] == same[alike]:
            yield line(
                f"and {same[alike] - MOST_ALIKE} more of which the same is said (--json lists them)",
                colour,
                label=f"{finding.kind}: ",
            )
    yield line(f"checked {', '.join(f'{number} {what}' for what, number in report.counts.items()) or 'nothing'}")
    number = len(report.findings)
    verdict = f"{number} finding{'s' * (number != 1)}" if number else "clean"
    yield Text(f"{verdict}: {report.unbound} unbound", style="red" if number else "green")


# --- papers that are not ours ----------------------------------------------------------------------------------------


def paper_as_plain(report: ForeignAudit) -> dict[str, Any]:
    """A report as plain values for JSON (see docs/audit.md)."""
    return {
        "paper": report.paper,
        "sha256": report.sha256,
        "findings": report.findings + len(report.missing),
        "standing": report.standing,
        "suspicion": round(report.suspicion, 3),
        "numbers": report.numbers,
        "counts": report.counts if report.verdicts else {},
        "grades": report.graded if report.verdicts else {},
        "in_reports_only": report.written,
        "missing": [
            {"number": one.claim.number.text, "where": one.claim.where, "context": one.claim.context}
            for one in report.missing
        ],
        "signs": [asdict(one) | {"finding": one.is_finding} for one in report.signs],
        "provenance": {"ran": report.found.ran, "shown_by": report.found.shown_by, "writers": report.found.writers},
        "results": {"files": list(report.result_files), "numbers": report.result_numbers},
        "verdicts": [
            {
                "number": one.claim.number.text,
                "class": one.kind,
                "where": one.claim.where,
                "context": one.claim.context,
                "evidence": one.evidence,
                "chance": round(one.chance, 4),
                "grade": grade,
                "in_reports_only": one.written,
            }
            for one, grade in zip(report.verdicts, report.grades, strict=True)
        ],
        "inconsistencies": [{"kind": one.kind, "where": one.where, "what": one.what} for one in report.inconsistencies],
        "code": {"files": report.code_files, "findings": [one.model_dump() for one in report.code]},
        "left_out": report.left_out,
    }


def paper_lines(report: ForeignAudit) -> Iterator[Text | Table]:
    """Every number in a table, what ran, what speaks against the paper, then the counts and what they come to."""
    if report.verdicts:
        yield table(
            "number",
            "class",
            "grade",
            "where",
            "evidence",
            rows=(
                (
                    one.claim.number.text,
                    Text(one.kind, style=STYLES[one.kind]),
                    Text(grade, style=GRADES[grade]),
                    one.claim.where,
                    _evidence(one),
                )
                for one, grade in zip(report.verdicts, report.grades, strict=True)
            ),
        )
    yield from (line(text, "dim") for text in provenance_lines(report.found))
    yield from (
        line(str(one), "red" if one in report.against else "yellow", label=f"{one.kind}: ") for one in report.signs
    )
    yield from (
        line(f"{one.where}: {one.what}", "red" if report.against else "yellow", label=f"{one.kind}: ")
        for one in report.inconsistencies
    )
    yield from (
        line(str(finding), "red" if finding.suspect else "yellow", label=f"code, {finding.kind}: ")
        for finding in report.code
    )
    yield from (
        line(
            f"{one.claim.where}: {one.claim.number.text} in {one.claim.context[:100]!r}",
            "red",
            label="in no result file: ",
        )
        for one in report.missing[:MOST_ALIKE]
    )
    if (more := len(report.missing) - MOST_ALIKE) > 0:
        yield line(f"and {more} more (--json lists them)", "red", label="in no result file: ")
    yield from (line(f"not read: {left_out}", "dim") for left_out in report.left_out)
    if report.verdicts:
        counts, grades = (
            ", ".join(f"{number} {name}" for name, number in counted.items())
            for counted in (report.counts, report.graded)
        )
        yield line(
            f"{report.numbers} numbers: {counts} ({report.written} found in reports only), against "
            f"{report.result_numbers} numbers of {len(report.result_files)} result files; {grades}"
        )
    else:
        yield line(f"{report.numbers} numbers read; give --results DIR to hold them against result files")
    if report.code_files:
        yield line(f"{len(report.code)} findings of form in {report.code_files} files of code")
    yield line(*_standing(report))


def _standing(report: ForeignAudit) -> tuple[str, str]:
    """The last line, and its colour."""
    return {
        "against": (f"findings: {report.findings + len(report.missing)}; read them before the paper", "red"),
        "missing": (
            f"findings: {len(report.missing)}, results that are in no result file and do not follow from "
            "numbers that are; nothing else speaks against the paper",
            "red",
        ),
        "not shown": ("there are no findings, and nothing given shows that the numbers were measured", "yellow"),
        "measured": ("there are no findings; the numbers stand where programs that ran put them", "green"),
        "not asked": ("there are no findings; without --results nothing is said of where numbers come from", "green"),
    }[report.standing]


def _evidence(one: Verdict) -> str:
    if one.kind == "unsupported":
        return one.claim.context[:120]
    chance = f"; as many as {one.chance:.0%} of such numbers would match" if one.kind == "ambiguous" else ""
    return one.evidence + (", a report" if one.kind == "found" and one.written else "") + chance
