"""The words of a draft against the ledger: claims, printed values, keys of another thing.

`read_words` is the one door, since another reader is to take its place; docs/evidence.md says what is read, and what
can be paraphrased around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from review.evidence.scan import Scanned
from review.evidence.spelled import NumberWords
from review.evidence.violations import Evidence
from review.evidence.words.lexicon import Lexicon
from review.evidence.words.printed import printed_wrong, ratio_holds
from review.evidence.words.sentences import Sentence, sentences
from review.evidence.words.verdicts import Refused, contradicted

__all__ = ["Refused", "WordsRead", "read_words"]


class WordsRead(NamedTuple):
    """What the words of one text claim wrongly, in reading order, and the ratios in words that no two values support.
    """

    refused: tuple[Refused, ...]
    ratios: tuple[NumberWords, ...]


def read_words(texts: Sequence[tuple[Scanned, Sequence[NumberWords]]], evidence: Evidence) -> list[WordsRead]:
    """The words of each text, which comes with the ratios in words that stand in it."""
    lexicon = Lexicon(evidence)
    return [_read(list(sentences(scanned, lexicon)), ratios, evidence, lexicon) for scanned, ratios in texts]


def _read(read: Sequence[Sentence], ratios: Sequence[NumberWords], evidence: Evidence, lexicon: Lexicon) -> WordsRead:
    found = [*contradicted(read, evidence, lexicon),
             *(one for sentence in read for one in printed_wrong(sentence, evidence, lexicon))]
    by_place = {one.at: one for one in sorted(found, key=lambda one: one.at, reverse=True)}
    return WordsRead(tuple(by_place.values()), tuple(_unsupported(ratios, read, evidence)))


def _unsupported(ratios: Sequence[NumberWords], read: Sequence[Sentence], evidence: Evidence) -> Iterator[NumberWords]:
    for ratio in ratios:
        if not any(ratio_holds(ratio.words, one, evidence) for one in read
                   if one.start <= ratio.at < one.start + len(one.text)):
            yield ratio
