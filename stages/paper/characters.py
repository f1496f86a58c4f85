"""Characters as a template can print them: nothing that a model types may stop the compilation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from review.evidence.spelled import says_number

_DECLARED = re.compile(r"\\DeclareUnicodeCharacter\{([0-9A-F]{4,6})\}")
_LATIN = frozenset(map(chr, range(0xC0, 0x180))) - frozenset("ĦħĸĿŀŉŦŧĄą" "\u00d7\u00f7")
_T1 = _LATIN | frozenset("ĄąŊŋ¡¿§¶©®ªº£¥€™†‡•…‰‹›«»‘’‚“”„–—")
_DROPPED = frozenset("\ufeff\u00ad\u2060\u200c\u200d\u200e\u200f")
FALLBACK = r"\unknowncharacter{}"


@dataclass(frozen=True)
class Characters:
    """What a template can print beyond ASCII."""

    known: frozenset[str]

    def fit(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The text with every character that cannot be printed replaced by a visible box, and one line a character."""
        text = unicodedata.normalize("NFC", text)
        missing = sorted({char for char in text if not self._prints(char)})
        for char in missing:
            text = text.replace(char, "" if char in _DROPPED else FALLBACK)
        return text, tuple(_report(char) for char in missing if char not in _DROPPED)

    def _prints(self, char: str) -> bool:
        return char in "\n\t" or " " <= char <= "~" or char in self.known


def of_styles(styles: Iterable[Path]) -> Characters:
    """What T1 prints, and what the style files declare."""
    declared = {chr(int(code, 16)) for path in styles for code in _DECLARED.findall(path.read_text(encoding="utf-8"))}
    return Characters(_T1 | declared)


def _report(char: str) -> str:
    name = unicodedata.name(char, "no name")
    return (f"the character {char!r} (U+{ord(char):04X}, {name.lower()}) has no glyph here and was replaced by a box: "
            "spell it out")


_TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "_": r"\_\allowbreak{}", "&": r"\&", "%": r"\%", "#": r"\#", "$": r"\$", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\`{}",
    "=": r"=\allowbreak{}", "/": r"/\allowbreak{}", "@": r"@\allowbreak{}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after a row's end and in a label they would be arguments
}


def escape(text: str) -> str:
    """Plain text as TeX that prints it, on one line; breaks are allowed after signs in long names."""
    return "".join(_TEXT.get(char, char) for char in " ".join(text.split()))


def recorded(text: object) -> str:
    """Plain text of the record as TeX, each number in `\\rec{}`, in words too: the program printed it."""
    words = " ".join(str(text).split()).split(" ")
    return " ".join(rf"\rec{{{escape(word)}}}" if _states_number(word) else escape(word) for word in words)


def _states_number(word: str) -> bool:
    return says_number(word) or any(unicodedata.numeric(char, None) is not None for char in word)
