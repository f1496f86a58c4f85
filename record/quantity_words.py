"""Number words and ratios in words, which may appear in a paper only if the program prints them.

`review.evidence` scans a paper's text for them; a string from code that contains one is not printed
(`record.printed_value`).
"""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LARGE_NUMBER_WORDS = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
NUMBER_WORD_VALUES = {word: k for k, word in enumerate(_SMALL)} | {word: 20 + 10 * k for k, word in enumerate(_TENS)}

WORD_GAP = r"[\s~\u2010-\u2015-]+"
_WORD = rf"(?:{'|'.join((*_SMALL, *_TENS))}|(?:{'|'.join(LARGE_NUMBER_WORDS)}|dozen)s?)"
_NUMBER = (
    rf"{_WORD}(?:{WORD_GAP}(?:point{WORD_GAP}|(?<=hundred )and{WORD_GAP}|(?<=thousand "
    rf")and{WORD_GAP})?{_WORD})*(?:-?fold)?"
)
LISTED_NUMBERS = rf"(?:(?:\s*,\s*|\s+)(?:(?:and|or)\s+)?{_WORD})*"
"""Further numbers of a list: "two, three and four operators"."""
NUMBER_WORDS_PATTERN = re.compile(rf"\b{_NUMBER}\b|\bnought{WORD_GAP}point\b|\btens{WORD_GAP}of\b", re.IGNORECASE)

_BIG = r"(?:more|less|fewer|larger|smaller|greater|higher|lower|better|worse|longer|shorter|faster|slower|as)\b"
RATIO_PATTERN = re.compile(
    rf"\b(?:(?:an?|several|few|many){WORD_GAP}(?:a{WORD_GAP})?(?:per(?:{WORD_GAP})?cent|percentage{WORD_GAP}points?|points?{WORD_GAP}of)"
    rf"|orders?{WORD_GAP}of{WORD_GAP}magnitude|factors?{WORD_GAP}of{WORD_GAP}(?:about{WORD_GAP})?two"
    r"|(?:(?<=is )|(?<=was )|(?<=are )|(?<=were )|(?<=than )|(?<=about )|(?<=nearly )|(?<=almost ))twice"
    rf"|twice(?={WORD_GAP}(?:as|the|that|those|what|its|their|{_BIG}))|thrice"
    r"|(?:two|hundred|many)-?fold|doubl(?:es|ed|ing)|double(?!-|\s+(?:blind|descent|precision|check|counting))"
    r"|tripl(?:es|ed|ing)|triple(?!t|-|\s+\w+ed\b)|quadrupl(?:e|es|ed|ing)|(?<!two )halv(?:e|es|ed|ing)"
    r"|(?<!first )(?<!second )(?<!other )(?<!upper )(?<!lower )(?<!latter )(?<!each )half(?!-|\s+of\s+the\s+width)"
    rf"|(?:one|two|three|nine){WORD_GAP}(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?"
    rf"|a{WORD_GAP}quarter|an?{WORD_GAP}(?:third|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)"
    rf"(?=\s*(?:[.,;)]|$)|{WORD_GAP}(?:of|{_BIG})))\b",
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
