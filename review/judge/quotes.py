"""Does a quoted passage stand in the paper?

Tolerant of what copying changes: white space, line ends, hyphenation, ligatures, kinds of quotes and dashes, case,
LaTeX commands, an omission marked by dots. Not of other words or numbers: digits, points and signs must be the same.

What it does not guarantee: that the passage supports the score, or means in its place what it seems to mean alone.
"""

from __future__ import annotations

import re
import unicodedata

LEAST = 10
"""Letters and digits that each piece of a quote must have: 'the model' stands in every paper."""

_GAP = re.compile(r"\[\s*(?:\.\s*){3}\]|\[\s*…\s*\]|(?:\.\s*){3,}|…")
_SILENT = re.compile(r"\\(?:cite\w*|ref|eqref|autoref|cref|label)\*?\s*(?:\[[^\[\]]*\]\s*)*\{[^{}]*\}")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?\s*|\\(.)")
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−\u00ad"), "-")
_MINUS = re.compile(r"(?<![\w-])-(?=\d|\.\d)")
_POINT = re.compile(r"(?<=\d)([.,])(?=\d)")
_BETWEEN = re.compile(r"(?<=\d)[^\w·~]+(?=[\d~])")
_NUMBER = "0123456789·~"


def stands_in(quote: str, paper: str) -> bool:
    """Whether every piece of the quote stands in the paper's text, in the given order."""
    pieces = [squeezed(piece) for piece in _GAP.split(_SILENT.sub(" ", quote))]
    pieces = [piece for piece in pieces if piece]
    if not pieces or any(sum(map(str.isalnum, piece)) < LEAST for piece in pieces):
        return False
    return any(_in_order(pieces, squeezed(text)) for text in (paper, _SILENT.sub(" ", paper)))


def _in_order(pieces: list[str], text: str) -> bool:
    at = 0
    for piece in pieces:
        found = _find(piece, text, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _find(piece: str, text: str, begin: int) -> int:
    """Where a piece stands; a number at its edge must be the whole number there."""
    at = text.find(piece, begin)
    while at >= 0:
        before, after = text[:at][-1:], text[at + len(piece):][:1]
        if not (piece[0].isdigit() and before and before in _NUMBER) and not (
                piece[-1].isdigit() and after and after in _NUMBER):
            return at
        at = text.find(piece, at + 1)
    return -1


def squeezed(text: str) -> str:
    """The letters and digits of a text in one string; signs, points and ends of numbers stay as `~`, `·` and `|`."""
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    text = text.replace("$", "").replace("\\ensuremath{-}", "-")
    text = _COMMAND.sub(lambda match: match[1] or " ", text)
    text = _POINT.sub("·", _MINUS.sub("~", text.replace("{", "").replace("}", "")))
    return "".join(char for char in _BETWEEN.sub("|", text) if char.isalnum() or char in "~·|")
