"""Reading JSON of a catalogue: what is not in its form is refused as a whole, or left out where it is one of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from literature.errors import SourceError
from literature.settings import SourceName
from literature.works import Work

Shaped = TypeVar("Shaped", bound="Shape")


class Shape(BaseModel):
    """A part of an answer: fields that we do not know are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def read(source: SourceName, text: str, shape: type[Shaped]) -> Shaped:
    """A whole answer. Raises `SourceError`."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise SourceError(f"{source} answers in a form that is not its own (at {where})") from None


def works(items: Iterable[Any], shape: type[Shaped], make: Callable[[Shaped], Work | None]) -> tuple[Work, ...]:
    """The works in a list; an item that is not in form is left out."""
    found: list[Work] = []
    for item in items:
        try:
            work = make(shape.model_validate(item))
        except ValidationError:
            continue
        if work is not None:
            found.append(work)
    return tuple(found)
