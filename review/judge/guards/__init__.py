"""What stands in a paper for its judge and not for its readers is taken out before a judge sees it, and reported.

`guarded` gives the paper without hidden text, encoded text and orders to reviewers or models, and a list of what was
removed with its place. An order leaves the mark `REMOVED`, so that the text does not change its meaning in silence.

Not guaranteed: see `ink`, `markup` and `orders` for what each of them misses. A paper that discusses such
attacks loses its examples; a person finds them in the report.
"""

from __future__ import annotations

import base64
import contextlib
import html
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from labwright.models.prompt_filters import MARK_PREFIX, format_mark, strip_marks
from labwright.record.schema.paper import RemovedKind, RemovedPassage
from labwright.review.judge.guards.hidden_markup import remove_hidden
from labwright.review.judge.guards.orders import orders, tagged, unseen
from labwright.review.judge.guards.pdf_visible_text import VisibleText, read_visible_text
from labwright.review.judge.paper_reader import Paper, PaperError, temporary_copy
from labwright.review.judge.sections import PaperSection, split_pdf_sections

INJECTION_REMOVED_MARK = format_mark("an instruction to the reviewer was removed")
ENCODED_REMOVED_MARK = format_mark("encoded text was removed")
MAX_HIDDEN_SHARE = 0.5
"""Of a PDF's words: beyond it nothing can be said of what a reader sees."""

MARK_PATTERN = re.compile(r"(\[\[scientist: [^\[\]\n]*\]\])")
"""Splits a text at our marks, and keeps them."""
_CHAT_TOKENS = re.compile(r"<\|(?=\w+\|>)|(?<=<)\|?(?=/?(?:s|SYS)>)")
_ENCODED_TEXT = re.compile(r"(?<![A-Za-z0-9+/])(?:[0-9a-fA-F]{2}[ :]?){20,}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,}={0,2}")


@dataclass(frozen=True)
class GuardedPaper:
    """A paper as a judge sees it. `removed` is what was taken out; `pages` of a PDF, 0 for other forms."""

    paper: Paper
    removed: tuple[RemovedPassage, ...] = ()
    pages: int = 0
    hidden_text_pages: tuple[int, ...] = ()
    unchecked: tuple[str, ...] = ()
    page_texts: tuple[str, ...] = ()


async def guard_paper(paper: Paper) -> GuardedPaper:
    """The paper without what is hidden in it or speaks to its judge. Raises `PaperError`."""
    found: list[RemovedPassage] = []
    pages, not_looked_at, sight = 0, (), None
    if paper.form == "PDF":
        sight = await _read_visible_text(paper.path)
        paper = replace(paper, sections=split_pdf_sections(sight.text))
        found += [_make_removed("hidden", f"page {page}", text) for page, text in sight.hidden_runs]
        pages = sight.pages
        if sight.unrendered_pages:
            not_looked_at = (f"hidden text on the last {sight.unrendered_pages} of {pages} pages was not looked for",)
    found += [_make_removed("comment", "a comment in the source", text) for text in paper.unprinted if orders(text)]
    sections: list[PaperSection] = []
    for section in paper.sections:
        title, of_title = neutralise(section.title, "a heading")
        shown, of_hidden = (section.text, ()) if sight else _keep_printed(section, paper)
        text, of_text = neutralise(shown, section.title or "before the first heading")
        found += [*of_title, *of_hidden, *of_text]
        sections.append(PaperSection(title, text, section.is_back_matter))
    texts = tuple(sight.text.split("\f")) if sight else ()
    marked = tuple(page for page, text in enumerate(texts, 1) if orders(text))
    return GuardedPaper(replace(paper, sections=tuple(sections)), tuple(found), pages, marked, not_looked_at, texts)


def neutralise(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """A text without orders, encoded text, characters that do not show and what reads as a mark of ours; and what was
    removed."""
    shown, hidden = strip_invisible(text, where)
    shown, found = remove_injections(shown, where)
    return shown, (*hidden, *found)


def strip_invisible(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """A text without characters that do not show and marks like ours, to which marks may be added then; and what was
    written in such characters."""
    secret = tagged(text)
    text = text.translate(dict.fromkeys(ord(char) for char in set(text) if unseen(char)))
    return strip_marks(text), (_make_removed("hidden", where, secret),) if secret else ()


def remove_injections(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """A visible text without orders and encoded text, each mark of ours as it was; and what was removed."""
    parts = [
        (part, ()) if part.startswith(MARK_PREFIX) else _remove_from_plain(part, where)
        for part in MARK_PATTERN.split(text)
    ]
    return "".join(part for part, _ in parts), tuple(one for _, found in parts for one in found)


def _remove_from_plain(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    found: list[RemovedPassage] = []
    for begin, end in reversed(orders(text)):
        found.append(_make_removed("instruction", where, text[begin:end]))
        text = text[:begin] + INJECTION_REMOVED_MARK + text[end:]
    for match in reversed(list(_ENCODED_TEXT.finditer(text))):
        if (decoded := _decode(match[0])) is not None:
            found.append(_make_removed("encoded", where, decoded))
            text = text[: match.start()] + ENCODED_REMOVED_MARK + text[match.end() :]
    return _CHAT_TOKENS.sub(lambda match: f"{match[0]} ", text), tuple(reversed(found))


def _keep_printed(section: PaperSection, paper: Paper) -> tuple[str, tuple[RemovedPassage, ...]]:
    """What of a source's section is printed, and what is not."""
    text = html.unescape(section.text) if paper.form == "Markdown" else section.text
    text, hidden = remove_hidden(text, paper.form, paper.preamble)
    return text, tuple(
        _make_removed("hidden", section.title or "before the first heading", piece)
        for piece in hidden
        if len(re.findall(r"[^\W\d_]{2,}", piece)) > 2
    )  # \phantom{0} is no message


async def _read_visible_text(path: Path) -> VisibleText:
    """What a reader sees of a PDF. Raises `PaperError` where that is little."""
    with temporary_copy(path.read_bytes()) as copy:
        found = await read_visible_text(copy)
    hidden, shown = sum(len(text.split()) for _, text in found.hidden_runs), len(found.text.split())
    if hidden > MAX_HIDDEN_SHARE * (hidden + shown):
        raise PaperError(
            f"{path} shows nothing where {hidden} of its {hidden + shown} words stand: it cannot be "
            "judged by its text; print it to a new PDF"
        )
    return found


def _decode(coded: str) -> str | None:
    """What a run of base64 or hexadecimal digits says, where it is words."""
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
