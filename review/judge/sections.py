"""Split a paper into sections and fit as much as possible into a size limit; every cut is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from labwright.models.prompt_filters import cut_line, cut_middle, format_mark
from labwright.pdf.layout import format_pages
from labwright.pdf.reader import PdfPage
from labwright.pdf.sections import split_sections

MIN_SECTION_CHARACTERS = 800
"""Minimum number of characters of a section that is cut; below it, the section is omitted entirely."""

_BACK_MATTER_TITLE = re.compile(
    r"^(?:references\b|bibliography\b|appendi|acknowledge?ments?\b|supplement)", re.IGNORECASE
)
_LETTERED_HEADING = re.compile(r"^[A-Z]\.?[ \t]")
"""Headings that follow numbered ones, i.e. those of an appendix, even in a paper without references."""
_NUMBERED_HEADING = re.compile(r"^(\d{1,2}|[A-Z])\.?[ \t]+([^\W\d_][^\n]{1,80})$")
_NAMED_HEADING = re.compile(
    r"^(abstract|references|bibliography|acknowledge?ments?|appendix|appendices|supplementary materials?)[ \t:.]*$",
    re.IGNORECASE,
)
_ABSTRACT_OPENING = re.compile(r"^abstract\b[ \t:.—–-]*", re.IGNORECASE)
_MARKDOWN_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$")
_SETEXT_UNDERLINE = re.compile(r"^(=+|-{3,})[ \t]*$")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True)
class PaperSection:
    """A section. `back` marks references and appendices, which are cut first."""

    title: str
    text: str
    is_back_matter: bool = False


@dataclass(frozen=True)
class PaperExcerpt:
    """The part of a paper that is shown, with marks at cuts, and a description of what was omitted."""

    text: str
    left_out: tuple[str, ...] = ()


# --- cutting --------------------------------------------------------------------------------------------------------


def split_pdf_sections(pages: Sequence[PdfPage]) -> tuple[PaperSection, ...]:
    """Split a PDF at its headings, found by layout; otherwise at numbered lines, otherwise by page."""
    sections, back = list[PaperSection](), False
    for one in split_sections(pages):
        back = back or one.is_appendix or bool(one.level and _BACK_MATTER_TITLE.match(one.title))
        sections.append(PaperSection(one.title, one.text, back))
    return tuple(sections) or split_numbered_text(format_pages(pages))


def split_numbered_text(text: str) -> tuple[PaperSection, ...]:
    """Split text at its numbered headings, or by page if none are recognised."""
    found = list(_collect_sections(_mark_numbered_headings(text), back_matter_heading=_LETTERED_HEADING))
    if sum(bool(section.title) for section in found) >= 2:
        return tuple(found)
    pages = [page for page in text.split("\f") if page.strip()]
    return tuple(PaperSection(f"Page {n}", page.strip()) for n, page in enumerate(pages, 1))


def _mark_numbered_headings(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield each line with its heading, if it is one.

    Heading numbers must be consecutive from 1, then from A.
    """
    expected, letter = 1, "A"
    for line in text.replace("\f", "\n").split("\n"):
        match = _NUMBERED_HEADING.match(line.strip())
        number = match[1] if match and match[2][0].isupper() and match[2][-1] not in ".,;" else ""
        if number == str(expected):
            expected += 1
            yield line.strip(), ""
        elif expected > 1 and number == letter:
            letter = chr(ord(letter) + 1)
            yield line.strip(), ""
        elif _NAMED_HEADING.match(line.strip()):
            yield line.strip(), ""
        elif expected == 1 and (abstract := _ABSTRACT_OPENING.match(line)):
            yield "Abstract", line[abstract.end() :]
        else:
            yield None, line


def split_markdown_sections(text: str) -> tuple[PaperSection, ...]:
    """Split Markdown at its headings; code blocks are skipped."""
    return tuple(_collect_sections(_mark_markdown_headings(text)))


