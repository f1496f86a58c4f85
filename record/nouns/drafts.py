"""The text of a paper, as a writer hands it in."""

from __future__ import annotations

from pydantic import Field

from record.nouns.figures import Placement
from record.nouns.frozen import Frozen


class Section(Frozen):
    """One section of a paper: a title and a LaTeX body in which every number is a macro."""

    title: str
    body: str


class Draft(Frozen):
    """What a writer hands in. Numbers are `\\result{key}` or `\\setup{key}`; floats `\\paperfigure{name}` etc."""

    title: str
    abstract: str
    sections: tuple[Section, ...] = Field(min_length=1)
    captions: dict[str, str] = Field(default_factory=dict, description="figure name -> caption")
    placements: dict[str, Placement] = Field(
        default_factory=dict[str, Placement], description="figures that were moved, by name; the others stand where "
                                                          "their script put them")
