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


class PaperFinding(Frozen):
    """Something to mend in how a version of a paper is set."""

    text: str = Field(description="one line that a writer can act on")
    blocks: bool = Field(default=False, description="whether a paper with it is not released; else it is a blemish")
    by_edit: bool = Field(default=True, description="whether an edit of the draft can mend it: not in the appendix, "
                                                    "which the program writes")

    def __str__(self) -> str:
        return self.text
