"""Text as it is compared: without TeX, marks, case and punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from html import unescape
from typing import Any

_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "þ": "th",
        "ð": "d",
        "β": "beta",
        "α": "alpha",
        "γ": "gamma",
        "λ": "lambda",
        "π": "pi",
        "σ": "sigma",
        "ε": "epsilon",
        "ϵ": "epsilon",
        "μ": "mu",
        "µ": "mu",
        "τ": "tau",
        "ω": "omega",
        "δ": "delta",
        "θ": "theta",
    }
)


@cache
def _converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text  # type: ignore[import-untyped]

    return LatexNodes2Text(math_mode="text")


def plain(value: str) -> str:
    """A field without TeX: accents as characters, no braces, no commands, one space between words."""
    escaped = re.sub(r"(?<!\\)%", r"\\%", value)  # a field has no comments, and a catalogue's title no TeX
    text = value
    if set(value) & set("\\{}$~"):
        try:
            text = str(_converter().latex_to_text(escaped))
        except Exception:  # noqa: BLE001  strangers write it: braces without end, commands without arguments
            text = value
    return " ".join(unicodedata.normalize("NFC", text.replace("---", "\u2014").replace("--", "\u2013")).split())


def normalized(value: str) -> str:
    """Lower case, without marks on letters; every other sign becomes a space."""
    decomposed = unicodedata.normalize("NFKD", plain(value).casefold()).translate(_LETTERS)
    kept = "".join(one for one in decomposed if not unicodedata.combining(one) and one not in "'\u2019")
    return " ".join("".join(one if one.isalnum() else " " for one in kept).split())


def abstract_of(markup: str) -> str:
    """The text of an abstract in JATS or HTML, without tags and its own heading."""
    text = unescape(re.sub(r"</?[A-Za-z][^<>]{0,200}>", " ", markup))
    return re.sub(r"^(?:abstract|summary)\b[\s:.]*", "", " ".join(text.split()), flags=re.IGNORECASE)


_BREAK = re.compile(r"\s*[:?!\u2013\u2014]\s+|\s+-\s+")
_MARK = re.compile(
    r"^\W*(?:retracted|retraction|withdrawn|removed)(?:\s+(?:article|paper|chapter))?\s*[:\u2013\u2014-]\s*",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[A-Za-z][\w:]{0,20}(?:\s[^<>]{0,100})?/?>")
SHORTEST = 3
"""Words of a main title that may stand for the whole: 'Deep Learning' may not."""


def title_key(title: str) -> str:
    """A title as it is compared: letters and digits alone, so that hyphens and spaces make no difference."""
    return normalized(title).replace(" ", "")


def same_title(written: str, known: str, subtitle: str = "") -> bool:
    """Whether a title as somebody wrote it is that of a known work.

    A subtitle may be left out where three words are left; a subtitle that the known work has not is another title.
    """
    if not (wanted := title_key(written)):
        return False
    whole = f"{known}: {subtitle}" if subtitle else known
    if wanted in (title_key(whole), title_key(known)):
        return True
    main = _BREAK.split(plain(known), maxsplit=1)[0]
    return len(normalized(main).split()) >= SHORTEST and wanted == title_key(main)


def without_retraction_mark(title: str) -> tuple[str, bool]:
    """A catalogue's title without tags and without a publisher's 'RETRACTED:', and whether that stood there."""
    title = " ".join(unescape(_TAG.sub("", title)).split())
    found = _MARK.match(title)
    return (title[found.end() :], True) if found else (title, False)


_PARTICLES = frozenset(
    "van von der den de del della di da do dos das du la le los el al bin ibn ter ten af av zu zur und".split()
)
_SUFFIXES = frozenset(["jr", "sr", "ii", "iii", "iv"])


def authors_in(field: str) -> tuple[list[str], bool]:
    """The names of a BibTeX author field, and whether it ends with `and others`."""
    field = " ".join(field.split())
    parts, depth, begin = list[str](), 0, 0
    for match in re.finditer(r"[{}]|\sand\s", field):  # an `and` in braces is part of a name
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and match[0] not in "{}":
            parts.append(field[begin : match.start()])
            begin = match.end()
    names = [name for part in (*parts, field[begin:]) if (name := part.strip())]
    cut = bool(names) and normalized(names[-1]) in ("others", "et al")
    return (names[:-1] if cut else names), cut


def name_words(text: str, *, particles: bool = False) -> list[str]:
    """The words of a name, given names first, of `Family, Given`, `Family, Jr, Given` or `Given Family`.

    Left out are suffixes, and particles but at either end. Of the two spellings of umlauts it is the shorter one.
    """
    spread = re.sub(r"(?<=[A-Z])\.(?=[A-Z])|(?<=\b[A-Z])(?=[A-Z]\b)", " ", text)  # "K.Q." and "KQ" are two initials
    family, *given = spread.split(",")
    words = [
        re.sub(r"(?<=[aou])e(?=[^aeiou])", "", word)
        for part in (*given, family)
        for word in normalized(part).split()
        if word not in _SUFFIXES
    ]
    return [
        word for place, word in enumerate(words) if particles or word not in _PARTICLES or place in (0, len(words) - 1)
    ]


def same_person(one: str, other: str) -> bool:
    """Whether two writings may name one person: the family name, and given names as far as both have them."""
    a, b = name_words(one), name_words(other)
    if not a or not b:
        return False
    whole, known = ("".join(name_words(name, particles=True)) for name in (one, other))
    if sorted(a) == sorted(b) or whole == known:
        return True  # one of them may begin with the family name, or write it in two words
    return a[-1] == b[-1] and _same_given(a[:-1], b[:-1])


def _same_given(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether given names agree: one list may lack middle names, initials stand for names, short forms for long."""

    def stands_for(one: str, other: str) -> bool:
        return one.startswith(other) or other.startswith(one)

    if not a or not b:
        return not a and not b
    short, long = sorted((a[1:], b[1:]), key=len)
    rest = iter(long)
    return stands_for(a[0], b[0]) and all(any(stands_for(one, other) for other in rest) for one in short)


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
