"""Judge an answer item by item: each match needs a verified quote, and the program counts them.

The judge is a model, or stored verdicts from a file of answers, which are labelled `scripted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Literal, NamedTuple, cast

from pydantic import Field

from labwright.evals.expbench.answers import ExpTask, SubmittedAnswer
from labwright.evals.expbench.roles import (
    ANSWER_CHANGE,
    ANSWER_CONCLUSION,
    ANSWER_CONDUCT,
    ANSWER_DESIGN,
    MAX_ITEMS,
    ChangeInputs,
    ConclusionGradingInputs,
    ConductInputs,
    DesignInputs,
    GroundTruthItem,
)
from labwright.evals.expbench.scores import parse_conclusion_score
from labwright.models.client import ModelClient
from labwright.record.schema import FrozenModel
from labwright.review.judge.paper_reader import squeeze

# Check whether measurements support a conclusion: every number must be found or derivable, every direction as
# recorded. This distinguishes a conclusion that follows from the numbers from one that is right by chance.

ROUNDING_SLACK = 1e-12
NUMBER_PATTERN = re.compile(r"(?<![\w.])[-+−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?\s*%?")

EffectDirection = Literal["lower", "higher", "same", "unclear"]
NumberSupport = Literal["found", "derivable", "unsupported"]
DirectionSupport = Literal["supported", "contradicted", "untested"]
REVERSED_DIRECTIONS: dict[str, EffectDirection] = {
    "lower": "higher",
    "higher": "lower",
    "same": "same",
    "unclear": "unclear",
}


class ArmComparison(NamedTuple):
    """Comparison of the second arm with the first on a metric."""

    metric: str
    first: str
    second: str
    second_is: EffectDirection


def parse_interval(text: str) -> tuple[float, float, bool]:
    """Return the bounds of a printed number (plus and minus half a unit of its last place), and whether it is a
    percentage.
    """
    bare = text.strip().replace("−", "-")
    percent = bare.endswith("%")
    bare = bare.rstrip("% ").replace(",", "")
    digits, _, exponent = bare.lower().partition("e")
    places = len(digits.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - places)
    value = float(bare)
    return value - half, value + half, percent


def number_support(text: str, measured: Mapping[str, float]) -> NumberSupport:
    """Return whether a number was measured, follows from two measured numbers, or neither of these."""
    low, high, percent = parse_interval(text)

    def there(*values: float) -> bool:
        return any(low - ROUNDING_SLACK <= one <= high + ROUNDING_SLACK for one in values)

    if any(there(value, *([100 * value] if percent else [])) for value in measured.values()):
        return "found"
    for a, b in permutations(measured.values(), 2):
        changes = (
            [100 * (a - b), 100 * (a - b) / b if b else float("nan"), 100 * abs(a - b) / abs(b) if b else float("nan")]
            if percent
            else [a / b if b else float("nan")]
        )
        if there(a - b, abs(a - b), *changes):
            return "derivable"
    return "unsupported"


def direction_support(comparison: ArmComparison, comparisons: Iterable[ArmComparison]) -> DirectionSupport:
    """Return whether the recorded comparisons support a claim."""
    for measured in comparisons:
        if measured.metric != comparison.metric or {measured.first, measured.second} != {
            comparison.first,
            comparison.second,
        }:
            continue
        way = measured.second_is if measured.first == comparison.first else REVERSED_DIRECTIONS[measured.second_is]
        if way == "unclear":
            return "untested"
        return "supported" if way == comparison.second_is else "contradicted"
    return "untested"


def is_supported(
    correct: bool,
    numbers: Sequence[str],
    claims: Sequence[ArmComparison],
    measured: Mapping[str, float],
    comparisons: Sequence[ArmComparison],
) -> bool:
    """Return whether a correct conclusion follows from its measurements."""
    return (
        correct
        and bool(claims)
        and all(direction_support(one, comparisons) == "supported" for one in claims)
        and all(number_support(one, measured) != "unsupported" for one in numbers)
    )


def list_stated_results(text: str, question_text: str, counts: Iterable[int] = ()) -> list[str]:
    """Return the numbers of a conclusion that need a measurement: not numbers of the question or counts of seeds
    or arms."""
    given, whole = set(find_numbers(question_text)), {str(one) for one in counts}
    return [one for one in find_numbers(text) if one not in given and one not in whole]


def find_numbers(text: str) -> list[str]:
    """Return the numbers printed in a string, each with its `%` if present."""
    return [found.group().strip() for found in NUMBER_PATTERN.finditer(text)]


MAX_CHANGE_CHARACTERS, MAX_LOG_CHARACTERS, MAX_PARTS = 78_000, 60_000, 15
"""Characters of a change, and of a log, in one question, and maximum number of questions about it: longer ones are
judged part by part. Source: EXP-Bench, appendix H."""
MIN_QUOTE_WORDS = 3
"""Minimum letters and digits in a quote."""
STATED_CLAIM = re.compile(
    r"^(?P<second>[\w.@-]+) (?P<way>lowers|raises|does not change) the (?P<metric>[\w ]+) against "
    r"(?P<first>[\w.@-]+)"
)
BEST_CLAIM = re.compile(r"(?P<best>[\w.@-]+) has the (?P<way>lowest|highest) (?P<metric>[\w ]+): (?P<told>.*)")


class ItemJudged(FrozenModel):
    text: str
    verdict: str = Field(description="met, not met, or not applicable")
    quote: str = ""
    quoted: bool = Field(default=True, description="whether the quote is in the submission")
    reason: str = ""

    @property
    def is_counted(self) -> bool:
        return self.verdict == "met" and self.quoted


class AnswerVerdicts(FrozenModel):
    """A judge's verdicts on an answer; None for a part that could not be read."""

    by: str
    design: tuple[ItemJudged, ...] | None = ()
    implementation: tuple[ItemJudged, ...] | None = ()
    conclusion: int | None = None
    reason: str = ""
    claims: tuple[ArmComparison, ...] = ()
    suspected: dict[str, bool] | None = Field(
        default=None, description="violations that the model suspects from the log"
    )


