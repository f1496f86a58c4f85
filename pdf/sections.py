"""Find the sections of a paper by their layout.

A heading is a short line whose style (font, size, capitals) is not that of the body. The headings of sections are those
that are numbered 1, 2, 3 or I, II, III in one style; if none are, those in the largest style that is used repeatedly.
Unnumbered headings in the same style, a heading by its name (abstract, references, ...) and numbered subsections are
added. Running heads, page numbers, watermarks, numbers of lines and tables of contents are left out of the text. What
stands on the title page apart from the abstract is the first section.

Limits: headings set like the body are not found; unnumbered subsections stay in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from labwright.pdf.layout import TextLine, TextStyle, begins_block, find_pitch, format_lines, is_label, order_lines
from labwright.pdf.reader import PdfPage

TITLE_PAGE = "Title and authors"
"""Title of the section with all that stands before the first section, apart from the abstract."""
MAX_TITLE_CHARACTERS = 160
MAX_TITLE_LINES = 4
MIN_LARGER_POINTS = 0.4
"""Points by which a heading is larger than the body, if its font is that of the body."""
MAX_SMALLER_POINTS = 1.2
"""Points by which a heading may be smaller than the body."""
MIN_ABSTRACT_WORDS = 40
"""Minimum words of an abstract without a heading."""
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
_REFERENCES = re.compile("references|bibliography", re.IGNORECASE)
_ENTRY = re.compile(r"\[(\d{1,3})\]\s")
_APPENDIX = re.compile("appendi", re.IGNORECASE)
_ABSTRACT = re.compile(r"abstract\b[ .:\u2014\u2013-]*", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?:appendix\s+|[^\W\d_]{4,}\s+(?=\d+[.:]?$))?(\d{1,2}|[IVXL]+|[A-Z])[.:]?(?=\s|$)", re.IGNORECASE
)
_DECIMAL = re.compile(r"((?:\d{1,2}|[A-Z])(?:\.\d{1,2})+)\.?\s+\S")
_PAGE_NUMBER = re.compile(r"\W*(?:page\s+)?(?:\d{1,4}|[ivxlc]+)(?:\s*(?:/|of)\s*\d+)?\W*", re.IGNORECASE)
_CAPTION = re.compile(r"[^\W\d_]+\.?\s*\d+\s*[.:|]")
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
    `rest` is the text after it in its line.
    """

    first: int
    last: int
    label: str
    name: str
    title: str
    style: TextStyle
    is_apart: bool
    rest: str = ""


@dataclass(frozen=True)
class _Heading:
    first: int
    last: int
    title: str
    level: int
    is_appendix: bool = False
    rest: str = ""
    """Text after a heading in the same line, such as "Abstract. We ..."."""


def split_sections(pages: Sequence[PdfPage]) -> tuple[PdfSection, ...]:
    """Return the sections of a paper in reading order; empty if no headings are recognised."""
    lines = remove_furniture(pages)
    if not lines:
        return ()
    body = _find_body_style(lines)
    notes = _find_footnotes(lines, body)
    kept = [line for at, line in enumerate(lines) if at not in notes]
    candidates = list(_find_candidates(kept, body))
    headings = _choose_headings(kept, candidates, body)
    if not headings:
        return ()
    kept, headings = _drop_contents(kept, headings, candidates)
    return tuple(_cut(kept, headings, [lines[at] for at in sorted(notes)]))


# --- running heads, page numbers and watermarks -----------------------------------------------------------------------


def remove_furniture(pages: Sequence[PdfPage]) -> list[TextLine]:
    """Return the lines of all pages without running heads, page numbers and large watermarks."""
    by_page = [
        order_lines(replace(page, words=tuple(word for word in page.words if word.size <= MAX_HEIGHT_POINTS)), number)
        for number, page in enumerate(pages, 1)
    ]
    lines = [line for some in by_page for line in some]
    if not lines:
        return []
    body, pitch = _find_body_style(lines), find_pitch(lines)
    rows = [
        (edge, row, _measure_distance(row, some) / pitch) for some in by_page for edge, row in _find_edge_rows(some)
    ]
    numbered = {row[0].page for _, row, _ in rows if all(_PAGE_NUMBER.fullmatch(line.text) for line in row)}
    offsets = Counter(offset for _, row, apart in rows if apart > MIN_FURNITURE_GAP for offset in _find_offsets(row))
    removed = set[int]()
    for edge, row, apart in rows:
        level = [other for other in rows if other[0] == edge and abs(other[1][0].baseline - row[0].baseline) <= 3]
        alike = [other for _, other, _ in level if _mask_numbers(other) == _mask_numbers(row)]
        is_small = max(line.style.size for line in row) <= body.size + MIN_LARGER_POINTS
        is_head = len(level) >= max(3, 0.2 * len(pages)) and sum(other[2] > 1.5 for other in level) > 0.8 * len(level)
        is_number = all(_PAGE_NUMBER.fullmatch(line.text) for line in row) and apart > MIN_FURNITURE_GAP
        is_counted = row[0].page not in numbered and any(offsets[one] > 1 for one in _find_offsets(row))
        if (
            is_number
            or (is_counted and is_small and apart > MIN_FURNITURE_GAP)
            or (is_head and is_small)
            or (len(alike) >= max(2, min(3, len(pages))) and is_small)
        ):
            removed |= set(map(id, row))
    return [line for line in lines if id(line) not in removed]


