"""A sentence as a reader takes it in, whatever its letters, spaces and line ends are made of."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator

_LOOKALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u043a\u043c\u0442\u0432\u043d"
    "\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03c5\u03c7\u03b5\u0261\u0131\u0251\u0578\u057d\u0585",
    "aeopcyxijshdwkmtbh" "aopviktuxegianuo")
_DIGITS = str.maketrans("013457@$!|", "oieastasil")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_] ){5,}[^\W\d_](?![^\W_])")


def unseen(char: str) -> bool:
    """Whether a character shows nothing of itself: joiners, direction marks, soft hyphens, tags, selectors."""
    return unicodedata.category(char) == "Cf" or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF


def tagged(text: str) -> str:
    """What is written in the invisible copies of ASCII."""
    return "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)


def folded(text: str) -> str:
    """The plain reading: small letters without accents, single spaces, words joined over line ends."""
    text = re.sub(r"(?<=[^\W\d_])-\n(?=[^\W\d_])", "", text)
    text = unicodedata.normalize("NFKC", "".join(char for char in text if not unseen(char))).casefold()
    latin = (unicodedata.normalize("NFKD", char)[0] if char < "\u0250" or "\u1e00" <= char < "\u1f00" else char
             for char in text)
    return " ".join("".join(char for char in latin if not unicodedata.combining(char)).split())


def guesses(plain: str) -> Iterator[str]:
    """Other readings of a folded text: digits within words as the letters that they look like (numbers stay), spaced
    letters as one word, rot13, backwards."""
    yield re.sub(r"\S+", lambda word: word[0].translate(_DIGITS) if re.search(r"[^\W\d_]", word[0]) else word[0], plain)
    yield _SPACED.sub(lambda match: match[0].replace(" ", ""), plain)
    yield codecs.encode(plain, "rot13")
    yield plain[::-1]


def readings(text: str) -> Iterator[tuple[str, bool]]:
    """The plain reading, one with the letters of another alphabet as the Latin ones that they look like, and guesses,
    of which only plain wordings count: each with whether it is one."""
    plain = folded(text)
    yield plain, False
    if (latin := plain.translate(_LOOKALIKE)) != plain:
        yield latin, False
    yield from ((guess, True) for guess in guesses(plain) if guess != plain)
