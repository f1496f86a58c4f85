"""Summarise the audit of an external paper as facts for a judge: programs that ran, origins of numbers, claims,
signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.audit import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.provenance import format_provenance

MAX_FINDINGS = 30
"""Maximum findings that a judge is shown."""


async def collect_audit_facts(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> AuditFacts:
    """Audit a paper and return facts for a judge; `log` may be outside the results folder.

    Raises `PaperError`, `ResultsError`.
    """
    if code is not None and code.is_dir() and next(code.rglob("*.py"), None) is None:
        code = None
    report = await audit_paper(path, results=results, code=code, log=log)
    against = "itself, without result files" if results is None else f"its result files in {results.name}"
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
    """Yield facts on the programs that ran and the origins of numbers, then signs and notes, one per line."""
    yield from format_provenance(report.provenance)
    if report.verdicts:
        grades = report.grade_counts
        yield (
            f"numbers of the paper: {grades['measured']} are in logs or files of programs that ran (check what these "
            f"computed), {grades['reported']} only elsewhere, {grades['neither']} nowhere"
        )
        for doubt, count in report.doubt_counts[:5]:
            yield f"of the numbers, {count} {'is' if count == 1 else 'are'} {doubt}"
        if missing := [f"{one.claim.number.text} ({one.claim.where})" for one in report.missing_results]:
            yield f"in no result file: {', '.join(missing[:10])}"
    yield from report.claimed_settings
    for one in report.signs:
        yield ("" if one.is_finding else "note, ") + f"{one.kind}: {one}"
