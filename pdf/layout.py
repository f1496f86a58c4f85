"""Order the words of a page into lines, columns and text.

A page with two columns is read column by column, between any two rows that span both. Words on one baseline form a row;
`CELL_SEPARATOR` stands between the cells of a table's row. Rotated words come last.

Limits: at most two columns; a text box next to another one is read row by row, unless a gap between columns separates
them.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import IO

from labwright.pdf.reader import TIMEOUT_SECONDS, PdfPage, PdfWord, read_pdf

CELL_SEPARATOR = " \u00a6 "
MAX_SPACE_EMS = 1.1
"""Width in ems of a space in justified text; a wider gap separates cells of a table."""
MIN_COLUMN_RUNS = 8
"""Minimum number of runs of words on either side of the gap on a page with two columns."""
MIN_PROSE_RUNS = 3
"""The same for runs of prose, on a page that is filled only in part."""
MIN_OVERREACH_SHARE = 0.05
"""Share of a page's width that a row reaches into both columns if it spans them."""
MIN_PROSE_SHARE = 0.3
"""Share of a page's width; runs of prose are wider than cells."""
MIN_LINE_NUMBERS = 8
"""Minimum number of consecutive numbers in a margin that count lines."""
MIN_BLOCK_GAP = 1.35
"""Ratio of a gap between baselines to the usual one, above which a new block begins."""


@dataclass(frozen=True)
class TextStyle:
    """The style of most letters of a line. `size` is in half points."""

    font: str
    size: float
    capitals: bool = False


@dataclass(frozen=True)
class TextLine:
    """A row of a column: its cells (runs of words) from left to right, and its place.

    `column` numbers the columns and spanning parts of a page in reading order.
    """

    cells: tuple[tuple[PdfWord, ...], ...]
    page: int
    column: int

    @cached_property
    def words(self) -> tuple[PdfWord, ...]:
        return tuple(word for cell in self.cells for word in cell)

    @cached_property
    def text(self) -> str:
        return CELL_SEPARATOR.join(" ".join(word.text for word in cell) for cell in self.cells)

    @cached_property
    def box(self) -> tuple[float, float, float, float]:
        return enclose(self.words)

    @cached_property
    def baseline(self) -> float:
        return median(word.baseline for word in self.words)

    @cached_property
    def style(self) -> TextStyle:
        return find_style(self.words)


def find_style(words: Iterable[PdfWord]) -> TextStyle:
    """Return the style of most letters."""
    letters = Counter[tuple[str, float]]()
    text = ""
    for word in words:
        letters[word.font, round(2 * word.size) / 2] += sum(map(str.isalpha, word.text)) or 0
        text += word.text
    (font, size), _ = max(letters.items(), key=lambda item: item[1])
    cased = [char for char in text if char.isalpha()]
    return TextStyle(font, size, len(cased) >= 3 and not any(map(str.islower, cased)))


def enclose(words: Iterable[PdfWord]) -> tuple[float, float, float, float]:
    """Return the box around words."""
    left, top, right, bottom = zip(*(word.box for word in words), strict=True)
    return min(left), min(top), max(right), max(bottom)


# --- text -----------------------------------------------------------------------------------------------------------


def read_text(source: Path | IO[bytes], *, max_pages: int = 10**6, timeout: float = TIMEOUT_SECONDS) -> str:
    """Return the text of a PDF, with form feeds between pages; `timeout` is in seconds. Raises `PdfError`."""
    return format_pages(read_pdf(source, max_pages=max_pages, timeout=timeout).pages)


def format_pages(pages: Sequence[PdfPage]) -> str:
    """Return the text of pages in reading order, with form feeds between pages."""
    return "\f".join(format_page(page) for page in pages)


def format_page(page: PdfPage) -> str:
    """Return the text of a page: lines, with blank lines between blocks; rotated words and line numbers last."""
    aside = " ".join(word.text for word in find_marginal_words(page))
    return "\n\n".join(text for text in (format_lines(order_lines(page)), aside) if text)


def format_lines(lines: Sequence[TextLine]) -> str:
    """Return the text of lines, with blank lines between blocks."""
    pitch = find_pitch(lines)
    text = ""
    for before, line in zip((None, *lines), lines, strict=False):
        if before is not None:
            text += "\n\n" if begins_block(before, line, pitch) else "\n"
        text += line.text
    return text


def find_pitch(lines: Sequence[TextLine]) -> float:
    """Return the usual distance in points between the baselines of neighbouring lines; 12 if there are none."""
    steps = [
        after.baseline - before.baseline
        for before, after in itertools.pairwise(lines)
        if (before.page, before.column) == (after.page, after.column) and after.baseline > before.baseline
    ]
    return median(steps) if steps else 12.0


def begins_block(before: TextLine, line: TextLine, pitch: float) -> bool:
    """Return whether a gap, a new column or a change of the size separates a line from the one before it."""
    if (before.page, before.column) != (line.page, line.column):
        return before.page == line.page or not is_continued(before, line)
    step = line.baseline - before.baseline
    usual = max(pitch, 1.1 * max(before.style.size, line.style.size)) if line.style == before.style else pitch
    return step > MIN_BLOCK_GAP * usual or (len(before.cells) > 1) != (len(line.cells) > 1)


