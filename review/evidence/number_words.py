"""Find numbers in words: "ninety-seven", "zero point nine", "VII seeds", "a factor of two", "a third of".

A number word of three or more is refused like a digit, unless it correctly counts something that the data plan, its
texts, the settings or the record count: "three arms", "ten classes", "five seeds", "each of them three times". Up to
twelve, it may also count what none of them counts ("four lines of work"), or be a part of a named whole ("three of the
four arms"): whether a result is in it, the reader of the claims says. Where no ratio is registered, a ratio is refused
unless it is a share that the plan, the sizes of the splits or the settings have ("half of the pool"). Ordinals, "one",
"two" and "zero" are allowed, except in phrases such as "two percent".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from labwright.record.result_macros import (
    COMPARISON_WORDS,
    LARGE_NUMBER_WORDS,
    LISTED_NUMBERS,
    NUMBER_WORD_VALUES,
    NUMBER_WORDS_PATTERN,
    RATIO_PATTERN,
    ROMAN_NUMERAL_PATTERN,
    WORD_GAP,
)
from labwright.review.evidence.numbers import STOP_WORDS
from labwright.review.evidence.violations import Evidence

SHARE_TOLERANCE = 0.005
"""How far a share of the plan may be from its words: 1998 of 3000 is two thirds."""
_FRACTIONS = ("third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MAX_ORDINARY_COUNT = 12
"""Largest number that prose spells out."""
_UNIT_AFTER = (
    rf"(?:per(?:{WORD_GAP})?cents?\b|percentage\b|points?\b|times\b|fold\b|epochs?\b|examples?\b|"
    rf"orders?{WORD_GAP}of\b|(?:hour|minute|second|day)s?\b)"
)
_OUT_OF = re.compile(rf"{WORD_GAP}out{WORD_GAP}of\b", re.IGNORECASE)

_NUMBERED_LABEL = re.compile(
    r"\b(?:Tables?|Figures?|[Tt]ypes?|[Pp]arts?|[Ss]tages?|[Pp]hases?|[Cc]lass|Section|Appendix|[Ss]tudy|[Gg]rades?|"
    r"[Gg]roups?|[Cc]ase|Lemma|Theorem|Algorithm|[Ll]evels?|[Vv]ersion|[Ee]xperiments?|War|and|or|,|\()[\s~]*$"
)
_ROMAN_ABBREVIATIONS = frozenset("CI CC CL LI VI IV XL CV IVC MIX XX CCC CCI LIV CIV".split())
"""Abbreviations that are also Roman numerals: confidence interval, variational inference, instrumental variable, a
clothing size.
"""
_COUNTABLE_AFTER = re.compile(
    rf"{WORD_GAP}(?:(?:random|different|hidden){WORD_GAP})?(?:seeds|replicates|runs|repetitions|epochs|layers|units|examples|"
    r"points|percent|arms|datasets|classes|times)\b"
)

_ALL_BEFORE = re.compile(
    r"\b(?:all|the|these|those|other|any\s+of(?:\s+the)?|each\s+of(?:\s+the)?)[\s~]+$", re.IGNORECASE
)
_EACH_BEFORE = re.compile(r"\beach\b[^.,;]{0,40}$", re.IGNORECASE)
_PART_OF = re.compile(
    rf"[\s~]+of[\s~]+(?:the|these|those|our|its|their|all)[\s~]+(?:({NUMBER_WORDS_PATTERN.pattern})(?!\w))?"
)
"""What follows a part of a whole, with the number of the whole if there is one."""
_STANDS_ALONE = re.compile(
    r"\s*(?:[.,;:)]|$)|\s+(?:are|were|do|did|have|had|differ|agree|show|share|in|on|at|with|of\s+(?:them|"
    r"these))\b"
)
_WHOLE = re.compile(rf"{WORD_GAP}of{WORD_GAP}the{WORD_GAP}([a-z]+)\b(?!{WORD_GAP}{COMPARISON_WORDS})", re.IGNORECASE)


class KnownShare(NamedTuple):
    """A share that may be written in words, of a certain noun; empty: of anything."""

    value: float
    whole: str = ""


@dataclass(frozen=True)
class NumberWords:
    """A number written in words: its position and text."""

    at: int
    words: str


@dataclass(frozen=True)
class CountedThings:
    """Things that the plan or the record counts: the nouns for them and the correct numbers."""

    names: re.Pattern[str]
    numbers: frozenset[int]
    main: bool = False
    """Whether "all three" may refer to these items."""
    complete: bool = True
    """Whether other numbers of them are wrong; a text of the plan may count some of them only."""


def list_counted_things(evidence: Evidence) -> tuple[CountedThings, ...]:
    """Return all items whose counts a paper may write in words."""
    plan, facts = evidence.plan, evidence.facts
    if plan is None:
        return ()
    roles = [arm.role for arm in plan.arms]
    by_role = {role: roles.count(role) for role in ("baseline", "method", "ablation")}
    compared, cells = len(roles) - by_role["ablation"], len(plan.conditions)
    factor = "|".join(re.escape(word) for word in re.findall(r"[a-z]{3,}", plan.factor.lower())[-1:])
    seeds = {int(value.tex) for key, value in evidence.setups.items() if key == "run.seeds" and value.tex.isdigit()}
    titles = (*evidence.names, *(one.title for one in evidence.facts))  # "four operators" of "trees with 4 operators"
    named = [
        (noun, {int(number)}, False)
        for text in titles
        for number, noun in re.findall(rf"\b(\d+)\s+(?!{STOP_WORDS})([a-z]{{3,}})", text)
        if int(number) <= MAX_ORDINARY_COUNT  # "four training sizes" is no count of "85 training rows"
    ]
    described = dict.fromkeys((noun, count) for count, noun in _list_counts(evidence.design))
    varied = " ".join((plan.factor, *(one.title for one in plan.levels))).lower()
    of_levels = [one for one in ("rates?", "ratios?", "strengths?", "amplitudes?", "settings?") if one[:-2] in varied]
    rows = (
        (
            r"arms?|methods?|approach(?:es)?|variants?|conditions?|models?|losses|optimi[sz]ers?",
            {len(roles), compared, *by_role.values()},
            True,
        ),
        ("cells?|conditions?|combinations?", {cells, cells * len(plan.datasets)}, False),
        ("baselines?", {by_role["baseline"]}, False),
        ("ablations?|ablated", {by_role["ablation"], len(evidence.texts)}, False),
        ("|".join(("levels?", *of_levels, *([f"{factor}s?"] if factor else []))), {len(plan.levels)}, True),
        (r"data[\s~]?sets?|tasks?|benchmarks?", {len(plan.datasets)}, True),
        ("metrics?|measures?|scores?", {len(plan.metrics), len(plan.metrics) - 1}, True),
        (r"class(?:es)?|categor(?:y|ies)|labels", {one.classes for one in facts}, False),
        ("features?|columns?|attributes?", {one.features for one in facts}, False),
        ("(?:random )?seeds?|replicates?|replications?|repetitions?|runs?|pairs?", seeds | evidence.replicates, False),
    )
    # the title may ask about "three times", which no text may say of a result ("three times as high")
    asked = [
        (f"{noun}(?!{WORD_GAP}{COMPARISON_WORDS})", count)
        for count, noun in _list_counts(evidence.question, stop="(?!)")
        if not any(numbers - {0} and re.fullmatch(names, noun) for names, numbers, _ in rows)
    ]
    settings: dict[str, set[int]] = {}
    for key, value in evidence.setups.items():
        for word in re.findall(r"[a-z]{3,}", key.rpartition(".")[2].lower()):
            settings.setdefault(word, set()).update([int(value.tex)] if value.tex.isdecimal() else [])
    counted = [(rf"{re.escape(word.removesuffix('s'))}s?", known, False) for word, known in sorted(settings.items())]
    return (
        *(
            CountedThings(re.compile(names, re.IGNORECASE), frozenset(numbers) - {0}, main)
            for names, numbers, main in (*rows, *named, *counted)
            if numbers - {0}
        ),
        *(CountedThings(re.compile(noun), frozenset({count}), complete=False) for noun, count in (*described, *asked)),
    )


def _list_counts(text: str, stop: str = STOP_WORDS) -> Iterator[tuple[int, str]]:
    """Yield the counts of a text, each with the words after it, up to one of `stop`, that may be its noun: "two equal
    folds"."""
    for match in re.finditer(rf"(?<![\w.,-])\d+(?![\w%]|[.,]\d)|{NUMBER_WORDS_PATTERN.pattern}", text, re.IGNORECASE):
        count = int(match[0]) if match[0].isdecimal() else _parse_number_words(match[0])
        after = re.match(rf"(?:[\s-]+(?!{stop})[a-z]{{3,}}){{1,3}}", text[match.end() :])
        if after and count is not None:
            yield from ((count, noun) for noun in re.findall("[a-z]+", after[0]))


