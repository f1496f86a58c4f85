"""Which comparisons of the ledger a claim may be about: one set a reading, since a sentence leaves things out.

What is named in the claim's own stretch counts first, then what its sentence named before, then the paragraph; what
nothing names may be all that there is. A claim stands if one of its readings supports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from models.roles.writing import Comparison
from record.nouns.data import arm_of, level_of
from review.evidence.violations import Evidence
from review.evidence.words.grammar import Said, metric_of
from review.evidence.words.lexicon import WITHOUT, Lexicon, Mention, Sort
from review.evidence.words.sentences import Sentence

Names = tuple[str, ...]
Pair = tuple[str, str]
"""The arm that is spoken of, and the one it is compared with."""

_TOWARDS = re.compile(
    r"\b(?:than|over|against|versus|vs|beyond|upon|relative\s+to|compared\s+(?:with|to)|in\s+comparison\s+(?:with|to)|"
    r"instead\s+of|replac\w+|improv\w+\s+on|(?:outperform|beat|surpass|exceed|outscore|trail|underperform)(?:s|ing)?|"
    r"lo(?:ses|st)\s+to)\s+(?:(?!by\b|and\b)[\w\u00a4-]+\s+){0,4}$")
_BY = re.compile(r"\b(?:outperformed|beaten|surpassed|exceeded|outscored)\s+by\s+(?:\w+\s+){0,2}$")
_EVERYWHERE = re.compile(r"\b(?:consistently|always|throughout|everywhere|reliably|without\s+exception|"
                         r"(?:all|every|each|any|no)\s+(?:\w+\s+)?(?:comparisons?|cases?|settings?|conditions?))\b")
_CHANGE = re.compile(
    r"\b(?:(?:leav|remov|dropp?|omitt?|tak|ablat|fitt?|stopp?|narrow|widen|replac|putt?|hold|sparr?|penali[sz]|compar|"
    r"chang|switch|turn|shorten|transform|spend|fix|draw|choos|sett?|add|us)ing|heavier|lighter|stronger|weaker|"
    r"more\s+strongly|alone|instead)\b(?!\s+(?:it|this|that)\s+open)")
_PARTICIPLE = re.compile(r"\b(?:fitted|removed|dropped|replaced|omitted|narrowed|stopped|left\s+out)\b")
"""Words for a change to the method that has a name of its own in the ledger: an ablation, which one is not said."""

_REST = re.compile(r"\b(?:elsewhere|otherwise|in\s+(?:the\s+)?others?|others\b|the\s+(?:remaining|rest|other))\b")
_SAME = re.compile(r"\b(?:same|this|that)\s+(?:data\s*set|data|set|task)\b")
_ALL_DATA = re.compile(
    r"\b(?:both|all|every|each|across|any|no|either|neither)\s+(?:\w+\s+){0,2}(?:data\s*sets?|data|tasks?)\b")
_ALL_LEVELS = re.compile(
    r"\b(?:all|every|each|any|both)\s+(?:\w+\s+){0,2}(?:rates?|levels?|ratios?|sizes?|strengths?)\b"
    r"|\band\s+(?:\w+\s+)?(?:rates|levels|ratios)\b|\bat\s+every\b")

_TOP_OR_BOTTOM = re.compile(r"\bthe\s+(?:(?P<top>larger|higher|stronger|upper)|smaller|lower|weaker)\s+(?:\w+\s+)?"
                            r"(?:amplitudes|rates|levels|ratios|sizes|strengths)\b")


@dataclass
class Context:
    """What a paragraph, or the sentence so far, has named."""

    arms: Names = ()
    metrics: Names = ()
    datasets: Names = ()
    levels: Names = ()
    ablated: set[str] = field(default_factory=set[str])
    """Ablations whose values stand in the paragraph."""
    used: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Datasets and levels of the claims before it in its sentence: what "elsewhere" leaves out."""
    changed: bool = False
    """Whether the last subject was a change to the method that no name was found for."""

    def take(self, sentence: Sentence) -> None:
        """Remember what a sentence names."""
        self.metrics = _named(sentence, "metric") or self.metrics
        self.datasets = _named(sentence, "dataset") or tuple(
            dict.fromkeys(one.dataset for one in sentence.keys)) or self.datasets
        self.levels = _named(sentence, "level") or self.levels
        first = next(iter(_arms(sentence)), None)
        if unnamed_change(sentence, len(sentence.text)):
            self.arms, self.changed = (), True
        elif first is not None and first.sort == "arm":
            self.arms, self.changed = first.names, _without(sentence)


@dataclass(frozen=True)
class Reading:
    """A way to understand a claim: whom it speaks of, and the comparisons it stands on."""

    subject: str
    found: tuple[Comparison, ...]
    cells: tuple[tuple[str, str], ...]
    exact: bool
    """Whether the sentence named both arms."""


