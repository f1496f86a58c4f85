"""Read numbers as printed in text: value, precision, sign and percentage.

Excluded, since they do not state results: labels ("Table 2", "Eq. (3)"), citations, years, list and heading numbers,
parts of names ("CIFAR-10", "F1", "Recall@5", "top-5", "32x32"), indices and exponents, bounds ("p < 0.05"),
confidence levels ("95% CI"), code, addresses and displayed formulas.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number.

    `step` is one unit of its last printed place, `digits` its significant digits, `at` its offset in the text.
    `factor` marks "2.5x". `unit_scales` are the factors from other units of the quantity ("2.5 kW", from watts: 0.001).
    """

    text: str
    value: float
    step: float
    sign: str = ""
    percent: bool = False
    factor: bool = False
    digits: int = 1
    at: int = 0
    unit_scales: tuple[float, ...] = ()

    @property
    def rounding_slack(self) -> float:
        """Return the maximum distance between the true and the printed value."""
        return self.step / 2 * (1 + 1e-6) + abs(self.value) * 1e-15

    @property
    def magnitude_range(self) -> tuple[float, float]:
        """Return the range of magnitudes that the printed number may stand for."""
        return max(0.0, abs(self.value) - self.rounding_slack), abs(self.value) + self.rounding_slack


_SPACE = r"[\u2009\u202f\u00a0 ]"
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212](?=[\d.]))?"
    rf"(?P<body>\d{{1,3}}(?:,\d{{3}})+(?!\d)(?:\.\d+)?|\d{{1,3}}(?:{_SPACE}\d{{3}})+(?![\d.,]\d|\d)|\d+\.\d+|\d+|\.\d+)"
    r"(?P<power>[eE][-+\u2212]?\d+|\s*(?:\u00d7|x|\*|\\times|\\cdot)\s*10\s*\^\s*\{?[-\u2212]?\d+\}?|\^\{?[-\u2212]?\d+\}?)?"
    r"(?P<unit>\s?(?:\\?%|percent\b|percentage points?\b|pp\b)|\s?(?:\u00d7|x(?![A-Za-z0-9])|\\times\b)"
    r"|-?fold\b|[kKMB](?![A-Za-z])|\s(?:million|billion)\b)?"
)
_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "million": 1e6, "billion": 1e9}

_UNREAD_TEXT = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|\$\$.*?\$\$|\\\[.*?\\\]|\\begin\{(equation|align|gather|multline|eqnarray"
    r"|verbatim|lstlisting)\*?\}.*?\\end\{\1\*?\}|`[^`\n]*`|https?://\S+|\]\([^()\n]*\)|\barXiv:\S+|\b10\.\d{4,}/\S+",
    re.DOTALL,
)
_SCRIPTS = re.compile(r"(?<!10)(?<!10 )\^(?:\{[^{}]*\}|\\?\w)|(?<=[A-Za-z}\])])_(?:\{[^{}]*\}|\w+)")
CITED = re.compile(r"\[\d{1,3}(?:\s*[,;\u2013-]\s*\d{1,3})*\]|\\cite\w*(?:\[[^\]]*\])*\{[^{}]*\}")
_LABEL = re.compile(
    r"\b(?:tables?|tab\.|figures?|figs?\.|sections?|sec\.|\u00a7|equations?|eqs?\.|appendix|appendices|algorithms?|alg\."
    r"|chapters?|steps?|phases?|stages?|experiments?|hypothes[ie]s|study|case|tier|levels?|layers?|rq|part|theorems?"
    r"|lemmas?|definitions?|contributions?|pages?|pp?\.|version|seeds?|python|cuda|random_state)\s*:?\s*[#\u2116]?\s*\(?"
    r"\d[\d.]*\)?(?:\([a-z]\))?(?:\s*(?:,|&|and|to|\u2013|-)\s*\(?\d[\d.]*\)?(?![\d%.]*%))*",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"^[ \t>*\-\u2013\u2022#|]*(?:(?:\(?\d{1,2}(?:\.\d{1,2})*[.)]|\(\d{1,2}\))(?=\s|\*)"
    r"|\d{1,2}(?:\.\d{1,2})+(?=\s+[A-Z]))",
    re.MULTILINE,
)
_INLINE_ORDINAL = re.compile(r"(?<![\w.])\(\d\)(?=\s*[A-Za-z*])")
_HEADING = re.compile(r"^(?:#{1,6}\s|\*\*)?\s*\d{1,2}(?:\.\d{1,2})*\.?\s+(?=[A-Z])", re.MULTILINE)
_YEAR = re.compile(r"(?<![\d.,])(?:19[5-9]\d|20[0-4]\d)[a-z]?(?![\d%]|\.\d|,\d{3})")
_MONTH = rf"(?:{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in calendar.month_name[1:])})\b\.?"
_DAYS = r"\d{1,2}(?:st|nd|rd|th)?(?:\s?[\u2013-]\s?\d{1,2})?"
_DATE = re.compile(rf"\b{_MONTH} {_DAYS}(?!\.?\d|%)|\b{_DAYS} {_MONTH}|(?<!\w)['\u2019]\d{{2}}\b")
_CLOCK = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d+)?)?|\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\b"
)
_BOUND = re.compile(
    r"\b[pP]\$?\s*(?:-?values?)?\s*(?:[<>\u2264\u2265]|\\[lg]eq?\b|\\[lg]t\b)\s*\$?\s*[\d.]+(?:e-?\d+)?"
)
_CONFIDENCE = re.compile(r"\b\d{2}(?:\.\d)?\s*\\?%\s*(?:\w+\s+)?(?:confidence|CIs?\b|credible|interval)", re.IGNORECASE)
_DIMENSIONS = re.compile(r"\b\d+\s?[x\u00d7]\s?\d+(?:\s?[x\u00d7]\s?\d+)*\b")
_RATIO = re.compile(r"(?<![\d.])\d{1,2}/\d{1,2}(?:/\d{1,2})?(?![\d.])")
_NAME = re.compile(r"(?:[A-Za-z_@]|[A-Za-z\d][-@_]|[A-Za-z]\.)$")
_AFTER_NAME = re.compile(r"(?!(?:ms|s|min|h|hr|hrs|GB|MB|KB|GiB|MiB|pts?|pp|px|x|tokens?|fold)\b)[A-Za-z_]|-[A-Za-z]")


