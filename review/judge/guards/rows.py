"""The words of a PDF's page as text, tables row by row.

Poppler reads a table as it reads columns of prose: all cells of the first column, then all of the second, so that
nobody can tell which number belongs to what. Where blocks of short lines follow one another, many of them hold digits,
and lines of several blocks stand side by side, they are put into rows by their height on the page, divided by `CELL`.
An order to the reviewer that poppler's order shows keeps it, so that it is found.

What it does not guarantee: that every table is told, such as one of words alone; a cell of several lines stands in as
many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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
    """Words that poppler holds for one line, or a table's cell. `block` numbers what it holds for a paragraph."""

    words: tuple[Word, ...]
    block: int

    @property
    def text(self) -> str:
        """As it reads."""
        return "".join(f"{word.begins if at else ''}{word.text}" for at, word in enumerate(self.words))

    @property
    def is_of_numbers(self) -> bool:
        """Whether at least half of its words hold no two letters."""
        letters = sum(sum(map(str.isalpha, word.text)) >= 2 for word in self.words)
        return 2 * letters <= len(self.words)

    @property
    def left(self) -> float:
        """Points from the left edge."""
        return min(word.box[0] for word in self.words)

    @property
    def width(self) -> float:
        """Points."""
        return max(word.box[2] for word in self.words) - self.left

    @property
    def middle(self) -> float:
        """Points from the top of the page to the middle of its first word."""
        return (self.words[0].box[1] + self.words[0].box[3]) / 2

    @property
    def height(self) -> float:
        """Points, of its first word."""
        return self.words[0].box[3] - self.words[0].box[1]


def text_of(words: Sequence[Word], width: float) -> str:
    """The text of a page of that width in points: lines, blocks divided by a blank line, tables in rows."""
    lines = list(_lines(words))
    blocks = [list(some) for _, some in groupby(lines, key=lambda line: line.block)]
    parts: list[str] = []
    for celled, run in groupby(blocks, key=lambda block: _is_celled(block, width)):
        some = list(run)
        cells = [line for block in some for line in block]
        plain = "\n\n".join("\n".join(line.text for line in block) for block in some)
        tabular = celled and _is_table(cells) and not orders(plain)
        parts.append("\n".join(CELL.join(cell.text for cell in row) for row in _rows(cells)) if tabular else plain)
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


def _is_table(cells: Sequence[Line]) -> bool:
    """Whether short lines are the cells of a table, or the labels of a figure."""
    numbers = sum(any(map(str.isdigit, cell.text)) for cell in cells)
    if len(cells) < LEAST_CELLS or numbers < LEAST_DIGITS * len(cells):
        return False
    return any(len({cell.block for cell in row}) > 1 for row in _rows(cells))


def _rows(cells: Sequence[Line]) -> list[list[Line]]:
    """From top to bottom, each from left to right."""
    rows: list[list[Line]] = []
    for cell in sorted(cells, key=lambda cell: cell.middle):
        if rows and cell.middle - rows[-1][0].middle <= SAME_ROW * min(cell.height, rows[-1][0].height):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return [sorted(row, key=lambda cell: cell.left) for row in rows]
