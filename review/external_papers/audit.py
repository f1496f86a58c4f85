"""Audit an external paper: which programs ran, whether results support its numbers, and whether it is internally
consistent.

Nothing is executed. Evidence against a paper consists of signs with file, line and text, numbers without a result, and
inconsistent passages. Without findings, it may still be unknown whether the numbers were measured: `outcome`
distinguishes the two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from labwright.record.schema.nodes import HonestyFinding
from labwright.review.external_papers.claimed_settings import compare_claimed_settings
from labwright.review.external_papers.consistency import Inconsistency, find_inconsistencies
from labwright.review.external_papers.grades import Grade, Grader, count_grades
from labwright.review.external_papers.logs import read_log, read_logs
from labwright.review.external_papers.missing_results import find_missing_results
from labwright.review.external_papers.passages import extract_claims, extract_passages, list_sections
from labwright.review.external_papers.printed_numbers import extract_numbers
from labwright.review.external_papers.provenance import PaperProvenance, reconstruct_provenance
from labwright.review.external_papers.result_files import ResultFolder, ResultsError, ValueSeries, read_results
from labwright.review.external_papers.scripts import read_scripts
from labwright.review.external_papers.series_groups import group_series
from labwright.review.external_papers.signs import CIRCUMSTANTIAL, FINDING, Sign, score
from labwright.review.external_papers.signs.every import signs_of
from labwright.review.external_papers.signs.in_claims import sentences_of
from labwright.review.external_papers.verdicts import CLASSES, NumberVerdict, classify_claims
from labwright.review.honesty import check_program
from labwright.review.judge.paper_reader import read_paper

MAX_CODE_FILES, MAX_CODE_BYTES = 500, 1_000_000
CODE_SUFFIXES = (".py", ".ipynb", ".sh", ".bash", ".yaml", ".yml", ".toml", ".cfg", ".ini")

AuditOutcome = Literal["against", "missing", "not shown", "measured", "not asked"]


@dataclass
class ExternalPaperAudit:
    """The findings on a paper.

    `verdicts` is empty without result files; `left_out` lists what was not read.
    """

    paper: str
    sha256: str
    number_count: int
    verdicts: tuple[NumberVerdict, ...] = ()
    grades: tuple[Grade, ...] = ()
    """One per verdict."""
    doubt_counts: tuple[tuple[str, int], ...] = ()
    """Reasons why found numbers do not count as measured, with their frequency."""
    missing_results: tuple[NumberVerdict, ...] = ()
    """Printed results that are in no result file: this is a fact about the files and proves nothing on its own."""
    claimed_settings: tuple[str, ...] = ()
    """Settings that the paper claims next to those in the code, one per line."""
    signs: tuple[Sign, ...] = ()
    provenance: PaperProvenance = field(default_factory=PaperProvenance)
    inconsistencies: tuple[Inconsistency, ...] = ()
    code_findings: tuple[HonestyFinding, ...] = ()
    result_files: tuple[str, ...] = ()
    result_value_count: int = 0
    code_file_count: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def class_counts(self) -> dict[str, int]:
        """Count the numbers of the paper by class."""
        classes = Counter(one.kind for one in self.verdicts)
        return {name: classes[name] for name in CLASSES}

    @property
    def grade_counts(self) -> dict[str, int]:
        """Count the numbers of the paper by grade."""
        return count_grades(self.grades)

    @property
    def prose_only_count(self) -> int:
        """Count found numbers that occur only in prose reports and in no file that a program typically writes."""
        return sum(one.from_prose for one in self.verdicts if one.kind == "found")

    @cached_property
    def counted_signs(self) -> tuple[Sign, ...]:
        """Return the signs that count as findings: conclusive signs, otherwise circumstantial signs of several
        kinds.
        """
        own = tuple(one for one in self.signs if one.is_finding)
        several = tuple(one for one in self.signs if one.weight >= CIRCUMSTANTIAL)
        return own or (several if score((*several, *self._inconsistency_signs)) >= FINDING else ())

    @property
    def _inconsistency_signs(self) -> tuple[Sign, ...]:
        """Return the inconsistencies of the paper as a circumstantial sign."""
        return tuple(
            Sign("inconsistency", one.description, one.where, "", CIRCUMSTANTIAL) for one in self.inconsistencies[:1]
        )

    @property
    def finding_count(self) -> int:
        """Count the evidence against the paper: signs and inconsistencies."""
        return len(self.counted_signs) + (len(self.inconsistencies) if self.counted_signs else 0)

    @property
    def suspicion(self) -> float:
        """Strength of the evidence for fabrication, 0 to 1; at least `FINDING` if there are findings."""
        own = score((*self.signs, *self._inconsistency_signs))
        if self.finding_count:
            return max(own, FINDING)
        return min(own + (0.1 if self.verdicts and not self._is_mostly_measured else 0), FINDING - 0.01)

    @property
    def outcome(self) -> AuditOutcome:
        """Outcome of the audit: evidence against the paper, results in no file, no evidence of measurement, or
        measured.
        """
        if self.finding_count:
            return "against"
        if not self.verdicts:
            return "not asked"
        return "missing" if self.missing_results else "measured" if self._is_mostly_measured else "not shown"

    @property
    def _is_mostly_measured(self) -> bool:
        """Return whether most of the numbers are in the output of programs that ran."""
        looked_up = [grade for one, grade in zip(self.verdicts, self.grades, strict=True) if one.locations]
        shown = sum(grade == "measured" for grade in looked_up)
        return bool(shown) and shown >= len(looked_up) / 2


async def audit_paper(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> ExternalPaperAudit:
    """Audit a paper (.md, .tex, .pdf). Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    passages = extract_passages(paper)
    claims = extract_claims(passages)
    report = ExternalPaperAudit(path.name, paper.sha256, len(claims))
    report.left_out += [f"{name}, which the paper includes, does not exist" for name in paper.missing_files]
    outside_abstract = [
        number for passage in passages for cell in passage.cells for number in extract_numbers(cell.text, "cell")
    ]
    outside_abstract += [
        number
        for part in list_sections(paper)
        if "abstract" not in part.title.lower()
        for number in extract_numbers(part.text)
    ]
    files = _read_code(report, code) if code is not None else {}
    if code is not None:
        _check_code(report, files)
    read, groups = ResultFolder(), tuple[ValueSeries, ...]()
    if results is not None:
        read = read_results(results, excluded=path)
        groups = tuple(group_series(read.series))
        report.verdicts = classify_claims(claims, read.series, groups)
        report.result_files, report.result_value_count = tuple(read.files), read.value_count
        report.left_out += read.left_out
    given = {at for at, one in enumerate(report.verdicts) if one.locations or one.kind == "derivable"}
    report.inconsistencies = find_inconsistencies(passages, claims, outside_abstract, backed_claims=given)
    own = read_logs(results) if results is not None else ()
    inside = log is not None and results is not None and results.resolve() in log.resolve().parents
    logs = own if log is None or inside else (*own, read_log(log, log.name))
    report.provenance = reconstruct_provenance(read_scripts(files), logs, read.files)
    text = "\n\n".join(f"# {part.title}\n{part.text}" for part in paper.sections)
    report.signs = signs_of(
        report.provenance,
        paper=text,
        passages=passages,
        read=read,
        groups=groups,
        reports=dict(_read_reports(results, path)),
        verdicts=report.verdicts,
    )
    report.missing_results = find_missing_results(report.verdicts, read.series, report.provenance)
    grader = Grader(report.provenance, report.signs)
    report.grades = tuple(grader.grade(one) for one in report.verdicts)
    report.doubt_counts = tuple(
        Counter(
            grader.explain(one)
            for one, grade in zip(report.verdicts, report.grades, strict=True)
            if grade == "reported"
        ).most_common()
    )
    report.claimed_settings = tuple(
        compare_claimed_settings(
            sentences_of(text),
            files | _read_configurations(code),
            {log.name: "\n".join(line.text for line in log.lines[:500]) for log in logs},
            (value for one in read.series for value in one.values),
        )
    )
    return report


