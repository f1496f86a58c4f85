"""What a judge said of a paper, as it is recorded, printed and written to a file."""

from __future__ import annotations

from pydantic import Field

from record.nouns import Frozen


class DimensionScore(Frozen):
    """The score on one dimension of a rubric, between `lowest` and `highest`."""

    dimension: str
    score: int
    lowest: int
    highest: int
    reason: str
    quote: str = Field(description="the passage that the judge gave as its ground")
    quoted: bool = Field(description="whether that passage stands in the paper")


class Judgement(Frozen):
    """A paper judged by a rubric. Every score was given by the judge; none was filled in."""

    paper: str = Field(description="the judged file; within a run relative to its folder")
    paper_sha256: str
    rubric: str
    rubric_sha256: str
    model: str
    heuristic: bool = Field(default=False, description="counted from the record; nobody read the paper")
    scores: tuple[DimensionScore, ...] = Field(min_length=1)
    confidence: int
    most_confidence: int
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    left_out: tuple[str, ...] = Field(default=(), description="what the judge was not shown of the paper")

    @property
    def line(self) -> str:
        """The scores in one line, a heuristic labelled so."""
        scores = ", ".join(f"{one.dimension} {one.score}/{one.highest}" for one in self.scores)
        said = f"{scores}; confidence {self.confidence}/{self.most_confidence}"
        unquoted = sum(not one.quoted for one in self.scores)
        if unquoted:
            said += f"; {unquoted} of {len(self.scores)} quotes not in the paper"
        return f"{said} (a heuristic over the record, no reading of the paper)" if self.heuristic else said
