"""The audit of a foreign paper as facts for a judge: what ran, where numbers stand, claims beside code, signs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.nouns.papers import AuditFacts
from labwright.review.foreign.audit import ForeignAudit, audit_paper
from labwright.review.foreign.provenance import provenance_lines

MOST_FINDINGS = 30
"""Of those that a judge is shown."""


async def audit_facts(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> AuditFacts:
    """The audit as facts for a judge: what ran, and what speaks against the paper; `log` stands outside of the results.

    Raises `PaperError`, `ResultsError`.
    """
    if code is not None and code.is_dir() and next(code.rglob("*.py"), None) is None:
        code = None
    report = await audit_paper(path, results=results, code=code, log=log)
    against = "itself, no result files were given" if results is None else f"its result files in {results.name}"
    counts = (*report.counts.items(), *report.graded.items()) if results is not None else ()
    findings = [
        *(str(one) for one in report.against),
        *(f"{one.kind} in {one.where}: {one.what}" for one in report.inconsistencies),
        *(f"code: {one}" for one in report.code),
    ]
    return AuditFacts(
        against=against,
        numbers=report.numbers,
        findings=tuple(findings[:MOST_FINDINGS]),
        counts=(*counts, ("inconsistencies", len(report.inconsistencies)), ("Python files checked", report.code_files)),
        more=max(0, len(findings) - MOST_FINDINGS),
        left_out=tuple(report.left_out[:20]),
        provenance=tuple(_told(report)),
        ran=report.found.executed,
        flagged=tuple(
            dict.fromkeys(
                one.where.rpartition(":")[0]
                for one in report.signs
                if report.found.script(one.where.rpartition(":")[0]) is not None
            )
        ),
    )


def _told(report: ForeignAudit) -> Iterator[str]:
    """What ran and where numbers come from, then signs and notes, a line each."""
    yield from provenance_lines(report.found)
    if report.verdicts:
        grades = report.graded
        yield (
            f"numbers of the paper: {grades['measured']} stand in logs or files of programs that ran (what these "
            f"computed is for you to see), {grades['reported']} elsewhere alone, {grades['neither']} in none"
        )
        for doubt, count in report.doubts[:5]:
            yield f"of these {count} {'stands' if count == 1 else 'stand'} {doubt}"
        if missing := [f"{one.claim.number.text} ({one.claim.where})" for one in report.missing]:
            yield f"in no result file: {', '.join(missing[:10])}"
    yield from report.settings
    for one in report.signs:
        yield ("" if one.is_finding else "note, ") + f"{one.kind}: {one}"
