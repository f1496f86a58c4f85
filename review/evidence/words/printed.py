"""Printed values against the words around them: "rises from a to b", "twice", "the best", a key of another thing.

Means decide, as the ledger has them, not the digits that are printed. What it does not guarantee: that a key is the
right one where the sentence names nothing, or names several things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from record.nouns.data import arm_of, level_of
from review.evidence.violations import Evidence, Value
from review.evidence.words.grammar import NOT_TEST
from review.evidence.words.lexicon import Lexicon, Sort
from review.evidence.words.sentences import Key, Sentence
from review.evidence.words.verdicts import Refused

_MOVES = {
    "up": r"\b(?:ris(?:es?|ing|en)|rose|increas(?:es?|ed|ing)|rais(?:es?|ed|ing)|grow(?:s|n)?|grew|climb(?:s|ed)?)\b",
    "down": r"\b(?:fall(?:s|en|ing)?|fell|drop(?:s|ped|ping)?|reduc(?:es?|ed|ing)|lower(?:s|ed|ing)|"
            r"decreas(?:es?|ed|ing)|declin(?:es?|ed|ing)|shrinks?|shrank|cuts?)\b",
    "good": r"\bimprov(?:es?|ed|ing)\b", "bad": r"\b(?:worsen|degrad|deteriorat)\w*\b"}
_THAN = {
    "up": r"\b(?:higher|larger|greater|exceed(?:s|ed|ing)?|above)\b", "down": r"\b(?:lower|smaller|below)\b",
    "good": r"\bbetter\b", "bad": r"\bworse\b"}
_SPLIT = re.compile(r"\b(?:than|against|compared\s+(?:with|to)|relative\s+to|versus|vs|above|below|exceed\w*)")
_RATIOS = ((r"\b(?:twice|doubl\w+|twofold|two-fold)\b", 2.0), (r"\b(?:half|halv\w+)\b", 0.5),
           (r"\b(?:thrice|tripl\w+|threefold|three-fold)\b", 3.0))
_BEST = re.compile(r"\b(?P<word>best|highest|lowest|smallest|largest)\b")
_APART = re.compile(r"\b(?:against|than|versus|compared|relative|former|latter|other|respectively|both|each|all|from|"
                    r"without|whole|beside|instead|alone|difference|minus)\b")


def printed_wrong(sentence: Sentence, evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """What a sentence says of the values that it prints, and the record does not."""
    if sentence.asks:
        return
    yield from _moves(sentence, evidence, lexicon)
    yield from _compared(sentence, evidence, lexicon)
    yield from _signs(sentence, evidence)
    yield from _best(sentence, evidence, lexicon)
    yield from _misplaced(sentence, lexicon)


def ratio_holds(words: str, sentence: Sentence, evidence: Evidence) -> bool:
    """Whether a ratio in words ("twice", "halves") is that of two values of its sentence, within their intervals."""
    factor = next((value for pattern, value in _RATIOS if re.search(pattern, words.lower())), None)
    means = [value for key in sentence.keys if not key.other and (value := evidence.values.get(key.family))]
    if factor is None or len(means) != 2:
        return False
    first, second = means
    if re.search(r"\bfrom\b", sentence.text):
        first, second = second, first
    low, high = _ratio(first, second)
    return low <= factor <= high


def _ratio(one: Value, other: Value) -> tuple[float, float]:
    """The range of one / other over both intervals; empty where an interval is missing or reaches zero."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return (1.0, 0.0)
    return (one.low / other.high, one.high / other.low) if one.low > 0 and other.low > 0 else (1.0, 0.0)


# --- order ----------------------------------------------------------------------------------------------------------


