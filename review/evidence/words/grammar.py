"""What a sentence claims of a comparison: the words that claim it, their direction, denials and hedges.

It reads English by patterns. A sentence is cut between its claims, at the strongest mark that stands there (a
semicolon, "but", "while", ", and"). What it does not guarantee: that a claim without any of the words is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from review.evidence.words.lexicon import Mention
from review.evidence.words.sentences import CITED, Sentence

Effect = Literal["good", "bad", "up", "down", "same", "some", "open"]
"""Of the subject: better, worse; a metric that is higher, lower; no difference; a difference without a direction; that
nothing can be said, which is no claim."""

_PATTERNS: dict[str, str] = {
    "open": (
        r"(?:do(?:es)?|did)\s+not\s+(?:allow|permit)\s+(?:a|any)\s+(?:statement|conclusion)|leave(?:s)?\s+(?:\S+\s+){1,4}open"
        r"|remains?\s+open|stays?\s+open|(?:is|are)\s+(?:unknown|undecided|inconclusive)|(?:cannot|could\s+not)\s+be\s+"
        r"(?:said|decided|confirmed|called)"),
    "same": (
        r"no\s+(?:\w+\s+){0,3}?(?:difference|effect|change|influence|impact)s?|no\s+different"
        r"|(?:does|do|did)\s+not\s+(?:\w+\s+)?(?:differ|change|matter|affect|influence)|unchanged|unaffected"
        r"|not\s+(?:\w+\s+)?affected|comparable|on\s+(?:a\s+)?par\b|indistinguishable|equally\s+(?:well|good|accurate)"
        r"|(?:are|is|was|were|remains?|stays?)\s+(?:equal|identical|the\s+same)|as\s+good\s+as|perform\w*\s+the\s+same"
        r"|(?:cannot|could\s+not|can\s+not)\s+be\s+(?:told\s+apart|distinguished)"),
    "some": (
        r"(?:significant|measurable|real|clear|substantial)\s+(?:\w+\s+)?(?:difference|effect|change|influence|impact)s?"
        r"|differ(?:s|ed)?\s+(?:significantly|measurably|clearly)|(?:significantly|measurably)\s+different|significant(?:ly)?"),
    "good": (
        r"(?:un)?improv(?:es?|ed|ing|ements?)|outperform(?:s|ed|ing)?|beat(?:s|en|ing)?|surpass(?:es|ed|ing)?"
        r"|outscor(?:es?|ed)|superior(?:ity)?|better|help(?:s|ed|ful)?|benefit(?:s|ed)?|gain(?:s|ed)?"
        r"|more\s+accurate(?:ly)?|wins?|mend(?:s|ed)|repair(?:s|ed)"),
    "bad": (
        r"worse|worsen(?:s|ed|ing)?|inferior|underperform(?:s|ed|ing)?|harm(?:s|ed|ful)?|hurt(?:s|ing)?"
        r"|degrad(?:es?|ed|ing|ation)|deteriorat(?:es?|ed|ing|ion)|less\s+accurate(?:ly)?|trail(?:s|ed)|loses\s+to"),
    "up": (
        r"higher|increas(?:es?|ed|ing)|rais(?:es?|ed|ing)|ris(?:es?|en|ing)|rose|larger|greater|exceed(?:s|ed|ing)?"
        r"|grow(?:s|n)?|grew|climb(?:s|ed)?"),
    "down": (
        r"lower(?:s|ed|ing)?|reduc(?:es?|ed|ing|tions?)|decreas(?:es?|ed|ing)|fall(?:s|en|ing)?|fell|drop(?:s|ped)?"
        r"|smaller|declin(?:es?|ed)|shrinks?|shrank|cuts?"),
}
CLAIM = re.compile("|".join(rf"(?P<{name}>\b(?:{pattern})(?!\w))" for name, pattern in _PATTERNS.items()))
_ELLIPSIS = re.compile(r"\b(?:none|not)\b(?=\s+(?:on|in|at|for|under|without|with|of|elsewhere|there|\d))")
_SURE = re.compile(r"\b(?:improv|outperform|superior|significant)")
_ALIKE = re.compile(r"\b(?:equal|identical|same|unchanged|unaffected|affected|comparable|change)\b")
"""Words that are said of budgets and seeds, too: they claim something where a metric stands in the sentence."""

_ADVERB = re.compile(r"\b(?:significantly|significant|substantially|clearly|measurably)\s*$")

_DEFINES = re.compile(r"\b(?:we\s+(?:define|denote|call|write)|is\s+(?:defined|called)|denotes?|let)\b")
_NOUN = re.compile(r"\b(?:the|an?|its|this|excess)\s+(?:excess\s+)?$")
"""What makes a "drop" the name of a quantity, in a sentence that defines one."""

_DENIAL = re.compile(
    r"\b(?:not|no|never|neither|nor|none|cannot|hardly|nowhere|nothing|fails?\s+to|failed\s+to|"
    r"without\s+(?=\w+ing\b))\b(?!\s+(?:only|just|merely))")
_OPEN = re.compile(
    r"\b(?:whether|if|may|might|can|could(?!\s+not\s+be)|would|should|hypothes\w+|expect\w*|asks?|asked|question|unless|"
    r"conjectur\w*|assum\w+|aims?|intended|designed|meant\s+to|hop\w+|claims?|claimed|believe[ds]?|known\s+to|"
    r"in\s+order\s+to|to\s+see)\b")
_FOUND = re.compile(r"\b(?:indeed|we\s+(?:find|found|see|saw|observed?|show)|results?\s+(?:show|suggest|indicate))\b")
_LEFT = re.compile(
    r"\b(?:open\b|do(?:es)?\s+not\s+allow|not\s+(?:be\s+)?confirm\w*|unknown|no\s+test\s+is\s+attached|"
    r"cannot\s+be\s+(?:said|called)|undecided|inconclusive|too\s+few)")
_UNCONFIRMED = re.compile(r"\bnot\s+(?:be\s+)?(?:confirm\w*|support\w*|shown)\b|\bopen\b")
_MEANS = re.compile(r"\b(?:means?|on\s+average|numerically|nominally)\b")
NOT_TEST = re.compile(r"\b(?:development|dev|validation|training)\s+(?:part|set|data|split|loss|accuracy|curves?|"
                        r"scores?|labels\s+loss|images)\b|\bearly\s+stopping\b")
_ANY = re.compile(r"\b(?:some|somewhere|partly|in\s+part|sometimes|in\s+(?:the\s+)?others|in\s+places|one\s+of|several|"
                  r"others\b)")
_OURS = re.compile(r"\b(?:we|our|ours|here)\b|\u00a4")
_DIVIDERS = (
    re.compile(r";|:"),
    re.compile(r",?\s*\b(?:but|while|whereas|although|though|however|yet|because|since|so\s+that|even\s+if)\b"),
    re.compile(r",\s*(?:and|or|which|with|it|on|at)\b"), re.compile(r","), re.compile(r"\s\band\b"))


@dataclass(frozen=True)
class Said:
    """One claim: the words, and the stretch of its sentence that says of what."""

    words: str
    at: int
    end: int
    effect: Effect
    stretch: Sentence
    sentence: Sentence
    denied: bool = False
    sure: bool = False
    """Whether the words are ones that only a verdict carries, whatever stands around them."""
    means: bool = False
    """Whether it says itself that it is about means."""
    soft: bool = False
    """No difference: whether it only says that none could be measured."""
    some: bool = False
    """Whether it speaks of some comparisons only."""


def said(sentence: Sentence) -> list[Said]:
    """The claims of a sentence that it makes itself: no questions, no hypotheses, nothing handed to a cited work."""
    if sentence.asks or (CITED in sentence.text and not _OURS.search(sentence.text)):
        return []
    found = list(_found(sentence))
    cuts = [sentence.start, *(_between(sentence, one, other) for one, other in pairwise(found)),
            sentence.start + len(sentence.text)]
    claims: list[Said] = []
    for k, one in enumerate(found):
        stretch = sentence.within(cuts[k], cuts[k + 1])
        if made := _claim(replace(one, stretch=stretch), claims):
            claims.append(made)
    return claims


def _found(sentence: Sentence) -> Iterator[Said]:
    """The words that claim something, those next to each other as one; names are passed over."""
    text = _hidden(sentence)
    last: Said | None = None
    matches = [(one.start(), one.end(), one.lastgroup or "") for one in CLAIM.finditer(text)]
    matches += [(one.start(), one.end(), "again") for one in _ELLIPSIS.finditer(text)
                if not any(at <= one.start() < end for at, end, _ in matches)]
    for at, end, name in sorted(matches):
        at, end = at + sentence.start, end + sentence.start
        one = Said(sentence.text[at - sentence.start:end - sentence.start], at, end,
                   "same" if name == "again" else name, sentence, sentence,  # pyright: ignore[reportArgumentType]
                   sure=name != "again" and bool(_SURE.search(text[at - sentence.start:end - sentence.start])))
        if _DEFINES.search(text) and _NOUN.search(text[:at - sentence.start]):
            continue
        if (name in ("up", "down") and not _metric_near(one, sentence)) or (
                _ALIKE.search(one.words) and not any(mention.sort == "metric" for mention in sentence.mentions)):
            continue
        if last is not None and (joined := _joined(last, one, sentence)):
            last = joined
            continue
        if last is not None:
            yield last
        last = replace(one, words="=" + one.words) if name == "again" else one
    if last is not None:
        yield last


def _hidden(sentence: Sentence) -> str:
    text = list(sentence.text)
    for one in sentence.mentions:
        text[one.at - sentence.start:one.end - sentence.start] = "\x03" * (one.end - one.at)
    return "".join(text)


def _joined(last: Said, one: Said, sentence: Sentence) -> Said | None:
    """Two claims without a mark between them as one: "no improvement", "lower and better"."""
    gap = sentence.text[last.end - sentence.start:one.at - sentence.start]
    if any(divider.search(gap) for divider in _DIVIDERS) or one.words.startswith("=") or len(gap.split()) > 9:
        return None
    if "open" in (last.effect, one.effect):
        return None
    if one.effect == "same" or last.effect == "some":
        return replace(last, effect=one.effect, sure=last.sure or one.sure, end=one.end)
    return replace(last, sure=last.sure or one.sure)


def _metric_near(one: Said, sentence: Sentence) -> bool:
    """Whether "higher" or "lower" is said of a metric, and not of a noise rate or a learning rate."""
    metrics = [mention for mention in sentence.mentions if mention.sort == "metric"]
    after = [mention for mention in metrics
             if mention.at >= one.end and len(_gap(sentence, one.end, mention.at).split()) <= 4
             and not re.search(r"[,;:]|\b(?:of|in|than|the\s+same)\b", _gap(sentence, one.end, mention.at))]
    if after:
        return True
    rest = _gap(sentence, one.end, sentence.start + len(sentence.text)).lstrip()
    alone = re.match(r"[,.;:)\u00a4]|$|(?:than|on|with|at|in|for|by|and|when|under|from|to|without|there|that|those|"
                     r"too|as|if|here|but|while)\b", rest)
    verb = not re.fullmatch(r"higher|larger|greater|lower|smaller", one.words)
    return bool(alone or verb) and any(
        mention.end <= one.at and ";" not in _gap(sentence, mention.end, one.at)
        and len(_gap(sentence, mention.end, one.at).split()) <= 14 for mention in metrics)


def _gap(sentence: Sentence, at: int, end: int) -> str:
    return sentence.text[at - sentence.start:end - sentence.start]


def _between(sentence: Sentence, one: Said, other: Said) -> int:
    """Where the sentence is cut between two claims: at the last of the strongest marks."""
    gap = _gap(sentence, one.end, other.at)
    for divider in _DIVIDERS:
        if matches := list(divider.finditer(gap)):
            return one.end + matches[-1].start()
    return one.end if one.effect == "open" else other.at


def _claim(one: Said, before: list[Said]) -> Said | None:
    stretch, text = one.stretch, one.stretch.text
    ahead = text[:one.at - stretch.start]
    if one.effect == "open":
        return None
    if _left_open(one, ahead) or NOT_TEST.search(text):
        return None
    some = bool(_ANY.search(text))
    if one.words.startswith("="):
        if not before:
            return None
        last, words = before[-1], one.words.removeprefix("=")
        same = last.effect == "same" and not last.denied
        return replace(last, words=words, at=one.at, end=one.end, stretch=stretch, some=some,
                       denied=False if same else not last.denied)
    denied = one.effect != "same" and bool(_DENIAL.search(" ".join(ahead.split()[-9:])))
    soft = one.effect == "same" and bool(re.search(r"cannot|could|significant|not\s+(?:measurably|significantly)|"
                                                   r"indistinguishable", text))
    if one.effect == "some" and denied:
        return replace(one, effect="same", soft=True, some=some)
    hedged = bool(_MEANS.search(one.sentence.text)) or bool(_LEFT.search(one.sentence.text))
    return replace(one, denied=denied, soft=soft, some=some, means=hedged and not one.sure,
                   sure=one.sure or bool(_ADVERB.search(ahead)))


def _left_open(one: Said, ahead: str) -> bool:
    """Whether the claim is asked, expected, or said to be open."""
    found = list(_OPEN.finditer(ahead))
    if found and not _FOUND.search(ahead, found[-1].end()) and len(ahead[found[-1].end():].split()) <= 14:
        return True
    if _LEFT.search(one.stretch.text) and one.effect in ("same", "some"):
        return True
    return bool(_UNCONFIRMED.search(one.stretch.text, len(ahead)))


def metric_of(one: Said) -> Mention | None:
    """The metric that the claim is about: the nearest after its words, else the nearest before."""
    metrics = [mention for mention in one.stretch.mentions if mention.sort == "metric"]
    after = [mention for mention in metrics if mention.at >= one.at]
    return after[0] if after and (len(metrics) == len(after) or _close(one, after[0])) else (
        metrics[-1] if metrics else None)


def _close(one: Said, mention: Mention) -> bool:
    return len(_gap(one.stretch, one.end, mention.at).split()) <= 4
