"""Find numbers in text, and match the literals and data plan names that may be typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
_GAP = "[\\s~\x01]"
_HYPHEN = r"[-\u2010-\u2015]{1,3}"
UNIT_INTERVAL = re.compile("(?<=[\\[({])[-+\x01\\s]*[01][\x01\\s]*[,;][-+\x01\\s]*[01][\x01\\s]*(?=[\\])}])")
"""The interval, pair or set `0, 1` or `-1, 1` in a formula."""
INDICATOR = re.compile(r"\\mathbb\s*\{\s*$")
r"""Text before the digit of an indicator, `\mathbb{1}[y=k]`."""
_ARGUMENT = re.compile(r"(?:^|(?P<head>.))(?P<open>[(\[{])(?P<items>[^()\[\]{}]*[,;|])?[-+]?$")


def compile_phrase(text: str) -> re.Pattern[str]:
    """Compile a pattern for a literal or a name as typed in TeX or extracted from a PDF.

    A space matches any run of spaces, ties and blanked commands; a hyphen matches any dash; a sign may be escaped.
    The pattern never matches within a longer word or number.
    """
    special = {" ": rf"{_GAP}+", "-": _HYPHEN, **{sign: rf"{_GAP}*{re.escape(sign)}" for sign in "%&#_$"}}
    unescaped = re.sub(r"\\([%&#_${}])", r"\1", " ".join(text.split()))
    parts = [special.get(char) or re.escape(char) for char in unescaped]
    return re.compile(rf"(?<![\w.]){''.join(parts)}(?!\w)(?!\.\d)", re.IGNORECASE)


def compile_phrases(literals: Iterable[str], names: Iterable[str]) -> list[re.Pattern[str]]:
    """Return patterns for all allowed phrases that contain a digit, longest first. Single digits are not phrases."""
    typed = {one for one in (*literals, *names) if re.search(r"\d", one) and re.search(r"[A-Za-z]", one)}
    return [compile_phrase(one) for one in sorted(typed, key=lambda one: (-len(one), one))]


def mask_matches(text: str, patterns: Iterable[re.Pattern[str]], blank: str = "\x01") -> str:
    """Return the text with every match blanked; its length does not change."""
    for pattern in patterns:
        text = pattern.sub(lambda match: blank * len(match[0]), text)
    return text


def find_numbers(text: str) -> Iterator[tuple[int, str]]:
    """Return every number: runs of digits in any script, and characters such as ½ or ²."""
    for match in NUMBER.finditer(text):
        yield match.start(), match[0]
    for at, char in enumerate(text):
        if not char.isdecimal() and unicodedata.numeric(char, None) is not None:
            yield at, char


def is_notation_digit(plain: str, at: int, *, script: bool) -> bool:
    r"""Return whether a single digit in a formula is notation rather than a stated value.

    It is notation if it is in an index, an exponent or a fraction, starts a list that ends in a letter (`1, \dots,
    K`), precedes a sign and a letter (`1-p`, `1/K`), follows a letter and a sign (`K-1`), or is an argument (`f(x,
    0)`).
    """
    before, after = (re.sub("[\x01\\s~]+", "", side) for side in (plain[max(0, at - 40) : at], plain[at + 1 : at + 40]))
    if _is_list_argument(before, after):
        return True
    return script or bool(re.match(r"[-+/][A-Za-z(\[]|,,[A-Za-z]", after) or re.search(r"[A-Za-z)\]}][-+/]$", before))


def _is_list_argument(before: str, after: str) -> bool:
    """Return whether a digit is an item of a bracketed list that contains a letter and is not the right side of an
    equation.
    """
    if before.endswith("{") and after.startswith("}"):  # \mathbf{0}
        before, after = before[:-1], after[1:]
    opened = _ARGUMENT.search(before)
    rest = re.match(r"(?:[,;|][^()\[\]{}]*)?[)\]}]|[,;|]", after)
    if opened is None or rest is None or opened["head"] in ("=", "<", ">"):
        return False
    return bool(re.search("[A-Za-z]", (opened["items"] or "") + rest[0]))