def _mark_markdown_headings(text: str) -> Iterator[tuple[str | None, str]]:
    fenced, lines = False, text.split("\n")
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if not fenced and (match := _MARKDOWN_HEADING.match(line)):
            yield match[2], ""
        elif not fenced and line.strip() and _SETEXT_UNDERLINE.match(following) and not _SETEXT_UNDERLINE.match(line):
            yield line.strip(), ""
        elif not (not fenced and _SETEXT_UNDERLINE.match(line)):
            yield None, line


def _collect_sections(
    lines: Iterable[tuple[str | None, str]], back_matter_heading: re.Pattern[str] = _BACK_MATTER_TITLE
) -> Iterator[PaperSection]:
    """Yield sections from lines; after a heading of the back matter, all further sections belong to it."""
    title, kept, back = "", list[str](), False
    for heading, line in (*lines, ("", "")):
        if heading is None:
            kept.append(line)
            continue
        text = "\n".join(kept).strip()
        if title or text:
            yield PaperSection(title, text, back)
        title, kept, back = (
            heading,
            [line],
            back or bool(_BACK_MATTER_TITLE.match(heading) or back_matter_heading.match(heading)),
        )


def find_group_end(text: str, begin: int) -> int | None:
    """Return the position after the LaTeX brace that closes the one before `begin`; None if there is none."""
    depth = 1
    for match in _BRACE.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return None


# --- fitting --------------------------------------------------------------------------------------------------------


def make_excerpt(sections: Sequence[PaperSection], limit: int) -> PaperExcerpt:
    """Return about `limit` characters: short sections in full, long ones cut in the middle, back matter last."""
    allowed = allot_characters(sections, limit)
    text, left_out = "\n\n".join(_format_shown(sections, allowed)), tuple(_list_left_out(sections, allowed))
    most = limit * 11 // 10  # leave room for titles and marks
    if len(text) > most:  # thousands of headings with little text
        left_out = (*left_out, f"{len(text) - most} characters in the middle of the rest")
    return PaperExcerpt(cut_middle(text, most, min_saved_share=0), left_out)


def allot_characters(sections: Sequence[PaperSection], limit: int) -> list[int]:
    """Return how many characters of each section are shown."""
    given = allot_budget([len(section.text) for section in sections if not section.is_back_matter], limit)
    rest = allot_budget([len(section.text) for section in sections if section.is_back_matter], limit - sum(given))
    either = (iter(given), iter(rest))
    return [next(either[section.is_back_matter]) for section in sections]


def allot_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Return the number of characters for each section, at most `budget` in total, with one cap for all long
    sections.
    """
    places = max(0, budget) // MIN_SECTION_CHARACTERS
    served = list(lengths[:places]) if sum(lengths) > budget else list(lengths)
    shares = [0] * len(lengths)
    left = max(0, budget)
    for done, at in enumerate(sorted(range(len(served)), key=lambda at: served[at])):
        shares[at] = min(served[at], left // (len(served) - done))
        left -= shares[at]
    return shares


def _format_shown(sections: Sequence[PaperSection], allowed: Sequence[int]) -> Iterator[str]:
    """Yield the sections, cut as allotted; a run of omitted sections becomes one mark."""
    for skip, run in groupby(zip(sections, allowed, strict=True), key=lambda one: bool(one[0].text and not one[1])):
        if skip:
            lengths = [len(section.text) for section, _ in run]
            yield format_mark(f"{len(lengths)} sections of {sum(lengths)} characters left out here")
            continue
        for section, share in run:
            title = f"## {cut_line(section.title, 160)}\n\n" if section.title else ""
            yield title + cut_middle(section.text, share, min_saved_share=0)


def _list_left_out(sections: Sequence[PaperSection], allowed: Sequence[int], most: int = 40) -> Iterator[str]:
    cut = [(section, share) for section, share in zip(sections, allowed, strict=True) if share < len(section.text)]
    for section, share in cut[:most]:
        what = f"{len(section.text) - share} of {len(section.text)} characters" if share else "all of it"
        yield f"{cut_line(section.title, 100) or 'before the first heading'}: {what}"
    if len(cut) > most:
        yield f"and {len(cut) - most} more sections, in part or whole"
