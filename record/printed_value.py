r"""Values as a paper prints them. This module's functions alone make a `PrintedValue`, and nothing else reaches the
definition of a macro (`record.result_macros.render`).

    value_of, signed, significant, spread, interval, probability, count    a number of the record
    setting    a constant or a setting of code: a number, or a short text that states nothing
    name       what the plan, the data or the person calls a thing
    clause     TeX that the program composed (`record.claims.sentences`): of names and numbers, with a few commands

What it does not guarantee: that a number which code sets is used by that code.
"""

from __future__ import annotations

import math
import re
from dataclasses import InitVar, dataclass

from labwright.record.quantity_words import has_number_word, has_ranking_word, has_ratio
from labwright.record.schema.frozen_model import Scalar

MAX_TEXT_LENGTH = 40
"""Characters of a text of code that is printed."""
MAX_NAME_LENGTH = 120
"""Characters of a name; the rest is cut off."""
MAX_NUMBERS = 12
"""Numbers of a list that is printed."""
NOT_MEASURED = "n/a"

_MAKER_TOKEN = object()
_SPECIAL = re.compile(r"[&%#_$~^{}]")
_ESCAPED = {char: f"\\{char}" for char in "&%#_${}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_EXPONENT = re.compile(r"(-?)(\d+(?:\.\d+)?)e([+-])0*(\d+)")
_FORMULA = re.compile(r"(?<!\\)\$((?:[^$\\]|\\.)*)\$")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ALLOWED = frozenset(("ensuremath", "pm", "times", "textasciitilde", "textasciicircum", *"&%#_${},"))
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s*,\s*{_NUMBER})*", re.ASCII)


@dataclass(frozen=True)
class PrintedValue:
    """What a macro prints, as TeX that holds in text, formulas and captions."""

    tex: str
    made_by: InitVar[object]

    def __post_init__(self, made_by: object) -> None:
        if made_by is not _MAKER_TOKEN:
            raise TypeError("a printed value is made by the functions of record.printed_value alone")


def format_tex_number(value: float | None, digits: int) -> str:
    """A value as TeX with so many digits after the point."""
    if value is None:
        return NOT_MEASURED
    text = f"{value:.{digits}f}"
    return rf"\ensuremath{{-}}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def print_value(value: float | None, digits: int) -> PrintedValue:
    """A value with so many digits after the point."""
    return PrintedValue(format_tex_number(value, digits), _MAKER_TOKEN)


def print_spread(mean: float, sd: float | None, digits: int) -> PrintedValue:
    """A mean with its standard deviation, where there is one."""
    centre = format_tex_number(mean, digits)
    return PrintedValue(
        centre if sd is None else rf"{centre}\,\ensuremath{{\pm}}\,{format_tex_number(sd, digits)}", _MAKER_TOKEN
    )


def print_interval(ends: tuple[float | None, float | None], digits: int) -> PrintedValue:
    """An interval; not measured where an end is missing."""
    if None in ends:
        return PrintedValue(NOT_MEASURED, _MAKER_TOKEN)
    return PrintedValue(f"[{', '.join(format_tex_number(end, digits) for end in ends)}]", _MAKER_TOKEN)


def print_probability(p: float | None, digits: int) -> PrintedValue:
    """A probability with so many digits; below a thousandth, no more than that."""
    tex = NOT_MEASURED if p is None else r"\ensuremath{<}0.001" if p < 0.001 else f"{p:.{digits}f}"
    return PrintedValue(tex, _MAKER_TOKEN)


def print_count(value: int) -> PrintedValue:
    """How many there are of something."""
    return PrintedValue(str(int(value)), _MAKER_TOKEN)


def print_signed(value: float, digits: int) -> PrintedValue:
    """A value with its sign and so many digits after the point."""
    return PrintedValue(_format_plain_number(f"{value:+.{digits}f}"), _MAKER_TOKEN)


def print_significant(value: float, digits: int) -> PrintedValue:
    """A value with so many digits that matter."""
    return PrintedValue(_format_plain_number(f"{value:.{digits}g}"), _MAKER_TOKEN)


def print_setting(value: Scalar) -> PrintedValue | None:
    """A constant of code or a setting; None where it may not be printed.

    A text is printed if it is short, and neither holds a digit or a number in words nor compares anything. One that is
    all numbers prints these: so the record keeps a tuple, and a text like that it does not take from code
    (`record.python_syntax.constants_of`).
    """
    if isinstance(value, bool):
        return PrintedValue(str(value), _MAKER_TOKEN)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        return PrintedValue(
            _format_plain_number(str(value) if len(str(value)) <= MAX_TEXT_LENGTH else f"{value:.6g}"), _MAKER_TOKEN
        )
    text = " ".join(value.split())
    if _NUMBERS.fullmatch(text):
        items = re.split(r"\s*,\s*", text)
        return (
            PrintedValue(", ".join(map(_format_plain_number, items)), _MAKER_TOKEN)
            if len(items) <= MAX_NUMBERS
            else None
        )
    return PrintedValue(escape_tex(text), _MAKER_TOKEN) if text and is_plain_name(text) else None


def is_plain_name(text: str) -> bool:
    """Whether a text is short and printable ASCII, and says no number and compares nothing."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_\W]+", " ", text))
    plain = len(text) <= MAX_TEXT_LENGTH and text.isascii() and text.isprintable() and not re.search(r"[\d\\]", text)
    return plain and not (has_number_word(spaced) or has_ratio(spaced) or has_ranking_word(spaced))


def print_name(text: str) -> PrintedValue:
    """What somebody calls a thing: a title of a dataset, the source of a published value. Digits may stand in it."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    cut = plain if len(plain) <= MAX_NAME_LENGTH else plain[:MAX_NAME_LENGTH].rsplit(" ", 1)[0] + " ..."
    return PrintedValue(" ".join(escape_tex(cut).split()), _MAKER_TOKEN)


def print_clause(tex: str) -> PrintedValue:
    """TeX that the program composed of escaped names and printed numbers; formulas become `\\ensuremath`.

    Raises `ValueError` where it holds any other command, or braces that do not match.
    """
    if unknown := [command for command in _COMMAND.findall(tex) if command not in _ALLOWED]:
        raise ValueError(f"\\{unknown[0]} is no command of a clause: {tex!r}")
    plain = _COMMAND.sub("", tex)
    depths = [plain[:at].count("{") - plain[:at].count("}") for at in range(len(plain) + 1)]
    if min(depths) < 0 or depths[-1] or re.search(r"[%#&~^]", re.sub(r"\$[^$]*\$", "", plain)):
        raise ValueError(f"this is no TeX of a clause: {tex!r}")
    return PrintedValue(_FORMULA.sub(r"\\ensuremath{\1}", " ".join(tex.split())), _MAKER_TOKEN)


def escape_tex(text: str) -> str:
    """Plain text as TeX."""
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text.replace("\\", " "))


def _format_plain_number(text: str) -> str:
    """A number as Python or a person writes it, as TeX."""
    if match := _EXPONENT.fullmatch(text):
        sign, mantissa, direction, exponent = match.groups()
        power = f"10^{{{'-' if direction == '-' else ''}{exponent}}}"
        factor = "" if mantissa == "1" else rf"{mantissa}\times "
        return rf"\ensuremath{{{sign}{factor}{power}}}"
    return re.sub(r"^-(?=[\d.])", r"\\ensuremath{-}", text)
