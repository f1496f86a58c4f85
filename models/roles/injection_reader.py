"""Role `influence`: which passages of a paper, or of a file beside it, speak to its judge instead of to its readers.

The answer is a list of numbers and nothing else, so that whatever a passage asks for, it cannot be granted here.
"""

from __future__ import annotations

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from labwright.models.roles.judge import ExhibitKind
from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel


class NumberedPassage(FrozenModel):
    """A sentence, or some lines, of the text that is read."""

    number: int = Field(ge=1)
    text: str
    source: ExhibitKind | None = Field(default=None, description="which file beside the paper; None: the paper")


class InfluenceInputs(FrozenModel):
    about: str = Field(default="", description="title and headings of the paper")
    passages: tuple[NumberedPassage, ...] = Field(min_length=1, description="in their order, those of a text together")


class Influence(FrozenModel):
    """The passages that speak to whoever judges the paper, or try to move the judgement; nothing, where none do."""

    passages: tuple[int, ...] = Field(default=(), description="their numbers")
    unread: SkipJsonSchema[bool] = Field(default=False, description="set by the offline model, which reads nothing")


def _check_passage_numbers(inputs: InfluenceInputs, found: Influence) -> None:
    known = {one.number for one in inputs.passages}
    if beyond := sorted(set(found.passages) - known):
        raise ValueError(
            f"passages: there is no passage {beyond[0]}; they are numbered from {min(known)} to {max(known)}"
        )


MAX_CALLS = 6
"""For a run's paper, which has nothing beside it: as many as its longest excerpt takes
(`review.judge.injection_screening`).
"""

INFLUENCE = Role(
    "influence",
    InfluenceInputs,
    Influence,
    temperature=0.0,
    max_tokens=2048,
    prompt_tokens=16_000,
    typical_tokens=(6500, 30),
    check=_check_passage_numbers,
)
