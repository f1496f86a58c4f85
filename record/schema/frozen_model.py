"""What nouns and events are made of: values that cannot change, and are read as they were written."""

from __future__ import annotations

from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class FrozenModel(BaseModel):
    """A value that cannot change and refuses fields it does not know, and numbers that JSON does not (inf, nan)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Scalar = str | int | float | bool


def replace_unencodable(value: T) -> T:
    """The value with `?` for what UTF-8 cannot hold, in texts however deep in lists and dicts: lone surrogates, which
    names of files and escapes in JSON bring in."""
    if isinstance(value, str):
        return cast("T", value.encode("utf-8", errors="replace").decode())
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return cast("T", {replace_unencodable(key): replace_unencodable(one) for key, one in pairs})
    if isinstance(value, list | tuple):
        items = [replace_unencodable(one) for one in cast("list[object]", value)]
        return cast("T", tuple(items) if isinstance(value, tuple) else items)
    return value
