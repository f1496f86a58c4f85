"""Claims against the ledger: what contradicts a sentence, and what may be written in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from models.roles.writing import Comparison
from record.nouns.data import arm_of
from review.evidence.violations import Evidence
from review.evidence.words.grammar import Said, said
from review.evidence.words.lexicon import Lexicon
from review.evidence.words.meant import Context, Meanings, Reading, ablations_in, unnamed_change
from review.evidence.words.sentences import Sentence

_ARMS = re.compile(r"\b(?:arms?|conditions?|variants?|both|it|they|neither|remedy)\b")
_TREND = re.compile(r"\b(?:with|along|as)\s+(?:the\s+|more\s+|growing\s+|increasing\s+|higher\s+)*"
                    r"(?:noise|rates?|levels?|ratios?|complexity|epochs?|training|imbalance|time)\b")

_GENERIC = re.compile(r"(?!(?:it|this|that|these|those|they|we|i|our|the|there|here|both|all|neither|no|an?|its|which|"
                      r"who|such|each|every|on|at|in|with|without|under|for|but|and|so|then|moreover|thus|hence)\b)"
                      r"(?:(?:over|under)fitting\b|(?!\w+ing\b)\w+\b)")
"""The subject of a general statement: bare, and no change that somebody makes."""
_PRESENT = re.compile(r"^(?:hurts?|harms?|helps?|improves?|degrades?|worsens?|deteriorates?|benefits?|lowers?|raises?|"
                      r"reduces?|increases?|decreases?)$")


@dataclass(frozen=True)
class Refused:
    """A claim that the ledger contradicts: where, the words, and why with what may be written."""

    at: int
    words: str
    why: str


def contradicted(found: Iterable[Sentence], evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """The claims of sentences, in order, that no reading supports."""
    meanings = Meanings(evidence, lexicon)
    for _, several in groupby(found, key=lambda one: one.paragraph):
        paragraph = list(several)
        context = Context(ablated=ablations_in(paragraph, lexicon))
        for sentence in paragraph:
            yield from _sentence(sentence, context, meanings)


def _sentence(sentence: Sentence, context: Context, meanings: Meanings) -> Iterator[Refused]:
    done, context.changed, context.used = sentence.start, False, set()
    for one in said(sentence):
        context.take(sentence.within(done, one.stretch.start))
        if why := _why(one, context, meanings):
            yield Refused(one.at, " ".join(one.words.split()), why)
        context.take(one.stretch)
        done = one.stretch.start + len(one.stretch.text)
    context.take(sentence.within(done, sentence.start + len(sentence.text)))


def _why(one: Said, context: Context, meanings: Meanings) -> str:
    """Why a claim may not stand; empty where it may."""
    evidence = meanings.evidence
    if not _speaks_of_arms(one, context, meanings.lexicon):
        if not one.sure or one.denied or any(map(called, evidence.comparisons)):
            return ""
        return "no comparison has the verdict 'improved'; say what was measured, or that no difference was measurable"
    readings = meanings.readings(one, context)
    tried = [(reading, _against(one, reading, meanings.lexicon)) for reading in readings]
    stands = next((reading for reading, against in tried if against == ()), None)
    if readings and not one.some:
        context.used |= set((stands or readings[0]).cells)
    if stands is not None:
        return ""
    known = [(reading, against) for reading, against in tried if against]
    if not known:
        return ("the ledger has no comparison of these arms there, so nothing may be claimed of them: say what was "
                "measured, with its keys")
    return _explained(known[0][1] or ())


def _speaks_of_arms(one: Said, context: Context, lexicon: Lexicon) -> bool:
    """Whether a claim is one about arms at all, and not about networks in general or a trend over levels."""
    stretch = one.stretch
    if _general(one):
        return False
    sorts = {mention.sort for mention in stretch.mentions}
    if one.effect in ("up", "down") and not one.sure and _trend(one, lexicon):
        return False
    named = bool(sorts & {"arm", "part"}) or (bool(context.arms) and bool(_ARMS.search(stretch.text)))
    placed = bool(sorts & {"dataset", "level"}) or bool(stretch.keys) or bool(context.used)
    if one.denied:
        return named or ("metric" in sorts and placed)
    if one.sure or one.effect in ("same", "some", "bad", "good"):
        return named or "metric" in sorts or placed
    return named or ("metric" in sorts and placed and bool(context.arms))


def _general(one: Said) -> bool:
    """Whether a claim is one about the world, "overfitting hurts calibration": no arm, place or value is named."""
    stretch = one.stretch
    subject = stretch.text[:one.at - stretch.start].strip()
    alone = all(mention.sort == "metric" and mention.at > one.at for mention in stretch.mentions)
    return bool(stretch.start == one.sentence.start and alone and not stretch.keys and _GENERIC.match(subject)
                and _PRESENT.search(one.words) and not unnamed_change(stretch, len(stretch.text)))


def _trend(one: Said, lexicon: Lexicon) -> bool:
    arms = {mention.names for mention in one.stretch.mentions if mention.sort in ("arm", "part")}
    alone = len(arms) == 1 and all(lexicon.roles.get(name) == "baseline" for names in arms for name in names)
    verb = bool(re.match(r"ris|rose|fall|fell|grow|grew|increas|drop|declin|decreas|climb", one.words))
    levels = {key.condition.partition("@")[2] for key in one.stretch.keys}
    return bool(_TREND.search(one.stretch.text)) or (alone and verb) or (len(arms) == 1 and len(levels) > 1)


def called(one: Comparison) -> bool:
    """Whether the ledger says that the two differ."""
    return one.verdict not in ("no measurable difference", "unknown")


def _against(one: Said, reading: Reading, lexicon: Lexicon) -> tuple[Comparison, ...] | None:
    """The comparisons of a reading that contradict a claim; None where it has none to stand on, and needs some."""
    if not reading.found:
        return None if one.sure or (reading.exact and one.effect in ("good", "bad") and not one.means) else ()
    wrong = tuple(found for found in reading.found if not _holds(one, found, reading.subject, lexicon))
    if one.some and not one.denied and len(wrong) < len(reading.found):
        return ()
    return wrong


def _holds(one: Said, found: Comparison, subject: str, lexicon: Lexicon) -> bool:
    """Whether a comparison is as the claim says."""
    if one.effect == "same":
        if one.denied:
            return called(found)
        return found.verdict == "no measurable difference" or (one.soft and found.verdict == "unknown")
    if one.effect == "some":
        return called(found)
    better = one.effect == "good" if one.effect in ("good", "bad") else (
        (one.effect == "up") == lexicon.higher_is_better(found.metric))
    leads = arm_of(found.better) == subject
    if one.denied:
        return not (called(found) and leads == better)
    return leads == better and (one.means or called(found))


def _explained(wrong: tuple[Comparison, ...]) -> str:
    """What the ledger says of the first of the comparisons, and what may be written of it."""
    one = wrong[0]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    where = f"{one.metric} on {one.dataset}, {one.subject} against {one.partner}, n = {one.n}{more}"
    may = {"no measurable difference": "write that no difference is measurable there",
           "unknown": "write that the replicates leave it open there"}
    allowed = may.get(one.verdict, f"write that {one.better} is better there")
    return f"the ledger says {one.verdict!r} of {where}: {allowed}, or name the comparison that is meant"
