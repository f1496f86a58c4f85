"""Whether two lists of authors are the same people in the same order.

What it cannot tell: two people of one name; an initial that stands for another name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from literature.tex import folded

_PARTICLES = frozenset("van von der den de del della di da do dos das du la le los el al bin ibn ter ten af av zu zur "
                       "und".split())
_SUFFIXES = frozenset(["jr", "sr", "ii", "iii", "iv"])


@dataclass(frozen=True)
class Name:
    """A person's name in folded words, without particles. `family` is empty where the writing does not tell it."""

    family: tuple[str, ...]
    words: tuple[str, ...]
    """Every word: given names, then the family's."""
    pressed: str
    """The same with particles, in one."""


def authors_in(field: str) -> tuple[list[str], bool]:
    """The names of a BibTeX author field, and whether it ends with `and others`."""
    names = [one.strip() for one in _divided(" ".join(field.split()))]
    names = [one for one in names if one]
    cut = bool(names) and folded(names[-1]) in ("others", "et al")
    return (names[:-1] if cut else names), cut


def _divided(field: str) -> list[str]:
    """Parts between `and`s that stand outside of braces."""
    parts, depth, begin = list[str](), 0, 0
    for match in re.finditer(r"[{}]|\sand\s", field):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and match[0] not in "{}":
            parts.append(field[begin:match.start()])
            begin = match.end()
    return [*parts, field[begin:]]


def name_of(text: str) -> Name:
    """A name as `Family, Given`, `Family, Jr, Given` or `Given Family`."""
    parts = [words for one in text.split(",") if (words := _words(one))]
    if len(parts) > 1 or (parts and "," in text):
        family = [one for place, one in enumerate(parts[0], 1) if one not in _PARTICLES or place == len(parts[0])]
        given = [word for part in parts[1:] for place, word in enumerate(part) if word not in _PARTICLES or place == 0]
        return Name(tuple(family), (*given, *family), "".join(word for part in (*parts[1:], parts[0]) for word in part))
    words = parts[0] if parts else []
    return Name((), tuple(one for place, one in enumerate(words)
                          if one not in _PARTICLES or place in (0, len(words) - 1)), "".join(words))


def _words(text: str) -> list[str]:
    spread = re.sub(r"(?<=[A-Z])\.(?=[A-Z])|(?<=\b[A-Z])(?=[A-Z]\b)", " ", text)  # "K.Q." and "KQ" are two initials
    return [_spelt(one) for one in folded(spread).split() if one not in _SUFFIXES]


def _spelt(word: str) -> str:
    """Umlauts are written in two ways; both become the shorter one."""
    return re.sub(r"(?<=[aou])e(?=[^aeiou])", "", word)


def same_person(one: str, other: str) -> bool:
    """Whether two writings may name one person: the family name, and given names as far as both have them."""
    a, b = name_of(one), name_of(other)
    if not a.words or not b.words:
        return False
    if sorted(a.words) == sorted(b.words) or a.pressed == b.pressed:
        return True  # one of them may begin with the family name, or write it in two words
    if a.family and b.family:
        return a.family == b.family and _given(a.words, b.words, len(a.family), len(b.family))
    size = len(a.family or b.family) or 1
    return a.words[-size:] == b.words[-size:] and _given(a.words, b.words, size, size)


def _given(a: Sequence[str], b: Sequence[str], of_a: int, of_b: int) -> bool:
    """Whether given names agree: one list may lack middle names, initials stand for names, short forms for long."""
    left, right = list(a[:-of_a]), list(b[:-of_b])
    if not left or not right:
        return not left and not right
    if not _stands_for(left[0], right[0]):
        return False
    short, long = sorted((left[1:], right[1:]), key=len)
    rest = iter(long)
    return all(any(_stands_for(one, two) for two in rest) for one in short)


def _stands_for(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def disagreement(written: str, known: Sequence[str], *, known_cut: bool = False) -> str:
    """Why an author field does not name the authors of a work, in that order; empty where it does."""
    names, cut = authors_in(written)
    if not names:
        return "it names no author"
    if not known:
        return "the source names no author"
    if len(names) > len(known) and not known_cut:
        return f"it names {len(names)} authors, the source {len(known)}"
    if len(names) < len(known) and not cut:
        return f"it names {len(names)} authors, the source {len(known)}: end it with 'and others' if it is meant to"
    for place, (one, two) in enumerate(zip(names, known, strict=False), 1):
        if not same_person(one, two):
            elsewhere = any(same_person(one, other) for other in known)
            return f"author {place} is {one!r}, the source has {two!r}" + (" there" if elsewhere else "")
    return ""
