"""One round over a draft: bind the source, build, bind the PDF."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from record.nouns.drafts import PaperFinding
from review.evidence import Evidence, Violation, check_draft, check_pdf, tex
from stages.paper.build import Built, build
from stages.paper.parts import PaperParts
from stages.paper.sources import evidence_with
from stages.paper.template import Template


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
        return (Violation(kind="compile", where="PDF", excerpt="paper.pdf", mend=f"could not be checked: {missing}"),)
