"""Link every printed value in the released paper to the key to which it is bound.

The paper's TeX gives the words around each value (`inspector.paper_text`), the PDF gives the positions of words
(`inspector.web.pdf_pages`). A value is located where the PDF prints it between the same words, which distinguishes
equal values too. Values without a key in the source (rows typeset by the program) are linked by their digits, and node
ids to their nodes.

Limits: a value may not be found. If the surrounding words differ from the source, it is linked only by its digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import eq
from typing import Final, Literal, NamedTuple

from labwright.inspector.paper_text import TextBits
from labwright.inspector.web.pdf_pages import PdfDocument, PdfWord

CONTEXT_TOKENS: Final = 12
"""Number of words compared on each side of a value."""
MIN_CONTEXT_MATCH: Final = 0.45
"""Minimum share of the words before or after a value that must match."""
MIN_SHARE_OF_BEST: Final = 0.7
"""The next position after the previous value is chosen if it reaches this share of the best match, since rows of a
table look alike.
"""
_TOKEN = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\W\d_]+|\d+")
_NODE = re.compile(r"n\d{4,}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


LinkKind = Literal["key", "number", "node", "figure"]


class PageLink(NamedTuple):
    """A rectangle on a page that links to a value by key, a number, a node, or a figure."""

    kind: LinkKind
    target: str
    text: str
    page: int
    left: float
    top: float
    width: float
    height: float


def find_links(
    document: PdfDocument, texts: Iterable[TextBits], figures: Mapping[str, str], nodes: Mapping[str, object]
) -> tuple[PageLink, ...]:
    """Find the links on the pages of a document. `texts` have keys, `figures` maps name -> caption.

    Passages that the PDF may omit come last, so that they match only places not yet used.
    """
    words = document.words
    spelled = [(token, word) for word in words for token in tokenize(word.text)]
    tokens, places = [token for token, _ in spelled], dict[str, list[int]]()
    for at, token in enumerate(tokens):
        places.setdefault(token, []).append(at)
    found, taken = list[PageLink](), set[PdfWord]()
    for text in texts:
        for key, place in _locate_values(text, tokens, places):
            value = [*dict.fromkeys(word for _, word in spelled[place.start : place.stop])]
            found += _link_boxes("key", key, value)
            taken.update(value)
    for word in words:
        bare, node = word.text.strip(".,;:()[]%"), _NODE.search(word.text)
        if word in taken:
            continue
        if node is not None and node[0] in nodes:
            found += _link_boxes("node", node[0], [word._replace(text=node[0])])
        elif "." in bare and _NUMBER.fullmatch(bare):
            found += _link_boxes("number", bare, [word._replace(text=bare)])
    for name, caption in figures.items():  # link the words `Figure 3` before the caption
        begin = tokenize(caption)[:8]
        at = next(
            (
                at
                for at in range(len(tokens) - 2)
                if begin
                and tokens[at] == "figure"
                and tokens[at + 1].isdigit()
                and tokens[at + 2 : at + 2 + len(begin)] == begin
            ),
            None,
        )
        if at is not None:
            found += _link_boxes("figure", name, [word for _, word in spelled[at : at + 2]])
    return tuple(sorted(found, key=lambda mark: (mark.page, mark.top, mark.left)))


def tokenize(text: str) -> list[str]:
    """Split a string into words and numbers for comparison."""
    return [one.lower() for one in _TOKEN.findall(text.replace("\u2212", "-"))]


def _locate_values(
    text: TextBits, tokens: Sequence[str], places: Mapping[str, list[int]]
) -> Iterator[tuple[str, range]]:
    """Yield each value of a passage with its token range, which is then removed from `places`."""
    source, values, last = list[str](), list[tuple[str, range]](), 0
    for bit in text:
        own = tokenize(bit.text)
        if bit.key and own:
            values.append((bit.key, range(len(source), len(source) + len(own))))
        source += own
    for key, span in values:
        own = source[span.start : span.stop]
        before, after = (
            source[max(0, span.start - CONTEXT_TOKENS) : span.start],
            source[span.stop : span.stop + CONTEXT_TOKENS],
        )
        fits = {
            at: (
                _match_share(before[::-1], tokens[max(0, at - CONTEXT_TOKENS) : at][::-1]),
                _match_share(after, tokens[at + len(own) : at + len(own) + CONTEXT_TOKENS]),
            )
            for at in places.get(own[0], ())
            if tokens[at : at + len(own)] == own
        }
        best = max(map(sum, fits.values()), default=0.0)
        at = min(
            (at for at, fit in fits.items() if sum(fit) >= MIN_SHARE_OF_BEST * best),
            default=-1,
            key=lambda at, last=last: (at < last, abs(at - last)),
        )
        if at >= 0 and max(fits[at]) >= MIN_CONTEXT_MATCH * max(len(before), len(after)):
            last = at
            for at in range(last, last + len(own)):
                places[tokens[at]].remove(at)
            yield key, range(last, last + len(own))


def _match_share(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of words of one sequence that occur in the other; half of the weight counts only words at
    the same position.
    """
    return (len(set(a) & set(b)) + sum(map(eq, a, b))) / 2


def _link_boxes(kind: LinkKind, target: str, words: Sequence[PdfWord]) -> Iterator[PageLink]:
    """Yield one box per line that a value occupies."""
    lines: list[list[PdfWord]] = []
    for word in words:
        if lines and lines[-1][-1].page == word.page and abs(lines[-1][-1].bottom - word.bottom) < 4:
            lines[-1].append(word)
        else:
            lines.append([word])
    text = " ".join(word.text for word in words)
    for line in lines:
        left, top = min(word.left for word in line), min(word.top for word in line)
        right, bottom = max(word.right for word in line), max(word.bottom for word in line)
        yield PageLink(kind, target, text, line[0].page, left, top, right - left, bottom - top)