def is_continued(before: TextLine, line: TextLine) -> bool:
    """Return whether prose goes on in the next column or page."""
    return before.style == line.style and not before.text.rstrip().endswith((".", ":", "?", "!"))


# --- reading order --------------------------------------------------------------------------------------------------

Run = tuple[PdfWord, ...]


def order_lines(page: PdfPage, number: int = 1) -> list[TextLine]:
    """Return the lines of a page in reading order, without its marginal words."""
    aside = set(map(id, find_marginal_words(page)))
    runs = _join_runs([word for word in page.words if id(word) not in aside])
    gap = _find_column_gap(runs, page.width)
    if gap is None:
        return _join_rows(runs, number, 0)
    left, right, spanning = _sort_by_side(runs, gap, page.width)
    lines = list[TextLine]()
    column = 0
    groups = [*_group_spanning(spanning, [*left, *right]), *_find_balanced_ends([*left, *right], runs, gap)]
    for top, bottom, rows in (*sorted(groups, key=lambda group: group[0]), (float("inf"), 0.0, [])):
        for side in (left, right):
            above = [run for run in side if _middle(run) < top]
            side[:] = [run for run in side if _middle(run) >= top]
            lines += _join_rows(above, number, column)
            column += 1
        inside = [run for side in (left, right) for run in side if _middle(run) <= bottom]
        left, right = ([run for run in side if _middle(run) > bottom] for side in (left, right))
        lines += _join_rows([*rows, *inside], number, column)
        column += 1
    return lines


def find_marginal_words(page: PdfPage) -> list[PdfWord]:
    """Return the words that stand outside the text: rotated ones, such as a stamp, and numbers of lines."""
    upright = [word for word in page.words if not word.angle]
    numbers = [word for word in upright if word.text.isdecimal() and len(word.text) <= 4]
    lined = set[int]()
    for edge in (0, 2):
        for place in {round(word.box[edge]) for word in numbers}:
            column = sorted(
                (word for word in numbers if abs(word.box[edge] - place) <= 1), key=lambda word: word.baseline
            )
            steps = [int(after.text) - int(before.text) for before, after in itertools.pairwise(column)]
            if len(column) >= MIN_LINE_NUMBERS and steps.count(1) >= 0.9 * len(steps):
                left, _, right, _ = enclose(column)
                outside = sum(word.box[0] > right or word.box[2] < left for word in upright)
                inside = sum(word.box[2] < left for word in upright), sum(word.box[0] > right for word in upright)
                if outside + len(column) >= 0.95 * len(upright) and min(inside) <= 0.05 * len(upright):
                    lined |= set(map(id, column))
    return [word for word in page.words if word.angle or id(word) in lined]


