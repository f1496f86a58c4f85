"""Extract the visible words of a PDF, with tables row by row.

Each page is rendered by poppler. A word is hidden if its box has a single colour (white text, text under a bar,
invisible rendering), its height is below `MIN_WORD_HEIGHT_POINTS`, or it lies outside the page.

Poppler reads tables column by column, which separates numbers from their labels. Consecutive blocks of short lines,
many with digits and side by side, are therefore rearranged into rows by height, with `CELL_SEPARATOR` between cells. On
a page with two columns, text left of the gap precedes text right of it, separately between any two elements that span
both columns.

Limits: words under a photograph, or over one in similar colours; words inside an image; tables that contain only words.
Pages beyond the rendering limit are not checked, and are reported. A cell of several lines becomes several rows.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labwright.review.evidence import tex_runner
from labwright.review.judge.paper_reader import PaperError

CELL_SEPARATOR = " \u00a6 "
"""Separator between cells. No heading contains it, so a row that starts with a number is not mistaken for a heading."""
MAX_CELL_WIDTH_SHARE = 0.3
"""Share of a page's width; the lines of a column of prose are wider than cells."""
MIN_CELL_LINES_SHARE = 2 / 3
"""Minimum share of a table block's lines that are cells; a title above some rows may be wide."""
MIN_TABLE_CELLS = 6
MIN_DIGIT_SHARE = 1 / 3
"""Minimum share of a table's cells with a digit. Columns of words are left unchanged."""
MIN_COLUMN_LINES = 8
"""Minimum lines on either side of the gap on a two-column page."""
MIN_SPANNING_WORDS = 4
"""Minimum words of an element that spans both columns."""
MIN_OVERREACH_SHARE = 0.05
"""Share of a page's width that a spanning element reaches into either column; a wide formula does not reach as far."""
MAX_ROW_OFFSET_SHARE = 0.4
"""Share of a cell's height by which the middles of two cells of a row may differ."""


@dataclass(frozen=True)
class PageWord:
    """A word and its box in points from the upper left corner of its page.

    `line` and `block` (poppler's paragraph) are counted from the start of the page.
    """

    text: str
    box: tuple[float, float, float, float]
    line: int
    block: int


@dataclass
class Page:
    """A page's words in reading order."""

    width: float
    height: float
    words: list[PageWord] = field(default_factory=list[PageWord])


WordLine = tuple[PageWord, ...]


def format_page_text(words: Sequence[PageWord], width: float) -> str:
    """Return the text of a page of the given width in points: lines, blank lines between blocks, tables in rows."""
    lines = [tuple(some) for _, some in groupby(words, key=lambda word: word.line)]
    blocks = [tuple(some) for _, some in groupby(lines, key=lambda line: line[0].block)]
    units: list[LayoutBlock] = []
    for celled, run in groupby(blocks, key=lambda block: _is_table_block(block, width)):
        some = tuple(tuple(block) for block in run)
        lines, texts = [line for block in some for line in block], ["\n".join(map(_line_text, block)) for block in some]
        rows = _format_table(lines) if celled else ""
        units += (
            [LayoutBlock(lines, rows)]
            if rows
            else [LayoutBlock(block, text) for block, text in zip(some, texts, strict=True)]
        )
    return "\n\n".join(unit.text for unit in order_by_columns(units, width))


@dataclass(frozen=True)
class LayoutBlock:
    """A unit of reading: the lines of one block of prose, or of all blocks of a table, and their text."""

    lines: Sequence[WordLine]
    text: str

    @cached_property
    def box(self) -> tuple[float, float, float, float]:
        words = [word.box for line in self.lines for word in line]
        return (
            min(box[0] for box in words),
            min(box[1] for box in words),
            max(box[2] for box in words),
            max(box[3] for box in words),
        )


def order_by_columns(units: Sequence[LayoutBlock], width: float) -> list[LayoutBlock]:
    """Return the units column by column; unchanged if the page does not have two columns."""
    gap = _find_column_gap([line for unit in units for line in unit.lines], width)
    if gap is None:
        return [*units]
    ordered, left, right = list[LayoutBlock](), list[LayoutBlock](), list[LayoutBlock]()
    for unit in sorted(units, key=lambda one: one.box[1]):
        first, _, last, _ = unit.box
        over = min(gap - first, last - gap) > MIN_OVERREACH_SHARE * width
        if (
            over and sum(map(len, unit.lines)) >= MIN_SPANNING_WORDS
        ):  # spans both columns; letters of a watermark do not count
            ordered += [*left, *right, unit]
            left, right = [], []
        else:
            (left if (first + last) / 2 < gap else right).append(unit)
    return [*ordered, *left, *right]


