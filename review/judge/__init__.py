"""Judges: a finished paper scored by a rubric, with a reason and a checked quote for every score.

`judged` is one judgement: a `Case` is put together from a paper that the guards went over, a rubric and what the paper
is held against, and `screened` by a model. `panel` asks several judges. docs/judge.md says what a judgement is worth.
"""

from labwright.review.judge.code import code_exhibit
from labwright.review.judge.exhibits import facts_of, file_exhibit, pictures, results_exhibit
from labwright.review.judge.guards import Guarded, guarded
from labwright.review.judge.judge import (
    Case,
    Member,
    family_warnings,
    judged,
    judgement,
    panel,
    question,
    without_pictures,
)
from labwright.review.judge.reader import JudgeError, Paper, PaperError, RubricError, read_paper
from labwright.review.judge.rubric import bundled, read_rubric, rubric_called
from labwright.review.judge.screening import screened

__all__ = [
    "Case",
    "Guarded",
    "JudgeError",
    "Member",
    "Paper",
    "PaperError",
    "RubricError",
    "bundled",
    "code_exhibit",
    "facts_of",
    "family_warnings",
    "file_exhibit",
    "guarded",
    "judged",
    "judgement",
    "panel",
    "pictures",
    "question",
    "read_paper",
    "read_rubric",
    "results_exhibit",
    "rubric_called",
    "screened",
    "without_pictures",
]
