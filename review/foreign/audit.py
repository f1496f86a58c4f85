"""The audit of a paper that is not ours: what ran behind it, its numbers against that, the paper against itself.

Nothing is executed. What speaks against a paper are signs with their file, line and words, numbers that no result
gives, and places of the paper that do not agree. Where nothing speaks against it, it is still open whether anything
shows that its numbers were measured: `standing` keeps the two apart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from labwright.record.nouns.nodes import Finding
from labwright.review.foreign.grades import Grade, Grader, counted
from labwright.review.foreign.groups import grouped
from labwright.review.foreign.internal import Inconsistency, inconsistencies
from labwright.review.foreign.logs import read_log, read_logs
from labwright.review.foreign.missing import missing_of
from labwright.review.foreign.passages import claims_of, passages_of, sections_of
from labwright.review.foreign.printed import numbers_of
from labwright.review.foreign.provenance import Provenance, reconstruct
from labwright.review.foreign.results import Results, ResultsError, Series, read_results
from labwright.review.foreign.scripts import read_scripts
from labwright.review.foreign.settled import claimed_settings
from labwright.review.foreign.signs import CIRCUMSTANTIAL, FINDING, Sign, score
from labwright.review.foreign.signs.every import signs_of
from labwright.review.foreign.signs.in_claims import sentences_of
from labwright.review.foreign.verdicts import CLASSES, Verdict, classify
from labwright.review.honesty import check
from labwright.review.judge.reader import read_paper

MOST_CODE_FILES, MOST_CODE_BYTES = 500, 1_000_000
CODE = (".py", ".ipynb", ".sh", ".bash", ".yaml", ".yml", ".toml", ".cfg", ".ini")

Standing = Literal["against", "missing", "not shown", "measured", "not asked"]


@dataclass
class ForeignAudit:
    """What was found on a paper. `verdicts` are empty without result files; `left_out` says what was not read."""

    paper: str
    sha256: str
    numbers: int
    verdicts: tuple[Verdict, ...] = ()
    grades: tuple[Grade, ...] = ()
    """One a verdict."""
    doubts: tuple[tuple[str, int], ...] = ()
    """Why numbers that stand somewhere are not taken for measured, and how many."""
    missing: tuple[Verdict, ...] = ()
    """Printed results that are in no result file: a fact about the files, which by itself speaks for nothing."""
    settings: tuple[str, ...] = ()
    """What the paper claims of its set-up beside what code sets, a line each."""
    signs: tuple[Sign, ...] = ()
    found: Provenance = field(default_factory=Provenance)
    inconsistencies: tuple[Inconsistency, ...] = ()
    code: tuple[Finding, ...] = ()
    result_files: tuple[str, ...] = ()
    result_numbers: int = 0
    code_files: int = 0
    left_out: list[str] = field(default_factory=list[str])

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of the paper by class."""
        classes = Counter(one.kind for one in self.verdicts)
        return {name: classes[name] for name in CLASSES}

    @property
    def graded(self) -> dict[str, int]:
        """Numbers of the paper by grade."""
        return counted(self.grades)

    @property
    def written(self) -> int:
        """Found numbers that stand in reports in prose only, in no file that a program writes as a rule."""
        return sum(one.written for one in self.verdicts if one.kind == "found")

    @cached_property
    def against(self) -> tuple[Sign, ...]:
        """The signs that count as findings: conclusive ones, or else circumstantial ones of several kinds."""
        own = tuple(one for one in self.signs if one.is_finding)
        several = tuple(one for one in self.signs if one.weight >= CIRCUMSTANTIAL)
        return own or (several if score((*several, *self._apart)) >= FINDING else ())

    @property
    def _apart(self) -> tuple[Sign, ...]:
        """The places of the paper that do not agree, as a circumstantial sign."""
        return tuple(Sign("inconsistency", one.what, one.where, "", CIRCUMSTANTIAL) for one in self.inconsistencies[:1])

    @property
    def findings(self) -> int:
        """What speaks against the paper: signs, and beside them inconsistencies."""
        return len(self.against) + (len(self.inconsistencies) if self.against else 0)

    @property
    def suspicion(self) -> float:
        """How much speaks for invention, 0 to 1: from `FINDING` on where something speaks against the paper."""
        own = score((*self.signs, *self._apart))
        if self.findings:
            return max(own, FINDING)
        return min(own + (0.1 if self.verdicts and not self._is_shown else 0), FINDING - 0.01)

    @property
    def standing(self) -> Standing:
        """What the audit comes to: something speaks against it, results are in no result file, nothing shows
        measurement, or something does."""
        if self.findings:
            return "against"
        if not self.verdicts:
            return "not asked"
        return "missing" if self.missing else "measured" if self._is_shown else "not shown"

    @property
    def _is_shown(self) -> bool:
        """Whether most of the numbers stand where programs that ran put them."""
        looked_up = [grade for one, grade in zip(self.verdicts, self.grades, strict=True) if one.places]
        shown = sum(grade == "measured" for grade in looked_up)
        return bool(shown) and shown >= len(looked_up) / 2


