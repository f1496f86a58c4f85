"""Find numbers in text, and match the literals and data plan names that may be typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")
STOP_WORDS = (
    r"(?:of|out|in|per|percent|percentage|points?|times|and|or|than|to|at|on|for|with|without|no|by|from|was|were|is|"
    r"are|fold|hundred|thousand|more|less|fewer|higher|lower|larger|smaller)\b"
)
"""Words that are neither counted nor describe what is."""
_GAP = "[\\s~\x01]"
_HYPHEN = r"[-\u2010-\u2015]{1,3}"
UNIT_INTERVAL = re.compile("(?<=[\\[({])[-+\x01\\s]*[01][\x01\\s]*[,;][-+\x01\\s]*[01][\x01\\s]*(?=[\\])}])")
"""The interval, pair or set `0, 1` or `-1, 1` in a formula."""
INDICATOR = re.compile(r"\\mathbb\s*\{\s*$")
r"""Text before the digit of an indicator, `\mathbb{1}[y=k]`."""
_ARGUMENT = re.compile(r"(?:^|(?P<head>.))(?P<open>[(\[{])(?P<items>[^()\[\]{}]*[,;|])?[-+]?$")


@lru_cache(4096)
def compile_phrase(text: str, joint: str = "") -> re.Pattern[str]:
    """Compile a pattern for a literal or a name as typed in TeX or extracted from a PDF.

    A space matches any run of spaces, ties and blanked commands; a hyphen matches any dash; a sign may be escaped, and
    a percent sign may follow a space. Space around an equals sign does not matter: k = 5, k=5.
    The pattern never matches within a longer word or number. `joint` is a pattern for what may divide two characters.
    """
    special = {
        " ": rf"{_GAP}+",
        "-": _HYPHEN,
        "=": rf"{_GAP}*={_GAP}*",
        **{sign: rf"{_GAP}*{re.escape(sign)}" for sign in "%&#_$"},
    }
    unescaped = re.sub(r"\\([%&#_${}])", r"\1", " ".join(text.split())).replace(" %", "%").replace(" = ", "=")
    parts = [special.get(char) or re.escape(char) for char in unescaped]
    return re.compile(rf"(?<![\w.]){joint.join(parts)}(?!\w)(?!\.\d)", re.IGNORECASE)


def compile_printed(text: str) -> re.Pattern[str]:
    """Compile a pattern for what a style prints, hyphenated or not, in which # stands for any number or ordinal."""
    phrase = compile_phrase(text, "-?")
    return re.compile(phrase.pattern.replace(re.escape("#"), r"\d+(?:\s?(?:st|nd|rd|th))?"), phrase.flags)


def compile_names(names: Iterable[str]) -> list[re.Pattern[str]]:
    """Return patterns for names, longest first, since one may be a word of another (`folds` of `five folds`)."""
    return [compile_phrase(name) for name in sorted(names, key=len, reverse=True) if name.strip()]


def compile_phrases(literals: Iterable[str], names: Iterable[str]) -> list[re.Pattern[str]]:
    """Return patterns for all allowed phrases that contain a digit, longest first. Single digits are not phrases."""
    typed = {one for one in (*literals, *names) if re.search(r"\d", one) and re.search(r"[A-Za-z]", one)}
    return [compile_phrase(one) for one in sorted(typed, key=lambda one: (-len(one), one))]


_JOINT = rf"(?:{_GAP}|[(),;/]|{_HYPHEN}|\b(?:and|or|to|versus|the)\b)+"
"""What stands between the numbers of a list."""
_PERCENTAGE = rf"\d+(?:\.\d+)?{_GAP}*%"
_LISTED_PERCENTAGES = re.compile(
    rf"(?<![\w.])(?P<list>(?:{_PERCENTAGE}{_JOINT})*{_PERCENTAGE})(?:{_GAP}+(?:of|the|all))*{_GAP}+"
    r"(?P<noun>[^\W\d_]{3,}?)s?(?![^\W\d_])",
    re.IGNORECASE,
)


def mask_percentages(text: str, design: str, refused: Callable[[str, str], bool] = lambda number, noun: False) -> str:
    """Return the text with the percentages blanked that the text of a design has of the same thing (between 5 % and
    30 % of the pool), and those that define a quantile; none of those (number, noun) that are `refused`."""

    def read(found: re.Match[str]) -> set[tuple[str, str]]:
        return {(number, found["noun"].lower()) for number in re.findall(r"\d+(?:\.\d+)?", found["list"])}

    known = {pair for found in _LISTED_PERCENTAGES.finditer(design) for pair in read(found) if not refused(*pair)}

    def blank(found: re.Match[str]) -> str:
        size = len(found["list"])
        allowed = found["noun"].lower() in ("quantile", "percentile") or read(found) <= known
        return "\x01" * size + found[0][size:] if allowed else found[0]

    return _LISTED_PERCENTAGES.sub(blank, text)


def mask_levels(text: str, titles: Sequence[str], values: Iterable[str], factor: str, design: str = "") -> str:
    """Return the text with the levels of a study blanked: lists of their names and numbers that contain a name or all
    levels above zero, or stand next to "at" or a word of the factor or of a name (at 20 % or 40 %; 40 % of the labels;
    chance, 0.1; 40 % wrong labels, if the text of the design has wrong labels)."""
    names = [one for one in titles if re.search(r"[^\W\d_]", one)]
    values = {*values, *(found for one in titles for found in re.findall(r"\d[\d.]*(?: ?%)?", one))}
    if not values:
        return text

    def join(texts: Iterable[str]) -> str:
        return "|".join(compile_phrase(one).pattern for one in sorted(texts, key=lambda one: (-len(one), one)))

    words = "|".join(re.findall(r"[^\W\d_]{4,}", " ".join((factor, *names)))) or "(?!)"
    item, word = f"(?:{join((*names, *values))})", rf"(?:{words})\w*"
    before = re.findall(rf"\b(?!{STOP_WORDS})([^\W\d_]{{3,}})(?=\s+{word})", design.lower())
    described = "|".join(sorted({*before}))
    is_whole = any(one.lower().startswith("all ") for one in names)  # "all 898" of "all 898 rows"
    between = f"(?:(?:{described}){_GAP}+)?" if described else ""
    first = f"(?:{item}|{join(one.rstrip(' %') for one in values)})"  # 20-40 %
    pattern = re.compile(
        rf"(?P<before>(?<!\w)(?:at|{'all|' * is_whole}{word}(?:{_GAP}+of)?)(?:{_GAP}|[(,:])+)?"
        rf"(?P<levels>(?:{first}{_JOINT})*{item})"
        rf"(?P<after>(?:{_GAP}+of(?:{_GAP}+the)?)?{_GAP}+{between}{word})?",
        re.IGNORECASE,
    )
    named = re.compile(join(names) or "(?!)", re.IGNORECASE)
    positive = {float(one.rstrip(" %")) for one in values if one.endswith("%")} - {0.0}

    def blank(found: re.Match[str]) -> str:
        listed = {float(one) for one in re.findall(r"\d+(?:\.\d+)?", found["levels"])}
        is_complete = len(listed) > 1 and listed >= positive and "%" in found["levels"]
        is_level = found["before"] or found["after"] or named.search(found["levels"]) or is_complete
        start, end = (at - found.start() for at in found.span("levels"))
        return found[0][:start] + "\x01" * (end - start) + found[0][end:] if is_level else found[0]

    return pattern.sub(blank, text)


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