def list_design_items(task: ExpTask) -> tuple[GroundTruthItem, ...]:
    return tuple(
        GroundTruthItem(id=f"d{number}", text=f"{one.group}: {one.name} = {one.value}")
        for number, one in enumerate(task.design[:MAX_ITEMS], 1)
    )


def list_change_items(task: ExpTask) -> tuple[GroundTruthItem, ...]:
    return tuple(
        GroundTruthItem(id=f"r{number}", text=text) for number, text in enumerate(task.requirements[:MAX_ITEMS], 1)
    )


class JudgedWork(NamedTuple):
    """What a judge sees: an answer to a task, its change, the original files, and names of arms and metrics in its
    results."""

    task: ExpTask
    answer: SubmittedAnswer
    change: str = ""
    originals: str = ""
    arms: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


async def judge_by_model(client: ModelClient, name: str, work: JudgedWork) -> AnswerVerdicts:
    """Return a model's verdicts: one call each for design and conclusion, and one for each part of change and log.
    Raises `ModelError`."""
    task, answer, change = work.task, work.answer, work.change
    design: tuple[ItemJudged, ...] = ()
    implementation: tuple[ItemJudged, ...] = ()
    if items := list_design_items(task):
        found = await client.ask(
            ANSWER_DESIGN, DesignInputs(question=task.question, items=items, design=answer.design[:MAX_ITEMS])
        )
        verdicts = {one.id: ("met" if one.matched else "not met", one.quote, one.reason) for one in found.verdicts}
        design = _check_items(items, verdicts, "\n".join(answer.design))
    if items := list_change_items(task):
        verdicts = dict.fromkeys((one.id for one in items), ("not met", "", ""))
        parts = split_text(change, MAX_CHANGE_CHARACTERS) or [""]
        for part in parts:  # the later ones are asked about what the earlier ones do not meet
            left = tuple(one for one in items if verdicts[one.id][0] == "not met")
            inputs = ChangeInputs(
                question=task.question,
                method=task.method,
                items=left,
                originals=work.originals,
                change=part,
                cut=len(parts) > 1,
            )
            answers = (await client.ask(ANSWER_CHANGE, inputs)).verdicts if left else ()
            verdicts |= {one.id: (one.verdict, one.quote, one.reason) for one in answers}
        implementation = _check_items(items, verdicts, change)
    reply = await client.ask(
        ANSWER_CONCLUSION,
        ConclusionGradingInputs(
            question=task.question,
            expected=task.outcome,
            conclusion=answer.conclusion,
            arms=work.arms,
            metrics=work.metrics,
        ),
    )
    suspected: dict[str, bool] | None = None
    log = answer.record.get("log", "")
    parts = split_text(log if isinstance(log, str) else "", MAX_LOG_CHARACTERS)
    for part in parts:
        conduct = await client.ask(ANSWER_CONDUCT, ConductInputs(question=task.question, log=part, cut=len(parts) > 1))
        found = conduct.model_dump(exclude={"reason"})
        suspected = {kind: seen or (suspected or {}).get(kind, False) for kind, seen in found.items()}
    return AnswerVerdicts(
        by=name,
        design=design,
        implementation=implementation,
        conclusion=parse_conclusion_score(reply.verdict),
        reason=reply.reason,
        suspected=suspected,
        claims=tuple(ArmComparison(one.metric, one.first, one.second, one.second_is) for one in reply.directions),
    )


