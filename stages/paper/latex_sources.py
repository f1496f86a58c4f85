"""The LaTeX sources of a paper from its parts: pure, so that the same parts give the same files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from jinja2 import FileSystemLoader, TemplateSyntaxError
from jinja2 import TemplateError as SkeletonError

from labwright.literature.bibtex import BibEntry
from labwright.record import result_macros
from labwright.record.schema.paper import PaperDraft, PaperFinding, Section
from labwright.review.evidence import Evidence, collect_used_keys, latex_allowlist
from labwright.review.evidence.latex_scanner import scan
from labwright.stages.paper.citations import format_bibliography
from labwright.stages.paper.latex import (
    PrintableCharacters,
    align_columns,
    build_tex_environment,
    escape,
    mark_recorded,
    shorten,
)
from labwright.stages.paper.template import PaperTemplate, TemplateError

DEFAULT_AUTHORS = "scientist, a program"
LOGGED_NOTE = "Grade of all values: logged."
"""What captions say where no value was computed by the program."""
SUPPLEMENT_FILE = "supplement.tex"
MAX_REASONS = 3
"""Reasons against a release, other than untied text, that page one names."""


@dataclass(frozen=True)
class FigureFile:
    """A figure made from recorded arrays. `path` is the .pdf or .png; there may be a twin with the other suffix."""

    name: str
    path: Path
    placement: Literal["main", "appendix", "supplement"] = "main"
    """The program places what does not stand in the main text."""


@dataclass(frozen=True)
class PaperTable:
    """A table that the program generated: its rows print `\\result` macros only."""

    name: str
    tabular: str
    caption: str


@dataclass(frozen=True)
class PaperParts:
    """A draft with all that it leans on.

    `appendix`, `supplement` (a document of its own) and `registered`, a block of page one, are generated TeX; `data`
    are the files beside the supplement. `notice` and `authors` are plain text and are escaped. `refused` has
    the reasons against its release, which stamp the pages, `logged` says in every caption who computed the values.
    """

    draft: PaperDraft
    evidence: Evidence
    figures: tuple[FigureFile, ...] = ()
    tables: tuple[PaperTable, ...] = ()
    library: tuple[BibEntry, ...] = ()
    appendix: str = ""
    supplement: str = ""
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    notice: str = ""
    registered: str = ""
    authors: str = DEFAULT_AUTHORS
    refused: tuple[str, ...] = ()
    logged: bool = False


@dataclass(frozen=True)
class LatexSources:
    """The files of a paper by name, and what had to be changed to make them."""

    files: Mapping[str, str]
    """Those of the supplement's data stand in its folder."""
    figures: Mapping[str, Path]
    """File under figures/ -> where it is copied from."""
    findings: tuple[PaperFinding, ...]
    cited: tuple[str, ...]
    pictures: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Those that the template itself shows, by name."""


def build_sources(parts: PaperParts, template: PaperTemplate) -> LatexSources:
    """Every file of the paper but its figures, which are named with where they come from."""
    draft = parts.draft  # every piece that may not be compiled becomes plain text: no forbidden command reaches TeX
    parts = replace(
        parts,
        draft=PaperDraft(
            title=_render_text(draft.title, inline=True),
            abstract=_render_text(draft.abstract, inline=True),
            sections=tuple(
                Section(title=_render_text(one.title, inline=True), body=_render_text(one.body))
                for one in draft.sections
            ),
            captions={name: _render_text(text, inline=True) for name, text in draft.captions.items()},
        ),
    )
    characters, figures = PrintableCharacters.from_styles(template.styles.values()), _find_pictures(parts)
    floats = characters.replace_unprintable(_define_floats(parts, figures, template))
    body = characters.replace_unprintable(_fill_skeleton(parts, template))
    further = "\n".join(_define_figures(parts, figures, template, ("supplement",)))
    beside = {
        "appendix.tex": characters.replace_unprintable(parts.appendix),
        SUPPLEMENT_FILE: characters.replace_unprintable(
            parts.supplement.replace("\\begin{document}", f"{further}\n\\begin{{document}}", 1)
        ),
    }
    cited = tuple(
        key for key in collect_used_keys([body, floats], latex_allowlist.CITE_COMMANDS) if key in parts.evidence.cites
    )
    used = dict.fromkeys(
        use for text in (body, floats, *beside.values()) for use in result_macros.find_macro_uses(text)
    )
    values = {use: parts.evidence.find_value(use) for use in used}
    files = {
        "paper.tex": body,
        "floats.tex": floats + "\n",
        "results.tex": characters.replace_unprintable(result_macros.render_results(values, untied=bool(parts.refused))),
        **{name: path.read_text(encoding="utf-8") for name, path in template.styles.items()},
        **{name: text for name, text in beside.items() if text},
        **parts.data,
    }
    if cited:
        files["references.bib"] = format_bibliography(parts.library, cited)
    findings = [
        PaperFinding(text=f"the figure {one.name!r} has no file: draw it again", blocks=True)
        for one in parts.figures
        if one.name not in figures
    ]
    findings += [PaperFinding(text=text) for text in characters.replacements]
    return LatexSources(
        files,
        {f"{name}{path.suffix}": path for name, path in figures.items()},
        tuple(findings),
        cited,
        template.pictures,
    )


def extend_evidence(evidence: Evidence, template: PaperTemplate) -> Evidence:
    """Evidence for a compiled paper: what the style itself prints may stand there, though no draft may type it."""
    return replace(evidence, names=(*evidence.names, *template.prints))


def _fill_skeleton(parts: PaperParts, template: PaperTemplate) -> str:
    """The template's skeleton, filled in. It may be a stranger's: it gets values, and runs no Python."""
    draft = parts.draft
    notice = [mark_recorded(one) for one in parts.notice.split("\n\n") if one.strip()]
    notice += [parts.registered] * bool(parts.registered)
    if parts.refused:
        notice.insert(0, rf"\textbf{{DRAFT, not released.}} {_explain_refusal(parts.refused)}")
    # A reader who gets a page alone learns that it was refused.
    running = (
        r"\textbf{DRAFT, not released} \quad " * bool(parts.refused) + f"Written by {mark_recorded(parts.authors)}"
    )
    try:
        skeleton = build_tex_environment(FileSystemLoader(template.folder)).get_template(template.skeleton)
        return skeleton.render(  # docs/paper.md lists these
            title=draft.title,
            abstract=draft.abstract.strip(),
            authors=mark_recorded(parts.authors),
            draft=bool(parts.refused),
            notice="\\par\n".join(notice),
            running=running,
            appendix=bool(parts.appendix),
            bibliography=bool(collect_used_keys(draft.texts, latex_allowlist.CITE_COMMANDS)),
            sections=[{"title": one.title, "body": one.body.strip()} for one in draft.sections],
        )
    except SkeletonError as error:
        line = f", line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
        raise TemplateError(
            f"the skeleton {str(template.folder / template.skeleton)!r}{line}: {error.message}"
        ) from error


def _explain_refusal(reasons: Sequence[str]) -> str:
    """Why a paper is not released, in a few sentences: that the check of evidence refused it where that is so."""
    untied = any(one.startswith("[") for one in reasons)
    others = [one.partition(": ")[0] for one in reasons if not one.startswith("[")]
    told = ["The check of evidence refused this paper: something in it is not tied to the record."] * untied
    return mark_recorded(
        " ".join((*told, *(f"{shorten(one[:1].upper() + one[1:], 160)}." for one in others[:MAX_REASONS])))
    )


def _render_text(text: str, *, inline: bool = False) -> str:
    if not any(problem.kind in ("command", "syntax") for problem in scan(text, inline=inline).problems):
        return text
    return "\n\n".join(escape(paragraph) for paragraph in re.split(r"\n\s*\n", text))


def _define_floats(parts: PaperParts, figures: Mapping[str, Path], template: PaperTemplate) -> str:
    """The definitions of all floats that are placed, and title and author of the PDF's own description.

    A float that a refused draft places, and that there is not, is a box that says so.
    """
    placed = {
        what: collect_used_keys([one.body for one in parts.draft.sections], frozenset({f"paper{what}"}))
        for what in ("figure", "table")
    }
    lines = [
        f"\\paperdata{{{parts.draft.title}}}{{{mark_recorded(parts.authors)}}}",
        *_define_figures(parts, figures, template, ("main", "appendix")),
    ]
    missing = [("figure", one.name) for one in parts.figures if one.name not in figures]
    lines += [_render_missing(*one) for one in missing]
    lines += [
        f"\\definefloat{{table:{one.name}}}{{%\n\\tablefloat{{{one.name}}}{{%\n"
        f"{align_columns(one.tabular, parts.evidence.results)}}}%\n{{{_add_grade(one.caption, parts)}}}}}"
        for one in parts.tables
        if one.name in placed["table"]
    ]
    for what, known in (("figure", parts.figures), ("table", parts.tables)) if parts.refused else ():
        lines += [_render_missing(what, name) for name in placed[what] if name not in {one.name for one in known}]
    return "\n".join(lines)


def _define_figures(
    parts: PaperParts, figures: Mapping[str, Path], template: PaperTemplate, places: Collection[str]
) -> list[str]:
    """The definitions of the figures that stand in these places.

    A figure's width lets TeX put it into one column or across both; `scientist-paper.sty` says how.
    """
    lines: list[str] = []
    for name in (one.name for one in parts.figures if one.name in figures and one.placement in places):
        caption = _add_grade(parts.draft.captions.get(name, "").strip(), parts)
        lines.append(
            f"\\definefloat{{figure:{name}}}{{%\n\\figurefloat{{{name}}}{{{name}{figures[name].suffix}}}"
            f"{{{_measure_width(figures[name], template):.2f}in}}%\n{{{caption}}}}}"
        )
    return lines


def _add_grade(caption: str, parts: PaperParts) -> str:
    return caption + f" {LOGGED_NOTE}" * (parts.logged and LOGGED_NOTE not in caption)


def _render_missing(what: str, name: str) -> str:
    return f"\\definefloat{{{what}:{name}}}{{\\begin{{center}}\\fbox{{missing {what}: {escape(name)}}}\\end{{center}}}}"


def _find_pictures(parts: PaperParts) -> dict[str, Path]:
    """The file that each figure is taken from; figures without one are left out."""
    found: dict[str, Path] = {}
    for figure in parts.figures:
        twins = [path for suffix in (".pdf", ".png") if (path := figure.path.with_suffix(suffix)).is_file()]
        if twins:  # not with Type 3 fonts, matplotlib's default, which print and search badly
            found[figure.name] = next(
                (path for path in twins if path.suffix != ".pdf" or b"/Type3" not in path.read_bytes()), twins[0]
            )
    return found


def _measure_width(picture: Path, template: PaperTemplate) -> float:
    """Inches: a PDF as it was drawn, any other file, and what is too wide, as wide as the text."""
    box = re.search(rb"/MediaBox\s*\[\s*([\d.-]+)\s+[\d.-]+\s+([\d.-]+)", picture.read_bytes())
    drawn = (float(box[2]) - float(box[1])) / 72 if box is not None and picture.suffix == ".pdf" else 0.0
    return min(drawn or template.text_width, template.text_width)