def _find_column_gap(lines: Sequence[WordLine], width: float) -> float | None:
    """Return the position of the gap between two columns: few lines cross it, and many lie on either side."""
    boxes = [(min(word.box[0] for word in line), max(word.box[2] for word in line)) for line in lines]
    best: tuple[int, int, float, float] | None = None
    for percent in range(40, 61):
        at = width * percent / 100
        left, right = sum(last <= at for _, last in boxes), sum(first >= at for first, _ in boxes)
        cross = len(boxes) - left - right
        if min(left, right) >= MIN_COLUMN_LINES and 2 * cross <= left + right:
            found = min(left, right), -cross, -abs(at - width / 2), at
            best = found if best is None else max(best, found)
    return best[-1] if best is not None else None


def _line_text(line: WordLine) -> str:
    return " ".join(word.text for word in line)


def _is_table_block(block: Sequence[WordLine], width: float) -> bool:
    """Return whether a block looks like table lines: narrow, or mostly numbers (half of its words have at most one
    letter).
    """
    cells = 0
    for line in block:
        wide = max(word.box[2] for word in line) - min(word.box[0] for word in line)
        worded = sum(sum(map(str.isalpha, word.text)) >= 2 for word in line)
        cells += wide < MAX_CELL_WIDTH_SHARE * width or 2 * worded <= len(line)
    return cells >= MIN_CELL_LINES_SHARE * len(block)


def _format_table(cells: Sequence[WordLine]) -> str:
    """Return the rows of a table, top to bottom and left to right; "" for prose or figure labels."""
    rows: list[list[WordLine]] = []
    for cell in sorted(cells, key=_vertical_middle):
        heights = [line[0].box[3] - line[0].box[1] for line in (cell, *(rows[-1][:1] if rows else ()))]
        if rows and _vertical_middle(cell) - _vertical_middle(rows[-1][0]) <= MAX_ROW_OFFSET_SHARE * min(heights):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    digits = sum(any(map(str.isdigit, _line_text(cell))) for cell in cells)
    if (
        len(cells) < MIN_TABLE_CELLS
        or digits < MIN_DIGIT_SHARE * len(cells)
        or all(len({cell[0].block for cell in row}) == 1 for row in rows)
    ):
        return ""
    return "\n".join(
        CELL_SEPARATOR.join(_line_text(cell) for cell in sorted(row, key=lambda cell: cell[0].box[0])) for row in rows
    )


def _vertical_middle(line: WordLine) -> float:
    return (line[0].box[1] + line[0].box[3]) / 2


# --- visibility -----------------------------------------------------------------------------------------------------

TIMEOUT_SECONDS = 120.0
"""Timeout in seconds for extracting the words of an untrusted PDF, and for rendering its pages."""
DPI = 72
MAX_RENDERED_PAGES = 60
MIN_WORD_HEIGHT_POINTS = 1.5
"""Points from top to bottom of a word's box; a figure's tick label at a fifth of its size has 2 points."""
MAX_WORD_HEIGHT_POINTS = 40.0
"""Maximum height of a word; a larger word is a watermark, whose letters would mix with the lines. Titles have 30
points.
"""
MIN_HIDDEN_CHARACTERS = 4
"""Minimum number of letters and digits in a run of hidden words; a shorter run is a glyph that poppler draws
elsewhere.
"""
MIN_CONTRAST = 24
"""Minimum contrast (0 to 255) in the colour channel that differs most, within the middle of a word's box."""

_TOKEN = re.compile(
    r'<page width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)"|<(?P<opens>block|line)\b|'
    r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(?P<word>.*?)</word>'
)


@dataclass(frozen=True)
class VisibleText:
    """The visible text, with form feeds between pages, and runs of hidden words by page."""

    text: str
    hidden_runs: tuple[tuple[int, str], ...]
    pages: int
    unrendered_pages: int


