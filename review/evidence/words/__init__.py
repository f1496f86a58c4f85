"""The words of a draft against the ledger: claims, printed values, keys of another thing.

`refused` is the one door; docs/evidence.md says what is read, and what can be paraphrased around.
"""

from __future__ import annotations

from collections.abc import Iterator

from review.evidence.scan import Scanned
from review.evidence.spelled import Found
from review.evidence.violations import Evidence
from review.evidence.words.lexicon import Lexicon
from review.evidence.words.printed import printed_wrong, ratio_holds
from review.evidence.words.sentences import sentences
from review.evidence.words.verdicts import Refused, contradicted

__all__ = ["Lexicon", "Refused", "ratio_at", "refused"]


def refused(scanned: Scanned, evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """What a text claims that the ledger contradicts, in reading order, each place once."""
    read = list(sentences(scanned, lexicon))
    found = [*contradicted(read, evidence, lexicon),
             *(one for sentence in read for one in printed_wrong(sentence, evidence, lexicon))]
    yield from {one.at: one for one in sorted(found, key=lambda one: one.at, reverse=True)}.values()


def ratio_at(scanned: Scanned, found: Found, evidence: Evidence, lexicon: Lexicon) -> bool:
    """Whether a ratio in words is that of the two values that its sentence prints."""
    return any(ratio_holds(found.words, one, evidence) for one in sentences(scanned, lexicon)
               if one.start <= found.at < one.start + len(one.text))