def _find_edge_rows(lines: Sequence[TextLine]) -> Iterator[tuple[str, list[TextLine]]]:
    """Yield the highest and the lowest two rows of a page."""
    heights = sorted({round(line.baseline) for line in lines})
    for edge, some in (("top", heights[:2]), ("bottom", heights[-2:])):
        for height in some:
            yield edge, [line for line in lines if abs(line.baseline - height) <= 2]


def _measure_distance(row: Sequence[TextLine], lines: Sequence[TextLine]) -> float:
    """Return the distance in points from a row to the text of the page."""
    height = row[0].baseline
    inner = [
        abs(line.baseline - height)
        for line in lines
        if abs(line.baseline - height) > 2 and not _PAGE_NUMBER.fullmatch(line.text)
    ]
    return min(inner, default=float("inf"))


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


def _find_footnotes(lines: Sequence[TextLine], body: TextStyle) -> set[int]:
    """Return the positions of footnotes: small text at the end of a column, with a mark or on the title page."""
    found = set[int]()
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else None
        if following is not None and (following.page, following.column) == (line.page, line.column):
            continue
        begin = at + 1
        while (
            begin > 0
            and (lines[begin - 1].page, lines[begin - 1].column) == (line.page, line.column)
            and lines[begin - 1].style.size < body.size - MIN_LARGER_POINTS
            and (begin > at or lines[begin].baseline - lines[begin - 1].baseline <= 2 * lines[begin].style.size)
        ):
            begin -= 1
        above = lines[begin - 1] if begin else None
        if (
            begin <= at
            and above is not None
            and (above.page, above.column) == (line.page, line.column)
            and (line.page == 1 or not _may_be_heading(above, body))
            and (line.page == 1 or _has_mark(lines[begin]))
            and not _CAPTION.match(lines[begin].text)
        ):
            found |= set(range(begin, at + 1))
    return found


def _has_mark(line: TextLine) -> bool:
    """Return whether a line begins with a raised mark, or with a symbol such as an asterisk or a dagger."""
    first = line.words[0]
    return first.size < 0.85 * line.style.size or first.text[0] in "*\u2217\u22c6\u2020\u2021\u00a7\u00b6"


# --- headings -------------------------------------------------------------------------------------------------------


def _find_candidates(lines: Sequence[TextLine], body: TextStyle) -> Iterator[_Candidate]:
    pitch, at = find_pitch(lines), 0
    while at < len(lines):
        line, first = lines[at], at
        if not _may_be_heading(line, body):
            if inline := _read_inline_heading(line, body):
                rest = line.text[len(inline) :].strip()
                yield _Candidate(at, at, "", inline, inline, line.style, True, rest)
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


def _read_inline_heading(line: TextLine, body: TextStyle) -> str:
    """Return the numbered heading that a line of text begins with, such as "3.1. Model." in bold; "" if none."""
    titled = takewhile(lambda word: not _has_family(word.font, body), line.words[1:])
    words = [word.text for word in (line.words[0], *titled)]  # the number may be set like the body
    heading = " ".join(words)
    return heading if len(words) < len(line.words) and _DECIMAL.match(heading) and heading.endswith(".") else ""


def _continues_heading(line: TextLine, following: TextLine, label: str, body: TextStyle) -> bool:
    """Return whether a heading goes on in the next line; after a number of its own, in a style of its own."""
    if (line.page, line.column) != (following.page, following.column) or not _may_be_heading(following, body):
        return False
    step, size = following.baseline - line.baseline, max(line.style.size, following.style.size)
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

    def add(self, one: _Candidate) -> _Heading | None:
        """Return the heading that a candidate is, or None."""
        level = self._find_level(one)
        is_named = _NAMED.fullmatch(one.name) is not None
        if not level and not is_named:
            return None
        is_appendix = level == 1 and self.appendix > 0
        return _Heading(one.first, one.last, one.name if is_named else one.title, level or 1, is_appendix, one.rest)

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


def _choose_headings(lines: Sequence[TextLine], candidates: Sequence[_Candidate], body: TextStyle) -> list[_Heading]:
    style, kind = _find_section_style(candidates)
    is_plain = style is not None and style.size <= body.size + MIN_LARGER_POINTS and not style.capitals
    outline = _Outline(style, kind, is_plain)
    chosen = [heading for one in candidates if (heading := outline.add(one))]
    if kind is None and chosen and chosen[0].first == 0:
        chosen = chosen[1:]  # the title of the paper
    if sum(one.level == 1 for one in chosen) < 2:
        return []
    return _add_references(lines, _add_abstract(lines, chosen, kind))


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


