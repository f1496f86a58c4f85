"""The audit of a paper that is not ours: its numbers against its result files, the paper against itself, its code.

Each number is found, derivable, ambiguous or unsupported. It is looked up among the results whose labels share most
words with its place, and the chance of a match is counted among these (see `matching`). One that would be matched as
easily by chance is ambiguous, and so is every number of one digit, found or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from record.nouns.nodes import Finding
from record.nouns.papers import AuditFacts
from review.foreign.internal import Inconsistency, inconsistencies
from review.foreign.matching import LIKELY, Operand, chance_of, matches, nearest_step, statistics
from review.foreign.passages import Claim, claims_of, passages_of, sections_of
from review.foreign.printed import numbers_of
from review.foreign.results import ResultsError, Series, read_results, words_of
from review.honesty import check
from review.judge.reader import read_paper

Class = Literal["found", "derivable", "ambiguous", "unsupported"]
CLASSES: tuple[Class, ...] = ("found", "derivable", "ambiguous", "unsupported")
MOST_CODE_FILES, MOST_CODE_BYTES = 500, 1_000_000
MOST_FINDINGS = 30
"""Of those that a judge is shown."""


@dataclass(frozen=True)
class Verdict:
    """What stands behind a number. `written`: it was found in a report in prose only."""

    claim: Claim
    kind: Class
    evidence: str = ""
    chance: float = 0.0
    value: float | None = None
    written: bool = False


class _Index:
    """The values of all series in one row, and which series each belongs to."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.series = series
        self.flat = np.array([value for one in series for value in one.values], dtype=np.float64)
        self.sizes = [len(one.values) for one in series]
        self.owner = [one for one in series for _ in one.values]
        self.offset = [at for one in series for at in range(len(one.values))]

    def look_up(self, claim: Claim) -> Verdict | None:
        """The place that the number is most likely from, and the chance that any number would have one there."""
        matched = matches(self.flat, claim.number)
        if not matched:
            return None
        words = words_of(claim.context)
        shared = np.repeat([len(words & one.words) for one in self.series], self.sizes)
        most = max(int(shared[at]) for at in matched)
        chance = chance_of(self.flat[shared >= most] if most >= 2 else self.flat, claim.number)
        unwritten = [at for at in matched if not self.owner[at].written]
        measured = [at for at in unwritten if shared[at] >= max(2, most - 1)]
        at = max(measured or matched, key=lambda at: int(shared[at]))
        one, value = self.owner[at], float(self.flat[at])
        line = one.places[self.offset[at]]
        place = f"{one.file}, {line}" if line else f"{one.file}: {one.key}"
        return Verdict(claim, "ambiguous" if chance > LIKELY else "found", f"{place} ({value:.6g})", chance, value,
                       written=not unwritten)


def classify(claims: Sequence[Claim], series: Sequence[Series]) -> tuple[Verdict, ...]:
    """A verdict for each number, in order."""
    index, aggregates = _Index(series), _Index(list(statistics(series)))
    first = [_looked_up(claim, index, aggregates) for claim in claims]
    matched = [one for one in first if one is not None and one.value is not None]
    sure = [Operand(one.claim, one.value or 0.0) for one in matched if one.kind != "ambiguous"]
    unsure = [Operand(one.claim, one.value or 0.0) for one in matched]
    return tuple(_settled(claim, found, sure, unsure) for claim, found in zip(claims, first, strict=True))


def _looked_up(claim: Claim, index: _Index, aggregates: _Index) -> Verdict | None:
    """Found among the results, or else among their means and deviations; ambiguous where either is."""
    found = index.look_up(claim)
    if found is None or found.kind != "found":
        aggregate = aggregates.look_up(claim)
        if aggregate is not None and aggregate.kind == "found":
            return replace(aggregate, kind="derivable", written=False)
    return found


def _settled(
        claim: Claim, found: Verdict | None, sure: Sequence[Operand], unsure: Sequence[Operand]) -> Verdict:
    """What was looked up, or else one step from numbers that were; from ambiguous ones it is ambiguous."""
    if found is not None and found.kind != "ambiguous":
        return found
    step = nearest_step(claim, sure)
    if step is not None and step.chance <= LIKELY:
        return Verdict(claim, "derivable", step.formula, step.chance)
    if found is not None:
        return found
    step = step or nearest_step(claim, unsure)
    if step is not None:
        return Verdict(claim, "ambiguous", step.formula, step.chance)
    if claim.number.digits == 1:
        return Verdict(claim, "ambiguous", "one digit", 1 / 9)
    return Verdict(claim, "unsupported")


# --- the audit --------------------------------------------------------------------------------------------------------


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
    outside_abstract = [number for passage in passages for cell in passage.cells
                        for number in numbers_of(cell.text, "cell")]
    outside_abstract += [number for part in sections_of(paper) if "abstract" not in part.title.lower()
                         for number in numbers_of(part.text)]
    report.inconsistencies = inconsistencies(passages, claims, outside_abstract)
    if results is not None:
        found = read_results(results, but=path)
        report.verdicts = classify(claims, found.series)
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
    findings = [
        *(f"{one.kind} in {one.where}: {one.what}" for one in report.inconsistencies),
        *(f"code: {one.why}" for one in report.code if one.suspect),
        *(f"unsupported by the result files: {one.claim.number.text} in {one.claim.where}"
          for one in report.verdicts if one.kind == "unsupported")]
    return AuditFacts(
        against=against, numbers=report.numbers, findings=tuple(findings[:MOST_FINDINGS]),
        counts=(*counts, ("inconsistencies", len(report.inconsistencies)), ("Python files checked", report.code_files)),
        more=max(0, len(findings) - MOST_FINDINGS), left_out=tuple(report.left_out[:20]))


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
