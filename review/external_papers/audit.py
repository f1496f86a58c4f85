"""Audit an external paper: look its numbers up in its result files, and check their arithmetic.

Nothing is executed and no model is asked. A finding is a printed result that is in no result file, or numbers that
contradict each other. Neither says whether the results are real: a judge that reads code and log decides that, with
what this audit knows of the programs that ran.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from labwright.record.schema.paper import AuditFacts
from labwright.review.external_papers.arithmetic import Contradiction, find_contradictions
from labwright.review.external_papers.passages import extract_claims, extract_passages
from labwright.review.external_papers.provenance import (
    PaperProvenance,
    format_provenance,
    read_log,
    read_logs,
    read_scripts,
    reconstruct_provenance,
)
from labwright.review.external_papers.result_files import ResultFolder, ResultsError, read_results
from labwright.review.external_papers.verdicts import (
    CLASSES,
    ORIGIN_TEXTS,
    NumberVerdict,
    Origin,
    OriginKind,
    classify_claims,
    find_missing_results,
    find_origins,
)
from labwright.review.judge.paper_reader import read_paper

MAX_CODE_FILES, MAX_CODE_BYTES = 500, 1_000_000
CODE_SUFFIXES = (".py", ".ipynb", ".sh", ".bash", ".yaml", ".yml", ".toml", ".cfg", ".ini")


@dataclass
class ExternalPaperAudit:
    """What is known of the numbers of a paper.

    `verdicts` and `origins`, one per number, are empty without result files; `left_out` lists what was not read.
    """

    paper: str
    sha256: str
    number_count: int
    verdicts: tuple[NumberVerdict, ...] = ()
    origins: tuple[Origin, ...] = ()
    missing_results: tuple[NumberVerdict, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    provenance: PaperProvenance = field(default_factory=PaperProvenance)
    result_files: tuple[str, ...] = ()
    result_value_count: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def class_counts(self) -> dict[str, int]:
        """Count the numbers of the paper by class."""
        classes = Counter(one.kind for one in self.verdicts)
        return {name: classes[name] for name in CLASSES}

    @property
    def origin_counts(self) -> dict[OriginKind, int]:
        """Count the numbers of the paper by origin."""
        origins = Counter(one.kind for one in self.origins)
        return {kind: origins[kind] for kind in ORIGIN_TEXTS}

    @property
    def prose_only_count(self) -> int:
        """Count found numbers that occur only in prose reports and in no file that a program typically writes."""
        return sum(one.from_prose for one in self.verdicts if one.kind == "found")

    @property
    def finding_count(self) -> int:
        return len(self.missing_results) + len(self.contradictions)


async def audit_paper(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> ExternalPaperAudit:
    """Audit a paper (.md, .tex, .pdf); `log` may be outside the results. Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    claims = extract_claims(extract_passages(paper))
    report = ExternalPaperAudit(path.name, paper.sha256, len(claims), contradictions=find_contradictions(claims))
    report.left_out += [f"{name}, which the paper includes, does not exist" for name in paper.missing_files]
    scripts = read_scripts(_read_code(report, code) if code is not None else {})
    read = ResultFolder()
    if results is not None:
        read = read_results(results, excluded=path)
        report.verdicts = classify_claims(claims, read.series)
        report.result_files, report.result_value_count = tuple(read.files), read.value_count
        report.left_out += read.left_out
    logs = read_logs(results) if results is not None else ()
    if log is not None and not (results is not None and results.resolve() in log.resolve().parents):
        logs = (*logs, read_log(log, log.name))
    report.provenance = reconstruct_provenance(scripts, logs, read.files)
    report.origins = find_origins(report.verdicts, report.provenance)
    report.missing_results = find_missing_results(
        report.verdicts, {value for one in scripts if not one.is_test for value in one.list_settings()}
    )
    return report


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


# Summarise the audit of an external paper as facts for a judge: programs that ran, origins of numbers, findings.

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