def list_known_shares(evidence: Evidence) -> frozenset[KnownShare]:
    """Return the shares that a paper may write in words: numbers and ratios of the plan, the shares of the splits, and
    settings; and of the same thing those of the question ("a quarter of the cost")."""
    if evidence.plan is None:
        return frozenset()
    texts = [evidence.design, *(one.tex for one in evidence.setups.values())]
    found = {float(one) / 100 for text in texts for one in re.findall(r"(\d+(?:\.\d+)?) ?\\?%", text)}
    found |= {float(one) for text in texts for one in re.findall(r"(?<![\w.])0?\.\d+(?![\w.])", text)}
    found |= {share for text in texts for one in RATIO_PATTERN.finditer(text) if (share := _parse_ratio(one[0]))}
    found |= {  # a random quarter of the rows
        1 / below
        for below, name in enumerate(_FRACTIONS, 3)
        for _ in re.findall(rf"\b{name}s?\s+of\b", evidence.design)
    }
    for facts in evidence.facts:
        total = sum(facts.sizes.values())
        found |= {size / total for size in facts.sizes.values()} if total else set()
    asked = (
        KnownShare(share, whole)
        for one in RATIO_PATTERN.finditer(evidence.question)
        if (share := _parse_ratio(one[0])) and (whole := _find_whole(evidence.question, one.end()))
    )
    return frozenset((*map(KnownShare, found), *asked))


