"""The audit of a paper that is not ours (`review.foreign`) as facts for its judge and for the table of scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from record.nouns.papers import AuditFacts
from review.foreign import ForeignAudit, audit_paper

MOST_FINDINGS = 30


async def audit_facts(path: Path, *, results: Path | None = None, code: Path | None = None) -> AuditFacts:
    """What the audit found. Raises `PaperError`, `ResultsError`."""
    return facts_from(await audit_paper(path, results=results, code=_python(code)), results)


def facts_from(report: ForeignAudit, results: Path | None) -> AuditFacts:
    """A report as facts, what speaks against the paper first."""
    against = "itself, no result files were given" if results is None else f"its result files in {results.name}"
    counts = tuple(report.counts.items()) if results is not None else ()
    found = list(_findings(report))
    return AuditFacts(
        against=against, numbers=report.numbers, findings=tuple(found[:MOST_FINDINGS]),
        counts=(*counts, ("inconsistencies", len(report.inconsistencies)), ("Python files checked", report.code_files)),
        more=max(0, len(found) - MOST_FINDINGS), left_out=tuple(report.left_out[:20]))


def _findings(report: ForeignAudit) -> Iterator[str]:
    for one in report.inconsistencies:
        yield f"{one.kind} in {one.where}: {one.what}"
    for finding in report.code:
        if finding.suspect:
            yield f"code: {finding.why}"
    for verdict in report.verdicts:
        if verdict.kind == "unsupported":
            yield f"unsupported by the result files: {verdict.claim.number.text} in {verdict.claim.where}"


def _python(code: Path | None) -> Path | None:
    """A folder of code, if there is Python in it, which alone is checked."""
    if code is None or (code.is_dir() and next(code.rglob("*.py"), None) is None):
        return None
    return code
