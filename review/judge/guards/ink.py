"""The words of a PDF that a reader can see, as text with tables row by row.

Each page is rendered by poppler; a word whose box holds one colour only (white or nearly white text, text under a bar
or rendered invisibly), whose letters are less than `LEAST_HEIGHT` high, or that lies outside of the page is hidden.

Poppler reads a table as it reads columns of prose: all cells of the first column, then all of the second, so that
nobody can tell which number belongs to what. Where blocks of short lines follow one another, many of them hold digits,
and lines of several blocks stand side by side, they are put into rows by their height on the page, divided by `CELL`.
An order to the reviewer that poppler's order shows keeps that order, so that it is found.

Not found: a word under a photograph, or over one in its colours; words within a picture (they are no text, and reach
only a model that looks at pages); a table of words alone. Pages after `MOST_PAGES` are not rendered, and named. A cell
of several lines stands in as many rows.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from review.evidence import tex
from review.judge.errors import PaperError
from review.judge.guards.orders import orders

CELL = " \u00a6 "
"""Between cells. No heading has it, so that a row that begins with a number is not taken for one."""
NARROW = 0.3
"""Of a page's width: what the lines of a column of prose exceed."""
MOSTLY = 2 / 3
"""Of a block's lines: so many are cells in a block of a table; a title over some rows may be wide."""
LEAST_CELLS = 6
LEAST_DIGITS = 1 / 3
"""Of a table's cells: the share with a digit. Columns of words stay as they are."""
SAME_ROW = 0.4
"""Of a cell's height: how far apart the middles of two cells of a row may be."""


@dataclass(frozen=True)
class Word:
    """A word and its box in points from the upper left corner of its page. `begins`: '' or what stands before it."""

    text: str
    box: tuple[float, float, float, float]
    begins: str


@dataclass(frozen=True)
class Line:
    """Words that poppler holds for one line, or a table's cell. `block` numbers what it holds for a paragraph.

    Lengths in points; `middle` and `height` are of its first word, `middle` from the top of the page.
    """

    words: tuple[Word, ...]
    block: int

    @property
    def text(self) -> str:
        return "".join(f"{word.begins if at else ''}{word.text}" for at, word in enumerate(self.words))

    @property
    def is_of_numbers(self) -> bool:
        """Whether at least half of its words hold no two letters."""
        letters = sum(sum(map(str.isalpha, word.text)) >= 2 for word in self.words)
        return 2 * letters <= len(self.words)

    @property
    def left(self) -> float:
        return min(word.box[0] for word in self.words)

    @property
    def width(self) -> float:
        return max(word.box[2] for word in self.words) - self.left

    @property
    def middle(self) -> float:
        return (self.words[0].box[1] + self.words[0].box[3]) / 2

    @property
    def height(self) -> float:
        return self.words[0].box[3] - self.words[0].box[1]


def text_of(words: Sequence[Word], width: float) -> str:
    """The text of a page of that width in points: lines, blocks divided by a blank line, tables in rows."""
    blocks = [list(some) for _, some in groupby(_lines(words), key=lambda line: line.block)]
    parts: list[str] = []
    for celled, run in groupby(blocks, key=lambda block: _is_celled(block, width)):
        some = list(run)
        cells = [line for block in some for line in block]
        plain = "\n\n".join("\n".join(line.text for line in block) for block in some)
        rows = _rows(cells) if celled else []
        digits = sum(any(map(str.isdigit, cell.text)) for cell in cells)
        tabular = len(cells) >= LEAST_CELLS and digits >= LEAST_DIGITS * len(cells) and any(
            len({cell.block for cell in row}) > 1 for row in rows)  # else prose, or the labels of a figure
        tabular = tabular and not orders(plain)
        parts.append("\n".join(CELL.join(cell.text for cell in row) for row in rows) if tabular else plain)
    return "\n\n".join(parts)


def _lines(words: Sequence[Word]) -> Iterator[Line]:
    kept: list[Word] = []
    block = 0
    for word in words:
        if kept and "\n" in word.begins:
            yield Line(tuple(kept), block)
            block += word.begins == "\n\n"
            kept = []
        kept.append(word)
    if kept:
        yield Line(tuple(kept), block)


def _is_celled(block: Sequence[Line], width: float) -> bool:
    """Whether a block has the lines of a table: narrow, or made of numbers."""
    return sum(line.width < NARROW * width or line.is_of_numbers for line in block) >= MOSTLY * len(block)


def _rows(cells: Sequence[Line]) -> list[list[Line]]:
    """From top to bottom, each from left to right."""
    rows: list[list[Line]] = []
    for cell in sorted(cells, key=lambda cell: cell.middle):
        if rows and cell.middle - rows[-1][0].middle <= SAME_ROW * min(cell.height, rows[-1][0].height):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return [sorted(row, key=lambda cell: cell.left) for row in rows]


TIMEOUT = 120.0
"""Seconds for reading the words of a stranger's PDF, and as many for drawing its pages."""
DPI = 72
MOST_PAGES = 60
LEAST_HEIGHT = 1.5
"""Points from the top of a word's box to its bottom; a tick label of a figure at a fifth of its size has 2."""
LEAST_HIDDEN = 4
"""Letters and digits of a run of hidden words; less than that is a glyph that poppler draws elsewhere, and no order."""
LEAST_CONTRAST = 24
"""Of 255, in the colour channel that differs most, within the middle of a word's box."""

