"""Numbers in words: "twelve percent", "twice", "five seeds"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ONE = r"(?:a|one|several|few)"
_COUNT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    r"eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|dozens?)"
)
_GAP = r"[\s~-]+"
_PLURAL = rf"{_COUNT}(?:{_GAP}(?:and{_GAP})?{_COUNT})*"

QUANTITY = re.compile(
    rf"\b(?:(?:{_PLURAL}|{_ONE}|half)(?:{_GAP}a)?{_GAP}(?:per(?:{_GAP})?cent(?:age)?(?:{_GAP}points?)?|points?{_GAP}of|"
    rf"orders?{_GAP}of{_GAP}magnitude)"
    rf"|{_PLURAL}{_GAP}(?:of{_GAP})?(?:points?|times|fold|(?:random{_GAP}|different{_GAP})?seeds?|replicates?|epochs?|"
    rf"runs?|examples?|repetitions?)"
    r"|twice|thrice|(?:two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|many)-?fold"
    r"|doubl(?:es|ed|ing)|double(?!-|\s+(?:blind|descent|precision|check|counting))|tripl(?:e|es|ed|ing)"
    r"|quadrupl(?:e|es|ed|ing)|halv(?:e|es|ed|ing)|half(?!-|\s+of\s+the\s+width)"
    rf"|(?:a|one){_GAP}(?:third|quarter|fifth|tenth){_GAP}of|(?:two|three){_GAP}(?:thirds|quarters|fifths|tenths))\b",
    re.IGNORECASE,
)
"""A count of something measured or set, or a ratio, in words."""


@dataclass(frozen=True)
class Found:
    """A match: where, and the words."""

    at: int
    words: str


def quantities(plain: str) -> Iterator[Found]:
    """Numbers in words that say a result or a setting."""
    for match in QUANTITY.finditer(plain):
        yield Found(match.start(), match[0])
