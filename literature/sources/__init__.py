"""The four catalogues, each a `literature.works.Source`: what asking them and reading their answers has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from labwright.literature import SourceError
from labwright.literature.settings import SourceName
from labwright.literature.web import Question, Web
from labwright.literature.works import Wanted, Work


class Catalogue(ABC):
    """A `Source` that is asked over the web."""

    name: SourceName
    lists_retractions: bool = False

    def __init__(self, web: Web) -> None:
        self._web = web

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        return (await self._ask(self.searching(query, limit)))[:limit]

    async def find(self, wanted: Wanted) -> tuple[Work, ...]:
        found = [work for question in self.lookups(wanted) for work in await self._ask(question)]
        return tuple({work.id: work for work in reversed(found)}.values())[::-1]

    async def _ask(self, question: Question) -> tuple[Work, ...]:
        return await self._web.ask(question, lambda text: self.read(text, lookup=question.lookup))

    @abstractmethod
    def searching(self, query: str, limit: int) -> Question:
        """The question for works on a subject."""

    @abstractmethod
    def lookups(self, wanted: Wanted) -> Iterator[Question]:
        """The questions for one work, those for its identifiers first."""

    @abstractmethod
    def read(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        """The works in an answer to a search or lookup; what is not in form is left out. Raises `SourceError`."""


class Shape(BaseModel):
    """A part of an answer: fields that we do not know are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Shaped = TypeVar("Shaped", bound=Shape)


def at(field: str, *path: str | int) -> Any:
    """A field of a `Shape` that lies deeper in an answer; None where the answer has nothing there."""
    return Field(default=None, validation_alias=AliasPath(field, *path))


def parsed(source: SourceName, text: str, shape: type[Shaped]) -> Shaped:
    """A whole answer. Raises `SourceError`."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise SourceError(f"{source} answers in an unknown form (at {where})") from None


def works(items: Iterable[Any], shape: type[Shaped], work_of: Callable[[Shaped], Work | None]) -> tuple[Work, ...]:
    """The works in a list; an item that is not in form is left out."""
    found: list[Work] = []
    for item in items:
        try:
            work = work_of(shape.model_validate(item))
        except ValidationError:
            continue
        if work is not None:
            found.append(work)
    return tuple(found)


def years_of(*years: int | None) -> tuple[int, ...]:
    """Years that are given, each once."""
    return tuple(dict.fromkeys(year for year in years if year))
