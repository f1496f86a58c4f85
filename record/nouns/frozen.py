"""What nouns and events are made of: values that cannot change."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value that cannot change and refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Scalar = str | int | float | bool
