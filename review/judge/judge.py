"""Judgements by a rubric: from a paper to the question for a judge, from its answer to a judgement with checked quotes,
and several judges over one paper. A member of a panel that fails is reported missing with its reason.

Not guaranteed: that members of different names judge independently. Repeats at temperature 0 show how far a provider
repeats itself, not how sure a judgement is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labwright.models.client import ModelClient, Models
from labwright.models.errors import ImagesRefused, ModelError
from labwright.models.naming import alike, family
from labwright.models.render import render
from labwright.models.roles.judge import JUDGE, JudgeAnswer, JudgeInputs, RecordFacts, Rubric
from labwright.record.nouns.papers import (
    AuditFacts,
    CheckResult,
    DimensionScore,
    Judgement,
    Missing,
    Panel,
    Removed,
    Results,
    TextAlone,
    View,
    spreads,
)
from labwright.review.judge.exhibits import GuardedExhibit, Pictures, exhibit_lines
from labwright.review.judge.guards import Guarded
from labwright.review.judge.quotes import stands_in
from labwright.review.judge.reader import Paper
from labwright.review.judge.rubric import sha256_of
from labwright.review.judge.sections import Excerpt, excerpt

CHARACTERS = 100_000
"""Of a paper that a judge is shown, about 25,000 tokens: thirty pages whole, or the main text of a longer paper."""


@dataclass(frozen=True)
class Case:
    """What is judged, by what, and what it is held against."""

    guarded: Guarded
    rubric: Rubric
    name: str
    facts: RecordFacts | None = None
    audit: AuditFacts | None = None
    exhibits: tuple[GuardedExhibit, ...] = ()
    pictures: Pictures | None = None
    view: View = "all"

    @property
    def removed(self) -> tuple[Removed, ...]:
        """Everything that the guards took out, of the paper first."""
        return (*self.guarded.removed, *(one for exhibit in self.exhibits for one in exhibit.removed))


async def judged(case: Case, client: ModelClient, *, model: str) -> Judgement:
    """The judgement of a case by a model. Raises `ModelError`."""
    paper = case.guarded.paper
    images = case.pictures.images if case.pictures else ()
    inputs = question(paper, case.rubric, case.facts).model_copy(
        update={
            "audit": case.audit,
            "exhibits": tuple(one.exhibit for one in case.exhibits),
            "removed": len(case.removed),
            "pages": case.pictures.pages if case.pictures and images else None,
        }
    )
    try:
        answer = await client.ask(JUDGE, inputs, images)
    except ImagesRefused:
        inputs, images = inputs.model_copy(update={"pages": None}), ()
        answer = await client.ask(JUDGE, inputs)
    plain = judgement(answer, paper, inputs, name=case.name, model=model)
    withheld: list[str] = []
    if pages := inputs.pages:
        rest = pages.total - len(pages.shown) - len(pages.withheld)
        if pages.withheld:
            withheld.append(f"pictures of pages {', '.join(map(str, pages.withheld))}: a passage on them was removed")
        if rest > 0:
            withheld.append(f"pictures of {rest} more pages")
    return plain.model_copy(
        update={
            "removed": case.removed,
            "audit": case.audit,
            "view": case.view,
            "coverage": "" if inputs.left_out else f"all {paper.characters} characters shown",
            "left_out": (*plain.left_out, *case.guarded.not_looked_at, *withheld),
            "pages": inputs.pages.shown if inputs.pages and images else (),
            "exhibits": exhibit_lines(case.exhibits),
        }
    )


def shown_of(paper: Paper) -> Excerpt:
    """What of a paper is shown. Files that it includes and that could not be read count as left out."""
    shown = excerpt(paper.sections, CHARACTERS)
    missing = tuple(f"included file {name!r}: not there, or outside the paper's folder" for name in paper.missing[:20])
    return replace(shown, left_out=(*shown.left_out, *missing))


def question(paper: Paper, rubric: Rubric, facts: RecordFacts | None = None) -> JudgeInputs:
    """What a judge is asked."""
    shown = shown_of(paper)
    return JudgeInputs(
        rubric=rubric, paper=shown.text, characters=paper.characters, left_out=shown.left_out, facts=facts
    )


def judgement(answer: JudgeAnswer, paper: Paper, inputs: JudgeInputs, *, name: str, model: str) -> Judgement:
    """The answer with every quote looked up in the whole paper. `name` is how the paper is called in a report."""
    rubric, text = inputs.rubric, paper.text
    scores = tuple(
        DimensionScore(
            dimension=one.name,
            lowest=one.lowest,
            highest=one.highest,
            quoted=stands_in(given.quote, text),
            **given.model_dump(),
        )
        for one in rubric.dimensions
        for given in [getattr(answer.scores, one.name)]
    )
    checks = tuple(
        CheckResult(check=one.name, quoted=bool(given.quote) and stands_in(given.quote, text), **given.model_dump())
        for one in rubric.checks
        for given in [getattr(answer.checks, one.name)]
    )
    return Judgement(
        paper=name,
        paper_sha256=paper.sha256,
        rubric=rubric.name,
        rubric_sha256=sha256_of(rubric),
        model=model,
        heuristic=answer.heuristic,
        scores=scores,
        text_alone=_text_alone(answer, rubric),
        results=_results(answer, paper, inputs),
        confidence=answer.confidence,
        most_confidence=rubric.confidence.highest,
        strengths=answer.strengths,
        weaknesses=answer.weaknesses,
        left_out=inputs.left_out,
        checks=checks,
    )


def _text_alone(answer: JudgeAnswer, rubric: Rubric) -> TextAlone | None:
    if answer.text_alone is None or (of := rubric.overall) is None:
        return None
    return TextAlone(lowest=of.lowest, highest=of.highest, **answer.text_alone.model_dump())


def _results(answer: JudgeAnswer, paper: Paper, inputs: JudgeInputs) -> Results | None:
    """What the judge says of the results, its quote looked up in everything that it was shown."""
    if answer.results is None:
        return None
    given, audit = answer.results, inputs.audit
    shown = [(one.kind, one.text) for one in inputs.exhibits]
    if audit is not None:
        shown.append(("audit", "\n".join((*audit.provenance, *audit.findings))))
    shown.append(("paper", paper.text))
    if inputs.facts is not None:
        shown.append(("record", render(JUDGE, inputs).user))
    places = [where for where, text in shown if given.quote and stands_in(given.quote, text)]
    return Results(quoted=bool(places), where=places[0] if places else "", **given.model_dump())


@dataclass(frozen=True)
class Member:
    """A judge of a panel: its name as configured, and the door to it."""

    name: str
    models: Models


async def panel(case: Case, members: Sequence[Member], *, repeats: int = 1, writers: Sequence[str] = ()) -> Panel:
    """Every member asked `repeats` times, members side by side. `writers` are the models that wrote the paper."""

    async def asked(member: Member) -> list[Judgement | Missing]:
        outcomes: list[Judgement | Missing] = []
        client = member.models.at(0, 0)
        shown = case if member.models.sees else without_pictures(case)
        for repeat in range(1, repeats + 1):
            try:
                outcomes.append(await judged(shown, client, model=member.models.name_of(JUDGE)))
            except ModelError as error:
                outcomes.append(Missing(model=member.name, repeat=repeat, why=str(error)))
        return outcomes

    found = [one for outcomes in await asyncio.gather(*map(asked, members)) for one in outcomes]
    given = tuple(one for one in found if isinstance(one, Judgement))
    names = list(dict.fromkeys(one.name for one in members))
    same = [
        f"{first} and {second} are of one family: their agreement says less"
        for first, second in itertools.combinations(names, 2)
        if alike(first, second)
    ]
    unknown = [f"the family of {name} is not known from its name" for name in names if family(name) is None]
    return Panel(
        paper=case.name,
        rubric=case.rubric.name,
        asked=len(members) * repeats,
        judgements=given,
        dimensions=spreads(given),
        missing=tuple(one for one in found if isinstance(one, Missing)),
        audit=case.audit,
        warnings=(*family_warnings(names, writers), *same, *(unknown if len(names) > 1 else ())),
    )


def without_pictures(case: Case) -> Case:
    """The case for a model that looks at no pictures."""
    return replace(case, pictures=None)


def family_warnings(judges: Sequence[str], writers: Sequence[str]) -> tuple[str, ...]:
    """Warnings on judges of a writer's family."""
    return tuple(
        f"{judge} is of the family that wrote the paper ({writer}): judges tend to favour their own kind"
        for judge in dict.fromkeys(judges)
        for writer in dict.fromkeys(writers)
        if alike(judge, writer)
    )
