"""Read one table column as numbers, as categories, or as the split, group or time of each row."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labwright.sandbox.data.files import import_pyarrow
from labwright.sandbox.errors import DatasetError

Array = NDArray[Any]

MISSING_VALUES = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""Strings that count as missing values."""
MIN_NUMERIC_SHARE = 0.8
"""A text column with at least this share of numbers counts as a numeric column with errors."""
DATE_PATTERN = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[ T]\d{1,2}:.*)?")
"""A date, with or without a time of day."""
SPLIT_ALIASES = {
    "train": "train",
    "training": "train",
    "dev": "validation",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
    "holdout": "test",
}
"""Common split names -> names used here."""


@dataclass(frozen=True)
class TableColumn:
    """A column with `numbers` (n,) float64 (NaN: missing) or with `codes` (n,) into `levels` (-1: missing).

    `stray_value` is the first non-numeric value of a mostly numeric column: row (from 1) and text. `unclear_reason`
    explains ambiguous numbers; `example` shows how one number was read. `other_kind` is the type of an unsupported
    column.
    """

    name: str
    numbers: Array | None = None
    codes: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    levels: tuple[str, ...] = ()
    stray_value: tuple[int, str] | None = None
    unclear_reason: str = ""
    example: str = ""
    missing_words: Mapping[str, int] = field(default_factory=dict[str, int])
    """Words that were read as missing but may be values, such as None -> number of rows."""
    other_kind: str = ""

    @property
    def is_missing(self) -> Array:
        """(n,) bool: whether the value is missing."""
        return np.isnan(self.numbers) if self.numbers is not None else self.codes < 0

    def check_no_stray(self) -> None:
        """Raise `DatasetError` if a mostly numeric column contains other strings or ambiguous numbers."""
        if self.unclear_reason:
            raise DatasetError(
                f"column {self.name!r} has an ambiguous number: {self.unclear_reason}, or omit the column with "
                f"drop={self.name}"
            )
        if self.stray_value is not None:
            row, value = self.stray_value
            raise DatasetError(
                f"column {self.name!r} contains the text {value[:60]!r} in row {row}, but most values "
                f"are numbers: correct the value, clear it, or omit the column with drop={self.name}"
            )

    @property
    def is_dates(self) -> bool:
        """Whether all of its values are dates."""
        return bool(self.levels) and all(map(DATE_PATTERN.fullmatch, self.levels))

    def as_categories(self) -> TableColumn:
        """Return the column with every distinct number as a category."""
        if self.numbers is None:
            return self
        known = ~np.isnan(self.numbers)
        levels, inverse = np.unique(self.numbers[known], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int64)
        codes[known] = inverse
        return replace(self, numbers=None, codes=codes, levels=tuple(f"{level:.15g}" for level in levels))


def read_column(name: str, values: Any, *, literal: bool = False) -> TableColumn:
    """Read a pyarrow column. In a `literal` column, only empty values are missing. Raises `DatasetError` for infinite
    numbers."""
    types = import_pyarrow().types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if types.is_string(kind) or types.is_large_string(kind):
        column = _read_text_column(name, values, literal=literal)
    elif types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast(import_pyarrow().float64(), safe=False).to_numpy()
        column = TableColumn(name, numbers=np.asarray(numbers, dtype=np.float64))
    else:
        return TableColumn(name, other_kind=str(kind))
    if column.numbers is not None and np.isinf(column.numbers).any():
        row = int(np.argmax(np.isinf(column.numbers)))
        raise DatasetError(
            f"column {name!r} contains {column.numbers[row]} in row {row + 1}: clear it or use a finite number"
        )
    return column


def _read_text_column(name: str, values: Any, *, literal: bool) -> TableColumn:
    encoded = import_pyarrow("compute").utf8_trim_whitespace(values).combine_chunks().dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    levels = tuple(sorted(set(words).difference(("",) if literal else MISSING_VALUES)))
    ranks = {level: rank for rank, level in enumerate(levels)}
    places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    codes = np.array([*(ranks.get(word, -1) for word in words), -1])[places]
    counts = dict(zip(words, np.bincount(places[places >= 0], minlength=len(words)).tolist(), strict=True))
    blanks = {word: counts[word] for word in words if word not in ranks and word.isalpha()}
    numbers = np.array([*map(_parse_number, levels), math.nan])[codes]
    strays = (codes >= 0) & np.isnan(numbers)
    if not strays.any():
        return TableColumn(name, numbers=numbers)
    numerals = read_numerals(levels)
    if numerals.values:
        return TableColumn(name, numbers=np.array([*numerals.values, math.nan])[codes], example=numerals.example)
    first, share = int(np.argmax(strays)), 1 - strays.sum() / (codes >= 0).sum()
    return TableColumn(
        name,
        codes=codes,
        levels=levels,
        unclear_reason=numerals.unclear,
        missing_words=blanks,
        stray_value=(first + 1, levels[int(codes[first])]) if share >= MIN_NUMERIC_SHARE else None,
    )


def _parse_number(word: str) -> float:
    """Return the number that a string represents, or NaN. Rejects 1_000, which `float` accepts."""
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return math.nan


def require_complete(column: TableColumn, role: str) -> TableColumn:
    """Return the column unchanged. Raises `DatasetError` if a value is missing or the type is not supported."""
    if column.other_kind:
        raise DatasetError(f"the {role} column {column.name!r} is of type {column.other_kind}: use numbers or strings")
    if (gaps := column.is_missing).any():
        if column.missing_words:
            raise DatasetError(
                f"the {role} column {column.name!r} contains {format_blanks(column)}: if it is a value, "
                f"add literal={column.name}; otherwise fill in or remove these rows"
            )
        raise DatasetError(
            f"the {role} column {column.name!r} is missing in {int(gaps.sum())} rows (the first is row "
            f"{int(np.argmax(gaps)) + 1}): fill in or remove these rows"
        )
    return column


def format_blanks(column: TableColumn) -> str:
    """Format the words of a column that were read as missing, for a message."""
    return " and ".join(f"{word!r} in {count} rows" for word, count in sorted(column.missing_words.items())) + (
        ", which counts as missing" if len(column.missing_words) == 1 else ", which count as missing"
    )


def read_split_names(column: TableColumn) -> Array:
    """Return (n,) split names. Raises `DatasetError` for an unknown name."""
    words = require_complete(column, "split").as_categories()
    names = [SPLIT_ALIASES.get(level.lower(), "") for level in words.levels]
    if "" in names:
        raise DatasetError(
            f"the split column {column.name!r} contains {words.levels[names.index('')]!r}: "
            "use train, validation or test in every row"
        )
    return np.array(names)[words.codes]


def read_times(name: str, values: Any) -> Array:
    """Return (n,) numbers that increase with time; dates become microseconds. Raises `DatasetError`."""
    pa = import_pyarrow()
    if pa.types.is_temporal(values.type):
        try:
            values = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        except pa.ArrowException:
            raise DatasetError(f"the time column {name!r} is of type {values.type}: use dates or numbers") from None
    column = require_complete(read_column(name, values), "time")
    if column.numbers is not None:
        return column.numbers
    try:
        moments = np.array([level.removesuffix("Z") for level in column.levels], dtype="datetime64[us]")
    except ValueError as error:
        raise DatasetError(
            f"the time column {name!r} contains neither numbers nor ISO dates such as 2024-05-31 or "
            f"2024-05-31T12:00 ({error})"
        ) from None
    return moments.astype(np.int64)[column.codes]


# --- numbers in other notations ---------------------------------------------------------------------------------------

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
