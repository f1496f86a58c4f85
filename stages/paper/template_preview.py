"""Typeset a two-line sample paper to check a template.

Guarantees, if `try_template` raises nothing: the skeleton compiles with a title, an abstract, a section, a table, a
citation and an appendix; all of them and the notice are in the PDF; the end of the main text is marked, so that the
page limit can be checked; the style prints no number that counts as unbound. Limits: a long paper may still look bad.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from labwright.literature.bibtex import parse_bibtex
from labwright.record.result_macros import print_value
from labwright.record.schema.paper import PaperDraft, Section
from labwright.review.evidence import Evidence, check_pdf, tex_runner
from labwright.review.evidence.pdf_check import extract_pdf_text
from labwright.stages.paper.latex_sources import PaperParts, PaperTable, build_sources, extend_evidence
from labwright.stages.paper.template import PaperTemplate, TemplateError
from labwright.stages.paper.typesetting import build_paper

TIMEOUT_SECONDS = 60.0
"""TeX time limit for the sample."""

_KEY = "sample/value.mean"
_WORDS = {
    "title": "Samplename",
    "abstract": "Samplesummary",
    "sections": "Samplebody",
    "authors": "Samplewriter",
    "notice": "Samplenotice",
    "sections (their titles)": "Sampleheading",
    "appendix": "Sampleappendix",
}
"""The skeleton variable that prints each mark."""
_FACES = r"\emph{a} \textbf{b} \textsf{c} \textsf{\textbf{d}} \texttt{e} \textsc{f} é $x_i$"
"""Every font style that a paper may use, so that missing fonts show now."""
_ENTRY = "@misc{sample, title = {Samplework}, author = {Doe, Jane}, year = {2000}, verified = {sample}}"


async def try_template(template: PaperTemplate, *, anonymous: bool = False) -> None:
    """Typeset the sample. Raises `TemplateError` and `review.evidence.tex_runner.TexMissing`."""
    tex_runner.find_program("pdflatex")
    with tempfile.TemporaryDirectory(prefix="scientist-template-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "paper"
        draft = PaperDraft(
            title="Samplename",
            abstract="Samplesummary.",
            sections=(
                Section(
                    title="Sampleheading",
                    body=rf"Samplebody \result{{{_KEY}}} \citep{{sample}}. {_FACES}"
                    "\n\n"
                    r"\papertable{sample}",
                ),
            ),
        )
        parts = PaperParts(
            draft=draft,
            authors="Samplewriter",
            anonymous=anonymous,
            notice="Samplenotice",
            appendix="\\recordappendix\n\\section{Sampleappendix}\n\\begin{longtable}{L{0.5\\linewidth}}a\\\\\n"
            "\\end{longtable}\n",
            library=parse_bibtex(_ENTRY),
            tables=(PaperTable("sample", rf"\begin{{tabular}}{{c}}\result{{{_KEY}}}\end{{tabular}}", "A table."),),
            evidence=Evidence(
                results={_KEY: print_value(0.5, 1)}, cites=frozenset({"sample"}), tables=frozenset({"sample"})
            ),
        )
        built = await build_paper(parts, template, folder, timeout=TIMEOUT_SECONDS)
        if built.pdf is None:
            _refuse(template, f"does not compile a two-line paper: {built.findings[0]}")
        text = "".join((await extract_pdf_text(folder / "paper.pdf")).split()).casefold()  # styles use small capitals
        for what, mark in _WORDS.items():
            if mark.casefold() not in text and not (anonymous and what == "authors"):
                _refuse(template, f"prints no {what}: its skeleton needs << {what.split(' ')[0]} >>")
        if built.pages is None:
            _refuse(
                template,
                r"does not mark the end of the main text: its skeleton needs \maintextends after the "
                "last section",
            )
        stamped = build_sources(replace(parts, refused=("a sample",)), template).files["paper.tex"]
        if r"\draftwatermark{" not in stamped:
            _refuse(
                template,
                r"does not mark a refused paper: its skeleton needs <% if draft %>\draftwatermark{DRAFT}"
                "<% endif %>",
            )
        found = await check_pdf(folder, extend_evidence(parts.evidence, template))
        if found and found[0].kind == "number":
            _refuse(
                template,
                f"prints a number that is not in the record: {found[0].excerpt}; if its style prints this text, "
                "list it under 'prints' in template.toml",
            )
        if found:
            _refuse(template, f"cannot be checked: {found[0]}")


def _refuse(template: PaperTemplate, why: str) -> None:
    raise TemplateError(f"template {template.name!r} {why}")
