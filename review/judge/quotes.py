"""Check whether a quoted passage is in the paper.

Differences from copying are tolerated: white space, line ends, hyphenation, ligatures, kinds of quotes and dashes,
case, LaTeX commands, omissions marked by dots. Words, digits, decimal points and signs must match.

Limits: whether the passage supports the score, or is quoted out of context, is not checked.
"""

from __future__ import annotations

import re
import unicodedata

MIN_PIECE_CHARACTERS = 10
"""Minimum letters and digits in each piece of a quote: 'the model' is in every paper."""

_GAP = re.compile(r"\[\s*(?:\.\s*){3}\]|\[\s*…\s*\]|(?:\.\s*){3,}|…")
_SILENT_COMMAND = re.compile(r"\\(?:cite\w*|ref|eqref|autoref|cref|label)\*?\s*(?:\[[^\[\]]*\]\s*)*\{[^{}]*\}")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?\s*|\\(.)")
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−\u00ad"), "-")
_MINUS = re.compile(r"(?<![\w-])-(?=\d|\.\d)")
_POINT = re.compile(r"(?<=\d)([.,])(?=\d)")
_NUMBER_END = re.compile(r"(?<=\d)[^\w·~]+(?=[\d~])")
_NUMBER = "0123456789·~"


def quote_is_in(quote: str, paper: str) -> bool:
    """Return whether every piece of the quote is in the paper's text, in order."""
    pieces = [squeeze(piece) for piece in _GAP.split(_SILENT_COMMAND.sub(" ", quote))]
    pieces = [piece for piece in pieces if piece]
    if not pieces or any(sum(map(str.isalnum, piece)) < MIN_PIECE_CHARACTERS for piece in pieces):
        return False
    return any(_are_in_order(pieces, squeeze(text)) for text in (paper, _SILENT_COMMAND.sub(" ", paper)))


def _are_in_order(pieces: list[str], text: str) -> bool:
    """Return whether the pieces follow one another; a number at the edge of a piece must be a whole number in the
    text.
    """
    at = 0
    for piece in pieces:
        before = rf"(?<![{_NUMBER}])" if piece[0].isdigit() else ""
        after = rf"(?![{_NUMBER}])" if piece[-1].isdigit() else ""
        match = re.compile(before + re.escape(piece) + after).search(text, at)
        if match is None:
            return False
        at = match.end()
    return True


def squeeze(text: str) -> str:
    """Return the letters and digits of a string; signs, points and ends of numbers become `~`, `·` and `|`."""
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    text = text.replace("$", "").replace("\\ensuremath{-}", "-")
    text = _COMMAND.sub(lambda match: match[1] or " ", text)
    text = _POINT.sub("·", _MINUS.sub("~", text.replace("{", "").replace("}", "")))
    return "".join(char for char in _NUMBER_END.sub("|", text) if char.isalnum() or char in "~·|")
