r"""Values as a paper prints them. Only the functions of this module create a `PrintedValue`, and macros are defined
only from such values (`record.result_macros`).

  print_value, print_significant, print_spread, print_interval, print_range, print_count, print_p_value
                 a number in the record
  print_setting  a constant or setting of the code: a number, or a short text that makes no statement
  print_name     a name from the plan, the data or the user

Limits: a number that code defines is not necessarily used by that code.
"""

from __future__ import annotations

import math
import re
from dataclasses import InitVar, dataclass

from labwright.record.quantity_words import has_number_word, has_ratio
from labwright.record.schema.frozen_model import Scalar

MAX_NUMBER_LENGTH = 10
"""Maximum characters of a float of the code; longer ones are printed with four digits."""
MAX_TEXT_LENGTH = 40
"""Maximum characters of a printed string from code."""
MAX_NAME_LENGTH = 120
"""Maximum characters of a name; longer names are cut."""
MAX_NUMBERS = 12
"""Maximum numbers of a printed list."""
NOT_MEASURED = "n/a"
MIN_PRINTED_P = 0.0001

_MAKER_TOKEN = object()
_SPECIAL = re.compile(r"[&%#_$~^{}]")
_ESCAPED = {char: f"\\{char}" for char in "&%#_${}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_EXPONENT = re.compile(r"(-?)(\d+(?:\.\d+)?)e([+-])0*(\d+)")
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s*,\s*{_NUMBER})*", re.ASCII)


@dataclass(frozen=True)
class PrintedValue:
    """The printed text of a macro, as TeX that is valid in text, formulas and captions."""

    tex: str
    made_by: InitVar[object]

    def __post_init__(self, made_by: object) -> None:
        if made_by is not _MAKER_TOKEN:
            raise TypeError("create printed values only with the functions of record.printed_value")


def format_tex_number(value: float | None, digits: int) -> str:
    """Format a value as TeX with `digits` decimals."""
    if value is None:
        return NOT_MEASURED
    text = f"{value:.{digits}f}"
    return rf"\ensuremath{{-}}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def print_value(value: float | None, digits: int) -> PrintedValue:
    """Print a value with `digits` decimals."""
    return PrintedValue(format_tex_number(value, digits), _MAKER_TOKEN)


def print_spread(mean: float, sd: float | None, digits: int) -> PrintedValue:
    """Print a mean with its standard deviation, if there is one."""
    centre = format_tex_number(mean, digits)
    return PrintedValue(
        centre if sd is None else rf"{centre}\,\ensuremath{{\pm}}\,{format_tex_number(sd, digits)}", _MAKER_TOKEN
    )


def print_interval(ends: tuple[float | None, float | None], digits: int) -> PrintedValue:
    """Print an interval; n/a if an end is missing."""
    if None in ends:
        return PrintedValue(NOT_MEASURED, _MAKER_TOKEN)
    return PrintedValue(f"[{', '.join(format_tex_number(end, digits) for end in ends)}]", _MAKER_TOKEN)


def print_range(ends: tuple[float, float], digits: int) -> PrintedValue:
    """Print an interval in words, for text: `2.0 to 3.5`."""
    return PrintedValue(" to ".join(format_tex_number(end, digits) for end in ends), _MAKER_TOKEN)


def print_count(value: int) -> PrintedValue:
    """Print a count."""
    return PrintedValue(str(int(value)), _MAKER_TOKEN)


def print_significant(value: float, digits: int) -> PrintedValue:
    """Print a value with `digits` significant digits."""
    return PrintedValue(_format_plain_number(f"{value:.{digits}g}"), _MAKER_TOKEN)


def print_p_value(value: float) -> PrintedValue:
    """Print a p-value with two significant digits; one below 0.0001 by this bound."""
    if value < MIN_PRINTED_P:
        return PrintedValue(rf"\ensuremath{{<}}{MIN_PRINTED_P:.4f}", _MAKER_TOKEN)
    return PrintedValue(f"{value:.{max(2, 1 - math.floor(math.log10(value)))}f}", _MAKER_TOKEN)


def print_setting(value: Scalar) -> PrintedValue | None:
    """Print a constant of the code or a setting; None if it must not be printed.

    A string is printed if it is short and contains no digit, number word or ratio. A list of numbers is
    printed unchanged, since the record stores tuples in this form; `record.python_syntax.collect_constants` accepts no
    such string from code.
    """
    if isinstance(value, bool):
        return PrintedValue(str(value), _MAKER_TOKEN)
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        longest = MAX_NUMBER_LENGTH if isinstance(value, float) else MAX_TEXT_LENGTH
        return PrintedValue(
            _format_plain_number(str(value) if len(str(value)) <= longest else f"{value:.4g}"), _MAKER_TOKEN
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
    """Return whether a string is short printable ASCII, without numbers and ratios."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[_\W]+", " ", text))
    plain = len(text) <= MAX_TEXT_LENGTH and text.isascii() and text.isprintable() and not re.search(r"[\d\\]", text)
    return plain and not (has_number_word(spaced) or has_ratio(spaced))


def print_name(text: str) -> PrintedValue:
    """Print a name, such as the title of a dataset or the source of a published value. It may contain digits."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    cut = plain if len(plain) <= MAX_NAME_LENGTH else plain[:MAX_NAME_LENGTH].rsplit(" ", 1)[0] + " ..."
    return PrintedValue(" ".join(escape_tex(cut).split()), _MAKER_TOKEN)


def escape_tex(text: str) -> str:
    """Escape plain text for TeX, without a space between number and %."""
    text = re.sub(r"(?<=\d) %", "%", text.replace("\\", " "))
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], text)


def _format_plain_number(text: str) -> str:
    """Format a number in Python or plain notation as TeX."""
    if match := _EXPONENT.fullmatch(text):
        sign, mantissa, direction, exponent = match.groups()
        power = f"10^{{{'-' if direction == '-' else ''}{exponent}}}"
        factor = "" if mantissa == "1" else rf"{mantissa}\times "
        return rf"\ensuremath{{{sign}{factor}{power}}}"
    return re.sub(r"^-(?=[\d.])", r"\\ensuremath{-}", text)
