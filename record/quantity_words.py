"""Number words and ranking words, which may appear in a paper only if the program prints them.

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

BETTER_WORDS = (
    r"out-?perform\w*|surpass\w*|beat(?:s|en|ing)?|better|best|improv\w+|superior\w*|excel\w*|wins?|won|winning|"
    r"boost\w*|dominat\w+|prefer(?:able|red)|ahead\s+of(?!\s+time)|outdo\w*|helps?|helped|benefit(?:s|ed)?|gains?|"
    r"(?:is|was|stays|comes|came)\s+(?:\w+\s+)?(?:ahead|out\s+on\s+top)|gained|advantage\w*|an\s+edge|"
    r"edges?\s+out|pays?\s+off|state[- ]of[- ]the[- ]art|leads?\s+by|"
    r"more\s+(?:accurate|robust|reliable|effective|stable|calibrated)"
)
WORSE_WORDS = (
    r"worse\w*|worst|inferior|harm(?:s|ed|ful)?|hurt(?:s|ing)?|degrad\w+|deteriorat\w+|under-?perform\w*|"
    r"lag(?:s|ged)|trail(?:s|ed)|(?:is|was|stays|falls?|fell)\s+(?:\w+\s+)?behind|"
    r"(?:loses?|lost)\s+(?:to|more|less|out)|less\s+(?:accurate|robust|reliable|effective|stable|calibrated)|"
    r"suffers?\s+(?:more|less|from)"
)
_SAME = (
    r"on\s+(?:a\s+)?par|indistinguishable|makes?\s+no\s+difference|ties?\s+with|unaffected|"
    r"no\s+(?:\w+\s+)?(?:differences?|effect|benefit|gain|advantage|harm|change)|as\s+(?:good|accurate|bad)\s+as|"
    r"(?:performs?|does|did|works?|fares?)\s+as\s+well\s+as|match(?:es|ed)\s+(?:the|its|that|all|every)|"
    r"comparable\s+(?:to|with|performance|results)"
)
_DIFFERS = r"significant\w*|measurabl[ey]|makes?\s+a\s+difference"
WEAK_COMPARATIVES = (
    r"(?:high|low|great|larg|small|strong|weak|fast|slow|clos)(?:er|est)|less|more|fewer|most|least|than|"
    r"exceed\w*|reduc(?:es?|ed|tions?)|(?:in|de)creas(?:es?|ed)|lower(?:s|ed|ing)|rais(?:es|ed)|drop(?:s|ped)?|"
    r"falls?|fell|rises?|rose|grows?|grew|gap|margin|similar\w*|identical\w*|equal\w*|equivalent|"
    r"differ(?:s|ences?|ently)?|comparable|unchanged|saves?|cuts|loses?|lost|narrows?|widens?|shrinks?|undercuts|"
    r"(?:remains?|is|was|stays|lies)\s+(?:above|below)|same(?=\s+(?:as|for|in|on|across|[a-z\s]{0,20}(?:accurac|"
    r"performance|error|score|result|loss))|\W*$)"
)
RANKING_PATTERN, EQUATING_PATTERN, COMPARING_PATTERN = (
    re.compile(rf"\b(?:{words})\b") for words in (f"{BETTER_WORDS}|{WORSE_WORDS}|{_DIFFERS}", _SAME, WEAK_COMPARATIVES)
)


def has_number_word(text: str) -> bool:
    """Return whether a string contains a number word or a Roman numeral."""
    return bool(NUMBER_WORDS_PATTERN.search(text) or ROMAN_NUMERAL_PATTERN.search(text))


def has_ratio(text: str) -> bool:
    """Return whether a string states a ratio or a difference in words."""
    return bool(RATIO_PATTERN.search(text))


def has_ranking_word(text: str) -> bool:
    """Return whether a string contains a comparing word."""
    return any(words.search(text.lower()) for words in (RANKING_PATTERN, EQUATING_PATTERN, COMPARING_PATTERN))