async def audit_paper(
    path: Path, *, results: Path | None = None, code: Path | None = None, log: Path | None = None
) -> ForeignAudit:
    """Audit a paper (.md, .tex, .pdf). Raises `PaperError`, `ResultsError`."""
    paper = await read_paper(path)
    passages = passages_of(paper)
    claims = claims_of(passages)
    report = ForeignAudit(path.name, paper.sha256, len(claims))
    report.left_out += [f"{name}, which the paper includes, is not there" for name in paper.missing]
    outside_abstract = [
        number for passage in passages for cell in passage.cells for number in numbers_of(cell.text, "cell")
    ]
    outside_abstract += [
        number
        for part in sections_of(paper)
        if "abstract" not in part.title.lower()
        for number in numbers_of(part.text)
    ]
    files = _code_of(report, code) if code is not None else {}
    if code is not None:
        _check_code(report, files)
    read, groups = Results(), tuple[Series, ...]()
    if results is not None:
        read = read_results(results, but=path)
        groups = tuple(grouped(read.series))
        report.verdicts = classify(claims, read.series, groups)
        report.result_files, report.result_numbers = tuple(read.files), read.count
        report.left_out += read.left_out
    given = {at for at, one in enumerate(report.verdicts) if one.places or one.kind == "derivable"}
    report.inconsistencies = inconsistencies(passages, claims, outside_abstract, given=given)
    own = read_logs(results) if results is not None else ()
    inside = log is not None and results is not None and results.resolve() in log.resolve().parents
    logs = own if log is None or inside else (*own, read_log(log, log.name))
    report.found = reconstruct(read_scripts(files), logs, read.files)
    said = "\n\n".join(f"# {part.title}\n{part.text}" for part in paper.sections)
    report.signs = signs_of(
        report.found,
        paper=said,
        passages=passages,
        read=read,
        groups=groups,
        reports=dict(_reports(results, path)),
        verdicts=report.verdicts,
    )
    report.missing = missing_of(report.verdicts, read.series, report.found)
    grader = Grader(report.found, report.signs)
    report.grades = tuple(grader.grade(one) for one in report.verdicts)
    report.doubts = tuple(
        Counter(
            grader.why(one) for one, grade in zip(report.verdicts, report.grades, strict=True) if grade == "reported"
        ).most_common()
    )
    report.settings = tuple(
        claimed_settings(
            sentences_of(said),
            files | _configurations(code),
            {log.name: "\n".join(line.text for line in log.lines[:500]) for log in logs},
            (value for one in read.series for value in one.values),
        )
    )
    return report


def _reports(results: Path | None, paper: Path) -> Iterator[tuple[str, str]]:
    """Texts beside the results that a person or a model may have written."""
    if results is None or not results.is_dir():
        return
    for path in sorted(results.rglob("*.md"))[:50]:
        if path.is_file() and not path.is_symlink() and path.resolve() != paper.resolve() and path.stem != paper.stem:
            yield path.relative_to(results).as_posix(), path.read_text(errors="replace")[:200_000]


def _configurations(folder: Path | None) -> dict[str, str]:
    """Small JSON files beside the code, by path below its folder."""
    paths = sorted(folder.rglob("*.json"))[:20] if folder is not None and folder.is_dir() else []
    return {
        path.relative_to(folder).as_posix(): path.read_text(errors="replace")
        for path in paths
        if folder is not None and path.is_file() and not path.is_symlink() and path.stat().st_size < 5_000
    }


def _code_of(report: ForeignAudit, folder: Path) -> dict[str, str]:
    """The files of a folder of code, by path below it. Raises `ResultsError`."""
    if not folder.exists():
        raise ResultsError(f"there is no {folder}: give --code the folder that holds the paper's Python code")
    paths = sorted(path for path in folder.rglob("*") if path.suffix in CODE) if folder.is_dir() else [folder]
    files: dict[str, str] = {}
    for path in paths[:MOST_CODE_FILES]:
        name = path.relative_to(folder).as_posix() if folder.is_dir() else path.name
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_CODE_BYTES:
            report.left_out.append(f"{name}: a link, or larger than {MOST_CODE_BYTES // 10**6} MB")
            continue
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        files[name] = _cells(text) if path.suffix == ".ipynb" else text
    if len(paths) > MOST_CODE_FILES:
        report.left_out.append(f"{len(paths) - MOST_CODE_FILES} files of code: the first {MOST_CODE_FILES} are read")
    if not any(name.endswith((".py", ".ipynb")) for name in files):
        raise ResultsError(f"there is no Python file in {folder}: give --code the folder that holds the paper's code")
    return files


def _cells(text: str) -> str:
    """The code of a notebook, without its magics."""
    try:
        found: Any = json.loads(text)
        cells = cast("list[Mapping[str, Any]]", found["cells"])
        sources = ("".join(one["source"]) for one in cells if one["cell_type"] == "code")
        return "\n\n".join(
            "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!"))) for source in sources
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


def _check_code(report: ForeignAudit, files: Mapping[str, str]) -> None:
    """The honesty checks over Python files, but those that ask for `lab`; what they find elsewhere is a note here.

    A program that is not of our kind may keep the best of several seeds beside all of them.
    """
    python = {name: text for name, text in files.items() if name.endswith(".py")}
    report.code = tuple(
        one.model_copy(update={"suspect": False})
        for one in check(python)
        if "lab." not in one.why and one.kind != "best seed"
    )
    report.code_files = len(python)
