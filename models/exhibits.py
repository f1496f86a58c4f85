"""What a judge is given beside the paper: files, pages as pictures, and notes on what was too long to be shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

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


# --- notes on a long paper ------------------------------------------------------------------------------------------


class PartInputs(Frozen):
    """For role `judge_notes`: a stretch of a paper that is too long to be shown whole; answers with `PartNotes`."""

    subject: str = Field(description="what the whole is, as 'a finished machine learning paper'")
    where: str = Field(description="which stretch of which sections")
    text: str


class Note(Frozen):
    """One thing that a reviewer of the whole has to know."""

    said: Annotated[str, Field(min_length=1, max_length=400)] = Field(description="what stands there, in one sentence")
    quote: str = Field(min_length=12, max_length=400, description=(
        "the passage, up to thirty words, copied word for word"))


class PartNotes(Frozen):
    """What a reviewer has to know of a stretch. No score: the whole is judged later."""

    notes: tuple[Note, ...] = Field(min_length=1, max_length=8)


class ReadPart(Frozen):
    """A stretch that was read for the judge, with its notes; `quoted` says which quotes stand in it."""

    where: str
    characters: int
    notes: tuple[Note, ...]
    quoted: tuple[bool, ...]
