"""Frozen values that events contain, prompts show and papers cite; one module per subject.

Every package may import them; they import no other part of this program. A value never changes: a later fact is a later
event (`record.events`), and the state of a run is the fold of its events (`record.reducers`).
"""

from __future__ import annotations

from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

T = TypeVar("T")


class FrozenModel(BaseModel):
    """An immutable value that rejects unknown fields and numbers that JSON does not support (inf, nan)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def is_empty(value: object) -> bool:
    """Return whether a field has nothing to say, so that it is left out of JSON (`exclude_if`)."""
    return not value


MAX_FAULTS = 4


def describe_validation_error(error: ValidationError) -> str:
    """Describe the first faults of a value in one line, each with its place."""
    found = error.errors(include_url=False)[:MAX_FAULTS]
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)


Scalar = str | int | float | bool


def replace_unencodable(value: T) -> T:
    """Replace characters that UTF-8 cannot encode by `?`, in strings nested in lists and dicts.

    Lone surrogates come from file names and JSON escapes.
    """
    if isinstance(value, str):
        return cast("T", value.encode("utf-8", errors="replace").decode())
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return cast("T", {replace_unencodable(key): replace_unencodable(one) for key, one in pairs})
    if isinstance(value, list | tuple):
        items = [replace_unencodable(one) for one in cast("list[object]", value)]
        return cast("T", tuple(items) if isinstance(value, tuple) else items)
    return value
