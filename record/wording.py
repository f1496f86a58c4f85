"""Words that say a number, and words that rank: what may stand in a paper only where the program prints it.

`review.evidence` reads a paper's text with them; a text of code that has one of them is not printed (`record.printed`).
"""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
VALUES = {word: k for k, word in enumerate(_SMALL)} | {word: 20 + 10 * k for k, word in enumerate(_TENS)}

GAP = r"[\s~\u2010-\u2015-]+"
_WORD = rf"(?:{'|'.join((*_SMALL, *_TENS))}|(?:{'|'.join(LARGE)}|dozen)s?)"
_NUMBER = rf"{_WORD}(?:{GAP}(?:point{GAP}|(?<=hundred )and{GAP}|(?<=thousand )and{GAP})?{_WORD})*(?:-?fold)?"
LISTED = rf"(?:(?:\s*,\s*|\s+)(?:(?:and|or)\s+)?{_WORD})*"
"""Further numbers of a list: "two, three and four operators"."""
NUMBERS = re.compile(rf"\b{_NUMBER}\b|\bnought{GAP}point\b|\btens{GAP}of\b", re.IGNORECASE)

_BIG = r"(?:more|less|fewer|larger|smaller|greater|higher|lower|better|worse|longer|shorter|faster|slower|as)\b"
RATIOS = re.compile(
    rf"\b(?:(?:an?|several|few|many){GAP}(?:a{GAP})?(?:per(?:{GAP})?cent|percentage{GAP}points?|points?{GAP}of)"
    rf"|orders?{GAP}of{GAP}magnitude|factors?{GAP}of{GAP}(?:about{GAP})?two"
    r"|(?:(?<=is )|(?<=was )|(?<=are )|(?<=were )|(?<=than )|(?<=about )|(?<=nearly )|(?<=almost ))twice"
    rf"|twice(?={GAP}(?:as|the|that|those|what|its|their|{_BIG}))|thrice"
    r"|(?:two|hundred|many)-?fold|doubl(?:es|ed|ing)|double(?!-|\s+(?:blind|descent|precision|check|counting))"
    r"|tripl(?:es|ed|ing)|triple(?!t|-|\s+\w+ed\b)|quadrupl(?:e|es|ed|ing)|halv(?:e|es|ed|ing)"
    r"|(?<!first )(?<!second )(?<!other )(?<!upper )(?<!lower )(?<!latter )(?<!each )half(?!-|\s+of\s+the\s+width)"
    rf"|(?:one|two|three|nine){GAP}(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?"
    rf"|a{GAP}quarter|an?{GAP}(?:third|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)"
    rf"(?=\s*(?:[.,;)]|$)|{GAP}(?:of|{_BIG})))\b",
    re.IGNORECASE,
)
"""How much more or less, in words."""

ROMAN = re.compile(r"(?<![\w./-])(?=[IVXLC]{2})(?:XC|XL|L?X{0,3}|C{1,3}(?:XC|XL|L?X{0,3}))(?:IX|IV|V?I{0,3})(?![\w/])")

GOOD = (
    r"out-?perform\w*|surpass\w*|beat(?:s|en|ing)?|better|best|improv\w+|superior\w*|excel\w*|wins?|won|winning|"
    r"boost\w*|dominat\w+|prefer(?:able|red)|ahead\s+of(?!\s+time)|outdo\w*|helps?|helped|benefit(?:s|ed)?|gains?|"
    r"(?:is|was|stays|comes|came)\s+(?:\w+\s+)?(?:ahead|out\s+on\s+top)|gained|advantage\w*|an\s+edge|"
    r"edges?\s+out|pays?\s+off|state[- ]of[- ]the[- ]art|leads?\s+by|"
    r"more\s+(?:accurate|robust|reliable|effective|stable|calibrated)"
)
BAD = (
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
WEAK = (
    r"(?:high|low|great|larg|small|strong|weak|fast|slow|clos)(?:er|est)|less|more|fewer|most|least|than|"
    r"exceed\w*|reduc(?:es?|ed|tions?)|(?:in|de)creas(?:es?|ed)|lower(?:s|ed|ing)|rais(?:es|ed)|drop(?:s|ped)?|"
    r"falls?|fell|rises?|rose|grows?|grew|gap|margin|similar\w*|identical\w*|equal\w*|equivalent|"
    r"differ(?:s|ences?|ently)?|comparable|unchanged|saves?|cuts|loses?|lost|narrows?|widens?|shrinks?|undercuts|"
    r"(?:remains?|is|was|stays|lies)\s+(?:above|below)|same(?=\s+(?:as|for|in|on|across|[a-z\s]{0,20}(?:accurac|"
    r"performance|error|score|result|loss))|\W*$)"
)
RANKING, EQUATING, COMPARING = (re.compile(rf"\b(?:{words})\b") for words in (f"{GOOD}|{BAD}|{_DIFFERS}", _SAME, WEAK))


def says_number(text: str) -> bool:
    """Whether a number in words, of whatever size, stands in a text."""
    return bool(NUMBERS.search(text) or ROMAN.search(text))


def says_ratio(text: str) -> bool:
    """Whether a text says in words how much more or less something is."""
    return bool(RATIOS.search(text))


def ranks(text: str) -> bool:
    """Whether a text has a word that compares."""
    return any(words.search(text.lower()) for words in (RANKING, EQUATING, COMPARING))
