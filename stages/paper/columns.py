"""Lines up the numbers in the columns of a table by their decimal points, whatever is printed after them.

The cells hold macros; what they print is known, so that the space that a shorter number lacks is put beside it. Bold
and plain digits have one width in the type of our templates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_VALUE = re.compile(r"\\result\{([^{}]*)\}")
_MINUS = re.compile(r"\\ensuremath\{-\}|-")


@dataclass(frozen=True)
class _Extent:
    """Characters of a printed number left of its point, with the sign apart, and all that comes from there on."""

    whole: int
    minus: bool
    digits: int
    point: bool


def aligned(tabular: str, printed: Mapping[str, str]) -> str:
    """The table with space beside the first number of each cell that has one, column by column."""
    rows = [line.split(" & ") for line in tabular.split("\n")]
    width = max(len(row) for row in rows)
    for column in range(width):
        found = {at: extent for at, row in enumerate(rows) if column < len(row) and len(row) > 1
                 if (extent := _extent(row[column], printed)) is not None}
        for at, extent in found.items():
            rows[at][column] = _spaced(rows[at][column], extent, [*found.values()])
    return "\n".join(" & ".join(row) for row in rows)


def _extent(cell: str, printed: Mapping[str, str]) -> _Extent | None:
    keys = [match[1] for match in _VALUE.finditer(cell)]
    if len(keys) == 0 or not keys[0].endswith((".pm", ".mean")) or keys[0] not in printed:
        return None
    text = printed[keys[0]]
    number = re.match(r"(\d+)(\.?)", _MINUS.sub("", text, count=1) if _MINUS.match(text) else text)
    if number is None:
        return None
    rest = " ".join(printed.get(key, "") for key in keys)
    return _Extent(whole=len(number[1]), minus=_MINUS.match(text) is not None, point=bool(number[2]),
                   digits=sum(char.isdigit() for char in rest) - len(number[1]))


def _spaced(cell: str, own: _Extent, all_of_it: list[_Extent]) -> str:
    left = r"\digitspace" * (max(one.whole for one in all_of_it) - own.whole)
    left += r"\minusspace" * (any(one.minus for one in all_of_it) and not own.minus)
    right = r"\digitspace" * (max(one.digits for one in all_of_it) - own.digits)
    right += r"\pointspace" * (any(one.point for one in all_of_it) and not own.point)
    if not left and not right:
        return cell
    parts = re.fullmatch(r"(.*?)(\s*(?:\\\\.*)?)", cell, re.DOTALL)
    assert parts is not None
    return (left + "{}" if left else "") + parts[1] + (right + "{}" if right else "") + parts[2]