def split_text(text: str, limit: int) -> list[str]:
    """Return the first parts of a text, each of at most `limit` characters and, if lines are shorter, whole lines."""
    return re.findall(rf"(?s).{{1,{limit}}}(?:(?<=\n)|\Z)|.{{1,{limit}}}", text)[:MAX_PARTS]


def _check_items(
    items: Sequence[GroundTruthItem], verdicts: Mapping[str, tuple[str, str, str]], text: str
) -> tuple[ItemJudged, ...]:
    """Return the verdicts (verdict, quote, reason) on items, with whether each quote is in the text."""
    judged = ((item, *verdicts[item.id]) for item in items)
    return tuple(
        ItemJudged(text=item.text, verdict=verdict, quote=quote, quoted=is_quoted(quote, text), reason=reason)
        for item, verdict, quote, reason in judged
    )


def is_quoted(quote: str, text: str) -> bool:
    """Return whether a quote is in a string, ignoring spaces, punctuation and case."""
    bare = squeeze(quote)
    return sum(map(str.isalnum, bare)) >= MIN_QUOTE_WORDS and bare in squeeze(text)


def judge_by_script(task: ExpTask, answer: SubmittedAnswer) -> AnswerVerdicts:
    """Return the verdicts stored in a file of answers. Raises `ValueError` if there are none."""
    stored = answer.judge
    if stored is None:
        raise ValueError(f"the answer to {task.name} ({answer.variant}) has no stored verdicts: configure a model")
    conclusion: Any = stored.get("conclusion")
    verdict: object = cast("dict[str, Any]", conclusion).get("verdict") if isinstance(conclusion, dict) else conclusion
    return AnswerVerdicts(
        by="the file of answers",
        conclusion=parse_conclusion_score(verdict),
        claims=tuple(find_claims(answer.conclusion)),
        design=tuple(
            ItemJudged(text=str(one.get("name")), verdict="met" if one["matched"] else "not met")
            for one in stored["design"]
        ),
        implementation=tuple(
            ItemJudged(
                text=str(one.get("requirement")),
                verdict="met" if one["met"] else "not applicable" if one["met"] is None else "not met",
            )
            for one in stored["implementation"]
        ),
    )


def find_claims(text: str) -> Iterator[ArmComparison]:
    """Yield the directions that a conclusion states in one of two fixed forms; a model reads other forms."""
    if found := STATED_CLAIM.match(text):
        way = {"lowers": "lower", "raises": "higher", "does not change": "same"}[found["way"]]
        yield ArmComparison(found["metric"], found["first"], found["second"], way)  # pyrefly: ignore
    elif found := BEST_CLAIM.search(text):
        others = re.findall(r"([\w@-]+) [-\d.]", found["told"])
        for other in others:
            if other != found["best"]:
                yield ArmComparison(
                    found["metric"], other, found["best"], "lower" if found["way"] == "lowest" else "higher"
                )
