"""The only module that reads and writes `results.tex` and the macros that print values from it.

  \\result{KEY}             \\setup{KEY}              in a paper's text: print a measured value, or a setting
  \\resultvalue{KEY}{TEX}   \\setupvalue{KEY}{TEX}    lines of results.tex: the text of a key

The key of a mean is `split/dataset/metric/condition`, that of a paired difference
`diff/dataset/metric/condition~other`, that of effect K (from 1) of a hypothesis `hypothesis/ID/K`, and that of an
estimate that the outline asked for `estimate/NAME`. The printed form follows after a dot (`record.claims.formatting`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass
from hashlib import sha256
from typing import Literal, NamedTuple, cast

from labwright.record.schema import Scalar

# Number words and ratios in words, which may appear in a paper only if the program prints them. `review.evidence`
# scans a paper's text for them; a string from code that contains one is not printed (`record.result_macros`).

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LARGE_NUMBER_WORDS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
NUMBER_WORD_VALUES = {word: k for k, word in enumerate(_SMALL)} | {word: 20 + 10 * k for k, word in enumerate(_TENS)}

WORD_GAP = r"[\s~\u2010-\u2015-]+"
_WORD = rf"(?:{'|'.join((*_SMALL, *_TENS))}|(?:{'|'.join(LARGE_NUMBER_WORDS)}|dozen)s?)"
_NUMBER_WORD = (
    rf"{_WORD}(?:{WORD_GAP}(?:point{WORD_GAP}|(?<=hundred )and{WORD_GAP}|(?<=thousand "
    rf")and{WORD_GAP})?{_WORD})*(?:-?fold)?"
)
LISTED_NUMBERS = rf"(?:(?:\s*,\s*|\s+)(?:(?:and|or)\s+)?{_WORD})*"
"""Further numbers of a list: "two, three and four operators"."""
NUMBER_WORDS_PATTERN = re.compile(rf"\b{_NUMBER_WORD}\b|\bnought{WORD_GAP}point\b|\btens{WORD_GAP}of\b", re.IGNORECASE)

COMPARISON_WORDS = (
    r"(?:more|less|fewer|larger|smaller|greater|higher|lower|better|worse|longer|shorter|faster|slower|as)\b"
)
RATIO_PATTERN = re.compile(
    rf"\b(?:(?:an?|several|few|many){WORD_GAP}(?:a{WORD_GAP})?(?:per(?:{WORD_GAP})?cent|percentage{WORD_GAP}points?|points?{WORD_GAP}of)"
    rf"|orders?{WORD_GAP}of{WORD_GAP}magnitude|factors?{WORD_GAP}of{WORD_GAP}(?:about{WORD_GAP})?two"
    r"|(?:(?<=is )|(?<=was )|(?<=are )|(?<=were )|(?<=than )|(?<=about )|(?<=nearly )|(?<=almost ))twice"
    rf"|twice(?={WORD_GAP}(?:as|the|that|those|what|its|their|{COMPARISON_WORDS}))|thrice"
    r"|(?:two|hundred|many)-?fold|doubl(?:es|ed|ing)|double(?!-|\s+(?:blind|descent|precision|check|counting))"
    r"|tripl(?:es|ed|ing)|triple(?!t|-|\s+\w+ed\b)|quadrupl(?:e|es|ed|ing)|(?<!two )halv(?:e|es|ed|ing)"
    r"|(?<!first )(?<!second )(?<!other )(?<!upper )(?<!lower )(?<!latter )(?<!each )half(?!-|\s+of\s+the\s+width)"
    rf"|(?:one|two|three|nine){WORD_GAP}(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?"
    rf"|a{WORD_GAP}quarter|an?{WORD_GAP}(?:third|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)"
    rf"(?=\s*(?:[.,;)]|$)|{WORD_GAP}(?:of|{COMPARISON_WORDS})))\b",
    re.IGNORECASE,
)
"""Ratios and differences in words."""

ROMAN_NUMERAL_PATTERN = re.compile(
    r"(?<![\w./-])(?=[IVXLC]{2})(?:XC|XL|L?X{0,3}|C{1,3}(?:XC|XL|L?X{0,3}))(?:IX|IV|V?I{0,3})(?![\w/])"
)


def has_number_word(text: str) -> bool:
    """Return whether a string contains a number word or a Roman numeral."""
    return bool(NUMBER_WORDS_PATTERN.search(text) or ROMAN_NUMERAL_PATTERN.search(text))


def has_ratio(text: str) -> bool:
    """Return whether a string states a ratio or a difference in words."""
    return bool(RATIO_PATTERN.search(text))


# Values as a paper prints them. Only the functions of this module create a `PrintedValue`, and macros are defined
# only from such values (`record.result_macros`). print_value, print_significant, print_spread, print_interval,
# print_range, print_count, print_p_value a number in the record print_setting a constant or setting of the code: a
# number, or a short text that makes no statement print_name a name from the plan, the data or the user Limits: a
# number that code defines is not necessarily used by that code.

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
            raise TypeError("create printed values only with the functions of record.result_macros")


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
        longest = MAX_NUMBER_LENGTH if isinstance(value, float) else MAX_TEXT_LENGTH
        shown = str(value) if len(str(value)) <= longest else f"{value:.4g}"
        return PrintedValue(_format_plain_number(shown), _MAKER_TOKEN) if math.isfinite(value) else None
    text = " ".join(value.split())
    if _NUMBERS.fullmatch(text):
        items = re.split(r"\s*,\s*", text)
        numbers = ", ".join(map(_format_plain_number, items))
        return PrintedValue(numbers, _MAKER_TOKEN) if len(items) <= MAX_NUMBERS else None
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


MacroName = Literal["result", "setup"]

MACRO_USE_PATTERN = re.compile(r"\\(?P<macro>result|setup)\s*\{(?P<key>[^{}]*)\}")
"""Matches a macro that prints a value, for code that needs its position; other code uses `find_macro_uses` and
`fill_macros`."""
_RESULT_LINE_PATTERN = re.compile(r"^\\(result|setup)value\{([^{}]*)\}\{(.*)\}[ \t\r]*$\n?", re.MULTILINE)
_KEY_PATTERN = re.compile(r"[^\\{}%#^\x00-\x1f\x7f]+")
_KEY_PART_PATTERN = re.compile(r"[\w .@:+,*-]+", re.ASCII)
_FORM_PATTERN = re.compile(r"\.(mean|pm|sd|n|low|high|ci|confidence|percent|percent_ci|points|points_ci)$")
_SYMBOLS = {"pm": "±", "times": "×"}


class ResultMacroUse(NamedTuple):
    """A macro that prints a value, and its key."""

    macro: MacroName
    key: str

    def __str__(self) -> str:
        return f"\\{self.macro}{{{self.key}}}"


class ClaimKey(NamedTuple):
    """The parts of a claim's key. `other` is the subtracted condition of a difference; empty for a mean."""

    split: str
    dataset: str
    metric: str
    condition: str
    other: str = ""
    form: str = ""

    @classmethod
    def parse_key(cls, key: str) -> ClaimKey | None:
        """Parse a key; None if it has another form, such as the key of a setting."""
        form = _FORM_PATTERN.search(key)
        parts = key[: form.start() if form else None].split("/")
        if len(parts) != 4:
            return None
        condition, _, other = parts[3].partition("~")
        return cls(parts[0], parts[1], parts[2], condition, other, form[1] if form else "")

    @property
    def key(self) -> str:
        """The whole key."""
        return f"{self.key_without_form}.{self.form}" if self.form else self.key_without_form

    @property
    def key_without_form(self) -> str:
        """The key without the printed form."""
        return "/".join(
            (self.split, self.dataset, self.metric, f"{self.condition}~{self.other}" if self.other else self.condition)
        )


