"""Frozen values that events contain, prompts show and papers cite; one module per subject.

Every package may import them; they import no other part of this program. A value never changes: a later fact is a later
event (`record.events`), and the state of a run is the fold of its events (`record.reducers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar, Union, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

T = TypeVar("T")


class FrozenModel(BaseModel):
    """An immutable value that rejects unknown fields and numbers that JSON does not support (inf, nan)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TaggedModel(FrozenModel):
    """A value that is stored with the tag of its class: `class Ended(Event, type="ended")`."""

    type: str = ""

    def __init_subclass__(cls, *, type: str = "", **config: Any) -> None:
        super().__init_subclass__(**config)
        if type:
            cls.__annotations__ = {"type": cast(Any, Literal)[type]} | cls.__annotations__
            cast(Any, cls).type = type


def build_adapter(base: type[T]) -> TypeAdapter[T]:
    """Return the adapter that reads a value of any tagged class below `base`, by its tag."""

    def iterate_tagged(above: Any) -> Iterator[Any]:
        for one in above.__subclasses__():
            yield from ([one] if one.model_fields["type"].default else [])
            yield from iterate_tagged(one)

    every: Any = cast(Any, Union)[tuple(iterate_tagged(base))]
    return TypeAdapter(cast(Any, Annotated)[every, Field(discriminator="type")])


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
