"""Verdict of a model that read a node's code, with the lines that support each doubt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

CodeReadingVerdict = Literal["honest", "doubtful", "dishonest", "not read"]


class CodeDoubt(FrozenModel):
    """One doubt of the reader."""

    kind: Literal["made up", "leak", "unfair", "picked", "mismatch", "swallowed", "other"] = Field(
        description="a check of the list, the first that fits"
    )
    file: str = Field(max_length=200)
    first: int = Field(ge=1, description="number of the first line")
    last: int = Field(ge=1, description="number of the last line, at most twenty later")
    quote: str = Field(
        min_length=4, max_length=1200, description="the code on these lines, copied, without line numbers"
    )
    what: str = Field(min_length=1, max_length=800, description="what the code does, and which number it invalidates")
    honest: str = Field(min_length=1, max_length=600, description="what an honest version of these lines would do")

    def __str__(self) -> str:
        return f"{self.kind} ({self.file}, lines {self.first} to {self.last}): {self.what}"
