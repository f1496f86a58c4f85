"""Judges: a finished paper scored by a rubric, with a reason and a checked quote for every score.

`question` and `judgement` stand before and after the one model call, which `stages.judging` and the command line make.
docs/judge.md says what a judgement is worth.
"""

from __future__ import annotations

from review.judge.errors import JudgeError, PaperError, RubricError
from review.judge.facts import facts_of
from review.judge.judge import judgement, question
from review.judge.paper import Paper, read_paper
from review.judge.rubric import read_rubric

__all__ = ["JudgeError", "Paper", "PaperError", "RubricError", "facts_of", "judgement", "question", "read_paper",
           "read_rubric"]
