"""Judge an answer item by item: each match needs a verified quote, and the program counts them.

The judge is a model, or stored verdicts from a file of answers, which are labelled `scripted`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

from pydantic import Field

from labwright.evals.expbench.answers import SubmittedAnswer
from labwright.evals.expbench.conclusion_support import ArmComparison
from labwright.evals.expbench.scores import parse_conclusion_score
from labwright.evals.expbench.tasks import ExpTask
from labwright.models.client import ModelClient
from labwright.models.roles.answer_grading import (
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
from labwright.record.schema.frozen_model import FrozenModel
from labwright.review.judge.quotes import squeeze

MAX_CHANGE_CHARACTERS = 78_000
"""Characters of a change that a judge is shown."""
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


class AnswerJudge(Protocol):
    async def __call__(
        self,
        task: ExpTask,
        answer: SubmittedAnswer,
        change: str,
        originals: str,
        arms: Sequence[str],
        metrics: Sequence[str],
        log: str,
    ) -> AnswerVerdicts:
        """Raises `ModelError`."""
        ...


def list_design_items(task: ExpTask) -> tuple[GroundTruthItem, ...]:
    return tuple(
        GroundTruthItem(id=f"d{number}", text=f"{one.group}: {one.name} = {one.value}")
        for number, one in enumerate(task.design[:MAX_ITEMS], 1)
    )


def list_change_items(task: ExpTask) -> tuple[GroundTruthItem, ...]:
    return tuple(
        GroundTruthItem(id=f"r{number}", text=text) for number, text in enumerate(task.requirements[:MAX_ITEMS], 1)
    )


async def judge_by_model(
    client: ModelClient,
    name: str,
    task: ExpTask,
    answer: SubmittedAnswer,
    *,
    change: str,
    originals: str,
    arms: Sequence[str],
    metrics: Sequence[str],
    log: str,
) -> AnswerVerdicts:
    """Return a model's verdicts, from at most four calls. Raises `ModelError`."""
    design: tuple[ItemJudged, ...] = ()
    implementation: tuple[ItemJudged, ...] = ()
    if items := list_design_items(task):
        found = await client.ask(
            ANSWER_DESIGN, DesignInputs(question=task.question, items=items, design=answer.design[:MAX_ITEMS])
        )
        whole = "\n".join(answer.design)
        by_id = {one.id: one for one in found.verdicts}
        design = tuple(
            ItemJudged(
                text=item.text,
                verdict="met" if by_id[item.id].matched else "not met",
                quote=by_id[item.id].quote,
                quoted=is_quoted(by_id[item.id].quote, whole),
                reason=by_id[item.id].reason,
            )
            for item in items
        )
    if items := list_change_items(task):
        answers = await client.ask(
            ANSWER_CHANGE,
            ChangeInputs(
                question=task.question,
                method=task.method,
                items=items,
                originals=originals,
                change=change[:MAX_CHANGE_CHARACTERS],
                cut=len(change) > MAX_CHANGE_CHARACTERS,
            ),
        )
        verdicts = {one.id: one for one in answers.verdicts}
        implementation = tuple(
            ItemJudged(
                text=item.text,
                verdict=verdicts[item.id].verdict,
                quote=verdicts[item.id].quote,
                quoted=is_quoted(verdicts[item.id].quote, change),
                reason=verdicts[item.id].reason,
            )
            for item in items
        )
    reply = await client.ask(
        ANSWER_CONCLUSION,
        ConclusionGradingInputs(
            question=task.question,
            expected=task.outcome,
            conclusion=answer.conclusion,
            arms=tuple(arms),
            metrics=tuple(metrics),
        ),
    )
    suspected = None
    if log:
        conduct = await client.ask(ANSWER_CONDUCT, ConductInputs(question=task.question, log=log))
        suspected = conduct.model_dump(exclude={"reason"})
    return AnswerVerdicts(
        by=name,
        design=design,
        implementation=implementation,
        conclusion=parse_conclusion_score(reply.verdict),
        reason=reply.reason,
        suspected=suspected,
        claims=tuple(ArmComparison(one.metric, one.first, one.second, one.second_is) for one in reply.directions),
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
        yield ArmComparison(found["metric"], found["first"], found["second"], way)  # pyright: ignore
    elif found := BEST_CLAIM.search(text):
        others = re.findall(r"([\w@-]+) [-\d.]", found["told"])
        for other in others:
            if other != found["best"]:
                yield ArmComparison(
                    found["metric"], other, found["best"], "lower" if found["way"] == "lowest" else "higher"
                )
