"""The judge of an answer: item by item, each match with a quote that stands there; the program counts.

A judge is a model, or what a file of answers says that one would say (`scripted`), which is labelled so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

from pydantic import Field

from labwright.evals.expbench.answers import Answer
from labwright.evals.expbench.scores import said
from labwright.evals.expbench.tasks import Task
from labwright.models.client import ModelClient
from labwright.models.roles.answering import (
    ANSWER_CHANGE,
    ANSWER_CONCLUSION,
    ANSWER_CONDUCT,
    ANSWER_DESIGN,
    MOST_ITEMS,
    ChangeInputs,
    ConclusionInputs,
    ConductInputs,
    DesignInputs,
    Item,
)
from labwright.record.nouns.frozen import Frozen
from labwright.review.judge.quotes import squeezed
from labwright.stages.repository.stated import Claim

LONGEST_CHANGE = 78_000
"""Characters of a change that a judge is shown."""
SHORTEST = 3
"""Letters and digits that a quote must have."""
STATED = re.compile(
    r"^(?P<second>[\w.@-]+) (?P<way>lowers|raises|does not change) the (?P<metric>[\w ]+) against "
    r"(?P<first>[\w.@-]+)"
)
CHOSEN = re.compile(r"(?P<best>[\w.@-]+) has the (?P<way>lowest|highest) (?P<metric>[\w ]+): (?P<told>.*)")


class ItemJudged(Frozen):
    text: str
    verdict: str = Field(description="met, not met, or not applicable")
    quote: str = ""
    quoted: bool = Field(default=True, description="whether the quote stands in what was handed in")
    reason: str = ""

    @property
    def counts(self) -> bool:
        return self.verdict == "met" and self.quoted


class Verdicts(Frozen):
    """What a judge says of an answer; None: of a part nobody could read."""

    by: str
    design: tuple[ItemJudged, ...] | None = ()
    implementation: tuple[ItemJudged, ...] | None = ()
    conclusion: int | None = None
    reason: str = ""
    claims: tuple[Claim, ...] = ()
    suspected: dict[str, bool] | None = Field(default=None, description="what a reader of the log suspects")


class Judge(Protocol):
    async def __call__(
        self,
        task: Task,
        answer: Answer,
        change: str,
        originals: str,
        arms: Sequence[str],
        metrics: Sequence[str],
        log: str,
    ) -> Verdicts:
        """Raises `ModelError`."""
        ...


def design_items(task: Task) -> tuple[Item, ...]:
    return tuple(
        Item(id=f"d{number}", text=f"{one.group}: {one.name} = {one.value}")
        for number, one in enumerate(task.design[:MOST_ITEMS], 1)
    )


def change_items(task: Task) -> tuple[Item, ...]:
    return tuple(Item(id=f"r{number}", text=text) for number, text in enumerate(task.requirements[:MOST_ITEMS], 1))


async def by_model(
    client: ModelClient,
    name: str,
    task: Task,
    answer: Answer,
    *,
    change: str,
    originals: str,
    arms: Sequence[str],
    metrics: Sequence[str],
    log: str,
) -> Verdicts:
    """The verdicts of a model, four questions at most. Raises `ModelError`."""
    design: tuple[ItemJudged, ...] = ()
    implementation: tuple[ItemJudged, ...] = ()
    if items := design_items(task):
        found = await client.ask(
            ANSWER_DESIGN, DesignInputs(question=task.question, items=items, design=answer.design[:MOST_ITEMS])
        )
        whole = "\n".join(answer.design)
        by_id = {one.id: one for one in found.verdicts}
        design = tuple(
            ItemJudged(
                text=item.text,
                verdict="met" if by_id[item.id].matched else "not met",
                quote=by_id[item.id].quote,
                quoted=stands(by_id[item.id].quote, whole),
                reason=by_id[item.id].reason,
            )
            for item in items
        )
    if items := change_items(task):
        answers = await client.ask(
            ANSWER_CHANGE,
            ChangeInputs(
                question=task.question,
                method=task.method,
                items=items,
                originals=originals,
                change=change[:LONGEST_CHANGE],
                cut=len(change) > LONGEST_CHANGE,
            ),
        )
        verdicts = {one.id: one for one in answers.verdicts}
        implementation = tuple(
            ItemJudged(
                text=item.text,
                verdict=verdicts[item.id].verdict,
                quote=verdicts[item.id].quote,
                quoted=stands(verdicts[item.id].quote, change),
                reason=verdicts[item.id].reason,
            )
            for item in items
        )
    told = await client.ask(
        ANSWER_CONCLUSION,
        ConclusionInputs(
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
    return Verdicts(
        by=name,
        design=design,
        implementation=implementation,
        conclusion=said(told.verdict),
        reason=told.reason,
        suspected=suspected,
        claims=tuple(Claim(one.metric, one.first, one.second, one.second_is) for one in told.directions),
    )


def stands(quote: str, text: str) -> bool:
    """Whether a quote stands in a text, but for space, signs and case."""
    bare = squeezed(quote)
    return sum(map(str.isalnum, bare)) >= SHORTEST and bare in squeezed(text)


def scripted(task: Task, answer: Answer) -> Verdicts:
    """What a file of answers says that a judge would say of one. Raises `ValueError` where it says nothing."""
    told = answer.judge
    if told is None:
        raise ValueError(f"the answer to {task.name} ({answer.variant}) holds no verdicts: configure a model")
    conclusion: Any = told.get("conclusion")
    verdict: object = cast("dict[str, Any]", conclusion).get("verdict") if isinstance(conclusion, dict) else conclusion
    return Verdicts(
        by="the file of answers",
        conclusion=said(verdict),
        claims=tuple(claims_in(answer.conclusion)),
        design=tuple(
            ItemJudged(text=str(one.get("name")), verdict="met" if one["matched"] else "not met")
            for one in told["design"]
        ),
        implementation=tuple(
            ItemJudged(
                text=str(one.get("requirement")),
                verdict="met" if one["met"] else "not applicable" if one["met"] is None else "not met",
            )
            for one in told["implementation"]
        ),
    )


def claims_in(text: str) -> Iterator[Claim]:
    """The directions of a conclusion in one of two plain forms; a model reads others."""
    if found := STATED.match(text):
        way = {"lowers": "lower", "raises": "higher", "does not change": "same"}[found["way"]]
        yield Claim(found["metric"], found["first"], found["second"], way)  # pyright: ignore
    elif found := CHOSEN.search(text):
        others = re.findall(r"([\w@-]+) [-\d.]", found["told"])
        for other in others:
            if other != found["best"]:
                yield Claim(found["metric"], other, found["best"], "lower" if found["way"] == "lowest" else "higher")
