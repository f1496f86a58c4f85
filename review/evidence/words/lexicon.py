"""What a study's things are called, and where a text names them: arms, metrics, datasets, levels.

Names and titles of the data plan are exact. Read loosely: the words of a title that no other arm has, a few common
names of metrics, "the method", "the baseline", "without X" and "the X" for an ablation that takes X away, "under noise"
for all levels but the lowest. What it does not guarantee: that a paraphrase is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from record.nouns.data import arm_of, level_of
from review.evidence.violations import Evidence

Sort = Literal["arm", "part", "metric", "dataset", "level"]
"""`part`: what an ablation takes away; its names are those of the ablation."""

Role = Literal["baseline", "method", "ablation"]

METRICS: dict[str, tuple[str, ...]] = {
    "log_loss": ("log loss", "log-loss", "negative log likelihood", "nll", "proper score"),
    "ece": ("expected calibration error", "calibration error", "ece", "calibration"),
    "brier": ("brier score", "brier"), "macro_f1": ("macro f1", "macro-averaged f1", "f1"),
    "accuracy": ("accuracy", "accuracies", "right answers"), "auroc": ("auroc", "auc", "area under the roc curve"),
    "mse": ("mean squared error", "mse"), "mae": ("mean absolute error", "mae"),
}
"""Common names of metrics that the scorer knows."""

_NUMBERS = dict(zip("23456789", "two three four five six seven eight nine".split(), strict=True))
"""Of datasets whose names end in one: "two operators" is arithmetic_2."""

_METHOD = ("method", "proposed method", "proposed approach", "our approach", "the approach", "our model",
           "whole method")
_STOP = frozenset("a an and at by for from in its of on or our plain standard the this to with without no not full "
                  "data dataset small large simple own one all rate set".split())
_LITTLE = ("a", "an", "the", "on", "with")
WITHOUT = r"(?:without|lacking|omitting|removing|dropping|ablating|leaving|taking|removal\s+of|no)(?:\s+out)?"
_ARTICLE = r"(?:(?:the|its|our|any|a)\s+)?"


@dataclass(frozen=True)
class Mention:
    """A name in a text: what it may stand for, from `at` to `end`. `exact` where it is a name or title of the plan."""

    sort: Sort
    names: tuple[str, ...]
    at: int
    end: int
    exact: bool = False


@dataclass(frozen=True)
class Term:
    """A pattern, and what it stands for. Terms of a lower `turn` are looked for first and take their place."""

    sort: Sort
    names: tuple[str, ...]
    pattern: re.Pattern[str]
    exact: bool
    turn: int
    length: int


class Lexicon:
    """The names of a study, as an evidence's data plan and ledger give them."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        plan, ledger = evidence.plan, evidence.comparisons
        conditions = [side for one in ledger for side in (one.better, one.worse)]
        self.arms = _each([one.name for one in plan.arms] if plan else [], map(arm_of, conditions))
        self.metrics = _each([one.name for one in plan.metrics] if plan else [], (one.metric for one in ledger))
        self.datasets = _each([one.name for one in plan.datasets] if plan else [], (one.dataset for one in ledger))
        self.levels = _each([one.name for one in plan.levels] if plan else [], filter(None, map(level_of, conditions)))
        roles: dict[str, Role] = {one.name: one.role for one in plan.arms} if plan else {
            "baseline": "baseline", "method": "method"}
        self.roles: dict[str, Role] = {arm: roles.get(arm, "ablation") for arm in self.arms}

    def of_role(self, role: Role) -> tuple[str, ...]:
        return tuple(arm for arm in self.arms if self.roles[arm] == role)

    def higher_is_better(self, metric: str) -> bool | None:
        """The direction of a metric; None where the plan does not know it."""
        plan = self._evidence.plan
        return next((one.higher_is_better for one in plan.metrics if one.name == metric), None) if plan else None

    @property
    def primary(self) -> str:
        return self.metrics[0] if self.metrics else ""

    @cached_property
    def raised(self) -> tuple[str, ...]:
        """The levels above the lowest; none where the plan gives no values."""
        plan = self._evidence.plan
        valued = [(one.value, one.name) for one in plan.levels if one.value is not None] if plan else []
        lowest = min(valued, default=(0.0, ""))[1]
        return tuple(name for _, name in sorted(valued) if name != lowest)

    def mentions(self, text: str) -> list[Mention]:
        """The names in a text (lower case, without marks of TeX), in reading order, none within another."""
        found: list[Mention] = []
        for term in self.terms:
            for match in term.pattern.finditer(text):
                found.append(Mention(term.sort, term.names, match.start(), match.end(), term.exact))
                text = text[:match.start()] + "\x03" * len(match[0]) + text[match.end():]
        return sorted(found, key=lambda one: one.at)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All patterns, in the order in which they are looked for."""
        made = [*self._arms(), *self._metrics(), *self._datasets(), *self._levels()]
        return tuple(sorted(made, key=lambda one: (one.turn, -one.length)))

    # --- arms -------------------------------------------------------------------------------------------------------

    def _titles(self, arm: str) -> tuple[str, ...]:
        plan = self._evidence.plan
        title = next((one.title for one in plan.arms if one.name == arm), "") if plan else ""
        return tuple(dict.fromkeys(text for text in (arm, title) if text))

    def _arms(self) -> Iterator[Term]:
        words = {arm: {word for text in self._titles(arm) for word in _words(text)} for arm in self.arms}
        taken = {word for text in (*self.metrics, *self._level_titles()) for word in _words(text)}
        for arm in self.arms:
            for text in self._titles(arm):
                yield _term("arm", (arm,), text, exact=True, turn=0 if _taken_away(text) else 1)
                if part := _taken_away(text):
                    yield from self._removed(arm, part)
            others = {word for other in self.arms if other != arm and self.roles[other] != "ablation"
                      for word in words[other]}
            if self.roles[arm] != "ablation":
                yield from (_term("arm", (arm,), word, exact=False, turn=3)
                            for word in words[arm] - others - taken - {"cross", "entropy", "method", "baseline"})
        yield from self._roles()

    def _removed(self, arm: str, part: str) -> Iterator[Term]:
        """Ways to say that an ablation takes a part away, and the part itself."""
        core = _pattern(part)
        for shape in (rf"{WITHOUT}\s+{_ARTICLE}{core}", rf"(?:leaving|taking)\s+{_ARTICLE}{core}\s+(?:out|away)",
                      rf"{_ARTICLE}{core}\s+(?:is|was|are|were)\s+(?:removed|left\s+out|dropped|omitted|taken\s+out)"):
            yield Term("arm", (arm,), re.compile(rf"\b{shape}\b"), exact=True, turn=0, length=len(part) + 20)
        if not set(_words(part)) & {word for one in self.of_role("method") for text in self._titles(one)
                                    for word in _words(text)}:
            yield _term("part", (arm,), part, exact=False, turn=3)

    def _roles(self) -> Iterator[Term]:
        method, baseline = self.of_role("method"), self.of_role("baseline")
        if method:
            yield from (_term("arm", method, text, exact=True, turn=2) for text in _METHOD)
        if baseline:
            yield _term("arm", baseline, "baseline", exact=True, turn=2)
        titles = {text for arm in method for title in self._titles(arm) for text in (title, *_words(title))}
        for text in titles if baseline else ():
            yield Term("arm", baseline, re.compile(rf"\bwithout\s+{_ARTICLE}{_pattern(text)}(?!\w)"), exact=False,
                       turn=0, length=len(text))

    # --- metrics, datasets, levels ----------------------------------------------------------------------------------

    def _metrics(self) -> Iterator[Term]:
        plan = self._evidence.plan
        titles = {one.name: one.title for one in plan.metrics} if plan else {}
        heads = {name: _words(titles.get(name) or name)[-1:] for name in self.metrics}
        for name in self.metrics:
            for text in {name, titles.get(name, ""), *METRICS.get(name, ())} - {""}:
                yield _term("metric", (name,), text, exact=text != "calibration", turn=1)
            head = heads[name]
            if head and sum(head == other for other in heads.values()) == 1:
                yield _term("metric", (name,), head[0], exact=False, turn=3)

    def _datasets(self) -> Iterator[Term]:
        titles = {one.name: one.title for one in self._evidence.facts}
        for name in self.datasets:
            for text in {name, titles.get(name, "")} - {""}:
                yield _term("dataset", (name,), text, exact=True, turn=1)
            if word := _NUMBERS.get(name.rpartition("_")[2]):
                counted = re.compile(rf"\b{word}\b(?!\s+(?:data|sets?|arms?|metrics?|scores?|parts?))")
                yield Term("dataset", (name,), counted, exact=False, turn=3, length=len(word))

        everything = (r"\b(?:both|all|every|each)\s+(?:the\s+)?"
                      r"(?:data\s*sets?|sets|data|tasks?|complexit\w+|benchmarks?)\b")
        yield Term("dataset", self.datasets, re.compile(everything), exact=False, turn=0, length=30)

    def _level_titles(self) -> tuple[str, ...]:
        plan = self._evidence.plan
        return tuple(one.title for one in plan.levels if one.title) if plan else ()

    def _levels(self) -> Iterator[Term]:
        plan = self._evidence.plan
        for one in plan.levels if plan else ():
            for text in {one.name, one.title} - {""}:
                yield _term("level", (one.name,), text, exact=True, turn=1)
            if number := re.match(r"[\d.]+\s*%", one.title):
                yield _term("level", (one.name,), number[0], exact=True, turn=2)
        every = r"\b(?:both|all|every|each)\s+(?:\w+\s+){0,2}(?:rates?|levels?|ratios?|sizes?|strengths?)\b"
        if self.levels:
            yield Term("level", self.levels, re.compile(every), exact=False, turn=0, length=30)
        if not self.raised:
            return
        stems = {word[:-1] for text in (plan.factor if plan else "", *self._level_titles()) for word in _words(text)
                 if len(word) > 3}
        factor = rf"(?:\w+\s+)?(?:{'|'.join(sorted(map(re.escape, stems)))})\w*" if stems else r"(?!)"
        yield Term("level", self.levels, re.compile(rf"\bwith\s+and\s+without\s+{factor}"),
                   exact=False, turn=0, length=9)
        lowest = tuple(name for name in self.levels if name not in self.raised)
        yield Term("level", lowest, re.compile(rf"\b(?:without|no|absence\s+of|free\s+of)\s+(?:any\s+)?{factor}"),
                   exact=True, turn=2, length=3)
        yield Term("level", self.raised, re.compile(rf"\b(?:under|despite|presence\s+of)\s+(?:the\s+)?{factor}"),
                   exact=False, turn=2, length=2)
        yield Term("level", self.raised[-1:],
                   re.compile(rf"\b(?:highest|strongest|largest)\s+{factor}"), exact=False, turn=2, length=4)


def _each(planned: Iterable[str], compared: Iterable[str]) -> tuple[str, ...]:
    """Names of the plan, then those that only the ledger has."""
    return tuple(dict.fromkeys((*planned, *compared)))


def _words(text: str) -> list[str]:
    """The words of a name that say something, in lower case."""
    return [word for word in re.findall(r"[a-z]+", text.lower()) if word not in _STOP and len(word) > 2]


def _taken_away(text: str) -> str:
    """What an arm is without, by its name or title; empty where it does not say so."""
    match = re.match(r"(?:without|no)[\s_-]+(?:the\s+)?(.+)", text.lower())
    return match[1] if match else ""


def _pattern(text: str) -> str:
    tokens = re.findall(r"[a-z0-9.]+|[^\sa-z0-9._,:()-]", text.lower())
    said = [one for one in tokens if one not in _LITTLE]
    if len(said) < len(tokens) - 1 or len(said) > 2:  # a long name is known without its little words
        return rf"[\s_,:()-]*(?:(?:{'|'.join(_LITTLE)})\s+){{0,2}}".join(re.escape(one) for one in said or tokens)
    return r"[\s_-]*".join(re.escape(one) for one in tokens)


def _term(sort: Sort, names: Iterable[str], text: str, *, exact: bool, turn: int) -> Term:
    plural = "s?" if text[-1:].isalpha() else ""
    return Term(sort, tuple(names), re.compile(rf"(?<![\w.]){_pattern(text)}{plural}(?!\w)"), exact, turn, len(text))
