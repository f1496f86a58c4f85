"""Audit an external paper: look its numbers up in its result files, and check their arithmetic.

Nothing is executed and no model is asked. A finding is a printed result that is in no result file, or numbers that
contradict each other. Neither says whether the results are real: a judge that reads code and log decides that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.arithmetic import Contradiction, find_contradictions
from labwright.review.external_papers.passages import extract_claims, extract_passages
from labwright.review.external_papers.result_files import read_results
from labwright.review.external_papers.verdicts import CLASSES, NumberVerdict, classify_claims, find_missing_results
from labwright.review.judge.paper_reader import read_paper

MAX_FINDINGS = 30
"""Maximum findings that a judge is shown."""


@dataclass
class ExternalPaperAudit:
    """What is known of the numbers of a paper.

    `verdicts`, one per number, are empty without result files; `left_out` lists what was not read.
    """

    paper: str
    sha256: str
    number_count: int
    verdicts: tuple[NumberVerdict, ...] = ()
    missing_results: tuple[NumberVerdict, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    result_files: tuple[str, ...] = ()
    result_value_count: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def class_counts(self) -> dict[str, int]:
        """Count the numbers of the paper by class."""
        classes = Counter(one.kind for one in self.verdicts)
        return {name: classes[name] for name in CLASSES}

    @property
    def prose_only_count(self) -> int:
        """Count found numbers that occur only in prose reports and in no file that a program typically writes."""
        return sum(one.from_prose for one in self.verdicts if one.kind == "found")

    @property
    def finding_count(self) -> int:
        return len(self.missing_results) + len(self.contradictions)


async def audit_paper(path: Path, *, results: Path | None = None) -> ExternalPaperAudit:
    """Audit a paper (.md, .tex, .pdf). Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    claims = extract_claims(extract_passages(paper))
    report = ExternalPaperAudit(path.name, paper.sha256, len(claims), contradictions=find_contradictions(claims))
    report.left_out += [f"{name}, which the paper includes, does not exist" for name in paper.missing_files]
    if results is not None:
        read = read_results(results, excluded=path)
        report.verdicts = classify_claims(claims, read.series)
        report.result_files, report.result_value_count = tuple(read.files), read.value_count
        report.left_out += read.left_out
        report.missing_results = find_missing_results(report.verdicts)
    return report


async def collect_audit_facts(path: Path, *, results: Path | None = None) -> AuditFacts:
    """Audit a paper and return the findings as facts for a judge. Raises `PaperError`, `ResultsError`."""
    report = await audit_paper(path, results=results)
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
    )
