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

from labwright.models.cutting import MARK, mark, unmarked
from labwright.record.nouns.papers import Removed, RemovedKind
from labwright.review.judge.guards.ink import VisibleText, visible_text
from labwright.review.judge.guards.markup import without_hidden
from labwright.review.judge.guards.orders import orders, tagged, unseen
from labwright.review.judge.reader import Paper, PaperError, private_copy
from labwright.review.judge.sections import PaperSection, of_pdf

REMOVED = mark("an instruction to the reviewer was removed")
ENCODED = mark("encoded text was removed")
MOST_HIDDEN = 0.5
"""Of a PDF's words: beyond it nothing can be said of what a reader sees."""

MARKS = re.compile(r"(\[\[scientist: [^\[\]\n]*\]\])")
"""Splits a text at our marks, and keeps them."""
_TOKENS = re.compile(r"<\|(?=\w+\|>)|(?<=<)\|?(?=/?(?:s|SYS)>)")
_CODED = re.compile(r"(?<![A-Za-z0-9+/])(?:[0-9a-fA-F]{2}[ :]?){20,}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,}={0,2}")


@dataclass(frozen=True)
class Guarded:
    """A paper as a judge sees it. `removed` is what was taken out; `pages` of a PDF, 0 for other forms."""

    paper: Paper
    removed: tuple[Removed, ...] = ()
    pages: int = 0
    marked_pages: tuple[int, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    page_texts: tuple[str, ...] = ()


async def guarded(paper: Paper) -> Guarded:
    """The paper without what is hidden in it or speaks to its judge. Raises `PaperError`."""
    found: list[Removed] = []
    pages, not_looked_at, sight = 0, (), None
    if paper.form == "PDF":
        sight = await _sight(paper.path)
        paper = replace(paper, sections=of_pdf(sight.text))
        found += [_removed("hidden", f"page {page}", text) for page, text in sight.hidden]
        pages = sight.pages
        if sight.not_rendered:
            not_looked_at = (f"hidden text on the last {sight.not_rendered} of {pages} pages was not looked for",)
    found += [_removed("comment", "a comment in the source", text) for text in paper.unseen if orders(text)]
    sections: list[PaperSection] = []
    for section in paper.sections:
        title, of_title = neutral(section.title, "a heading")
        shown, of_hidden = (section.text, ()) if sight else _shown(section, paper)
        text, of_text = neutral(shown, section.title or "before the first heading")
        found += [*of_title, *of_hidden, *of_text]
        sections.append(PaperSection(title, text, section.back))
    texts = tuple(sight.text.split("\f")) if sight else ()
    marked = tuple(page for page, text in enumerate(texts, 1) if orders(text))
    return Guarded(replace(paper, sections=tuple(sections)), tuple(found), pages, marked, not_looked_at, texts)


def neutral(text: str, where: str) -> tuple[str, tuple[Removed, ...]]:
    """A text without orders, encoded text, characters that do not show and what reads as a mark of ours; and what was
    removed."""
    shown, hidden = visible(text, where)
    shown, found = harmless(shown, where)
    return shown, (*hidden, *found)


def visible(text: str, where: str) -> tuple[str, tuple[Removed, ...]]:
    """A text without characters that do not show and marks like ours, to which marks may be added then; and what was
    written in such characters."""
    secret = tagged(text)
    text = text.translate(dict.fromkeys(ord(char) for char in set(text) if unseen(char)))
    return unmarked(text), (_removed("hidden", where, secret),) if secret else ()


def harmless(text: str, where: str) -> tuple[str, tuple[Removed, ...]]:
    """A visible text without orders and encoded text, each mark of ours as it was; and what was removed."""
    parts = [(part, ()) if part.startswith(MARK) else _harmless(part, where) for part in MARKS.split(text)]
    return "".join(part for part, _ in parts), tuple(one for _, found in parts for one in found)


def _harmless(text: str, where: str) -> tuple[str, tuple[Removed, ...]]:
    found: list[Removed] = []
    for begin, end in reversed(orders(text)):
        found.append(_removed("instruction", where, text[begin:end]))
        text = text[:begin] + REMOVED + text[end:]
    for match in reversed(list(_CODED.finditer(text))):
        if (decoded := _decoded(match[0])) is not None:
            found.append(_removed("encoded", where, decoded))
            text = text[: match.start()] + ENCODED + text[match.end() :]
    return _TOKENS.sub(lambda match: f"{match[0]} ", text), tuple(reversed(found))


def _shown(section: PaperSection, paper: Paper) -> tuple[str, tuple[Removed, ...]]:
    """What of a source's section is printed, and what is not."""
    text = html.unescape(section.text) if paper.form == "Markdown" else section.text
    text, hidden = without_hidden(text, paper.form, paper.preamble)
    return text, tuple(
        _removed("hidden", section.title or "before the first heading", piece)
        for piece in hidden
        if len(re.findall(r"[^\W\d_]{2,}", piece)) > 2
    )  # \phantom{0} is no message


async def _sight(path: Path) -> VisibleText:
    """What a reader sees of a PDF. Raises `PaperError` where that is little."""
    with private_copy(path.read_bytes()) as copy:
        found = await visible_text(copy)
    hidden, shown = sum(len(text.split()) for _, text in found.hidden), len(found.text.split())
    if hidden > MOST_HIDDEN * (hidden + shown):
        raise PaperError(
            f"{path} shows nothing where {hidden} of its {hidden + shown} words stand: it cannot be "
            "judged by its text; print it to a new PDF"
        )
    return found


def _decoded(coded: str) -> str | None:
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


def _removed(kind: RemovedKind, where: str, text: str) -> Removed:
    return Removed(kind=kind, where=" ".join(where.split())[:200], text=text[:2000], characters=len(text))
