"""Remove text that no reader of a paper sees, and report what was removed.

`guard_paper` returns the paper without hidden text, invisible characters and encoded text, and a list of what was
removed and where. Whether visible text addresses the judge is decided by a model (`review.judge.injection_screening`).
Limits: see `pdf_visible_text` and `hidden_markup`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from labwright.models.prompt_filters import MARK_PREFIX, format_mark, strip_marks
from labwright.pdf.reader import PdfError, read_pdf
from labwright.record.schema.paper import RemovedKind, RemovedPassage
from labwright.review.judge.guards.hidden_markup import (
    MAX_RENDERED_PAGES,
    TIMEOUT_SECONDS,
    VisibleText,
    remove_hidden,
    separate_hidden,
)
from labwright.review.judge.paper_reader import Paper, PaperError, PaperSection

ENCODED_REMOVED_MARK = format_mark("encoded text was removed")
MAX_HIDDEN_SHARE = 0.5
"""Maximum share of hidden words in a PDF; above it, the visible text cannot be determined."""

MARK_PATTERN = re.compile(r"(\[\[scientist: [^\[\]\n]*\]\])")
"""Splits a text at the guards' marks, and keeps them."""
_CHAT_TOKENS = re.compile(r"<\|(?=\w+\|>)|(?<=<)\|?(?=/?(?:s|SYS)>)")
_ENCODED_TEXT = re.compile(r"(?<![A-Za-z0-9+/])(?:[0-9a-fA-F]{2}[ :]?){20,}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,}={0,2}")


@dataclass(frozen=True)
class GuardedPaper:
    """A paper as a judge sees it.

    `removed` lists the removed passages; `pages` is the page count of a PDF, 0 for other formats; images of
    `withheld_pages` are not shown.
    """

    paper: Paper
    removed: tuple[RemovedPassage, ...] = ()
    pages: int = 0
    withheld_pages: tuple[int, ...] = ()
    unchecked: tuple[str, ...] = ()
    page_texts: tuple[str, ...] = ()


async def guard_paper(paper: Paper) -> GuardedPaper:
    """Return the paper without hidden and encoded text. Raises `PaperError`."""
    found: list[RemovedPassage] = []
    pages, not_looked_at, sight = 0, (), None
    if paper.form == "PDF":
        sight = await _read_visible_text(paper.path)
        paper = replace(paper, sections=sight.sections)
        found += [_make_removed("hidden", f"page {page}", text) for page, text in sight.hidden_runs]
        pages = sight.pages
        if sight.unrendered_pages:
            not_looked_at = (f"the last {sight.unrendered_pages} of {pages} pages were not checked for hidden text",)
    sections: list[PaperSection] = []
    for section in paper.sections:
        title, of_title = neutralise(section.title, "a heading")
        shown, of_hidden = (section.text, ()) if sight else _keep_printed(section, paper)
        text, of_text = neutralise(shown, section.title or "before the first heading")
        found += [*of_title, *of_hidden, *of_text]
        sections.append(PaperSection(title, text, section.is_back_matter))
    texts = tuple(sight.text.split("\f")) if sight else ()
    return GuardedPaper(
        replace(paper, sections=tuple(sections)), tuple(found), pages, unchecked=not_looked_at, page_texts=texts
    )


def neutralise(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the text without encoded text, invisible characters and forged marks, and what was removed."""
    shown, hidden = strip_invisible(text, where)
    shown, found = remove_encoded(shown, where)
    return shown, (*hidden, *found)


def strip_invisible(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the text without invisible characters and forged marks, and what was written in those characters.

    Marks may be added afterwards.
    """
    secret = "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)
    marks = {char for char in set(text) if unicodedata.category(char) == "Cf"}  # joiners, direction marks, soft hyphens
    selectors = {char for char in set(text) if 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF}
    text = text.translate(dict.fromkeys(map(ord, marks | selectors)))
    return strip_marks(text), (_make_removed("hidden", where, secret),) if secret else ()


def remove_encoded(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return a visible text without encoded text and tokens of chats, its marks unchanged, and what was removed."""
    parts, found = MARK_PATTERN.split(text), list[RemovedPassage]()

    def remove(match: re.Match[str]) -> str:
        if (decoded := _decode(match[0])) is None:
            return match[0]
        found.append(_make_removed("encoded", where, decoded))
        return ENCODED_REMOVED_MARK

    for at, part in enumerate(parts):
        if not part.startswith(MARK_PREFIX):
            parts[at] = _CHAT_TOKENS.sub(lambda match: f"{match[0]} ", _ENCODED_TEXT.sub(remove, part))
    return "".join(parts), tuple(found)


def _keep_printed(section: PaperSection, paper: Paper) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the printed part of a section's source and the rest."""
    text = html.unescape(section.text) if paper.form == "Markdown" else section.text
    text, hidden = remove_hidden(text, paper.form, paper.preamble)
    return text, tuple(
        _make_removed("hidden", section.title or "before the first heading", piece)
        for piece in hidden
        if len(re.findall(r"[^\W\d_]{2,}", piece)) > 2
    )  # \phantom{0} carries no message


async def _read_visible_text(path: Path) -> VisibleText:
    """Return the visible text of a PDF. Raises `PaperError` if most of it is hidden."""
    try:
        document = await asyncio.to_thread(read_pdf, path, contrast_pages=MAX_RENDERED_PAGES, timeout=TIMEOUT_SECONDS)
    except PdfError as error:
        raise PaperError(f"{path} contains no extractable text: {error}") from None
    found = await asyncio.to_thread(separate_hidden, document)
    hidden, shown = sum(len(text.split()) for _, text in found.hidden_runs), len(found.text.split())
    if hidden > MAX_HIDDEN_SHARE * (hidden + shown):
        raise PaperError(
            f"{path}: {hidden} of its {hidden + shown} words are hidden, so it cannot be "
            "judged by its text; print it to a new PDF"
        )
    return found


def _decode(coded: str) -> str | None:
    """Return the text of a run of base64 or hexadecimal digits, if it decodes to words."""
    bare = coded.rstrip("=")
    for decode, digits in (
        (bytes.fromhex, re.sub(r"[ :]", "", coded)),
        (partial(base64.b64decode, validate=True), bare + "=" * (-len(bare) % 4)),
    ):
        with contextlib.suppress(ValueError):
            text = decode(digits).decode("utf-8", "replace")
            words = re.findall(r"[^\W\d_]{2,}", text)
            if len(words) >= 4 and sum(map(len, words)) > 0.6 * len(text) and text.isprintable():
                return text
    return None


def _make_removed(kind: RemovedKind, where: str, text: str) -> RemovedPassage:
    return RemovedPassage(kind=kind, where=" ".join(where.split())[:200], text=text[:2000], characters=len(text))