def _add_abstract(lines: Sequence[TextLine], headings: list[_Heading], kind: NumberKind | None) -> list[_Heading]:
    """Add an abstract whose heading is not a line of its own: "Abstract. We ...", or a block without a heading."""
    if any(_ABSTRACT.fullmatch(one.title) for one in headings):
        return headings
    begin = headings[0].first
    for at, line in enumerate(lines[:begin]):
        if match := _ABSTRACT.match(line.text):
            return [_Heading(at, at, "Abstract", 1, rest=line.text[match.end() :]), *headings]
    if kind is None:
        return headings
    pitch, blocks = find_pitch(lines), list[list[int]]()
    for at in range(begin):
        if not blocks or begins_block(lines[at - 1], lines[at], pitch):
            blocks.append([])
        blocks[-1].append(at)
    sizes = {block[0]: sum(len(lines[at].words) for at in block) for block in blocks}
    first = max(sizes, key=lambda at: sizes[at], default=0)
    if sizes.get(first, 0) < MIN_ABSTRACT_WORDS:
        return headings
    return [_Heading(first, first, "Abstract", 1, rest=lines[first].text), *headings]


def _add_references(lines: Sequence[TextLine], headings: list[_Heading]) -> list[_Heading]:
    """Add a list of references without a heading: from "[1] ..." to the end, with consecutive numbers."""
    numbers = [(at, int(match[1])) for at, line in enumerate(lines) if (match := _ENTRY.match(line.text))]
    begin = next((at for at, number in reversed(numbers) if number == 1), None)
    if begin is None or any(one.first >= begin or _REFERENCES.match(one.title) for one in headings):
        return headings
    listed = [number for at, number in numbers if at >= begin]
    if len(listed) < 2 or listed != list(range(1, len(listed) + 1)):
        return headings
    return [*headings, _Heading(begin, begin, "References", 1, rest=lines[begin].text)]


# --- sections -------------------------------------------------------------------------------------------------------


def _drop_contents(
    lines: Sequence[TextLine], headings: Sequence[_Heading], candidates: Sequence[_Candidate]
) -> tuple[list[TextLine], list[_Heading]]:
    """Return the lines without those of a table of contents, and the headings at their new positions."""
    titles = {_squeeze(one.title) for one in candidates}
    within = {at for one in headings for at in range(one.first, one.last + 1)}
    dropped = {
        at
        for at, line in enumerate(lines)
        if at not in within
        and (match := re.fullmatch(r"(.*?)[\s.\u00a6]*\s(?:\d{1,3}|[ivxl]+)", line.text))
        and _squeeze(match[1]) in titles
    }
    places = [at - sum(one < at for one in dropped) for at in range(len(lines) + 1)]
    moved = [replace(one, first=places[one.first], last=places[one.last]) for one in headings]
    return [line for at, line in enumerate(lines) if at not in dropped], moved


def _squeeze(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def _cut(lines: Sequence[TextLine], headings: Sequence[_Heading], notes: Sequence[TextLine]) -> Iterator[PdfSection]:
    """Yield the sections. Footnotes follow the text of their section; those of page 1 belong to the title page."""
    ends = [one.first for one in headings[1:]] + [len(lines)]
    abstract = next((one for one in headings if _ABSTRACT.fullmatch(f"{one.title} ")), None)
    first = next((one for one in headings if _NUMBER.match(one.title) and one is not abstract), None)
    front = [format_lines(lines[: headings[0].first])]
    sections = list[PdfSection]()
    left = list(notes)
    if abstract is not None:
        front.append(format_lines([note for note in left if note.page == 1]))
        left = [note for note in left if note.page > 1]
    for one, end in zip(headings, ends, strict=True):
        own = lines[one.last + 1 : end]
        last = lines[end - 1].page
        mine, left = [note for note in left if note.page <= last], [note for note in left if note.page > last]
        text = "\n\n".join(part for part in (_join(one.rest, format_lines(own)), format_lines(mine)) if part)
        is_front = abstract is not None and first is not None and abstract.first < one.first < first.first
        if is_front and not _NAMED.fullmatch(one.title):
            front.append(f"{one.title}\n{text}")
        else:
            sections.append(PdfSection(one.title, text, one.level, one.is_appendix))
    before = "\n\n".join(re.sub(r"(?<!\n)\n(?!\n)", " ", text) for text in front if text)
    if before:
        yield PdfSection(TITLE_PAGE if abstract is not None else "", before, 0)
    yield from sections


def _join(rest: str, text: str) -> str:
    return f"{rest}\n{text}" if rest and text else rest or text
