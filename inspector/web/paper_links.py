"""The released paper as pages with links: every printed value where it stands, by the key that it is bound to.

The paper's TeX says which value stands between which words (`inspector.paper_text`), the PDF where the words stand
(`inspector.web.pdf_pages`). A value is put where the PDF prints it between the same words; these tell two values that
look alike apart. What the source has no key for (rows that the program set) is linked by its digits, ids of nodes
to the nodes.

What it does not guarantee: that a value is found. One that stands among other words than in the source is left to a
search by digits; the text view has every value with its key.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple

from inspector.paper_text import Bits, Block
from inspector.web.pdf_pages import Document, Word

AROUND: Final = 12
"""Words on either side of a value that are compared."""
CLOSE: Final = 24
"""Places that are compared in full, those whose nearest words fit best."""
SURE: Final = 5
"""Of the three words before and after: how many settle that a value's next place is its place."""
NEEDED: Final = 0.45
"""Share of the words around a value that must fit."""
_TOKEN = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?%?|[^\W\d_]+|\d+")
_NODE = re.compile(r"n\d{4,}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


Kind = Literal["key", "number", "node", "figure"]


class Token(NamedTuple):
    """A word or number as it is compared, and the word of the PDF that it is of."""

    text: str
    word: int


class Link(NamedTuple):
    """A place on a page that links: to a value by its key, to a number, to a node, or to a figure."""

    kind: Kind
    target: str
    text: str
    page: int
    left: float
    top: float
    width: float
    height: float


class _Use(NamedTuple):
    """A value of the source between its words."""

    key: str
    tokens: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def links_of(
    document: Document, streams: Iterable[Bits], figures: Mapping[str, str], nodes: Mapping[str, object]
) -> tuple[Link, ...]:
    """What links on the pages of a document. `streams` are texts with keys, `figures` name -> caption."""
    words = document.words
    tokens = [Token(text, at) for at, word in enumerate(words) for text in tokens_of(word.text)]
    places: dict[str, list[int]] = {}
    for at, token in enumerate(tokens):
        places.setdefault(token.text, []).append(at)
    found: list[Link] = []
    taken: set[int] = set()
    for stream in streams:
        for use, at in _placed(_uses(stream), tokens, places, taken):
            span = sorted({tokens[n].word for n in range(at, at + len(use.tokens))})
            found += _boxes("key", use.key, [words[n] for n in span])
            taken.update(span)
    for word in (word for at, word in enumerate(words) if at not in taken):
        bare, node = word.text.strip(".,;:()[]%"), _NODE.search(word.text)
        if node is not None and node[0] in nodes:
            found.append(_box("node", node[0], node[0], [word]))
        elif "." in bare and _NUMBER.fullmatch(bare):
            found.append(_box("number", bare, bare, [word]))
    heads = [at for at, token in enumerate(tokens[:-2]) if token.text == "figure" and tokens[at + 1].text.isdigit()]
    for name, caption in figures.items():  # the words `Figure 3` before it
        begin = tokens_of(caption)[:8]
        for at in heads:
            if begin and [token.text for token in tokens[at + 2:at + 2 + len(begin)]] == begin:
                found += _boxes("figure", name, [words[tokens[at].word], words[tokens[at + 1].word]])
                break
    return tuple(sorted(found, key=lambda mark: (mark.page, mark.top, mark.left)))


def tokens_of(text: str) -> list[str]:
    """Words and numbers of a text, as they are compared."""
    return [one.lower() for one in _TOKEN.findall(text.replace("\u2212", "-"))]


def streams_of(blocks: Sequence[Block], appendix: Bits = ()) -> Iterator[Bits]:
    """The texts of a paper whose words follow one another on the page: running text, appendix, and each float.

    Floats come last: one that the PDF leaves out finds every place of its values taken.
    """
    yield tuple(bit for block in blocks if block.kind not in ("table", "figure") for bit in block.bits)
    yield appendix
    for block in dict.fromkeys(block for block in blocks if block.kind in ("table", "figure")):
        yield (*block.bits, *(bit for row in block.rows for cell in row for bit in cell))


def _uses(stream: Bits) -> Iterator[_Use]:
    bits = [(bit.key, tuple(tokens_of(bit.text))) for bit in stream]
    texts, at = [token for _, tokens in bits for token in tokens], 0
    for key, own in bits:
        begin, at = at, at + len(own)
        if key and own:
            yield _Use(key, own, tuple(texts[max(0, begin - AROUND):begin]), tuple(texts[at:at + AROUND]))


# --- where a value stands -------------------------------------------------------------------------------------------


def _placed(
    uses: Iterable[_Use], tokens: Sequence[Token], places: Mapping[str, Sequence[int]], taken: Set[int]
) -> Iterator[tuple[_Use, int]]:
    """Each value with the place where it fits best; of equal ones the next after the value before."""
    last = 0
    for use in uses:
        every = places.get(use.tokens[0], ())
        following = every[(after := bisect_left(every, last)):after + 1]
        if following and _same(use, tokens, following[0]) and _near(use, tokens, following[0]) >= SURE:
            found = [*following]
        else:
            found = sorted((at for at in every if _same(use, tokens, at)), key=lambda at, use=use: -_near(
                use, tokens, at))[:CLOSE]
        scored = [(_fit(use, tokens, at), at >= last, -abs(at - last), at) for at in found
                  if tokens[at].word not in taken]
        if scored and (best := max(scored))[0] >= NEEDED:
            last = best[3]
            yield use, last


def _same(use: _Use, tokens: Sequence[Token], at: int) -> bool:
    return all(one.text == text for one, text in zip(tokens[at:at + len(use.tokens)], use.tokens, strict=False))


def _near(use: _Use, tokens: Sequence[Token], at: int) -> int:
    """How many of the three words before and after are the same, at once."""
    end = at + len(use.tokens)
    before, after = use.before[::-1][:3], use.after[:3]
    return (sum(at > n and tokens[at - 1 - n].text == one for n, one in enumerate(before))
            + sum(end + n < len(tokens) and tokens[end + n].text == one for n, one in enumerate(after)))


def _fit(use: _Use, tokens: Sequence[Token], at: int) -> float:
    """Share of the words around that follow in the same order, other words between them allowed; from 0 to 1."""
    end = at + len(use.tokens)
    reach = AROUND + 6
    before = [one.text for one in tokens[max(0, at - reach):at]]
    after = [one.text for one in tokens[end:end + reach]]
    sides = [(_common(use.before, before), len(use.before)), (_common(use.after, after), len(use.after))]
    total = sum(size for _, size in sides)
    whole = sum(same for same, _ in sides) / total if total else 0.0
    return max([whole, *(0.95 * same / size for same, size in sides if size >= AROUND // 2)])


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for one in a:
        corner = 0
        for n, other in enumerate(b, 1):
            corner, row[n] = row[n], corner + 1 if one == other else max(row[n], row[n - 1])
    return row[-1]


def _boxes(kind: Kind, target: str, words: Sequence[Word]) -> list[Link]:
    """One box for each line that a value stands on."""
    lines: list[list[Word]] = []
    for word in words:
        if lines and lines[-1][-1].page == word.page and abs(lines[-1][-1].bottom - word.bottom) < 4:
            lines[-1].append(word)
        else:
            lines.append([word])
    text = " ".join(word.text for word in words)
    return [_box(kind, target, text, line) for line in lines]


def _box(kind: Kind, target: str, text: str, line: Sequence[Word]) -> Link:
    left, top = min(word.left for word in line), min(word.top for word in line)
    right, bottom = max(word.right for word in line), max(word.bottom for word in line)
    return Link(kind, target, text, line[0].page, left, top, right - left, bottom - top)