def _read_reports(results: Path | None, paper: Path) -> Iterator[tuple[str, str]]:
    """Yield strings next to the results that may have been written by a human or a model."""
    if results is None or not results.is_dir():
        return
    for path in sorted(results.rglob("*.md"))[:50]:
        if path.is_file() and not path.is_symlink() and path.resolve() != paper.resolve() and path.stem != paper.stem:
            yield path.relative_to(results).as_posix(), path.read_text(errors="replace")[:200_000]


def _read_configurations(folder: Path | None) -> dict[str, str]:
    """Read small JSON files in the code folder, by relative path."""
    paths = sorted(folder.rglob("*.json"))[:20] if folder is not None and folder.is_dir() else []
    return {
        path.relative_to(folder).as_posix(): path.read_text(errors="replace")
        for path in paths
        if folder is not None and path.is_file() and not path.is_symlink() and path.stat().st_size < 5_000
    }


def _read_code(report: ExternalPaperAudit, folder: Path) -> dict[str, str]:
    """Read the files of a code folder, by relative path. Raises `ResultsError`."""
    if not folder.exists():
        raise ResultsError(f"{folder} does not exist: give --code the folder with the paper's Python code")
    paths = sorted(path for path in folder.rglob("*") if path.suffix in CODE_SUFFIXES) if folder.is_dir() else [folder]
    files: dict[str, str] = {}
    for path in paths[:MAX_CODE_FILES]:
        name = path.relative_to(folder).as_posix() if folder.is_dir() else path.name
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_CODE_BYTES:
            report.left_out.append(f"{name}: a link, or larger than {MAX_CODE_BYTES // 10**6} MB")
            continue
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        files[name] = _notebook_code(text) if path.suffix == ".ipynb" else text
    if len(paths) > MAX_CODE_FILES:
        report.left_out.append(f"{len(paths) - MAX_CODE_FILES} files of code: only the first {MAX_CODE_FILES} are read")
    if not any(name.endswith((".py", ".ipynb")) for name in files):
        raise ResultsError(f"{folder} contains no Python file: give --code the folder with the paper's code")
    return files


def _notebook_code(text: str) -> str:
    """Return the code of a notebook, without its magics."""
    try:
        found: Any = json.loads(text)
        cells = cast("list[Mapping[str, Any]]", found["cells"])
        sources = ("".join(one["source"]) for one in cells if one["cell_type"] == "code")
        return "\n\n".join(
            "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!"))) for source in sources
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


def _check_code(report: ExternalPaperAudit, files: Mapping[str, str]) -> None:
    """Run the honesty checks that do not depend on `lab`; their findings are only notes here.

    Code not written for this program may legitimately keep the best of several seeds and report all of them.
    """
    python = {name: text for name, text in files.items() if name.endswith(".py")}
    report.code_findings = tuple(
        one.model_copy(update={"suspect": False})
        for one in check_program(python)
        if "lab." not in one.why and one.kind != "best seed"
    )
    report.code_file_count = len(python)
