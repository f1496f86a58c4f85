"""What a reader of a node's code said of it, with the lines that each doubt rests on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel

CodeReadingVerdict = Literal["honest", "doubtful", "dishonest", "not read"]


class CodeDoubt(FrozenModel):
    """One thing that the reader doubts."""

    kind: Literal["made up", "leak", "unfair", "picked", "mismatch", "swallowed", "other"] = Field(
        description=(
            "made up: a value or prediction that comes from no data; leak: rows or labels to be predicted reach "
            "training "
            "or choices; unfair: an arm is held back or helped beside what sets it apart; picked: the best of "
            "several is "
            "reported; mismatch: an arm is not what it is named; swallowed: a failure is covered by a value"
        )
    )
    file: str = Field(max_length=200)
    first: int = Field(ge=1, description="number of the first line that is meant")
    last: int = Field(ge=1, description="number of the last one, at most twenty further")
    quote: str = Field(min_length=4, max_length=1200, description="what stands there, copied, without the numbers")
    what: str = Field(min_length=1, max_length=800, description="what it does, and which number it makes untrue")
    honest: str = Field(min_length=1, max_length=600, description="what an honest version of it would look like")

    def __str__(self) -> str:
        return f"{self.kind} ({self.file}, lines {self.first} to {self.last}): {self.what}"