async def read_visible_text(pdf: Path) -> VisibleText:
    """Return the visible text of a PDF that is alone in its folder. Raises `PaperError`, `TexMissing`."""
    ran = await tex_runner.run_program(
        ["pdftotext", "-q", "-enc", "UTF-8", "-cropbox", "-bbox-layout", pdf.name, "words.html"],
        pdf.parent,
        timeout=TIMEOUT_SECONDS,
    )
    if ran.code != 0:
        raise PaperError(f"{pdf.name} contains no extractable text: pdftotext exited with {ran.code}")
    pages = read_words((pdf.parent / "words.html").read_text(encoding="utf-8", errors="replace"))
    await tex_runner.run_program(
        ["pdftoppm", "-q", "-r", str(DPI), "-cropbox", "-l", str(MAX_RENDERED_PAGES), pdf.name, "page"],
        pdf.parent,
        timeout=TIMEOUT_SECONDS,
    )
    pictures = sorted(pdf.parent.glob("page-*.ppm"), key=lambda path: int(path.stem.split("-")[1]))
    return await asyncio.to_thread(_separate_hidden, pages, pictures)


def read_words(text: str) -> list[Page]:
    """Parse the output of pdftotext -bbox-layout into pages."""
    pages: list[Page] = []
    line = block = 0
    for match in _TOKEN.finditer(text):
        if match["width"]:
            pages.append(Page(float(match["width"]), float(match["height"])))
        elif match["opens"]:
            line, block = line + 1, block + (match["opens"] == "block")
        elif pages:
            x0, y0, x1, y1 = map(float, match.group(4, 5, 6, 7))
            pages[-1].words.append(PageWord(html.unescape(match["word"]), (x0, y0, x1, y1), line, block))
    return pages


def _separate_hidden(pages: list[Page], pictures: list[Path]) -> VisibleText:
    """Return the text of visible words, and the runs of hidden ones."""
    texts, hidden = list[str](), list[tuple[int, str]]()
    for number, page in enumerate(pages, 1):
        picture = read_ppm(pictures[number - 1]) if number <= len(pictures) else None
        kept = list[PageWord]()
        for visible, words in groupby(page.words, key=lambda word: is_visible(word, page, picture)):
            run = list(words)
            if visible or sum(char.isalnum() for word in run for char in word.text) < MIN_HIDDEN_CHARACTERS:
                kept += run
            else:
                hidden.append((number, " ".join(word.text for word in run)))
        texts.append(
            format_page_text([word for word in kept if word.box[3] - word.box[1] <= MAX_WORD_HEIGHT_POINTS], page.width)
        )
    return VisibleText("\f".join(texts), tuple(hidden), len(pages), max(0, len(pages) - len(pictures)))


def is_visible(word: PageWord, page: Page, picture: NDArray[np.uint8] | None) -> bool:
    """Return whether a word is visible; marks without a letter or digit are assumed to be visible."""
    x0, y0, x1, y1 = word.box
    if not any(map(str.isalnum, word.text)):
        return True
    if y1 - y0 < MIN_WORD_HEIGHT_POINTS or not (0 <= (x0 + x1) / 2 <= page.width and 0 <= (y0 + y1) / 2 <= page.height):
        return False
    if picture is None:
        return True
    across, down = picture.shape[1] / page.width, picture.shape[0] / page.height
    fifth = (y1 - y0) / 5
    area = picture[
        int((y0 + fifth) * down) : max(int((y0 + fifth) * down) + 1, int((y1 - fifth) * down) + 1),
        max(0, int(x0 * across)) : int(x1 * across) + 1,
    ]
    return area.size == 0 or int((area.max(axis=(0, 1)).astype(int) - area.min(axis=(0, 1))).max()) >= MIN_CONTRAST


def read_ppm(path: Path) -> NDArray[np.uint8]:
    """Read a binary PPM image as an array of shape (rows, columns, 3).

    Pillow is not used, since it refuses images as large as a PDF page may be.
    """
    data = path.read_bytes()
    head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if head is None:
        raise PaperError(f"{path.name} is not a rendered page")
    return np.frombuffer(data, np.uint8, offset=head.end()).reshape(int(head[2]), int(head[1]), 3)
