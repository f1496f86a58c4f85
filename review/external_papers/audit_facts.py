"""Summarise the audit of an external paper as facts for a judge: programs that ran, origins of numbers, findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.audit import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.origins import ORIGIN_TEXTS
from labwright.review.external_papers.provenance import format_provenance

MAX_FINDINGS, MAX_NUMBERS = 30, 10
"""Maximum findings, and numbers of one kind, that a judge is shown."""


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
    findings = [
        *(f"in no result file: {one.claim.number.text} ({one.claim.where})" for one in report.missing_results),
        *(f"{one.kind}, {one.where}: {one.description}" for one in report.contradictions),
    ]
    return AuditFacts(
        against=against,
        numbers=report.number_count,
        findings=tuple(findings[:MAX_FINDINGS]),
        counts=tuple(report.class_counts.items()) if results is not None else (),
        more=max(0, len(findings) - MAX_FINDINGS),
        left_out=tuple(report.left_out[:20]),
        provenance=tuple(_format_facts(report)),
        ran=tuple(report.provenance.ran),
    )


def _format_facts(report: ExternalPaperAudit) -> Iterator[str]:
    """Yield facts on the programs that ran and the origins of numbers, one per line."""
    yield from format_provenance(report.provenance)
    for kind, text in ORIGIN_TEXTS.items():
        own = [
            f"{one.claim.number.text}{f' ({origin.place})' if origin.place else ''}"
            for one, origin in zip(report.verdicts, report.origins, strict=True)
            if origin.kind == kind
        ]
        if own:
            shown = f", such as {', '.join(own[:MAX_NUMBERS])}" if kind in ("typed", "unknown") else ""
            yield f"numbers of the paper {text}: {len(own)}{shown}"
