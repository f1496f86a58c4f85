"""The LaTeX sources of a paper from its parts: pure, so that the same parts give the same files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from jinja2 import FileSystemLoader, TemplateSyntaxError
from jinja2 import TemplateError as SkeletonError

from labwright.literature.library import Entry
from labwright.record import typeset
from labwright.record.nouns.papers import Draft, PaperFinding, Section
from labwright.review.evidence import Evidence, allowed, used_keys
from labwright.review.evidence.scan import scan
from labwright.stages.paper.citations import bibliography
from labwright.stages.paper.latex import Characters, aligned, escape, recorded, short, tex_environment
from labwright.stages.paper.template import Template, TemplateError

AUTHORS = "scientist, a program"
LOGGED = "Grade of all values: logged."
"""What captions say where no value was computed by the program."""
SUPPLEMENT = "supplement.tex"
MAX_REASONS = 3
"""Reasons against a release, other than untied text, that page one names."""


@dataclass(frozen=True)
class FigureFile:
    """A figure made from recorded arrays. `path` is the .pdf or .png; there may be a twin with the other suffix."""

    name: str
    path: Path
    place: Literal["main", "appendix", "supplement"] = "main"
    """The program places what does not stand in the main text."""


@dataclass(frozen=True)
class Table:
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

    draft: Draft
    evidence: Evidence
    figures: tuple[FigureFile, ...] = ()
    tables: tuple[Table, ...] = ()
    library: tuple[Entry, ...] = ()
    appendix: str = ""
    supplement: str = ""
    data: Mapping[str, str] = field(default_factory=dict[str, str])
    notice: str = ""
    registered: str = ""
    authors: str = AUTHORS
    refused: tuple[str, ...] = ()
    logged: bool = False


@dataclass(frozen=True)
class Sources:
    """The files of a paper by name, and what had to be changed to make them."""

    files: Mapping[str, str]
    """Those of the supplement's data stand in its folder."""
    figures: Mapping[str, Path]
    """File under figures/ -> where it is copied from."""
    findings: tuple[PaperFinding, ...]
    cited: tuple[str, ...]
    pictures: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Those that the template itself shows, by name."""


def sources(parts: PaperParts, template: Template) -> Sources:
    """Every file of the paper but its figures, which are named with where they come from."""
    draft = parts.draft  # every piece that may not be compiled becomes plain text: no forbidden command reaches TeX
    parts = replace(
        parts,
        draft=Draft(
            title=_piece(draft.title, inline=True),
            abstract=_piece(draft.abstract, inline=True),
            sections=tuple(
                Section(title=_piece(one.title, inline=True), body=_piece(one.body)) for one in draft.sections
            ),
            captions={name: _piece(text, inline=True) for name, text in draft.captions.items()},
        ),
    )
    characters, figures = Characters.of(template.styles.values()), _pictures(parts)
    floats = characters.fit(_floats(parts, figures, template))
    body = characters.fit(_skeleton(parts, template))
    further = "\n".join(_figures(parts, figures, template, ("supplement",)))
    beside = {
        "appendix.tex": characters.fit(parts.appendix),
        SUPPLEMENT: characters.fit(parts.supplement.replace("\\begin{document}", f"{further}\n\\begin{{document}}", 1)),
    }
    cited = tuple(key for key in used_keys([body, floats], allowed.CITES) if key in parts.evidence.cites)
    used = dict.fromkeys(use for text in (body, floats, *beside.values()) for use in typeset.uses(text))
    values = {use: parts.evidence.value(use) for use in used}
    files = {
        "paper.tex": body,
        "floats.tex": floats + "\n",
        "results.tex": characters.fit(typeset.render(values, untied=bool(parts.refused))),
        **{name: path.read_text(encoding="utf-8") for name, path in template.styles.items()},
        **{name: text for name, text in beside.items() if text},
        **parts.data,
    }
    if cited:
        files["references.bib"] = bibliography(parts.library, cited)
    findings = [
        PaperFinding(text=f"the figure {one.name!r} has no file: draw it again", blocks=True)
        for one in parts.figures
        if one.name not in figures
    ]
    findings += [PaperFinding(text=text) for text in characters.replaced]
    return Sources(
        files,
        {f"{name}{path.suffix}": path for name, path in figures.items()},
        tuple(findings),
        cited,
        template.pictures,
    )


def evidence_with(evidence: Evidence, template: Template) -> Evidence:
    """Evidence for a compiled paper: what the style itself prints may stand there, though no draft may type it."""
    return replace(evidence, names=(*evidence.names, *template.prints))


def _skeleton(parts: PaperParts, template: Template) -> str:
    """The template's skeleton, filled in. It may be a stranger's: it gets values, and runs no Python."""
    draft = parts.draft
    notice = [recorded(one) for one in parts.notice.split("\n\n") if one.strip()]
    notice += [parts.registered] * bool(parts.registered)
    if parts.refused:
        notice.insert(0, rf"\textbf{{DRAFT, not released.}} {_why(parts.refused)}")
    # A reader who gets a page alone learns that it was refused.
    running = r"\textbf{DRAFT, not released} \quad " * bool(parts.refused) + f"Written by {recorded(parts.authors)}"
    try:
        skeleton = tex_environment(FileSystemLoader(template.folder)).get_template(template.skeleton)
        return skeleton.render(  # docs/templates.md lists these
            title=draft.title,
            abstract=draft.abstract.strip(),
            authors=recorded(parts.authors),
            draft=bool(parts.refused),
            notice="\\par\n".join(notice),
            running=running,
            appendix=bool(parts.appendix),
            bibliography=bool(used_keys(draft.texts, allowed.CITES)),
            sections=[{"title": one.title, "body": one.body.strip()} for one in draft.sections],
        )
    except SkeletonError as error:
        line = f", line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
        raise TemplateError(
            f"the skeleton {str(template.folder / template.skeleton)!r}{line}: {error.message}"
        ) from error


def _why(reasons: Sequence[str]) -> str:
    """Why a paper is not released, in a few sentences: that the check of evidence refused it where that is so."""
    untied = any(one.startswith("[") for one in reasons)
    others = [one.partition(": ")[0] for one in reasons if not one.startswith("[")]
    told = ["The check of evidence refused this paper: something in it is not tied to the record."] * untied
    return recorded(" ".join((*told, *(f"{short(one[:1].upper() + one[1:], 160)}." for one in others[:MAX_REASONS]))))


def _piece(text: str, *, inline: bool = False) -> str:
    if not any(problem.kind in ("command", "syntax") for problem in scan(text, inline=inline).problems):
        return text
    return "\n\n".join(escape(paragraph) for paragraph in re.split(r"\n\s*\n", text))


def _floats(parts: PaperParts, figures: Mapping[str, Path], template: Template) -> str:
    """The definitions of all floats that are placed, and title and author of the PDF's own description.

    A float that a refused draft places, and that there is not, is a box that says so.
    """
    placed = {
        what: used_keys([one.body for one in parts.draft.sections], frozenset({f"paper{what}"}))
        for what in ("figure", "table")
    }
    lines = [
        f"\\paperdata{{{parts.draft.title}}}{{{recorded(parts.authors)}}}",
        *_figures(parts, figures, template, ("main", "appendix")),
    ]
    missing = [("figure", one.name) for one in parts.figures if one.name not in figures]
    lines += [_missing(*one) for one in missing]
    lines += [
        f"\\definefloat{{table:{one.name}}}{{%\n\\tablefloat{{{one.name}}}{{%\n"
        f"{aligned(one.tabular, parts.evidence.results)}}}%\n{{{_graded(one.caption, parts)}}}}}"
        for one in parts.tables
        if one.name in placed["table"]
    ]
    for what, known in (("figure", parts.figures), ("table", parts.tables)) if parts.refused else ():
        lines += [_missing(what, name) for name in placed[what] if name not in {one.name for one in known}]
    return "\n".join(lines)


def _figures(parts: PaperParts, figures: Mapping[str, Path], template: Template, places: Collection[str]) -> list[str]:
    """The definitions of the figures that stand in these places.

    A figure's width lets TeX put it into one column or across both; `scientist-paper.sty` says how.
    """
    lines: list[str] = []
    for name in (one.name for one in parts.figures if one.name in figures and one.place in places):
        caption = _graded(parts.draft.captions.get(name, "").strip(), parts)
        lines.append(
            f"\\definefloat{{figure:{name}}}{{%\n\\figurefloat{{{name}}}{{{name}{figures[name].suffix}}}"
            f"{{{_width(figures[name], template):.2f}in}}%\n{{{caption}}}}}"
        )
    return lines


def _graded(caption: str, parts: PaperParts) -> str:
    return caption + f" {LOGGED}" * (parts.logged and LOGGED not in caption)


def _missing(what: str, name: str) -> str:
    return f"\\definefloat{{{what}:{name}}}{{\\begin{{center}}\\fbox{{missing {what}: {escape(name)}}}\\end{{center}}}}"


def _pictures(parts: PaperParts) -> dict[str, Path]:
    """The file that each figure is taken from; figures without one are left out."""
    found: dict[str, Path] = {}
    for figure in parts.figures:
        twins = [path for suffix in (".pdf", ".png") if (path := figure.path.with_suffix(suffix)).is_file()]
        if twins:  # not with Type 3 fonts, matplotlib's default, which print and search badly
            found[figure.name] = next(
                (path for path in twins if path.suffix != ".pdf" or b"/Type3" not in path.read_bytes()), twins[0]
            )
    return found


def _width(picture: Path, template: Template) -> float:
    """Inches: a PDF as it was drawn, any other file, and what is too wide, as wide as the text."""
    box = re.search(rb"/MediaBox\s*\[\s*([\d.-]+)\s+[\d.-]+\s+([\d.-]+)", picture.read_bytes())
    drawn = (float(box[2]) - float(box[1])) / 72 if box is not None and picture.suffix == ".pdf" else 0.0
    return min(drawn or template.text_width, template.text_width)