def _join_runs(words: Sequence[PdfWord]) -> list[Run]:
    """Join words that follow each other on one baseline without a wide gap."""
    runs: list[list[PdfWord]] = []
    for word in words:
        if runs and _continues_run(runs[-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    return [tuple(run) for run in runs]


def _continues_run(run: Sequence[PdfWord], word: PdfWord) -> bool:
    before, em = run[-1], max(run[-1].size, word.size)
    shift = abs(word.baseline - before.baseline)
    if shift > 0.2 * em and abs(word.baseline - run[0].baseline) > 0.2 * em:
        smaller = min(word.size, before.size) < 0.85 * em  # a superscript or subscript
        if not smaller or shift > 0.7 * em:
            return False
    return -0.3 * em < word.box[0] - before.box[2] < MAX_SPACE_EMS * em


def _find_column_gap(runs: Sequence[Run], width: float) -> float | None:
    """Return the position of the gap between two columns: few runs cross it, and many, or some of prose, lie on
    either side."""
    boxes = [enclose(run) for run in runs]
    wide = [box for box in boxes if box[2] - box[0] >= MIN_PROSE_SHARE * width]
    best: tuple[int, int, float, float] | None = None
    for percent in range(40, 61):
        at = width * percent / 100
        left, right = sum(box[2] <= at for box in boxes), sum(box[0] >= at for box in boxes)
        cross = len(boxes) - left - right
        prose = sum(box[2] <= at for box in wide), sum(box[0] >= at for box in wide)
        of_prose, is_filled = sum(prose), min(left, right) >= MIN_COLUMN_RUNS or min(prose) >= MIN_PROSE_RUNS
        if is_filled and 2 * cross <= left + right and 2 * of_prose >= len(wide) > 0:
            found = min(left, right), -cross, -abs(at - width / 2), at
            best = found if best is None else max(best, found)
    return best[-1] if best is not None else None


def _sort_by_side(runs: Sequence[Run], gap: float, width: float) -> tuple[list[Run], list[Run], list[Run]]:
    """Return the runs of the left and of the right column, and those of rows that span both.

    A row of a table spans both columns if its content goes on from a cell on the left to one on the right.
    """
    sides = tuple[list[Run], list[Run], list[Run]]((list[Run](), list[Run](), list[Run]()))
    spanning = set[int]()
    boxes = [enclose(run) for run in runs]
    for at, (left, _, right, _) in enumerate(boxes):
        if min(gap - left, right - gap) > MIN_OVERREACH_SHARE * width:
            spanning.add(at)
        if at and boxes[at - 1][2] <= gap <= left and _are_level(runs[at - 1], runs[at]):
            widths = [box[2] - box[0] for box in boxes[at - 1 : at + 1]]
            if min(widths) < MIN_PROSE_SHARE * width:
                spanning |= {at - 1, at}
    for at, (run, box) in enumerate(zip(runs, boxes, strict=True)):
        sides[2 if at in spanning else 0 if (box[0] + box[2]) / 2 < gap else 1].append(run)
    return sides


def _group_spanning(spanning: Sequence[Run], others: Sequence[Run]) -> list[tuple[float, float, list[Run]]]:
    """Return the parts of a page that span both columns: top, bottom and runs; no line of a column lies within."""
    middles = sorted(_middle(run) for run in others)
    groups: list[tuple[float, float, list[Run]]] = []
    for run in sorted(spanning, key=lambda run: enclose(run)[1]):
        _, top, _, bottom = enclose(run)
        if groups and not any(groups[-1][1] < middle < top for middle in middles):
            first, last, rows = groups[-1]
            groups[-1] = first, max(last, bottom), [*rows, run]
        else:
            groups.append((top, bottom, [run]))
    return groups


def _find_balanced_ends(
    columns: Sequence[Run], runs: Sequence[Run], gap: float
) -> Iterator[tuple[float, float, list[Run]]]:
    """Yield where both columns end and begin again, as above references: the content goes back to the left, below."""
    inside, lowest, sides = set(map(id, columns)), 0.0, list[bool]()
    for run in runs:
        left, top, _, bottom = enclose(run)
        if id(run) in inside:
            if left < gap and top > lowest and sides and sides[-1] and not all(sides):
                yield top - 0.1, top - 0.1, []
                sides = []
            sides.append(left >= gap)
        lowest = max(lowest, bottom)


def _join_rows(runs: Sequence[Run], page: int, column: int) -> list[TextLine]:
    """Join the runs of a column into rows, from top to bottom."""
    rows: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run[0].baseline, run[0].box[0])):
        row = next((row for row in reversed(rows[-3:]) if all(_are_adjacent(run, one) for one in row)), None)
        if row is None:
            rows.append([run])
        else:
            row.append(run)
    return [TextLine(_join_cells(sorted(row, key=lambda run: run[0].box[0])), page, column) for row in rows]


def _join_cells(row: Sequence[Run]) -> tuple[Run, ...]:
    """Join runs of a row that only a space separates, such as a label of a heading and its title."""
    cells: list[Run] = []
    for run in row:
        em = run[0].size
        if cells and (
            run[0].box[0] - cells[-1][-1].box[2] < MAX_SPACE_EMS * em
            or (len(row) == 2 and len(cells[0]) <= 2 and is_label(" ".join(word.text for word in cells[0])))
        ):
            cells[-1] = (*cells[-1], *run)
        else:
            cells.append(run)
    return tuple(cells)


_LABEL = re.compile(r"(?:[^\W\d_]{4,}\s+)?(?:\d{1,2}(?:\.\d{1,2})*|[IVXL]+|[A-Z](?:\.\d{1,2})*)[.:]?")


def is_label(text: str) -> bool:
    """Return whether a text is the number of a heading, alone or after one word: 2, 3.1, IV, A.2, Chapter 1."""
    return _LABEL.fullmatch(text) is not None


def _are_adjacent(run: Run, other: Run) -> bool:
    """Return whether two runs stand in one row: level, or one raised or lowered, and not one above the other."""
    return (_are_level(run, other) or _is_script(run, other) or _is_script(other, run)) and (
        run[0].box[0] >= other[-1].box[2] - 0.5 or run[-1].box[2] <= other[0].box[0] + 0.5
    )


def _are_level(run: Run, other: Run) -> bool:
    return abs(run[0].baseline - other[0].baseline) <= 0.4 * min(run[0].size, other[0].size)


def _is_script(run: Run, other: Run) -> bool:
    """Return whether a run is a superscript or subscript of another one."""
    _, top, _, bottom = enclose(other)
    shift = abs(run[0].baseline - other[0].baseline)
    is_small = run[0].size < 0.85 * other[0].size and shift <= 0.7 * other[0].size
    gap = max(run[0].box[0] - other[-1].box[2], other[0].box[0] - run[-1].box[2])
    return is_small and top <= _middle(run) <= bottom and gap < 0.3 * other[0].size


def _middle(run: Run) -> float:
    _, top, _, bottom = enclose(run)
    return (top + bottom) / 2
