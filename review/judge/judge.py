"""From a paper and a rubric to the question for a judge, and from its answer to a judgement with checked quotes."""

from __future__ import annotations

from models.judgement import JudgeAnswer, JudgeInputs, RecordFacts, Rubric, Score
from record.judgement import DimensionScore, Judgement
from review.judge.paper import Paper
from review.judge.quotes import stands_in
from review.judge.rubric import sha256_of
from review.judge.sections import Shown, fitted

CHARACTERS = 60_000
"""Of a paper that a judge is shown, about 15,000 tokens: a workshop paper whole, or the main text of a longer one."""


def shown_of(paper: Paper) -> Shown:
    """What of a paper is shown. Files that it includes and that could not be read count as left out."""
    shown = fitted(paper.parts, CHARACTERS)
    missing = tuple(f"included file {name!r}: not there, or outside the paper's folder" for name in paper.missing[:20])
    return Shown(shown.text, (*shown.left_out, *missing))


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
        left_out=asked.left_out)


def _scores(answer: JudgeAnswer, rubric: Rubric, text: str) -> tuple[DimensionScore, ...]:
    given: dict[str, Score] = {one.name: getattr(answer.scores, one.name) for one in rubric.dimensions}
    return tuple(
        DimensionScore(
            dimension=one.name, score=getattr(given[one.name], "score"), lowest=one.lowest, highest=one.highest,  # noqa: B009  a field that the rubric's type adds
            reason=given[one.name].reason, quote=given[one.name].quote,
            quoted=stands_in(given[one.name].quote, text))
        for one in rubric.dimensions)
