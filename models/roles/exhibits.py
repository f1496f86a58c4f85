"""Papers that are read: what lies beside one, the better of two (`prefer`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.roles.role import Role
from record.nouns.frozen import Frozen

ExhibitKind = Literal["task", "code", "log"]


class Exhibit(Frozen):
    """A file, or a folder's files, that the paper is held against."""

    kind: ExhibitKind
    name: str
    text: str = Field(description="what is shown of it; cuts are marked")
    left_out: tuple[str, ...] = Field(default=(), description="what is not, in words")


class Pages(Frozen):
    """Pages of a PDF that go with the question as pictures."""

    shown: tuple[int, ...]
    total: int
    withheld: tuple[int, ...] = Field(default=(), description="pages with a passage that was taken out of the text")


Ground = Annotated[str, Field(min_length=1, max_length=2000)]
Better = Literal["first", "second", "neither"]


class ShownPaper(Frozen):
    """A paper as a judge of two sees it: neither its name nor its maker."""

    text: str = Field(description="by section; what was left out is marked in it")
    characters: int = Field(description="of the whole paper, the parts left out included")
    left_out: tuple[str, ...] = ()


class PreferInputs(Frozen):
    first: ShownPaper
    second: ShownPaper


class PaperPreference(Frozen):
    """Which of two papers is the better one. The grounds come before the verdict."""

    for_first: Ground = Field(description="what carries the first paper, and what it lacks, with a passage")
    for_second: Ground = Field(description="the same of the second")
    deciding: Ground = Field(description="what decides between them, in one or two sentences")
    better: Better


PREFER = Role("prefer", PreferInputs, PaperPreference, temperature=0.0)
