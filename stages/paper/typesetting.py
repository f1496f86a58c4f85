"""Typeset a paper, move the finished files into its folder, and check the result.

All files are first written into a temporary folder and moved one by one, the PDF last. A PDF that does not match the
sources is removed before they change, so a reader never sees a partial file or an outdated PDF.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from labwright.pdf.reader import PdfError, read_pdf
from labwright.record.run_folder import create_draft_folder
from labwright.record.schema.paper import PaperFinding
from labwright.record.untrusted_files import remove_tree
from labwright.review.evidence import Violation, check_draft, check_pdf, tex_runner
from labwright.review.evidence.pdf_check import find_tex_error
from labwright.stages.paper import compilation_findings
from labwright.stages.paper.latex_sources import (
    SUPPLEMENT_FILE,
    LatexSources,
    PaperParts,
    build_sources,
    extend_evidence,
)
from labwright.stages.paper.supplement_data import SUPPLEMENT_FOLDER
from labwright.stages.paper.template import PICTURE_SUFFIXES, STYLE_SUFFIXES, PaperTemplate

_KEPT_SUFFIXES = frozenset({".tex", ".bib", ".bbl", ".log"}) | STYLE_SUFFIXES | (PICTURE_SUFFIXES - {".pdf"})


@dataclass(frozen=True)
class PaperAssessment:
    """The assessment of a compiled paper. `pages` counts main text; `findings` need fixing; `violations` come from the
    evidence check.

    A paper is clean and may be released if it has a PDF, no violations and no findings.
    """

    pdf: Path | None
    pages: int | None
    findings: tuple[PaperFinding, ...] = ()
    pages_filled: float | None = None
    """Pages of main text, counting only the used part of the last page."""
    violations: tuple[Violation, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not self.violations and not self.findings and self.pdf is not None


async def assess_paper(
    parts: PaperParts, template: PaperTemplate, folder: Path, *, timeout: float = 120.0
) -> PaperAssessment:
    """Check a draft, build it into `folder` and check the PDF. `timeout` is the TeX time limit in seconds for each of
    the two.

    A part of the draft with forbidden commands is printed as plain text and never reaches TeX.
    """
    violations = check_draft(parts.draft, parts.evidence)
    built = await build_paper(parts, template, folder, timeout=timeout)
    if built.pdf is not None and not parts.refused:
        try:
            evidence = extend_evidence(parts.evidence, template)
            violations += await check_pdf(folder, evidence, timeout=timeout)
            if (folder / "supplement.pdf").exists():
                violations += await check_pdf(folder, evidence, "supplement", timeout=timeout)
        except tex_runner.TexMissing as missing:
            violations += (
                Violation(kind="compile", where="PDF", excerpt="paper.pdf", fix=f"could not be checked: {missing}"),
            )
    return replace(built, violations=violations)


async def build_paper(
    parts: PaperParts, template: PaperTemplate, folder: Path, *, timeout: float = 120.0
) -> PaperAssessment:
    """Write and compile the paper into `folder`. `timeout` is the limit in seconds for all TeX runs.

    Without TeX, only the sources are written, and a finding names what to install.
    """
    made = build_sources(parts, template)
    work = create_draft_folder(folder)
    try:
        for file, text in made.files.items():
            (work / file).parent.mkdir(exist_ok=True)
            (work / file).write_text(text, encoding="utf-8")
        (work / "figures").mkdir()
        for file, path in made.figures.items():
            shutil.copyfile(path, work / "figures" / file)
        for file, path in made.pictures.items():
            shutil.copyfile(path, work / file)
        try:
            built = await _compile(work, made, parts, template, timeout)
        except tex_runner.TexMissing as missing:
            built = PaperAssessment(None, None, (PaperFinding(text=str(missing), blocks=True),))
        built = replace(built, findings=(*built.findings, *await _compile_supplement(work, timeout)))
        _publish(work, folder, pdf=built.pdf is not None)
    finally:
        remove_tree(work, ignore_errors=True)
    found = tuple(dict.fromkeys((*made.findings, *built.findings)))
    return PaperAssessment(folder / "paper.pdf" if built.pdf else None, built.pages, found, built.pages_filled)


def _publish(work: Path, folder: Path, *, pdf: bool) -> None:
    """Move the finished files into the folder, each with one rename."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "paper.pdf").unlink(missing_ok=True)
    for stale in ("appendix.tex", "references.bib", "paper.bbl", "supplement.tex", "supplement.pdf"):
        if not (work / stale).exists():
            (folder / stale).unlink(missing_ok=True)
    for file in sorted((*work.glob("figures/*"), *work.glob(f"{SUPPLEMENT_FOLDER}/*"))):
        (folder / file.parent.name).mkdir(exist_ok=True)
        os.replace(file, folder / file.relative_to(work))
    for file in sorted(work.iterdir()):
        if file.suffix in _KEPT_SUFFIXES or file.name == "supplement.pdf":
            os.replace(file, folder / file.name)
    if pdf:
        os.replace(work / "paper.pdf", folder / "paper.pdf")


