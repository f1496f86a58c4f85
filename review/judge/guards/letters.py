"""Text as a reader takes it in: what letters, spaces and line ends are made of is evened out, and each place is kept.

A `Folded` text is in small letters without accents, with single spaces, words joined over line ends; `at[i]` says where
its i-th character stands in the original. Other readings of it (letters of another alphabet that look alike, digits for
letters, spaced letters) have places of their own.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

_LOOKALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u043a\u043c\u0442\u0432\u043d"
    "\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03c5\u03c7\u03b5\u0261\u0131\u0251\u0578\u057d\u0585",
    "aeopcyxijshdwkmtbh" "aopviktuxegianuo")
_DIGITS = str.maketrans("013457@$!|", "oieastasil")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_] ){5,}[^\W\d_](?![^\W_])")


Stretch = tuple[int, int]
"""Begin and end of a piece of a text."""


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches in order, those that touch as one, without empty ones."""
    found: list[Stretch] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > begin:
            found.append((begin, end))
    return found


@dataclass(frozen=True)
class Folded:
    """A reading of a text, and where each of its characters stands in it. `guessed`: some letters are a guess."""

    text: str
    at: tuple[int, ...]
    guessed: bool = False

    def place(self, begin: int, end: int) -> Stretch:
        """Begin and end in the original of a stretch that is not empty."""
        return self.at[begin], self.at[end - 1] + 1


def unseen(char: str) -> bool:
    """Whether a character shows nothing of itself: joiners, direction marks, soft hyphens, tags, selectors."""
    return unicodedata.category(char) == "Cf" or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF


def tagged(text: str) -> str:
    """What is written in the invisible copies of ASCII."""
    return "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)


def folded(text: str) -> Folded:
    """The plain reading of a text: paragraphs end with a line end, all other space is one blank."""
    kept: list[tuple[str, int]] = []
    for at, char in enumerate(re.sub(r"(?<=[^\W\d_])-\n(?=[^\W\d_])", "\u00ad\u00ad", text)):
        if not unseen(char):
            kept += [(one, at) for one in _plain(char)]
    chars, places = list[str](), list[int]()
    for is_space, run in groupby(kept, key=lambda pair: pair[0].isspace()):
        pairs = list(run)
        if is_space:
            pairs = [("\n" if sum(char == "\n" for char, _ in pairs) > 1 else " ", pairs[0][1])]
        chars += [char for char, _ in pairs]
        places += [place for _, place in pairs]
    return Folded("".join(chars), tuple(places))


def readings(text: str) -> Iterator[Folded]:
    """The plain reading, and those that differ from it: look-alike letters as Latin ones, digits within words as the
    letters that they look like (numbers stay), spaced letters as one word."""
    plain = folded(text)
    yield plain
    worded = re.sub(r"\S+", lambda word: word[0].translate(_DIGITS) if re.search(r"[^\W\d_]", word[0]) else word[0],
                    plain.text)
    for other in (Folded(plain.text.translate(_LOOKALIKE), plain.at), Folded(worded, plain.at, guessed=True),
                  _spaced(plain)):
        if other.text != plain.text:
            yield other


@functools.lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    found = unicodedata.normalize("NFKC", char).casefold()
    latin = unicodedata.normalize("NFKD", found) if ord(char) < 0x250 or 0x1E00 <= ord(char) < 0x1F00 else found
    return "".join(one for one in latin if not unicodedata.combining(one))


def _spaced(plain: Folded) -> Folded:
    """Runs of single letters as one word; the words of a run are lost, which `orders.run_together` allows for."""
    dropped = {place + 1 for match in _SPACED.finditer(plain.text)
               for place in range(match.start(), match.end() - 1, 2)}
    kept = [place for place in range(len(plain.text)) if place not in dropped]
    return Folded("".join(plain.text[place] for place in kept), tuple(plain.at[place] for place in kept), guessed=True)
