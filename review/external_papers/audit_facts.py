"""The audit of a foreign paper as facts for a judge: what ran, where numbers stand, claims beside code, signs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.audit import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.provenance import format_provenance

MAX_FINDINGS = 30
"""Of those that a judge is shown."""


async def collect_audit_facts(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> AuditFacts:
    """The audit as facts for a judge: what ran, and what speaks against the paper; `log` stands outside of the results.

    Raises `PaperError`, `ResultsError`.
    """
    if code is not None and code.is_dir() and next(code.rglob("*.py"), None) is None:
        code = None
    report = await audit_paper(path, results=results, code=code, log=log)
    against = "itself, no result files were given" if results is None else f"its result files in {results.name}"
    counts = (*report.class_counts.items(), *report.grade_counts.items()) if results is not None else ()
    findings = [
        *(str(one) for one in report.counted_signs),
        *(f"{one.kind} in {one.where}: {one.description}" for one in report.inconsistencies),
        *(f"code: {one}" for one in report.code_findings),
    ]
    return AuditFacts(
        against=against,
        numbers=report.number_count,
        findings=tuple(findings[:MAX_FINDINGS]),
        counts=(
            *counts,
            ("inconsistencies", len(report.inconsistencies)),
            ("Python files checked", report.code_file_count),
        ),
        more=max(0, len(findings) - MAX_FINDINGS),
        left_out=tuple(report.left_out[:20]),
        provenance=tuple(_format_facts(report)),
        ran=report.provenance.executed_scripts,
        flagged=tuple(
            dict.fromkeys(
                one.where.rpartition(":")[0]
                for one in report.signs
                if report.provenance.find_script(one.where.rpartition(":")[0]) is not None
            )
        ),
    )


def _format_facts(report: ExternalPaperAudit) -> Iterator[str]:
    """What ran and where numbers come from, then signs and notes, a line each."""
    yield from format_provenance(report.provenance)
    if report.verdicts:
        grades = report.grade_counts
        yield (
            f"numbers of the paper: {grades['measured']} stand in logs or files of programs that ran (what these "
            f"computed is for you to see), {grades['reported']} elsewhere alone, {grades['neither']} in none"
        )
        for doubt, count in report.doubt_counts[:5]:
            yield f"of these {count} {'stands' if count == 1 else 'stand'} {doubt}"
        if missing := [f"{one.claim.number.text} ({one.claim.where})" for one in report.missing_results]:
            yield f"in no result file: {', '.join(missing[:10])}"
    yield from report.claimed_settings
    for one in report.signs:
        yield ("" if one.is_finding else "note, ") + f"{one.kind}: {one}"