def format_key(*parts: str) -> str:
    """Build a key from names. A name with characters not allowed in a key (code may use any) is made unique by
    its hash."""

    def make_valid(name: str) -> str:
        if _KEY_PART_PATTERN.fullmatch(name):
            return name
        plain = "".join(char if _KEY_PART_PATTERN.fullmatch(char) else "-" for char in name)
        return f"{plain[:40]}-{sha256(name.encode()).hexdigest()[:8]}"

    return "/".join(map(make_valid, parts))


def is_interval_form(key: str) -> bool:
    """Return whether a key prints an interval, an end of one, or its confidence."""
    found = _FORM_PATTERN.search(key)
    return found is not None and found[1] in ("ci", "low", "high", "confidence", "percent_ci", "points_ci")


def strip_form(key: str) -> str:
    """Return the key of the claim to which a printed form belongs."""
    return _FORM_PATTERN.sub("", key)


# --- macros in the text -----------------------------------------------------------------------------------------------


def find_macro_uses(text: str) -> Iterator[ResultMacroUse]:
    """Yield every value that a document prints, in order."""
    return (_parse_use(match) for match in MACRO_USE_PATTERN.finditer(text))


def fill_macros(text: str, value: Callable[[ResultMacroUse], str]) -> str:
    """Return LaTeX source with each of its printed values replaced."""
    return MACRO_USE_PATTERN.sub(lambda match: value(_parse_use(match)), text)


def _parse_use(match: re.Match[str]) -> ResultMacroUse:
    return ResultMacroUse(cast(MacroName, match[1]), match[2].strip())


# --- results.tex ------------------------------------------------------------------------------------------------------


def render_results(values: Mapping[ResultMacroUse, PrintedValue | None], *, untied: bool = False) -> str:
    """Return the content of results.tex for the values that a paper uses, as printed by `record.claims`.

    None means that the record does not have the key: TeX stops there or, with `untied`, prints a placeholder. Keys with
    characters that are special in TeX get no line.
    """
    lines = ["% Written by the program from the record. \\result{key} and \\setup{key} print what stands here."]
    for use, value in sorted(values.items(), key=lambda item: item[0]):
        if (value is not None or untied) and _KEY_PATTERN.fullmatch(use.key):
            tex = r"\textbf{[untied]}" if value is None else value.tex
            lines.append(f"\\{use.macro}value{{{use.key}}}{{{tex}}}")
    return "\n".join(lines) + "\n"


def parse_results(text: str) -> dict[ResultMacroUse, str]:
    """Parse results.tex: the TeX that each use prints."""
    return {_parse_use(match): match[3] for match in _RESULT_LINE_PATTERN.finditer(text)}


def strip_result_lines(text: str) -> str:
    """Return LaTeX source without the lines of results.tex that were copied into it."""
    return _RESULT_LINE_PATTERN.sub("", text)


def to_plain_text(value: str | PrintedValue) -> str:
    """Return a printed value, or its TeX, as it appears in the PDF: `0.21 ± 0.03`, `-0.4`, `[0.1, 0.2]`.

    A general TeX reader is not used, since it would drop the spaces between the numbers of an interval.
    """
    plain = re.sub(r"\\,|~", " ", value if isinstance(value, str) else value.tex)
    plain = re.sub(r"\\([A-Za-z]+)\s*", lambda command: _SYMBOLS.get(command[1], ""), plain)
    plain = re.sub(r"\\([&%#_${}])", r"\1", re.sub(r"(?<!\\)[{}$^]|\\[;:! ]", "", plain))
    return " ".join(plain.split())
