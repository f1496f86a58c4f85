"""Role `influence`: find passages of a paper, or of its files, that address its judge instead of its readers.

The answer has only numbers of passages and words quoted from them, so a passage cannot influence anything here,
whatever it asks for.
"""

from __future__ import annotations

import re
import unicodedata

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.judge import ExhibitKind
from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel


class NumberedPassage(FrozenModel):
    """A sentence, or some lines, of the text."""

    number: int = Field(ge=1)
    text: str
    source: ExhibitKind | None = Field(default=None, description="kind of file; None: the paper")


class InfluenceInputs(FrozenModel):
    about: str = Field(default="", description="headings of the paper")
    passages: tuple[NumberedPassage, ...] = Field(min_length=1, description="in order, grouped by text")


class NamedPassage(FrozenModel):
    """A passage that addresses whoever judges the paper or tries to influence the judgement."""

    number: int
    quote: str = Field(min_length=1, max_length=300, description="a few words of it that do this, copied")
    keep: str = Field(default="", max_length=1000, description="consecutive words of it that report the study, if any")


class Influence(FrozenModel):
    """Such passages; empty if there are none."""

    passages: tuple[NamedPassage, ...] = ()
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


def _check_named_passages(inputs: InfluenceInputs, found: Influence) -> None:
    texts = {one.number: _letters_and_digits(one.text) for one in inputs.passages}
    for one in found.passages:
        if one.number not in texts:
            raise ValueError(
                f"passages: there is no passage {one.number}; they are numbered from {min(texts)} to {max(texts)}"
            )
        pieces = [_letters_and_digits(piece) for piece in re.split(r"\.{3}|\u2026", one.quote)]
        if not any(pieces) or not all(piece in texts[one.number] for piece in pieces):
            raise ValueError(f"passages: {one.quote!r} is not in passage {one.number}; copy a few words of it")


def _letters_and_digits(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


MAX_CALLS = 12
"""Maximum calls for a run's own paper, which has no other files: its longest excerpt takes six, and what these name is
read a second time (`review.judge.injection_screening`).
"""

INFLUENCE = Role(
    "influence",
    InfluenceInputs,
    Influence,
    temperature=0.0,
    max_tokens=2048,
    prompt_tokens=16_000,
    typical_tokens=(6500, 40),
    check=_check_named_passages,
)
