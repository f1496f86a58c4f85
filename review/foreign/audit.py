"""The audit of a paper that is not ours: its numbers against its result files, the paper against itself, its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from record.nouns.nodes import Finding
from record.nouns.papers import AuditFacts
from review.foreign.classify import CLASSES, Verdict, classify
from review.foreign.internal import Inconsistency, inconsistencies
from review.foreign.passages import claims_of, passages_of, sections_of
from review.foreign.printed import Printed, numbers_of, numbers_of_cell
from review.foreign.results import ResultsError, read_results
from review.honesty import check
from review.judge.reader import Paper, read_paper

MOST_CODE_FILES, MOST_CODE_BYTES = 500, 1_000_000
MOST_FINDINGS = 30
"""Of those that a judge is shown."""


@dataclass
class ForeignAudit:
    """What was found on a paper. `verdicts` are empty without result files; `left_out` says what was not read."""

    paper: str
    sha256: str
    numbers: int
    verdicts: tuple[Verdict, ...] = ()
    inconsistencies: tuple[Inconsistency, ...] = ()
    code: tuple[Finding, ...] = ()
    result_files: tuple[str, ...] = ()
    result_numbers: int = 0
    code_files: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of the paper by class."""
        counted = Counter(one.kind for one in self.verdicts)
        return {name: counted[name] for name in CLASSES}

    @property
    def written(self) -> int:
        """Found numbers that stand in reports in prose only, in no file that a program writes as a rule."""
        return sum(one.written for one in self.verdicts if one.kind == "found")

    @property
    def findings(self) -> int:
        """What speaks against the paper: unsupported numbers, inconsistencies, suspect code."""
        return self.counts["unsupported"] + len(self.inconsistencies) + sum(one.suspect for one in self.code)


async def audit_paper(path: Path, *, results: Path | None = None, code: Path | None = None) -> ForeignAudit:
    """Audit a paper (.md, .tex, .pdf). Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    passages = passages_of(paper)
    claims = claims_of(passages)
    report = ForeignAudit(path.name, paper.sha256, len(claims))
    report.left_out += [f"{name}, which the paper includes, is not there" for name in paper.missing]
    report.inconsistencies = inconsistencies(passages, claims, list(_body(paper)))
    if results is not None:
        found = read_results(results, but=path)
        report.verdicts = classify(claims, found)
        report.result_files, report.result_numbers = tuple(found.files), found.count
        report.left_out += found.left_out
    if code is not None:
        _check_code(report, code)
    return report


async def audit_facts(path: Path, *, results: Path | None = None, code: Path | None = None) -> AuditFacts:
    """The audit as facts for a judge, what speaks against the paper first; of code only Python is checked.

    Raises `PaperError`, `ResultsError`.
    """
    if code is not None and code.is_dir() and next(code.rglob("*.py"), None) is None:
        code = None
    report = await audit_paper(path, results=results, code=code)
    against = "itself, no result files were given" if results is None else f"its result files in {results.name}"
    counts = tuple(report.counts.items()) if results is not None else ()
    findings = list(_against(report))
    return AuditFacts(
        against=against, numbers=report.numbers, findings=tuple(findings[:MOST_FINDINGS]),
        counts=(*counts, ("inconsistencies", len(report.inconsistencies)), ("Python files checked", report.code_files)),
        more=max(0, len(findings) - MOST_FINDINGS), left_out=tuple(report.left_out[:20]))


def _against(report: ForeignAudit) -> Iterator[str]:
    for inconsistency in report.inconsistencies:
        yield f"{inconsistency.kind} in {inconsistency.where}: {inconsistency.what}"
    for finding in report.code:
        if finding.suspect:
            yield f"code: {finding.why}"
    for verdict in report.verdicts:
        if verdict.kind == "unsupported":
            yield f"unsupported by the result files: {verdict.claim.number.text} in {verdict.claim.where}"


def _body(paper: Paper) -> Iterator[Printed]:
    """Every number of the paper outside its abstract."""
    for passage in passages_of(paper):
        for cell in passage.cells:
            yield from numbers_of_cell(cell.text)
    for part in sections_of(paper):
        if "abstract" not in part.title.lower():
            yield from numbers_of(part.text)


def _check_code(report: ForeignAudit, folder: Path) -> None:
    """The honesty checks over the Python files of a folder, but those that ask for `lab`. Nothing is executed."""
    if not folder.exists():
        raise ResultsError(f"there is no {folder}: give --code the folder that holds the paper's Python code")
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    files: dict[str, str] = {}
    for path in paths[:MOST_CODE_FILES]:
        name = str(path.relative_to(folder)) if folder.is_dir() else path.name
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_CODE_BYTES:
            report.left_out.append(f"{name}: a link, or larger than {MOST_CODE_BYTES // 10**6} MB")
            continue
        files[name] = path.read_text(errors="replace")
    if len(paths) > MOST_CODE_FILES:
        report.left_out.append(f"{len(paths) - MOST_CODE_FILES} Python files: the first {MOST_CODE_FILES} are read")
    if not files:
        raise ResultsError(f"there is no Python file in {folder}: give --code the folder that holds the paper's code")
    report.code = tuple(one for one in check(files) if "lab." not in one.why)
    report.code_files = len(files)