class Meanings:
    """The readings of claims in a study."""

    def __init__(self, evidence: Evidence, lexicon: Lexicon) -> None:
        self.evidence, self.lexicon = evidence, lexicon

    @cached_property
    def _ledger(self) -> dict[tuple[str, str, frozenset[str], str], Comparison]:
        return {(one.dataset, one.metric, frozenset((arm_of(one.better), arm_of(one.worse))), level_of(one.better)): one
                for one in self.evidence.comparisons}

    def readings(self, one: Said, before: Context) -> list[Reading]:
        """All ways to understand a claim, the nearest first."""
        made: list[Reading] = []
        metrics = [self._metric(one, before), *([] if metric_of(one) else [(self.lexicon.primary,)])]
        for cells, names, pairs in product(self._cells(one, before), metrics, self._pairs(one, before)):
            for subject in dict.fromkeys(pair[0] for pair in pairs):
                found = dict.fromkeys(
                    comparison for arm, other in pairs if arm == subject for metric in names for dataset, level in cells
                    if (comparison := self._ledger.get((dataset, metric, frozenset((arm, other)), level))))
                made.append(Reading(subject, tuple(found), tuple(cells), len(_arms(one.stretch)) > 1))
        return made

    # --- metric -----------------------------------------------------------------------------------------------------

    def _metric(self, one: Said, before: Context) -> Names:
        named = metric_of(one)
        if named is not None:
            together = [mention for mention in one.stretch.mentions if mention.sort == "metric"]
            return tuple(name for mention in _row(together, named, one.stretch) for name in mention.names)
        return before.metrics[-1:] or (self.lexicon.primary,)

    # --- places -----------------------------------------------------------------------------------------------------

    def _cells(self, one: Said, before: Context) -> list[list[tuple[str, str]]]:
        text, every = one.stretch.text, bool(_EVERYWHERE.search(one.stretch.text))
        datasets, levels = _named(one.stretch, "dataset"), _named(one.stretch, "level")
        all_levels: Names = self.lexicon.levels or ("",)
        if (narrow := _narrow(one.stretch, all_levels)) and not datasets:
            levels = narrow
        if _REST.search(text) and before.used and not datasets and not levels:
            return [[cell for cell in product(self.lexicon.datasets, all_levels) if cell not in before.used]]
        if datasets and levels:
            return [self._paired(one.stretch, all_levels)]
        if _SAME.search(text) and not datasets:
            return [[(name, level) for level in those] for name in self.lexicon.datasets
                    for those in ([levels] if levels else [before.levels, all_levels])]
        places = self._choices(datasets, before.datasets, self.lexicon.datasets,
                               every=every or bool(_ALL_DATA.search(text)),
                               keyed=tuple(dict.fromkeys(key.dataset for key in one.stretch.keys)))
        if (towards := _TOP_OR_BOTTOM.search(text)) and not levels:
            some = [all_levels[k:] if towards["top"] else all_levels[:-k] for k in range(1, len(all_levels) - 1)]
            return [list(product(place, those)) for place, those in product(places, some)]
        heights = self._choices(levels, before.levels, all_levels, every=every or bool(_ALL_LEVELS.search(text)),
                                keyed=tuple(dict.fromkeys(level_of(key.condition) for key in one.stretch.keys)))
        return [list(product(some, those)) for some, those in product(places, heights)]

    @staticmethod
    def _choices(named: Names, before: Names, everything: Names, *, every: bool, keyed: Names) -> list[Names]:
        if named and not every:
            return [named]
        if every:
            return [named or everything]
        return list(dict.fromkeys(one for one in (keyed, before, everything) if one))

    def _paired(self, stretch: Sentence, all_levels: Names) -> list[tuple[str, str]]:
        """Datasets with the levels that stand beside them: "on a at x and y, and on b at z"."""
        groups: list[tuple[list[str], list[str]]] = []
        leading: list[str] = []
        for mention in stretch.mentions:
            if mention.sort == "dataset":
                if groups and not groups[-1][1]:
                    groups[-1][0].extend(mention.names)
                else:
                    groups.append((list(mention.names), []))
            elif mention.sort == "level" and not (leading and set(mention.names) >= set(all_levels)):
                (groups[-1][1] if groups else leading).extend(mention.names)
        if leading and groups and groups[-1][1] == [] and len(groups) > 1:
            ahead = [leading, *(levels for _, levels in groups[:-1])]
            groups = [(datasets, levels) for (datasets, _), levels in zip(groups, ahead, strict=True)]
        return [cell for datasets, levels in groups for cell in product(datasets, levels or leading or all_levels)]

    # --- arms -------------------------------------------------------------------------------------------------------

    def _pairs(self, one: Said, before: Context) -> list[list[Pair]]:
        ablations = [[(arm, other) for other in self.partners(arm)] for arm in self.lexicon.of_role("ablation")]
        unnamed = unnamed_change(one.stretch, one.at - one.stretch.start)
        if unnamed or (before.changed and not _arms(one.stretch)):
            kept = [(arm, other) for arm in before.arms for other in self.partners(arm) if not unnamed]
            return [*([kept] if kept else []), *ablations]
        subjects, others = self._sides(one)
        if _without(one.stretch) or _PARTICIPLE.search(one.stretch.text[:one.at - one.stretch.start]):
            return [[(arm, other) for arm in subjects for other in others or self.partners(arm)], *ablations]
        if not subjects and not others:
            if before.arms:
                return [[(arm, other) for arm in before.arms for other in self.partners(arm)],
                        self._usual(),
                        *([(arm, other) for other in self.partners(arm)] for arm in sorted(before.ablated))]
            return [self._usual(), *([(arm, other) for other in self.partners(arm)] for arm in sorted(before.ablated))]
        if not subjects:
            inherited = [arm for arm in before.arms if arm not in others]
            subjects = inherited or [partner for other in others for partner in self.partners(other)]
        pairs = [(arm, other) for arm in subjects for other in others if arm != other]
        return [pairs or [(arm, other) for arm in subjects for other in self.partners(arm)]]

    def _usual(self) -> list[Pair]:
        return [(arm, other) for arm in self.lexicon.of_role("method") for other in self.partners(arm)]

    def partners(self, arm: str) -> Names:
        """What the ledger compares an arm with as a rule."""
        roles = {"method": "baseline", "baseline": "method", "ablation": "method"}
        return self.lexicon.of_role(roles[self.lexicon.roles.get(arm, "ablation")])  # pyright: ignore[reportArgumentType]

    def _sides(self, one: Said) -> tuple[list[str], list[str]]:
        """The arms that a claim speaks of, and those that it compares them with."""
        arms, text = _arms(one.stretch), one.stretch.text
        parts = [mention for mention in arms if mention.sort == "part"]
        if parts and len(parts) == len(arms):
            inside = re.search(r"\bof\s+(?:\w+\s+)?$", text[:parts[0].at - one.stretch.start])
            return list(self.lexicon.of_role("method")), [] if inside else list(parts[0].names)
        arms = [mention for mention in arms if mention.sort == "arm"]
        ahead = {mention: text[:mention.at - one.stretch.start] for mention in arms}
        winners = [mention for mention in arms if _BY.search(ahead[mention])]
        if winners:
            return list(winners[0].names), [name for one in arms if one not in winners for name in one.names]
        others = [mention for mention in arms if _TOWARDS.search(ahead[mention])]
        subjects = [mention for mention in arms if mention not in others]
        changed = [mention for mention in subjects if self.lexicon.roles.get(mention.names[0]) == "ablation"]
        if changed:
            others, subjects = others or [mention for mention in subjects if mention not in changed], changed[:1]
        if not others and len({mention.names for mention in subjects}) > 1:
            others = [mention for mention in subjects[1:] if mention.names != subjects[0].names]
            subjects = subjects[:1]
        return ([name for mention in subjects[:1] for name in mention.names],
                [name for mention in others for name in mention.names])