def _moves(sentence: Sentence, evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """ "falls from a to b", "rises to b from a"."""
    for first, second in pairwise(sentence.keys):
        before = sentence.text[:first.at - sentence.start].rstrip()
        between = sentence.text[first.at - sentence.start:second.at - sentence.start]
        if re.search(r"\bfrom(?:\s+\w+){0,2}$", before) and re.search(r"\bto\b", between):
            start, end = first, second
        elif re.search(r"\bto(?:\s+\w+){0,2}$", before) and re.search(r"\bfrom\b", between):
            start, end = second, first
        else:
            continue
        for effect, pattern in _MOVES.items():
            found = [*re.finditer(pattern, before)][-1:]
            if found and not _order(end, start, effect, evidence, lexicon):
                yield _wrong_order(found[0], sentence, end, start)


def _compared(sentence: Sentence, evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """ "a, lower than b"; "lower, a against b"; "compared with b, the lower a"."""
    means = [key for key in sentence.keys if not key.other and key.form in (".mean", ".pm")]
    if len(means) != 2 or means[0].metric != means[1].metric:
        return
    for effect, pattern in _THAN.items():
        for found in re.finditer(pattern, sentence.text):
            splits = [one.start() + sentence.start for one in _SPLIT.finditer(sentence.text)]
            split = next((at for at in splits if any(key.at > at for key in means)), None)
            if split is None or re.search(r"\b(?:not|no|never|neither)\b", sentence.text[:found.start()][-25:]):
                continue
            ends = [key for key in means if key.at > split]
            subject, other = (means[0], means[1]) if len(ends) == 1 else (ends[1], ends[0])
            if not _metric_said(found, sentence) or not _both_sides(subject, found, sentence, split):
                continue
            if not _order(subject, other, effect, evidence, lexicon):
                yield _wrong_order(found, sentence, subject, other)


def _both_sides(subject: Key, found: re.Match[str], sentence: Sentence, split: int) -> bool:
    """Whether the compared value stands in the clause of the word: no semicolon lies between."""
    at = found.start() + sentence.start
    ends = sorted((at, subject.at, split))
    return ";" not in sentence.text[ends[0] - sentence.start:ends[-1] - sentence.start]


def _metric_said(found: re.Match[str], sentence: Sentence) -> bool:
    """Whether the word is not said of a rate or the like: "a higher noise rate"."""
    rest = sentence.text[found.end():found.end() + 40]
    level = any(one.sort == "level" and 0 <= one.at - sentence.start - found.end() <= 2 for one in sentence.mentions)
    return not level and not re.match(r"\s+(?:\w+\s+)?(?:rates?|levels?|ratios?|noise|weights?|bound|part|end|layer)\b",
                                      rest)


def _order(one: Key, other: Key, effect: str, evidence: Evidence, lexicon: Lexicon) -> bool:
    """Whether the first value is above (below, better, worse than) the second; True where the ledger cannot tell."""
    a, b = evidence.values.get(one.family), evidence.values.get(other.family)
    if a is None or b is None or one.metric != other.metric or one.other or other.other:
        return True
    higher = lexicon.higher_is_better(one.metric)
    if effect in ("good", "bad"):
        if higher is None:
            return True
        effect = "up" if (effect == "good") == higher else "down"
    return a.mean > b.mean if effect == "up" else a.mean < b.mean


def _wrong_order(found: re.Match[str], sentence: Sentence, one: Key, other: Key) -> Refused:
    return Refused(found.start() + sentence.start, found[0],
                   f"the mean of {one.family} is not so against that of {other.family}: turn the word round, "
                   "or the keys")


def _signs(sentence: Sentence, evidence: Evidence) -> Iterator[Refused]:
    """ "the interval excludes zero", "the difference is negative", of one difference."""
    families = {key.family for key in sentence.keys if key.other}
    value = evidence.values.get(next(iter(families))) if len(families) == 1 else None
    if value is None or value.low is None or value.high is None:
        return
    apart = value.low > 0 or value.high < 0
    for pattern, holds in (
            (r"exclud\w*\s+zero", apart), (r"(?:includ|contain|cover)\w*\s+zero", not apart),
            (r"\b(?:is|was|are)\s+negative", value.mean < 0), (r"\b(?:is|was|are)\s+positive", value.mean > 0)):
        found = re.search(pattern, sentence.text)
        if found and not holds and not re.search(r"\bnot\s*$", sentence.text[:found.start()]):
            yield Refused(found.start() + sentence.start, found[0],
                          f"{next(iter(families))} is {value.mean:.4g} with the interval "
                          f"[{value.low:.4g}, {value.high:.4g}]: say what it shows")


# --- the best -------------------------------------------------------------------------------------------------------


def _best(sentence: Sentence, evidence: Evidence, lexicon: Lexicon) -> Iterator[Refused]:
    """ "the best accuracy", "the lowest log loss": of one arm or value, among all arms at the same place."""
    for found in _BEST.finditer(sentence.text):
        at = found.start() + sentence.start
        metric = next((one for one in sentence.mentions if one.sort == "metric" and at < one.at
                       and len(sentence.text[found.end():one.at - sentence.start].split()) <= 2), None)
        denied = re.search(r"\b(?:not|no|never)\b", sentence.text[:found.start()])
        if metric is None or denied or NOT_TEST.search(sentence.text):
            continue
        keyed = [key for key in sentence.keys if key.metric == metric.names[0] and not key.other]
        arms = [one for one in sentence.mentions if one.sort == "arm" and (one.exact or one.at < at)]
        alone = len({one.names for one in arms}) == 1
        named = [arms[0].names[0]] if alone else [arm_of(key.condition) for key in keyed]
        beaten = [_beaten(sentence, evidence, lexicon, (arm, metric.names[0], found["word"])) for arm in named]
        if beaten and all(beaten):
            yield Refused(at, found[0], f"{beaten[0]} has the better mean there: name it, or leave the word out")


def _beaten(sentence: Sentence, evidence: Evidence, lexicon: Lexicon, what: tuple[str, str, str]) -> str:
    """A claim at a named place whose mean is beyond that of the arm; empty where the arm is the best."""
    arm, metric, word = what
    highest = {"highest": True, "largest": True, "lowest": False, "smallest": False}.get(
        word, lexicon.higher_is_better(metric) is not False)
    datasets = {name for one in sentence.mentions if one.sort == "dataset" for name in one.names} or {
        key.dataset for key in sentence.keys} or set(lexicon.datasets)
    levels = {name for one in sentence.mentions if one.sort == "level" for name in one.names} or {
        level_of(key.condition) for key in sentence.keys} or set(lexicon.levels or ("",))
    for key, value in evidence.values.items():
        split, dataset, name, condition = [*key.split("/"), "", "", "", ""][:4]
        if split == "diff" or name != metric or dataset not in datasets or level_of(condition) not in levels:
            continue
        level = level_of(condition)
        own = evidence.values.get(f"{split}/{dataset}/{name}/{arm}" + (f"@{level}" if level else ""))
        if own is not None and (value.mean > own.mean if highest else value.mean < own.mean):
            return key
    return ""


# --- a key of another thing -----------------------------------------------------------------------------------------


def _misplaced(sentence: Sentence, lexicon: Lexicon) -> Iterator[Refused]:
    """Keys of another dataset, metric, arm or level than the only one that the sentence names."""
    for key in sentence.keys:
        for sort, name in _parts(key):
            if wanted := _only_other(sentence, sort, name, key, lexicon):
                yield Refused(key.at, f"\\result{{{key.key}}}",
                              f"the sentence speaks of the {sort} {wanted!r}, this is a value of {name!r}: take the "
                              "key of what is named, or name what is printed")
                break


def _parts(key: Key) -> Iterator[tuple[Sort, str]]:
    yield "dataset", key.dataset
    yield "metric", key.metric
    if key.other:
        return
    yield "arm", arm_of(key.condition)
    if level := level_of(key.condition):
        yield "level", level


def _only_other(sentence: Sentence, sort: Sort, name: str, key: Key, lexicon: Lexicon) -> str:
    """The one thing of its sort that the sentence names, if the key is of another; else empty."""
    named = [one for one in sentence.mentions if one.sort == sort or (sort == "arm" and one.sort == "part")]
    names = {one.names for one in named}
    if len(names) != 1 or not all(one.exact for one in named) or name in named[0].names:
        return ""
    keys = [one for one in sentence.keys if not one.other]
    if sort in ("arm", "level"):
        own = {arm_of(one.condition) if sort == "arm" else level_of(one.condition) for one in keys}
        if len(own) != 1 or _APART.search(sentence.text) or (sort == "arm" and lexicon.roles.get(name) == "ablation"
                                                            and named[0].sort != "arm"):
            return ""
    elif len({one.dataset if sort == "dataset" else one.metric for one in keys}) > 1 and key is not keys[0]:
        return ""
    return named[0].names[0]

