"""Parse numbers with decimal commas, thousands separators, percent and currency signs.

A column is parsed only if all its strings follow one number format and no other format gives different numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

_NUMBER_TEMPLATE = r"(?:[1-9][0-9]{{0,2}}(?:[{group}][0-9]{{3}})+|[0-9]+)(?:[{point}][0-9]+)?"
_GROUP_SEPARATORS = "' \u00a0\u2009\u202f\u2019"
_NUMBER_PATTERNS = {
    point: re.compile(_NUMBER_TEMPLATE.format(group=group + _GROUP_SEPARATORS, point=re.escape(point)))
    for point, group in ((".", ","), (",", "."))
}
"""Decimal sign -> pattern of numbers written with it."""


class ParsedNumerals(NamedTuple):
    """The numbers that strings represent, or why they are ambiguous; empty if the strings are not numbers."""

    values: tuple[float, ...] = ()
    example: str = ""
    """One string and the number it was read as."""
    unclear: str = ""


def read_numerals(texts: Sequence[str]) -> ParsedNumerals:
    """Parse distinct strings as numbers."""
    split = [_strip_sign(text) for text in texts]
    bodies = [body for body, _ in split]
    if not bodies or len({sign for _, sign in split}) > 1:
        return ParsedNumerals()
    read = {
        point: [_to_float(body, point) for body in bodies]
        for point, way in _NUMBER_PATTERNS.items()
        if all(way.fullmatch(re.sub("^[-+]", "", body)) for body in bodies)
    }
    if not read:
        return ParsedNumerals()
    ways = list(read.values())
    at = next((at for at, values in enumerate(zip(*ways, strict=True)) if len(set(values)) > 1), None)
    if at is not None:
        one, other = (f"{way[at]:.15g}" for way in ways)
        return ParsedNumerals(
            unclear=f"{texts[at]!r} may mean {one} or {other}: write {one} or {other}, consistently in all rows"
        )
    at = max(range(len(texts)), key=lambda at: len(texts[at]))
    return ParsedNumerals(tuple(ways[0]), f"{texts[at]!r} as {ways[0][at]:.15g}")


def _strip_sign(text: str) -> tuple[str, str]:
    """Return a number without its percent or currency sign, and the sign; a minus stays in front."""
    plain = text.strip().replace("\u2212", "-")
    minus, plain = ("-", plain[1:].lstrip()) if plain.startswith("-") else ("", plain)
    for end in (0, -1):
        if len(plain) > 1 and ((plain[end] == "%" and end) or unicodedata.category(plain[end]) == "Sc"):
            sign, body = plain[end], (plain[:-1] if end else plain[1:]).strip()
            return minus + body, sign
    return minus + plain, ""


def _to_float(body: str, point: str) -> float:
    return float(re.sub("[^-+0-9.]", "", "".join("." if sign == point else sign * (sign != ".") for sign in body)))