def unnamed_change(stretch: Sentence, end: int) -> bool:
    """Whether a stretch speaks, up to a place, of a change to the method without the name of an ablation."""
    changed = _CHANGE.search(stretch.text[:end])
    named = any(one.exact and re.match(WITHOUT, stretch.text[one.at - stretch.start:]) for one in _arms(stretch))
    return changed is not None and not named


def _without(stretch: Sentence) -> bool:
    """Whether a stretch begins its arms with "without X", X a word of the method: the baseline, or an ablation."""
    first = next(iter(_arms(stretch)), None)
    return first is not None and not first.exact and stretch.text.startswith("without", first.at - stretch.start)


def _arms(stretch: Sentence) -> list[Mention]:
    return [mention for mention in stretch.mentions if mention.sort in ("arm", "part")]


def _row(mentions: Sequence[Mention], one: Mention, stretch: Sentence) -> Iterator[Mention]:
    """A mention with those it is listed with: "log loss and accuracy"."""
    place = list(mentions).index(one)
    yield one
    for last, following in zip(mentions[place:], mentions[place + 1:], strict=False):
        gap = stretch.text[last.end - stretch.start:following.at - stretch.start]
        if not re.fullmatch(r"\s*(?:,|and|,\s*and|as\s+well\s+as)\s*(?:the\s+)?", gap):
            return
        yield following


def _named(sentence: Sentence, sort: Sort) -> Names:
    return tuple(dict.fromkeys(name for one in sentence.mentions if one.sort == sort for name in one.names))


def _narrow(stretch: Sentence, all_levels: Names) -> Names:
    """The levels that a stretch names beside "every level", which then means every one of these."""
    return tuple(dict.fromkeys(name for one in stretch.mentions if one.sort == "level" and (
        not set(one.names) >= set(all_levels)) for name in one.names))


def ablations_in(found: Iterable[Sentence], lexicon: Lexicon) -> set[str]:
    """The ablations that the keys and names of sentences speak of."""
    return {arm for one in found for arm in (*(arm_of(key.condition) for key in one.keys), *_named(one, "arm"))
            if lexicon.roles.get(arm) == "ablation"}
