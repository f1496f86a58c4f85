"""From a paper and a rubric to the question for a judge, and from its answer to a judgement with checked quotes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from models.errors import ImagesRefused
from models.exhibits import PartInputs, PartNotes
from models.judgement import Answer, JudgeAnswer, JudgeInputs, RecordFacts, Rubric, Score, answer_type
from record.nouns.papers import AuditFacts, CheckResult, DimensionScore, Judgement, Removed
from review.judge.exhibits import Shown as ShownExhibit
from review.judge.exhibits import names_of
from review.judge.guards import Guarded
from review.judge.pages import Pictures
from review.judge.paper import Paper
from review.judge.quotes import stands_in
from review.judge.reading import Reading, read
from review.judge.rubric import sha256_of
from review.judge.sections import Shown, fitted

if TYPE_CHECKING:
    from models.door import Desk

CHARACTERS = 60_000
"""Of a paper that a judge is shown, about 15,000 tokens: a workshop paper whole, or the main text of a longer one."""


@dataclass(frozen=True)
class Case:
    """What is judged, by what, and what it is held against. `read_on`: what does not fit is read in stretches."""

    guarded: Guarded
    rubric: Rubric
    name: str
    facts: RecordFacts | None = None
    audit: AuditFacts | None = None
    exhibits: tuple[ShownExhibit, ...] = ()
    pictures: Pictures | None = None
    read_on: bool = False

    @property
    def removed(self) -> tuple[Removed, ...]:
        """Everything that the guards took out, of the paper first."""
        return (*self.guarded.removed, *(one for exhibit in self.exhibits for one in exhibit.removed))


async def judged(case: Case, desk: Desk, *, model: str) -> Judgement:
    """The judgement of a case by a model. Raises `ModelError`."""
    paper = case.guarded.paper

    async def notes(inputs: PartInputs) -> PartNotes:
        return await desk.ask("judge_notes", inputs, PartNotes)

    reading = Reading()
    if case.read_on:
        reading = await read(paper.parts, CHARACTERS, case.rubric.subject, notes)
    asked = _asked(case, reading)
    images = case.pictures.images if case.pictures else ()
    try:
        answer = await desk.ask("judge", asked, answer_type(case.rubric), images)
    except ImagesRefused:
        asked, images = asked.model_copy(update={"pages": None}), ()
        answer = await desk.ask("judge", asked, answer_type(case.rubric))
    found = judgement(answer, paper, asked, name=case.name, model=model)
    return found.model_copy(update={
        "removed": case.removed, "coverage": _coverage(paper, asked, reading), "audit": case.audit,
        "left_out": (*found.left_out, *reading.failed, *case.guarded.not_looked_at, *_withheld(asked)),
        "pages": asked.pages.shown if asked.pages and images else (), "exhibits": names_of(case.exhibits)})


def shown_of(paper: Paper) -> Shown:
    """What of a paper is shown. Files that it includes and that could not be read count as left out."""
    shown = fitted(paper.parts, CHARACTERS)
    missing = tuple(f"included file {name!r}: not there, or outside the paper's folder" for name in paper.missing[:20])
    return replace(shown, left_out=(*shown.left_out, *missing))


def question(paper: Paper, rubric: Rubric, facts: RecordFacts | None = None) -> JudgeInputs:
    """What a judge is asked."""
    shown = shown_of(paper)
    return JudgeInputs(rubric=rubric, paper=shown.text, characters=paper.characters, left_out=shown.left_out,
                       facts=facts)


def judgement(answer: JudgeAnswer, paper: Paper, asked: JudgeInputs, *, name: str, model: str) -> Judgement:
    """The answer with every quote looked up in the whole paper. `name` is how the paper is called in a report."""
    rubric, text = asked.rubric, paper.text
    return Judgement(
        paper=name, paper_sha256=paper.sha256, rubric=rubric.name, rubric_sha256=sha256_of(rubric), model=model,
        heuristic=answer.heuristic, scores=_scores(answer, rubric, text), confidence=answer.confidence,
        most_confidence=rubric.confidence.highest, strengths=answer.strengths, weaknesses=answer.weaknesses,
        left_out=asked.left_out, checks=_checks(answer, rubric, text))


def _asked(case: Case, reading: Reading) -> JudgeInputs:
    pages = case.pictures.pages if case.pictures and case.pictures.images else None
    return question(case.guarded.paper, case.rubric, case.facts).model_copy(update={
        "audit": case.audit, "exhibits": tuple(one.exhibit for one in case.exhibits), "read": reading.parts,
        "removed": len(case.removed), "pages": pages})


def _coverage(paper: Paper, asked: JudgeInputs, reading: Reading) -> str:
    """How much of a paper reached its judge, in words."""
    if not reading.unseen:
        return "" if asked.left_out else f"all {paper.characters} characters shown"
    return (f"{paper.characters - reading.unseen} of {paper.characters} characters shown, "
            f"{reading.unseen - reading.unread} more read in {len(reading.parts)} stretches for notes, "
            f"{reading.unread} neither")


def _withheld(asked: JudgeInputs) -> tuple[str, ...]:
    if asked.pages is None:
        return ()
    rest = asked.pages.total - len(asked.pages.shown) - len(asked.pages.withheld)
    said = [f"pictures of pages {', '.join(map(str, asked.pages.withheld))}: a passage on them was taken out"]
    return (*(said if asked.pages.withheld else ()), *([f"pictures of {rest} more pages"] if rest > 0 else ()))


def _scores(answer: JudgeAnswer, rubric: Rubric, text: str) -> tuple[DimensionScore, ...]:
    given: dict[str, Score] = {one.name: getattr(answer.scores, one.name) for one in rubric.dimensions}
    return tuple(
        DimensionScore(
            dimension=one.name, score=getattr(given[one.name], "score"), lowest=one.lowest, highest=one.highest,  # noqa: B009  a field that the rubric's type adds
            reason=given[one.name].reason, quote=given[one.name].quote,
            quoted=stands_in(given[one.name].quote, text))
        for one in rubric.dimensions)


def _checks(answer: JudgeAnswer, rubric: Rubric, text: str) -> tuple[CheckResult, ...]:
    given: dict[str, Answer] = {one.name: getattr(answer.checks, one.name) for one in rubric.checks}
    return tuple(
        CheckResult(check=name, answer=one.answer, details=one.details, quote=one.quote,
                    quoted=bool(one.quote) and stands_in(one.quote, text))
        for name, one in given.items())