def _find_whole(text: str, at: int) -> str:
    """Return the noun that follows a share here, unless it begins a comparison; empty if there is none."""
    found = _WHOLE.match(text, at)
    return found[1].casefold() if found is not None else ""


def _parse_ratio(words: str) -> float | None:
    """Return the value of a ratio in words: 0.5 for "halves", 2/3 for "two thirds"; None if it is vague."""
    text = words.lower()
    if "hal" in text:
        return 0.5
    parts = re.findall("[a-z]+", text)
    below = next((k for k, name in enumerate(_FRACTIONS, 3) if parts[-1].removesuffix("s") == name), 0)
    count = 1 if parts[0] in ("a", "an") else NUMBER_WORD_VALUES.get(parts[0], 0)
    if below and count:
        return count / below
    return 2.0 if text.startswith(("twice", "double", "doubl")) else None


def find_ratio_words(plain: str, known: Iterable[KnownShare] = ()) -> Iterator[NumberWords]:
    """Return ratios written in words, such as "twice as high", without these shares."""
    for match in RATIO_PATTERN.finditer(plain):
        value, whole = _parse_ratio(match[0]), _find_whole(plain, match.end())
        if value is None or not any(abs(value - one) < SHARE_TOLERANCE and of in ("", whole) for one, of in known):
            yield NumberWords(match.start(), match[0])


def find_number_words(plain: str, known: tuple[CountedThings, ...], *, ordinary: bool = False) -> Iterator[NumberWords]:
    """Return the number words that state a value and are not correct counts of known things; with `ordinary`, small
    counts of other things are left out."""
    for match in NUMBER_WORDS_PATTERN.finditer(plain):
        counts = _is_right_count(match, plain, known) or (ordinary and _is_ordinary_count(match, plain, known))
        if _states_a_value(match, plain) and not counts:
            yield NumberWords(match.start(), match[0])
    for match in ROMAN_NUMERAL_PATTERN.finditer(plain):
        # "(95\\% CI 2.0 to 3.5 points)": the numbers between the words are blanked here
        counted = match[0] != "CI" and _COUNTABLE_AFTER.match(plain, match.end())
        if counted or not (_NUMBERED_LABEL.search(plain[: match.start()]) or match[0] in _ROMAN_ABBREVIATIONS):
            yield NumberWords(match.start(), match[0])


