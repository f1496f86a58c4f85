"""Split text into passages that can be removed singly: sentences of prose or a few lines of code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.review.judge.guards import MARK_PATTERN

MAX_PASSAGE_CHARACTERS, MIN_PASSAGE_CHARACTERS = 500, 40
"""Limits for a passage: a longer one is split between lines, shorter ones of a paragraph are joined."""

_SENTENCE_END = re.compile(
    r"(?<=[.!?])[\"'\u201d\u2019)*]*\s+|(?<=[\u3002\uff01\uff1f])|\n\s*\n\s*"
    r"|\n(?=\s*(?:[-*+>|\u2022#]|\d{1,2}[.)]|\\item\b))|\Z"
)
_LINE_END = re.compile(r"\n+|\Z")

Span = tuple[int, int]


def split_passages(text: str, *, prose: bool = True) -> list[Span]:
    """Return the start and end of each passage, except blank ones and the guards' marks."""
    found: list[Span] = []
    at = 0
    for part in MARK_PATTERN.split(text):
        if part and not MARK_PATTERN.fullmatch(part):
            found += [(at + begin, at + end) for begin, end in _join_short(part, prose=prose)]
        at += len(part)
    return found


def _join_short(text: str, *, prose: bool) -> Iterator[Span]:
    """Join short passages with the following ones, up to a blank line."""
    begin, end = 0, 0
    for first, last in _split_text(text, prose=prose):
        room = MIN_PASSAGE_CHARACTERS if prose else MAX_PASSAGE_CHARACTERS // 2
        if end > begin and (
            last - begin > MAX_PASSAGE_CHARACTERS or end - begin >= room or re.search(r"\n\s*\n", text[end:first])
        ):
            yield begin, end
            begin = end
        begin, end = (begin if end > begin else first), last
    if end > begin:
        yield begin, end


def _split_text(text: str, *, prose: bool) -> Iterator[Span]:
    begin = 0
    for match in (_SENTENCE_END if prose else _LINE_END).finditer(text):
        if text[begin : match.start()].strip():
            yield from _split_long(text, begin, match.start())
        begin = match.end()


def _split_long(text: str, begin: int, end: int) -> Iterator[Span]:
    """Yield a passage, split at line ends or spaces if it is too long."""
    while end - begin > MAX_PASSAGE_CHARACTERS:
        cut = max(text.rfind(sign, begin + 1, begin + MAX_PASSAGE_CHARACTERS) for sign in "\n ")
        cut = cut if cut > begin else begin + MAX_PASSAGE_CHARACTERS
        if text[begin:cut].strip():
            yield begin, cut
        begin = cut
    if text[begin:end].strip():
        yield begin, end