_TOKEN = re.compile(
    r'<page width="(?P<width>[\d.]+)" height="(?P<height>[\d.]+)"|<(?P<open>block|line)\b|</(?P<shut>page)>|'
    r'<word xMin="(?P<x0>[-\d.]+)" yMin="(?P<y0>[-\d.]+)" xMax="(?P<x1>[-\d.]+)" yMax="(?P<y1>[-\d.]+)">'
    r'(?P<word>.*?)</word>')


@dataclass
class Page:
    """A page's words in reading order."""

    width: float
    height: float
    words: list[Word] = field(default_factory=list[Word])


@dataclass
class VisibleText:
    """The text that a reader sees, pages divided by form feeds, and runs of hidden words by page."""

    text: str = ""
    hidden: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    pages: int = 0
    not_rendered: int = 0


async def visible_text(pdf: Path) -> VisibleText:
    """What a reader sees of a PDF that lies in a folder of its own. Raises `PaperError`, `TexMissing`."""
    ran = await tex.run(
        ["pdftotext", "-q", "-enc", "UTF-8", "-cropbox", "-bbox-layout", pdf.name, "words.html"], pdf.parent,
        timeout=TIMEOUT)
    if ran.code != 0:
        raise PaperError(f"{pdf.name} gives no words: pdftotext ended with {ran.code}")
    pages = read_words((pdf.parent / "words.html").read_text(encoding="utf-8", errors="replace"))
    await tex.run(["pdftoppm", "-q", "-r", str(DPI), "-cropbox", "-l", str(MOST_PAGES), pdf.name, "page"], pdf.parent,
                  timeout=TIMEOUT)
    pictures = sorted(pdf.parent.glob("page-*.ppm"), key=lambda path: int(path.stem.split("-")[1]))
    return await asyncio.to_thread(_parted, pages, pictures)


def read_words(text: str) -> list[Page]:
    """The pages of pdftotext's -bbox-layout."""
    pages: list[Page] = []
    begins = ""
    for match in _TOKEN.finditer(text):
        if match["width"]:
            pages.append(Page(float(match["width"]), float(match["height"])))
            begins = ""
        elif match["open"]:
            begins = "\n\n" if "\n\n" in (begins, "\n\n" if match["open"] == "block" else "") else "\n"
        elif match["word"] is not None and pages:
            box = (float(match["x0"]), float(match["y0"]), float(match["x1"]), float(match["y1"]))
            pages[-1].words.append(Word(html.unescape(match["word"]), box, begins if pages[-1].words else ""))
            begins = " "
    return pages


def _parted(pages: list[Page], pictures: list[Path]) -> VisibleText:
    """The text of the words that show, and the runs of those that do not."""
    found = VisibleText(pages=len(pages), not_rendered=max(0, len(pages) - len(pictures)))
    texts: list[str] = []
    for number, page in enumerate(pages, 1):
        picture = read_picture(pictures[number - 1]) if number <= len(pictures) else None
        kept = list[Word]()
        cut = False
        for visible, words in itertools.groupby(page.words, key=lambda word: shows(word, page, picture)):
            run = list(words)
            if not visible and sum(char.isalnum() for word in run for char in word.text) >= LEAST_HIDDEN:
                found.hidden.append((number, " ".join(word.text for word in run)))
                cut = True
                continue
            kept += [replace(run[0], begins="\n\n"), *run[1:]] if cut else run
            cut = False
        texts.append(text_of(kept, page.width))
    found.text = "\f".join(texts)
    return found


def shows(word: Word, page: Page, picture: NDArray[np.uint8] | None) -> bool:
    """Whether a reader can see a word; marks without a letter or digit are taken on trust."""
    x0, y0, x1, y1 = word.box
    if not any(map(str.isalnum, word.text)):
        return True
    if y1 - y0 < LEAST_HEIGHT or not (0 <= (x0 + x1) / 2 <= page.width and 0 <= (y0 + y1) / 2 <= page.height):
        return False
    if picture is None:
        return True
    across, down = picture.shape[1] / page.width, picture.shape[0] / page.height
    fifth = (y1 - y0) / 5
    area = picture[int((y0 + fifth) * down):max(int((y0 + fifth) * down) + 1, int((y1 - fifth) * down) + 1),
                   max(0, int(x0 * across)):int(x1 * across) + 1]
    return area.size == 0 or int((area.max(axis=(0, 1)).astype(int) - area.min(axis=(0, 1))).max()) >= LEAST_CONTRAST


def read_picture(path: Path) -> NDArray[np.uint8]:
    """A binary PPM as (rows, columns, 3). Pillow refuses a page as large as a PDF may be."""
    data = path.read_bytes()
    head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if head is None:
        raise PaperError(f"{path.name} is no picture of a page")
    return np.frombuffer(data, np.uint8, offset=head.end()).reshape(int(head[2]), int(head[1]), 3)