def _states_a_value(match: re.Match[str], plain: str) -> bool:
    """Return whether a match is more than an ordinary "one", "two" or "zero" in prose."""
    value = _parse_number_words(match[0])
    if value is None or value > 2:
        return True
    after = plain[match.end() :]
    counted = re.match(rf"{WORD_GAP}(?:(?:random|different){WORD_GAP})?(?:seeds|replicates|runs|repetitions)\b", after)
    unit = re.match(rf"{WORD_GAP}{_UNIT_AFTER}", after, re.IGNORECASE)
    return (
        bool(_OUT_OF.match(after))
        or (value == 2 and bool(unit or counted))
        or (value == 1 and bool(re.match(rf"{WORD_GAP}(?:per(?:{WORD_GAP})?cent|percentage)", after)))
    )


def _is_right_count(match: re.Match[str], plain: str, known: tuple[CountedThings, ...]) -> bool:
    """Return whether the number is correct for the noun that follows, or for some countable thing ("all three")."""
    value, after = _parse_number_words(match[0]), plain[match.end() :]
    if value is None:
        return False
    if any(value in one.numbers and _counts(one, after) for one in known):
        return True
    repeated = re.match(rf"{WORD_GAP}times\b", after)
    if repeated and _EACH_BEFORE.search(plain[: match.start()]) and _STANDS_ALONE.match(after[repeated.end() :]):
        return any(value in one.numbers for one in known)
    totals = {number for one in known if one.main for number in one.numbers}
    return value in totals and bool(_ALL_BEFORE.search(plain[: match.start()]) and _STANDS_ALONE.match(after))


def _is_ordinary_count(match: re.Match[str], plain: str, known: tuple[CountedThings, ...]) -> bool:
    """Return whether a small number counts a noun that stands for no known thing."""
    value, after = _parse_number_words(match[0]), plain[match.end() :]
    if value is not None and (whole := _PART_OF.match(after)) is not None:
        after = after[whole.end() :] if whole[1] else f" {after[whole.end() :]}"
        counts = [max(one.numbers) for one in known if one.complete and _counts(one, after)]
        limit = min(max(counts, default=MAX_ORDINARY_COUNT), _parse_number_words(whole[1] or "") or MAX_ORDINARY_COUNT)
        return value <= min(limit, MAX_ORDINARY_COUNT) and not re.match(rf"{WORD_GAP}{_UNIT_AFTER}", after)
    noun = re.match(
        rf"[\s~]+(?!{STOP_WORDS}|{_UNIT_AFTER}|{NUMBER_WORDS_PATTERN.pattern})[a-z]{{3,}}", after, re.IGNORECASE
    )
    alone = noun is None or _STANDS_ALONE.match(after)
    return (
        value is not None
        and value <= MAX_ORDINARY_COUNT
        and not alone
        and not any(one.complete and _counts(one, after) for one in known)
    )


def _counts(one: CountedThings, after: str) -> bool:
    """Return whether the text after a number names these things, at most three words later."""
    words = rf"(?:(?!{STOP_WORDS})[a-z0-9%][\w%]*{WORD_GAP}){{0,3}}?"
    noun = rf"{LISTED_NUMBERS}{WORD_GAP}{words}(?:{one.names.pattern})(?!\w)"
    return bool(re.match(noun, after[:80], re.IGNORECASE))


def _parse_number_words(words: str) -> int | None:
    """Return the value of number words; None if it is not a whole number or too vague ("dozens")."""
    total = part = 0
    last = 10**12
    for word in re.findall(r"[a-z]+", words.lower()):
        if word in LARGE_NUMBER_WORDS:
            part, last = max(part, 1) * LARGE_NUMBER_WORDS[word], 10**12
            if word != "hundred":
                total, part = total + part, 0
        elif word == "and":
            continue
        elif word not in NUMBER_WORD_VALUES or (
            last < 20 or NUMBER_WORD_VALUES[word] >= last or (last < 100 and NUMBER_WORD_VALUES[word] > 9)
        ):
            return None
        else:
            part, last = part + NUMBER_WORD_VALUES[word], NUMBER_WORD_VALUES[word]
    return total + part
