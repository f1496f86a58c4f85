"""Builds a paper: sources, then TeX within limits, then the finished files into their folder.

Everything is written beside the folder first and moved in file by file, the PDF last; a PDF that no longer belongs to
the sources is removed before they change. A reader never finds half a file, or a PDF of other sources.

One round over a draft: bind the source, build, bind the PDF.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from record.nouns.papers import PaperFinding
from review.evidence import Evidence, Violation, check_draft, check_pdf, tex
from review.evidence.pdf import tex_error
from stages.paper import findings
from stages.paper.sources import PaperParts, Sources, evidence_with, sources
from stages.paper.template import PICTURES, STYLES, Template

PASSES = 5
"""Passes of pdflatex at most; three are the rule (references, then their places)."""

_AGAIN = re.compile(r"Rerun to get|rerun LaTeX|Label\(s\) may have changed|Table widths have changed")
_KEPT = frozenset({".tex", ".bib", ".bbl", ".log"}) | STYLES | (PICTURES - {".pdf"})


@dataclass(frozen=True)
class Built:
    """A paper as it came out. `pages` counts main text; `findings` want mending, `errors` are TeX's own."""

    pdf: Path | None
    pages: int | None
    findings: tuple[PaperFinding, ...] = ()
    errors: tuple[str, ...] = ()
    total_pages: int | None = None
    filled: float | None = None
    """Pages of main text with the part of the last one that is used."""


async def build(parts: PaperParts, template: Template, folder: Path, *, timeout: float = 120.0) -> Built:
    """Write and compile the paper into `folder`. `timeout` is seconds for all of TeX together.

    Without TeX the sources are left there, and the finding says what to install.
    """
    made = sources(parts, template)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True) as name:
        desk = Path(name)
        _lay_out(made, desk)
        try:
            built = await _compile(desk, made, parts, template, timeout)
        except tex.TexMissing as missing:
            built = Built(None, None, findings.stops(str(missing)))
        _publish(desk, folder, pdf=built.pdf is not None)
    found = tuple(dict.fromkeys((*made.findings, *built.findings)))
    return Built(folder / "paper.pdf" if built.pdf else None, built.pages, found, built.errors, built.total_pages,
                 built.filled)


def _lay_out(made: Sources, desk: Path) -> None:
    for name, text in made.files.items():
        (desk / name).write_text(text, encoding="utf-8")
    (desk / "figures").mkdir()
    for name, path in made.figures.items():
        shutil.copyfile(path, desk / "figures" / name)
    for name, path in made.beside.items():
        shutil.copyfile(path, desk / name)


