"""Estimate the room that floats and text take in print, before anything is written and without TeX.

The main text of a template has room for a number of words: its pages without title, headings and abstract. Figures take
part of it by their drawn size, tables by their rows, both by their captions; references are after the counted pages.
What is left is divided between the sections by the shares of the outline.

Limits: constants are those of 10 pt Times, from both built-in templates typeset with 1,500 and 3,000 words. Estimates
do not know how floats break over pages: papers of two to six pages with six floats were up to half a page off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from labwright.models.roles.paper_revision import SectionLength
from labwright.models.roles.paper_writing import PaperOutline
from labwright.record.schema.paper import PaperDraft
from labwright.review.evidence import collect_used_keys
from labwright.stages.paper.latex_sources import FigureFile, PaperTable, read_drawn_size
from labwright.stages.paper.template import PaperTemplate

WORDS_PER_SQUARE_INCH = 14.0
"""Words of running text, with paragraphs of about a hundred words."""
TITLE_INCHES = 1.9
"""Height of title, author and page-one line, over all columns."""
HEADING_INCHES = 0.38
ABSTRACT_WORDS = 150
USUAL_HEADINGS = 7
CAPTION_WORDS = 40
"""Words of a caption that is not written yet."""
CAPTION_WORDS_PER_INCH = 2.9
CAPTION_LINE_INCHES = 11 / 72
FLOAT_GAP_INCHES = 0.3
"""Space around a float, and between it and its caption."""
MAX_FIGURE_SHARE = 0.34
"""Maximum height of a figure as a share of the text height; see `\\paperfloatheight`."""
UNKNOWN_FIGURE_INCHES = (3.5, 2.2)
"""Width and height of a figure without a file."""
ROW_INCHES = 10.5 / 72
"""Height of a table row in \\footnotesize, rules included."""
TABLE_CHARACTERS_PER_INCH = 18.0
RESULT_CHARACTERS = 9
"""Characters that a macro of a table prints."""
MAX_FLOAT_SHARE = 0.45
"""Maximum share of the room that floats may take; figures beyond it belong in the appendix."""


def count_page_words(template: PaperTemplate) -> float:
    """Return the words that a page holds without floats and headings."""
    return WORDS_PER_SQUARE_INCH * template.columns * template.column_width * template.text_height


def count_text_words(template: PaperTemplate, headings: int = USUAL_HEADINGS) -> int:
    """Return the words that the main text has room for next to title, headings and abstract, without floats."""
    taken = (TITLE_INCHES + headings * HEADING_INCHES / template.columns) / template.text_height
    return round((template.page_limit - taken) * count_page_words(template)) - ABSTRACT_WORDS


def measure_floats(
    figures: Sequence[FigureFile], tables: Sequence[PaperTable], captions: Mapping[str, str], template: PaperTemplate
) -> dict[str, int]:
    """Return the words whose room each float takes, by its label: `fig:NAME` or `tab:NAME`."""
    words = count_page_words(template)
    return {
        label: round(words * pages)
        for label, pages in (
            *((f"fig:{one.name}", _measure_figure(one, captions.get(one.name, ""), template)) for one in figures),
            *((f"tab:{one.name}", _measure_table(one, template)) for one in tables),
        )
    }


def _measure_figure(figure: FigureFile, caption: str, template: PaperTemplate) -> float:
    """Return the pages that a figure takes."""
    drawn, picture = UNKNOWN_FIGURE_INCHES, figure.path.with_suffix(".pdf")
    if picture.is_file():
        drawn = read_drawn_size(picture) or drawn
    across = template.columns == 2 and drawn[0] > 1.3 * template.column_width
    room = template.text_width if across else template.column_width
    height = min(drawn[1] * min(1.0, room / drawn[0]), MAX_FIGURE_SHARE * template.text_height)
    return _sum_pages(height, len(caption.split()) or CAPTION_WORDS, room, template)


def _measure_table(table: PaperTable, template: PaperTemplate) -> float:
    """Return the pages that a table takes."""
    widths, rows = _parse_columns(table.tabular), list(_parse_rows(table.tabular))
    natural = max((sum(map(_count_characters, row)) for row in rows if len(row) > 1), default=0)
    fixed = sum(1 for width in widths if width)
    across = template.columns == 2 and (fixed or natural / TABLE_CHARACTERS_PER_INCH > template.column_width)
    room = template.text_width if across else template.column_width
    lines = sum(
        max(
            (
                ceil(_count_characters(cell) / (width * room * TABLE_CHARACTERS_PER_INCH)) if width else 1
                for cell, width in zip(row, widths, strict=False)
            ),
            default=1,
        )
        or 1
        for row in rows
    )
    return _sum_pages(lines * ROW_INCHES, len(table.caption.split()), room, template)


def _sum_pages(height: float, caption_words: int, room: float, template: PaperTemplate) -> float:
    lines = ceil(caption_words / (CAPTION_WORDS_PER_INCH * room))
    inches = height + lines * CAPTION_LINE_INCHES + FLOAT_GAP_INCHES
    columns = template.columns if room <= template.column_width else 1
    return inches / (template.text_height * columns)


def _parse_columns(tabular: str) -> list[float]:
    """Return the width of each column as a share of the line; 0 for columns as wide as their text."""
    opened = re.match(r"\s*\\begin\{tabular\}\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", tabular)
    layout = re.sub(r"@\{(?:[^{}]|\{[^{}]*\})*\}", "", opened[1]) if opened else ""
    found = re.findall(r"[a-zA-Z](?:\{([\d.]*)\\linewidth\})?", layout)
    return [float(share or 0) for share in found]


def _parse_rows(tabular: str) -> Iterator[list[str]]:
    for line in tabular.split("\n"):
        if line.rstrip().endswith("\\\\"):
            yield re.split(r"(?<!\\)&", line.rstrip().removesuffix("\\\\"))


def _count_characters(cell: str) -> int:
    printed = re.sub(r"\\(?:result|setup)\{[^}]*\}", "x" * RESULT_CHARACTERS, cell)
    return len(re.sub(r"\\[a-zA-Z]+|[{}$@]", "", printed).strip())


def find_crowding_figures(words: int, float_words: Mapping[str, int], spare: Sequence[str]) -> list[str]:
    """Return the names of the last figures among `spare` that leave too little room for text."""
    found, taken = list[str](), sum(float_words.values())
    for name in reversed(spare):
        if taken <= MAX_FLOAT_SHARE * words:
            break
        taken -= float_words[f"fig:{name}"]
        found.append(name)
    return found


def divide_words(outline: PaperOutline, words: int, float_words: Mapping[str, int]) -> dict[str, int]:
    """Return the words of each section: its share of what the placed floats leave, in tens."""
    placed = [f"fig:{name}" for one in outline.sections for name in one.figures]
    placed += [f"tab:{name}" for one in outline.sections for name in one.tables]
    left = max(words - sum(float_words.get(label, 0) for label in placed), (1 - MAX_FLOAT_SHARE) * words)
    return {one.title: 10 * round(left * one.share / 10) for one in outline.sections}


_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^}]*\}")
_MACRO = re.compile(r"\\(?:result|setup|ref|cite\w*)\{[^}]*\}")


def measure_sections(
    draft: PaperDraft, pages: float | None, page_words: float, float_words: Mapping[str, int]
) -> tuple[SectionLength, ...]:
    """Measure the length of the abstract and the sections, in order, scaled to the counted pages of main text if these
    are known."""
    texts = {"abstract": draft.abstract, **{section.title: section.body for section in draft.sections}}
    found = [
        (
            title,
            len(_MACRO.sub("x", _FLOAT.sub("", text)).split()),
            [
                f"{kind}:{name}"
                for kind, command in (("fig", "paperfigure"), ("tab", "papertable"))
                for name in collect_used_keys([text], frozenset({command}))
            ],
        )
        for title, text in texts.items()
    ]
    estimates = [(words + sum(float_words.get(one, 0) for one in floats)) / page_words for _, words, floats in found]
    scale = pages / sum(estimates) if pages and sum(estimates) else 1.0
    return tuple(
        SectionLength(title=title, words=words, floats=len(floats), pages=round(scale * estimate, 2))
        for (title, words, floats), estimate in zip(found, estimates, strict=True)
    )
