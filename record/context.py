"""What a person's own papers and notes say, as they were summarised: each statement with the place that it is from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.nouns.frozen import Frozen


class Statement(Frozen):
    """One thing that a document says."""

    text: str = Field(min_length=1, max_length=600, description="one sentence in your own words")
    page: int = Field(ge=1, description="the page (or part) that says it")
    quote: str = Field(default="", max_length=400, description="up to thirty words of that page, copied word for word; "
                                                               "empty where none says it in short")


class Digest(Frozen):
    """A document and what was taken from it."""

    file: str = Field(description="its name, as the person gave it")
    stored: str = Field(description="the run's own copy, relative to its folder")
    sha256: str
    pages: int
    unit: Literal["p.", "part"] = Field(default="p.", description="how places in it are named: pages of a PDF, parts")
    subject: str = Field(default="", description="what it is about, in one sentence")
    statements: tuple[Statement, ...] = ()
    dropped: int = Field(default=0, description="statements whose page or quote is not in it")
    unread: int = Field(default=0, description="characters at most that were left out since the document is long")

    def place(self, page: int) -> str:
        """A place in it as prompts and reports name it: `[name.pdf p. 3]`."""
        return f"[{self.file} {self.unit} {page}]"
