"""A paper cut into its sections, and as much of it as fits a size limit; what does not fit is said, never dropped
in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from models.cutting import middle, oneline

LEAST = 800
"""Characters below which a section is not worth cutting: it is left out as a whole."""

_BACK = re.compile(r"^(?:references\b|bibliography\b|appendi|acknowledge?ments?\b|supplement)", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d{1,2}|[A-Z])\.?[ \t]+([^\W\d_][^\n]{1,80})$")
_NAMED = re.compile(
    r"^(abstract|references|bibliography|acknowledge?ments?|appendix|appendices|supplementary materials?)[ \t:.]*$",
    re.IGNORECASE)
_ABSTRACT = re.compile(r"^abstract\b[ \t:.—–-]*", re.IGNORECASE)
_MARKDOWN = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$")
_SETEXT = re.compile(r"^(=+|-{3,})[ \t]*$")


@dataclass(frozen=True)
class Part:
    """A section. `back` marks references and appendices, which give way first."""

    title: str
    text: str
    back: bool = False


@dataclass(frozen=True)
class Shown:
    """What of a paper is shown: its text with marks, and what was left out in words."""

    text: str
    left_out: tuple[str, ...] = ()


# --- cutting --------------------------------------------------------------------------------------------------------


def of_pdf(text: str) -> tuple[Part, ...]:
    """The sections of a PDF's text by their numbered headings; by page where it has none that can be told."""
    found = list(_collected(_pdf_lines(text)))
    if sum(bool(part.title) for part in found) >= 2:
        return tuple(found)
    pages = [page for page in text.split("\f") if page.strip()]
    return tuple(Part(f"Page {n}", page.strip()) for n, page in enumerate(pages, 1))


def _pdf_lines(text: str) -> Iterator[tuple[str | None, str]]:
    """Each line with the heading that it is, if it is one. Numbers of headings follow one another from 1, then A."""
    expected, letter = 1, "A"
    for line in text.replace("\f", "\n").split("\n"):
        match = _NUMBERED.match(line.strip())
        number = match[1] if match and match[2][0].isupper() and match[2][-1] not in ".,;" else ""
        if number == str(expected):
            expected += 1
            yield line.strip(), ""
        elif expected > 1 and number == letter:
            letter = chr(ord(letter) + 1)
            yield line.strip(), ""
        elif _NAMED.match(line.strip()):
            yield line.strip(), ""
        elif expected == 1 and (abstract := _ABSTRACT.match(line)):
            yield "Abstract", line[abstract.end():]
        else:
            yield None, line


def of_headings(text: str) -> tuple[Part, ...]:
    """The sections of Markdown by its headings; code blocks are not searched for any."""
    return tuple(_collected(_markdown_lines(text)))


def _markdown_lines(text: str) -> Iterator[tuple[str | None, str]]:
    fenced, lines = False, text.split("\n")
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if not fenced and (match := _MARKDOWN.match(line)):
            yield match[2], ""
        elif not fenced and line.strip() and _SETEXT.match(following) and not _SETEXT.match(line):
            yield line.strip(), ""
        elif not (not fenced and _SETEXT.match(line)):
            yield None, line


def _collected(lines: Iterable[tuple[str | None, str]]) -> Iterator[Part]:
    """Parts from lines; once the back matter has begun, all that follows belongs to it."""
    title, kept, back = "", list[str](), False
    for heading, line in lines:
        if heading is None:
            kept.append(line)
            continue
        yield from _part(title, kept, back)
        title, kept, back = heading, [line], back or bool(_BACK.match(heading))
    yield from _part(title, kept, back)


def _part(title: str, lines: Sequence[str], back: bool) -> Iterator[Part]:
    text = "\n".join(lines).strip()
    if title or text:
        yield Part(title, text, back)


# --- fitting --------------------------------------------------------------------------------------------------------


def fitted(parts: Sequence[Part], limit: int) -> Shown:
    """As much as fits about `limit` characters: short sections whole, long ones cut in the middle, the back matter with
    what the main text leaves."""
    allowed = shares(parts, limit)
    text, left_out = "\n\n".join(_shown(parts, allowed)), tuple(_left_out(parts, allowed))
    most = limit * 11 // 10  # titles and marks come on top
    if len(text) > most:  # thousands of headings with little below them
        left_out = (*left_out, f"{len(text) - most} characters in the middle of the rest")
    return Shown(middle(text, most, worth=0), left_out)


def shares(parts: Sequence[Part], limit: int) -> list[int]:
    """How many characters of each section are shown."""
    given = allotted([len(part.text) for part in parts if not part.back], limit)
    rest = allotted([len(part.text) for part in parts if part.back], limit - sum(given))
    either = (iter(given), iter(rest))
    return [next(either[part.back]) for part in parts]


def allotted(lengths: Sequence[int], budget: int) -> list[int]:
    """Characters for each section, in all at most `budget`: the same ceiling for all that are too long for it."""
    places = max(0, budget) // LEAST
    served = list(lengths[:places]) if sum(lengths) > budget else list(lengths)
    shares = [0] * len(lengths)
    left = max(0, budget)
    for done, at in enumerate(sorted(range(len(served)), key=lambda at: served[at])):
        shares[at] = min(served[at], left // (len(served) - done))
        left -= shares[at]
    return shares


def _shown(parts: Sequence[Part], allowed: Sequence[int]) -> Iterator[str]:
    """The parts with their share; a run of parts that have none becomes one mark."""
    skipped: list[Part] = []
    for part, share in zip(parts, allowed, strict=True):
        if part.text and not share:
            skipped.append(part)
            continue
        yield from _mark(skipped)
        skipped = []
        yield (f"## {oneline(part.title, 160)}\n\n" if part.title else "") + middle(part.text, share, worth=0)
    yield from _mark(skipped)


def _mark(skipped: Sequence[Part]) -> Iterator[str]:
    if skipped:
        characters = sum(len(part.text) for part in skipped)
        yield f"[... {len(skipped)} sections of {characters} characters left out here ...]"


def _left_out(parts: Sequence[Part], allowed: Sequence[int], most: int = 40) -> Iterator[str]:
    cut = [(part, share) for part, share in zip(parts, allowed, strict=True) if share < len(part.text)]
    for part, share in cut[:most]:
        what = f"{len(part.text) - share} of {len(part.text)} characters" if share else "the whole of it"
        yield f"{oneline(part.title, 100) or 'before the first heading'}: {what}"
    if len(cut) > most:
        yield f"and {len(cut) - most} more sections, in part or whole"