_TIME_UNIT = re.compile(r"([nm\u00b5]?s|sec(?:ond)?s?|min(?:ute)?s?|h(?:ou)?rs?|h)\b")
_SECONDS = {"ns": 1e-9, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PREFIXED_UNIT = re.compile(r"[\u00b5mkKMGT]?i?(Wh?|B|bytes?|bits?|Hz|J|V|A|g|m|N|Pa|eV|FLOPS|FLOPs)\b")
"""Units of time, and units that take the prefixes of the SI or of memory."""


def find_unit_scales(text: str) -> tuple[float, ...]:
    """Return the factors from other units of the same quantity to the unit that a text begins with, if any."""
    text = text.lstrip(" \u00a0\u202f(")
    if time := _TIME_UNIT.match(text):
        own = _SECONDS.get(time[1]) or _SECONDS[time[1][0]]
        return tuple(other / own for other in _SECONDS.values() if other != own)
    if unit := _PREFIXED_UNIT.match(text):
        bases = (1e3, 1024.0) if unit[1][0] in "Bb" else (1e3,)
        return tuple(base**power for base in bases for power in (-2, -1, 1, 2))
    return ()


TextKind = Literal["prose", "cell", "results"]
_IN_CELLS = (_UNREAD_TEXT, CITED, _CLOCK, _SCRIPTS, _CONFIDENCE, _DIMENSIONS)
_IN_PROSE = (*_IN_CELLS, _DATE, _BOUND, _LABEL, _ORDINAL, _INLINE_ORDINAL, _HEADING, _YEAR, _RATIO)
_SKIPPED_PATTERNS: dict[TextKind, tuple[re.Pattern[str], ...]] = {
    "prose": _IN_PROSE,
    "cell": _IN_CELLS,
    "results": (_CLOCK,),
}
"""Text that states no result: in prose, in a table cell (which has no list or heading), in result files."""


def extract_numbers(text: str, kind: TextKind = "prose") -> tuple[PrintedNumber, ...]:
    """Return the numbers that state something, in order, with their offsets in the text."""
    for pattern in _SKIPPED_PATTERNS[kind]:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", "\x01", match[0]), text)
    return tuple(_apply_neighbours(text, list(_read_numbers(text))))


def _read_numbers(text: str) -> Iterator[PrintedNumber]:
    for match in _NUMBER.finditer(text):
        before, after = text[max(0, match.start() - 24) : match.start()], text[match.end() : match.end() + 8]
        sign = match["sign"] or ""
        if sign and re.search(r"[\w%)\]]$", before):  # a range, a subtraction, or part of a name
            if re.search(r"[A-Za-z_]$", before):
                continue
            sign = ""
        if not sign and re.search(r"(?:^|[(|:=]\s?)\u2013$", before):
            sign = "-"
        if not match["sign"] and (_NAME.search(before) or re.search(r"\d[.,]$", before)):
            continue
        if not match["unit"] and _AFTER_NAME.match(after):
            continue
        yield _to_printed_number(match, sign)


def _to_printed_number(match: re.Match[str], sign: str) -> PrintedNumber:
    body = re.sub(rf"{_SPACE}|,", "", match["body"])
    unit, power = (match["unit"] or "").strip().lstrip("-\\"), match["power"] or ""
    value, step = float(body), 10.0 ** -len(body.partition(".")[2])
    figures = body.replace(".", "").lstrip("0")
    written = re.search(r"[-\u2212]?\d+\}?$", power)
    exponent = int(written[0].rstrip("}").replace("\u2212", "-")) if written else 0
    if power.startswith("^"):
        exponent = exponent if body == "10" or len(body) <= 2 else 0
        value = value**exponent if abs(exponent) < 30 else value
        step, figures = value, "1"
    else:
        value, step = value * 10.0**exponent, step * 10.0**exponent
        if "." not in body and not power:
            figures = figures.rstrip("0")
    minus, scale = sign in ("-", "\u2212"), _SCALE.get(unit, 1.0)
    text = match[0] if sign or not match["sign"] else match[0][1:]
    return PrintedNumber(
        text=text.strip(),
        value=(-1 if minus else 1) * value * scale,
        step=step * scale,
        sign="-" if minus else sign,
        percent=unit.startswith(("%", "percent", "pp")),
        factor=unit in ("\u00d7", "x", "times", "fold"),
        digits=max(1, len(figures)),
        at=match.end() - len(text),
    )


_NEXT_TO_NUMBER = re.compile(r"\s*(?:[\u2013\u2014-]|to|and|\u00b1|\\pm|or)\s*\$?")


def _apply_neighbours(text: str, found: list[PrintedNumber]) -> Iterator[PrintedNumber]:
    """Yield each number, adjusted to its context: the first of "65-90%" is also a percentage."""
    for at, number in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else None
        between = text[number.at + len(number.text) : following.at] if following else ""
        if following and _NEXT_TO_NUMBER.fullmatch(between):
            number = replace(
                number, percent=number.percent or following.percent, factor=number.factor or following.factor
            )
        scales = find_unit_scales(text[number.at + len(number.text) :][:12])
        yield replace(number, unit_scales=scales) if scales else number