async def _compile_supplement(work: Path, timeout: float) -> tuple[PaperFinding, ...]:
    """Compile the supplement, if there is one; return a finding if that fails."""
    if not (work / SUPPLEMENT_FILE).exists():
        return ()
    try:
        ran = await tex_runner.run_latexmk("supplement", work, timeout=timeout)
    except tex_runner.TexMissing:
        return ()
    failed = _find_failure(ran, work, timeout)
    return (PaperFinding(text=f"the supplement was not compiled: {failed}", by_edit=False),) if failed else ()


async def _compile(
    work: Path, made: LatexSources, parts: PaperParts, template: PaperTemplate, timeout: float
) -> PaperAssessment:
    failed = _find_failure(await tex_runner.run_latexmk("paper", work, timeout=timeout), work, timeout)
    if failed:
        return PaperAssessment(None, None, (PaperFinding(text=failed, blocks=True),))
    log = (work / "paper.log").read_text(errors="replace")
    placed = (
        *(f"fig:{one.name}" for one in parts.figures if one.placement == "main"),
        *(f"tab:{one.name}" for one in parts.tables if one.placement == "main"),
    )
    filled = compilation_findings.measure_pages(work, placed)
    too_long = compilation_findings.check_length(filled, template) if filled is not None else ()
    fonts, style = await asyncio.gather(_check_type3_fonts(work / "paper.pdf"), _run_chktex(work))
    return PaperAssessment(
        work / "paper.pdf",
        ceil(filled) if filled is not None else None,
        (*compilation_findings.parse_log(log, made.files["paper.tex"]), *too_long, *fonts, *style),
        filled,
    )


def _find_failure(ran: tex_runner.ProcessResult, work: Path, timeout: float) -> str:
    """Return why there is no PDF; empty if there is one, even if its references are unresolved."""
    if ran.timed_out:
        return f"TeX timed out after {timeout:g} s and was killed (probably an infinite TeX loop)"
    unsettled = "Maximum runs of" in ran.output and (work / "paper.pdf").exists()
    if ran.code == 0 or unsettled:
        return ""
    if "Bibtex errors" in ran.output and (work / "paper.blg").exists():
        return f"bibtex failed: {' '.join((work / 'paper.blg').read_text(errors='replace').split())[-300:]}"
    line = ""  # source line named by the error
    place = re.search(r"^(?:\./)?([\w.-]+\.tex):(\d+):", ran.output, re.MULTILINE)
    if place is not None and (work / place[1]).exists():
        lines = (work / place[1]).read_text(errors="replace").splitlines()
        at = int(place[2]) - 1
        line = f" in: {lines[at].strip()[:200]!r}" if at < len(lines) else ""
    return f"TeX stopped at an error: {find_tex_error(ran.output)}{line}"


async def _run_chktex(work: Path) -> tuple[PaperFinding, ...]:
    chosen = [option for number in compilation_findings.CHKTEX_MESSAGES for option in ("-w", number)]
    try:
        ran = await tex_runner.run_program(
            ["chktex", "-q", "-I0", "-n", "all", *chosen, "-f", "%n:%l\n", "paper.tex"], work, timeout=30
        )
    except tex_runner.TexMissing:
        return ()
    return compilation_findings.parse_chktex(ran.output, (work / "paper.tex").read_text(encoding="utf-8"))


async def _check_type3_fonts(pdf: Path) -> tuple[PaperFinding, ...]:
    """Return a finding if words are set in Type 3 fonts, which print and search badly."""
    try:
        document = await asyncio.to_thread(read_pdf, pdf, timeout=30)
    except PdfError:
        return ()
    pages = ", ".join(str(number) for number, page in enumerate(document.pages, 1) if page.has_type3)
    if not pages:
        return ()
    return (PaperFinding(text=f"Type 3 fonts in the PDF (page {pages}): save figures with pdf.fonttype 42 or as PNG"),)
