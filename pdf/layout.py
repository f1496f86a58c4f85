"""Order the words of a page into lines and text.

Words are read in the order of the file's content, in which TeX, word processors and browsers write columns one after
the other. Words on one baseline form a row; `CELL_SEPARATOR` stands between the cells of a table's row. Rotated words
come last.

Limits: a program that writes the content in another order is read in that order.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import IO, Literal

from labwright.pdf.reader import TIMEOUT_SECONDS, PdfPage, PdfWord, read_pdf

CELL_SEPARATOR = " \u00a6 "
MAX_SPACE_EMS = 1.1
"""Width in ems of a space in justified text; a wider gap separates cells of a table."""
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
    """A row of a page: its cells (runs of words) from left to right."""

    cells: tuple[tuple[PdfWord, ...], ...]
    page: int

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
        if before.page == after.page and after.baseline > before.baseline
    ]
    return median(steps) if steps else 12.0


def begins_block(before: TextLine, line: TextLine, pitch: float) -> bool:
    """Return whether a gap, a new column or a change of the size separates a line from the one before it."""
    step = line.baseline - before.baseline
    if before.page != line.page or step < 0:
        return not is_continued(before, line)
    usual = max(pitch, 1.1 * max(before.style.size, line.style.size)) if line.style == before.style else pitch
    return step > MIN_BLOCK_GAP * usual or (len(before.cells) > 1) != (len(line.cells) > 1)


def is_continued(before: TextLine, line: TextLine) -> bool:
    """Return whether prose goes on in the next column or page."""
    return before.style == line.style and not before.text.rstrip().endswith((".", ":", "?", "!"))


# --- reading order --------------------------------------------------------------------------------------------------

Run = tuple[PdfWord, ...]


def order_lines(page: PdfPage, number: int = 1) -> list[TextLine]:
    """Return the lines of a page in the order of its content, without its marginal words."""
    aside = set(map(id, find_marginal_words(page)))
    rows: list[list[Run]] = []
    for run in _join_runs([word for word in page.words if id(word) not in aside]):
        row = next((row for row in reversed(rows[-3:]) if all(_are_adjacent(run, one) for one in row)), None)
        if row is None:
            rows.append([run])
        else:
            row.append(run)
    return [TextLine(_join_cells(sorted(row, key=lambda run: run[0].box[0])), number) for row in rows]


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


# Find the sections of a paper by their layout. A heading is a short line whose style (font, size, capitals) is not
# that of the body. The headings of sections are those that are numbered 1, 2, 3 or I, II, III in one style; if none
# are, those in the largest style that is used repeatedly. Unnumbered headings in the same style, a heading by its
# name (abstract, references, ...) and numbered subsections are added. Running heads, page numbers, watermarks
# and numbers of lines are left out of the text. What stands on the title page apart from the
# abstract is the first section. Limits: headings set like the body are not found; unnumbered subsections stay in the
# text.

TITLE_PAGE = "Title and authors"
"""Title of the section with all that stands before the first section, apart from the abstract."""
MAX_TITLE_CHARACTERS = 160
MAX_TITLE_LINES = 4
MIN_LARGER_POINTS = 0.4
"""Points by which a heading is larger than the body, if its font is that of the body."""
MAX_SMALLER_POINTS = 1.2
"""Points by which a heading may be smaller than the body."""
MIN_FURNITURE_GAP = 1.2
"""Minimum distance from a page number to the text, in usual distances between lines."""
MAX_MISSING = 1
"""Maximum number of headings that may be missing between two that are numbered."""
MAX_HEIGHT_POINTS = 40.0
"""Maximum size of a word; a larger word is a watermark."""

_NAMED = re.compile(
    r"(?:abstract|references|bibliography|acknowledge?ments?|supplementary materials?)[ .:]*|append(?:ix|ices)\b.*",
    re.IGNORECASE,
)
_APPENDIX = re.compile("appendi", re.IGNORECASE)
_ABSTRACT = re.compile(r"abstract\b[ .:\u2014\u2013-]*", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:appendix\s+|[^\W\d_]{4,}\s+(?=\d+[.:]?$))?(\d{1,2}|[IVXL]+|[A-Z])[.:]?(?=\s|$)", re.IGNORECASE
)
_DECIMAL = re.compile(r"((?:\d{1,2}|[A-Z])(?:\.\d{1,2})+)\.?\s+\S")
_PAGE_NUMBER = re.compile(r"\W*(?:page\s+)?(?:\d{1,4}|[ivxlc]+)(?:\s*(?:/|of)\s*\d+)?\W*", re.IGNORECASE)
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}

NumberKind = Literal["arabic", "roman", "letter"]


@dataclass(frozen=True)
class PdfSection:
    """A section with its heading; `level` 1 is a section, 2 a subsection. The title page has level 0.

    `is_appendix` marks a section with a letter after numbered ones.
    """

    title: str
    text: str
    level: int = 1
    is_appendix: bool = False


@dataclass(frozen=True)
class _Candidate:
    """A line, or lines, that may be a heading. `first` and `last` are positions in the list of lines.

    `title` is `label`, if there is one, and `name`. `is_apart` tells whether a gap stands above;
    `rest` is the text after it in its line. Of a heading, `level` is above 0.
    """

    first: int
    last: int
    label: str
    name: str
    title: str
    style: TextStyle
    is_apart: bool
    rest: str = ""
    level: int = 0
    is_appendix: bool = False


def split_sections(pages: Sequence[PdfPage]) -> tuple[PdfSection, ...]:
    """Return the sections of a paper in reading order; empty if no headings are recognised."""
    lines = remove_furniture(pages)
    if not lines:
        return ()
    body = _find_body_style(lines)
    notes = _find_title_notes(lines, body)
    kept = [line for line in lines if line not in notes]
    headings = _choose_headings(kept, list(_find_candidates(kept, body)), body)
    return tuple(_cut(kept, headings, notes)) if headings else ()


def _find_title_notes(lines: Sequence[TextLine], body: TextStyle) -> list[TextLine]:
    """Return the footnotes of the title page: small text in its lowest quarter."""
    first = [line for line in lines if line.page == 1]
    lowest = max((line.baseline for line in first), default=0.0)
    small = body.size - MIN_LARGER_POINTS
    return [
        line
        for line in first
        if line.baseline > 0.75 * lowest and line.style.size < small and not _may_be_heading(line, body)
    ]


# --- running heads, page numbers and watermarks -----------------------------------------------------------------------


def remove_furniture(pages: Sequence[PdfPage]) -> list[TextLine]:
    """Return the lines of all pages without running heads, page numbers and large watermarks.

    Of the highest and lowest two rows of a page, those are left out that are a number, that have one which counts
    pages, or that stand at the same height on several pages, apart from the text or with the same words.
    """
    by_page = list[list[TextLine]]()
    for number, page in enumerate(pages, 1):
        words = tuple(word for word in page.words if word.size <= MAX_HEIGHT_POINTS)
        by_page.append(order_lines(replace(page, words=words), number))
    lines = [line for some in by_page for line in some]
    if not lines:
        return []
    body, pitch = _find_body_style(lines), find_pitch(lines)
    rows = [(row, _measure_distance(row, some) / pitch) for some in by_page for row in _find_edge_rows(some)]
    numbered = {row[0].page for row, _ in rows if all(_PAGE_NUMBER.fullmatch(line.text) for line in row)}
    offsets = Counter(offset for row, apart in rows if apart > MIN_FURNITURE_GAP for offset in _find_offsets(row))
    removed = set[int]()
    for row, apart in rows:
        level = [other for other in rows if abs(other[0][0].baseline - row[0].baseline) <= 3]
        alike = [other for other, _ in level if _mask_numbers(other) == _mask_numbers(row)]
        is_small = max(line.style.size for line in row) <= body.size + MIN_LARGER_POINTS
        is_head = len(level) >= max(3, 0.2 * len(pages)) and sum(other[1] > 1.5 for other in level) > 0.8 * len(level)
        is_number = all(_PAGE_NUMBER.fullmatch(line.text) for line in row) and apart > MIN_FURNITURE_GAP
        is_repeated = len(alike) >= max(2, min(3, len(pages)))
        is_counted = row[0].page not in numbered and any(offsets[one] > 1 for one in _find_offsets(row))
        is_counted = is_counted and apart > MIN_FURNITURE_GAP
        if is_number or (is_small and (is_head or is_repeated or is_counted)):
            removed |= set(map(id, row))
    return [line for line in lines if id(line) not in removed]


def _find_edge_rows(lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """Yield the highest and the lowest two rows of a page."""
    heights = sorted({round(line.baseline) for line in lines})
    for height in {*heights[:2], *heights[-2:]}:
        yield [line for line in lines if abs(line.baseline - height) <= 2]


def _measure_distance(row: Sequence[TextLine], lines: Sequence[TextLine]) -> float:
    """Return the distance in points from a row to the text of the page."""
    height = row[0].baseline
    others = [line.baseline for line in lines if not _PAGE_NUMBER.fullmatch(line.text)]
    return min((abs(one - height) for one in others if abs(one - height) > 2), default=float("inf"))


def _find_offsets(row: Sequence[TextLine]) -> set[int]:
    """Return by how much the numbers at the ends of a row exceed the number of its page in the file."""
    words = [word.text for line in row for word in line.words]
    return {int(word) - row[0].page for word in (words[0], words[-1]) if word.isdecimal() and len(word) <= 4}


def _mask_numbers(row: Sequence[TextLine]) -> str:
    return re.sub(r"\d+", "#", " ".join(line.text for line in row))


def _find_body_style(lines: Sequence[TextLine]) -> TextStyle:
    letters = Counter[TextStyle]()
    for line in lines:
        letters[replace(line.style, capitals=False)] += sum(map(str.isalpha, line.text))
    return max(letters, key=lambda style: letters[style])


# --- headings -------------------------------------------------------------------------------------------------------


def _find_candidates(lines: Sequence[TextLine], body: TextStyle) -> Iterator[_Candidate]:
    pitch, at = find_pitch(lines), 0
    while at < len(lines):
        line, first = lines[at], at
        if not _may_be_heading(line, body):
            at += 1
            continue
        before = lines[at - 1] if at else None
        is_apart = before is None or begins_block(before, line, pitch)
        label = line.text if is_label(line.text) else ""
        style = line.style
        while at + 1 < len(lines) and _continues_heading(lines[at], lines[at + 1], label if at == first else "", body):
            at += 1
            style = lines[at].style if label else style
        at += 1
        title = " ".join(one.text for one in lines[first:at])
        number = _NUMBER.fullmatch(label) or _NUMBER.match(title)
        has_label = number is not None and number.end() < len(title)
        name = title[number.end() :].strip() if number and has_label else title
        words = [word for word in re.findall(r"[^\W\d_]+", name) if len(word) > 1]
        is_worded = 2 * sum(map(len, words)) > len(name.replace(" ", "")) and len(title) <= MAX_TITLE_CHARACTERS
        is_sentence = title.endswith(",") or (title.endswith(".") and not has_label)
        if is_worded and not is_sentence and at - first <= MAX_TITLE_LINES:
            yield _Candidate(first, at - 1, number[1] if number and has_label else "", name, title, style, is_apart)


def _may_be_heading(line: TextLine, body: TextStyle) -> bool:
    style = line.style
    is_other = not _has_family(style.font, body) or style.size > body.size + MIN_LARGER_POINTS or style.capitals
    is_large = style.size >= body.size - MAX_SMALLER_POINTS or bool(_NAMED.fullmatch(line.text))
    alike = [word for word in line.words if word.font == style.font or not any(map(str.isalpha, word.text))]
    is_raised = line.words[0].size < 0.85 * style.size  # an affiliation or a footnote
    return len(line.cells) == 1 and is_other and is_large and not is_raised and 2 * len(alike) >= len(line.words)


def _has_family(font: str, body: TextStyle) -> bool:
    """Return whether a font is that of the body, in any size: TeX has a font for each, such as CMR9 and CMR10."""
    return re.sub(r"[\d.]+$", "", font) == re.sub(r"[\d.]+$", "", body.font)


def _continues_heading(line: TextLine, following: TextLine, label: str, body: TextStyle) -> bool:
    """Return whether a heading goes on in the next line; after a number of its own, in a style of its own."""
    step, size = following.baseline - line.baseline, max(line.style.size, following.style.size)
    if line.page != following.page or step < 0 or not _may_be_heading(following, body):
        return False
    if label:
        return step <= 4 * size
    if (
        _NUMBER.match(following.text)
        or _DECIMAL.match(following.text)
        or _NAMED.fullmatch(following.text)
        or (_NAMED.fullmatch(line.text) and not _APPENDIX.match(line.text))
    ):
        return False
    return following.style == line.style and step <= 1.5 * size


@dataclass
class _Outline:
    """Decides which candidates are headings, in reading order, by the style and the numbers of those so far."""

    style: TextStyle | None
    kind: NumberKind | None
    is_plain: bool
    """Whether headings of sections are as large as the body, so that unnumbered ones look like labels of a table."""
    section: int = 0
    appendix: int = 0
    inner: list[int] = field(default_factory=list[int])
    """Numbers of the current subsection, such as 2, 1 in 3.2.1."""

    def add(self, one: _Candidate) -> _Candidate | None:
        """Return the heading that a candidate is, or None."""
        level = self._find_level(one)
        is_named = _NAMED.fullmatch(one.name) is not None
        if not level and not is_named:
            return None
        title = one.name if is_named else one.title
        return replace(one, title=title, level=level or 1, is_appendix=level == 1 and self.appendix > 0)

    def _find_level(self, one: _Candidate) -> int:
        if decimal := _DECIMAL.match(one.title):
            return self._find_inner_level(decimal[1])
        style = self.style
        alike = style is not None and (one.style.font, one.style.size) == (style.font, style.size)
        alike = alike and (self.kind != "roman" or one.style == style)  # letters number subsections, too
        if self.kind is None:
            return int(alike and one.is_apart)
        number, letter = read_number(one.label, self.kind), read_number(one.label, "letter")
        if alike and 1 <= number - self.section <= 1 + MAX_MISSING:
            self.section, self.inner = number, []
        elif alike and self.section and letter == self.appendix + 1:
            self.appendix, self.inner = letter, []
        elif self.kind == "roman" and self.section and one.is_apart and letter == len(self.inner) + 1:
            self.inner = [0] * letter
            return 2
        elif number or not alike or self.is_plain or not one.is_apart or one.style != style:
            return 0
        return 1

    def _find_inner_level(self, label: str) -> int:
        """Return the level of a subsection if its number follows the last one of its section, otherwise 0."""
        first, *parts = label.split(".")
        numbers, inner = [int(part) for part in parts], self.inner
        following = [[*inner, 1], *([*inner[:depth], inner[depth] + 1] for depth in range(len(inner)))]
        expected = str(self.section) if first.isdecimal() else chr(ord("A") + self.appendix - 1)
        if first != expected or numbers not in following:
            return 0
        self.inner = numbers
        return 1 + len(numbers)


def _choose_headings(lines: Sequence[TextLine], candidates: Sequence[_Candidate], body: TextStyle) -> list[_Candidate]:
    style, kind = _find_section_style(candidates)
    is_plain = style is not None and style.size <= body.size + MIN_LARGER_POINTS and not style.capitals
    outline = _Outline(style, kind, is_plain)
    chosen = [heading for one in candidates if (heading := outline.add(one))]
    if kind is None and chosen and chosen[0].first == 0:
        chosen = chosen[1:]  # the title of the paper
    if sum(one.level == 1 for one in chosen) < 2:
        return []
    return _add_abstract(lines, chosen)


def _find_section_style(candidates: Sequence[_Candidate]) -> tuple[TextStyle | None, NumberKind | None]:
    """Return the style of the headings of sections, and how they are numbered."""
    best: tuple[int, float, TextStyle, NumberKind] | None = None
    styles = dict.fromkeys((one.style.font, one.style.size) for one in candidates)
    kinds: tuple[NumberKind, ...] = ("arabic", "roman")
    for font, size in styles:
        alike = [one for one in candidates if (one.style.font, one.style.size) == (font, size)]
        for kind in kinds:
            count = last = 0
            for one in alike:
                number = 0 if _DECIMAL.match(one.title) else read_number(one.label, kind)
                if 1 <= number - last <= 1 + MAX_MISSING and (last or number == 1):
                    count, last = count + 1, number
            if count >= 2 and (best is None or (count, size) > best[:2]):
                first = next(one for one in alike if read_number(one.label, kind) == 1)
                best = count, size, first.style, kind
    if best is not None:
        return best[2], best[3]
    apart = [one for one in candidates if one.is_apart]
    counts = Counter((one.style.font, one.style.size, one.style.capitals) for one in apart)
    named = {(one.style.font, one.style.size, one.style.capitals) for one in apart if _NAMED.fullmatch(one.title)}
    repeated = [style for style, count in counts.items() if count >= 2]
    if not repeated:
        return None, None
    return TextStyle(*max(repeated, key=lambda style: (style in named, style[1], counts[style]))), None


def read_number(label: str, kind: NumberKind) -> int:
    """Return the value of a label, 0 if it is not of the kind."""
    if kind == "arabic":
        return int(label) if label.isdecimal() else 0
    if kind == "letter":
        return ord(label) - ord("A") + 1 if len(label) == 1 and "A" <= label <= "Z" else 0
    values = [_ROMAN.get(char, 0) for char in label]
    if not values or 0 in values:
        return 0
    return sum(-one if one < after else one for one, after in zip(values, (*values[1:], 0), strict=True))


def _add_abstract(lines: Sequence[TextLine], headings: list[_Candidate]) -> list[_Candidate]:
    """Add an abstract whose heading is not a line of its own: "Abstract. We ..."."""
    if not any(_ABSTRACT.fullmatch(one.title) for one in headings):
        for at, line in enumerate(lines[: headings[0].first]):
            if match := _ABSTRACT.match(line.text):
                rest = line.text[match.end() :]
                return [_Candidate(at, at, "", "Abstract", "Abstract", line.style, True, rest, level=1), *headings]
    return headings


# --- sections -------------------------------------------------------------------------------------------------------


def _cut(lines: Sequence[TextLine], headings: Sequence[_Candidate], notes: Sequence[TextLine]) -> Iterator[PdfSection]:
    """Yield the sections. `notes` and what stands between abstract and first numbered heading are of the title page."""
    ends = [one.first for one in headings[1:]] + [len(lines)]
    abstract = next((one for one in headings if _ABSTRACT.fullmatch(f"{one.title} ")), None)
    first = next((one for one in headings if _NUMBER.match(one.title) and one is not abstract), None)
    front = [format_lines(lines[: headings[0].first]), format_lines(notes)]
    sections = list[PdfSection]()
    for one, end in zip(headings, ends, strict=True):
        text = "\n".join(part for part in (one.rest, format_lines(lines[one.last + 1 : end])) if part)
        is_front = abstract is not None and first is not None and abstract.first < one.first < first.first
        if is_front and not _NAMED.fullmatch(one.title):
            front.append(f"{one.title}\n{text}")
        else:
            sections.append(PdfSection(one.title, text, one.level, one.is_appendix))
    before = "\n\n".join(re.sub(r"(?<!\n)\n(?!\n)", " ", text) for text in front if text)
    if before:
        yield PdfSection(TITLE_PAGE if abstract is not None else "", before, 0)
    yield from sections