def _publish(desk: Path, folder: Path, *, pdf: bool) -> None:
    """Move the finished files in, each by one rename."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "paper.pdf").unlink(missing_ok=True)
    for stale in ("appendix.tex", "references.bib", "paper.bbl"):
        if not (desk / stale).exists():
            (folder / stale).unlink(missing_ok=True)
    for file in sorted((desk / "figures").iterdir()):
        os.replace(file, folder / "figures" / file.name)
    for file in sorted(desk.iterdir()):
        if file.suffix in _KEPT:
            os.replace(file, folder / file.name)
    if pdf:
        os.replace(desk / "paper.pdf", folder / "paper.pdf")


# --- TeX ------------------------------------------------------------------------------------------------------------


async def _compile(desk: Path, made: Sources, parts: PaperParts, template: Template, timeout: float) -> Built:
    failed = await _passes(desk, bibliography=bool(made.cited), timeout=timeout)
    if failed is not None:
        return Built(None, None, findings.stops(failed), (failed,))
    log = (desk / "paper.log").read_text(errors="replace")
    placed = (*(f"fig:{one.name}" for one in parts.figures if not one.appendix),
              *(f"tab:{one.name}" for one in parts.tables))
    length = findings.length(desk, placed)
    fonts, style = await asyncio.gather(tex.run(["pdffonts", "paper.pdf"], desk, timeout=30), _chktex(desk))
    total = re.search(r"Output written on paper\.pdf \((\d+) page", log)
    return Built(
        desk / "paper.pdf", length.pages if length else None,
        filled=length.pages - 1 + length.fill if length else None, total_pages=int(total[1]) if total else None,
        findings=(*findings.of_log(log, made.files["paper.tex"]), *findings.of_length(length, template),
                  *findings.of_fonts(fonts.output), *style))


async def _passes(desk: Path, *, bibliography: bool, timeout: float) -> str | None:
    """Run TeX until references are settled; None, or why it failed."""
    clock = asyncio.get_running_loop().time
    ends = clock() + timeout
    for number in range(PASSES):
        ran = await tex.run(tex.latex("paper"), desk, timeout=max(ends - clock(), 0.1))
        if ran.timed_out:
            return f"TeX did not end within {timeout:g} s and was killed: something in the text loops"
        if ran.code != 0:
            return f"TeX stopped at an error: {tex_error(ran.output)}{_context(desk, ran.output)}"
        if number == 0 and bibliography:
            ran = await tex.run(["bibtex", "paper"], desk, timeout=max(ends - clock(), 0.1))
            if ran.timed_out or ran.code not in (0, 1):
                return f"bibtex failed: {' '.join(ran.output.split())[-300:]}"
        elif number > 0 and not _AGAIN.search((desk / "paper.log").read_text(errors="replace")):
            return None
    return None


def _context(desk: Path, output: str) -> str:
    """The source line that an error names."""
    place = re.search(r"^(?:\./)?([\w.-]+\.tex):(\d+):", output, re.MULTILINE)
    if place is None or not (desk / place[1]).exists():
        return ""
    lines = (desk / place[1]).read_text(errors="replace").splitlines()
    at = int(place[2]) - 1
    return f" in: {lines[at].strip()[:200]!r}" if at < len(lines) else ""


async def _chktex(desk: Path) -> tuple[PaperFinding, ...]:
    """Findings of chktex; none where it is not installed."""
    chosen = [option for number in findings.CHKTEX for option in ("-w", number)]
    try:
        ran = await tex.run(["chktex", "-q", "-I0", "-n", "all", *chosen, "-f", "%n:%l\n", "paper.tex"], desk,
                            timeout=30)
    except tex.TexMissing:
        return ()
    return findings.of_chktex(ran.output, (desk / "paper.tex").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Assessment:
    """What a round found. A paper may be released when `clean`: nothing untied, and nothing left to mend."""

    violations: tuple[Violation, ...]
    findings: tuple[PaperFinding, ...]
    pages: int | None
    pdf: Path | None
    filled: float | None = None
    """Pages of main text with the part of the last one that is used."""

    @property
    def clean(self) -> bool:
        return not self.violations and not self.findings and self.pdf is not None


async def assess(parts: PaperParts, template: Template, folder: Path, *, timeout: float = 120.0) -> Assessment:
    """Check a draft, build it into `folder` and check the PDF. `timeout` is seconds of TeX for each of the two.

    A piece of the draft that holds forbidden commands is printed as plain text: it never reaches TeX.
    """
    violations = check_draft(parts.draft, parts.evidence)
    built: Built = await build(parts, template, folder, timeout=timeout)
    if built.pdf is not None and not parts.refused:
        violations += await _checked(folder, evidence_with(parts.evidence, template), timeout)
    return Assessment(violations, built.findings, built.pages, built.pdf, built.filled)


async def _checked(folder: Path, evidence: Evidence, timeout: float) -> tuple[Violation, ...]:
    try:
        return await check_pdf(folder, evidence, timeout=timeout)
    except tex.TexMissing as missing:
        return (Violation(kind="compile", where="PDF", excerpt="paper.pdf", fix=f"could not be checked: {missing}"),)
