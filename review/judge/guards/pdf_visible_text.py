"""Separate the visible words of a PDF from hidden ones.

Each page is rendered. A word is hidden if its box has a single colour (white text, text under a bar, invisible
rendering), its height is below `MIN_WORD_HEIGHT_POINTS`, or it lies outside the page.

Limits: words under a photograph, or over one in similar colours; words inside an image. Pages beyond the rendering
limit are not checked, and are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from labwright.pdf.layout import format_pages
from labwright.pdf.reader import PdfDocument, PdfPage, PdfWord
from labwright.pdf.sections import MAX_HEIGHT_POINTS
from labwright.review.judge.sections import PaperSection, split_pdf_sections

TIMEOUT_SECONDS = 120.0
"""Timeout in seconds for reading the words of an untrusted PDF, and for rendering a page."""
MAX_RENDERED_PAGES = 60
MIN_WORD_HEIGHT_POINTS = 1.5
"""Points from top to bottom of a word's box; a figure's tick label at a fifth of its size has 2 points."""
MIN_HIDDEN_CHARACTERS = 4
"""Minimum number of letters and digits in a run of hidden words; a shorter run is a glyph that is drawn elsewhere."""
MIN_CONTRAST = 24
"""Minimum contrast (0 to 255) in the colour channel that differs most, within the middle of a word's box."""


@dataclass(frozen=True)
class VisibleText:
    """The visible text, with form feeds between pages, its sections, and runs of hidden words by page."""

    text: str
    sections: tuple[PaperSection, ...]
    hidden_runs: tuple[tuple[int, str], ...]
    pages: int
    unrendered_pages: int


def separate_hidden(document: PdfDocument) -> VisibleText:
    """Return the text of visible words, and the runs of hidden ones. `document` has the contrast of its words."""
    pages, hidden = list[PdfPage](), list[tuple[int, str]]()
    for number, page in enumerate(document.pages, 1):
        kept = list[PdfWord]()
        for visible, words in groupby(page.words, key=lambda word: is_visible(word, page)):
            run = list(words)
            if visible or sum(char.isalnum() for word in run for char in word.text) < MIN_HIDDEN_CHARACTERS:
                kept += run
            else:
                hidden.append((number, " ".join(word.text for word in run)))
        pages.append(replace(page, words=_drop_watermarks(kept)))
    return VisibleText(
        format_pages(pages),
        split_pdf_sections(pages),
        tuple(hidden),
        len(pages),
        max(0, len(pages) - MAX_RENDERED_PAGES),
    )


def _drop_watermarks(words: Sequence[PdfWord]) -> tuple[PdfWord, ...]:
    return tuple(word for word in words if word.size <= MAX_HEIGHT_POINTS)


def is_visible(word: PdfWord, page: PdfPage) -> bool:
    """Return whether a word is visible; marks without a letter or digit are assumed to be visible."""
    x0, y0, x1, y1 = word.box
    if not any(map(str.isalnum, word.text)):
        return True
    if y1 - y0 < MIN_WORD_HEIGHT_POINTS or not (0 <= (x0 + x1) / 2 <= page.width and 0 <= (y0 + y1) / 2 <= page.height):
        return False
    return word.contrast is None or word.contrast >= MIN_CONTRAST
