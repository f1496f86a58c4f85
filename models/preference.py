"""The typed question which of two finished papers is the better one; `models/prompts/prefer.md` renders it.

It is asked twice, the papers in either order (`evals.comparison`), since judges favour a place.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from record.nouns.frozen import Frozen

Ground = Annotated[str, Field(min_length=1, max_length=2000)]
Better = Literal["first", "second", "neither"]


class ShownPaper(Frozen):
    """A paper as a judge of two sees it: neither its name nor its maker."""

    text: str = Field(description="by section; what was left out is marked in it")
    characters: int = Field(description="of the whole paper, the parts left out included")
    left_out: tuple[str, ...] = ()


class PreferInputs(Frozen):
    """For role `prefer`; answers with `PaperPreference`."""

    first: ShownPaper
    second: ShownPaper


class PaperPreference(Frozen):
    """Which of two papers is the better one. The grounds come before the verdict."""

    for_first: Ground = Field(description="what carries the first paper, and what it lacks, with a passage")
    for_second: Ground = Field(description="the same of the second")
    deciding: Ground = Field(description="what decides between them, in one or two sentences")
    better: Better
