"""The four catalogues, each a `literature.works.Source`: what asking them and reading their answers has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import CatalogueClient, CatalogueRequest
from labwright.literature.settings import CatalogueName
from labwright.literature.works import Work, WorkQuery


class WebCatalogue(ABC):
    """A `Source` that is asked over the web."""

    name: CatalogueName
    lists_retractions: bool = False

    def __init__(self, web: CatalogueClient) -> None:
        self._web = web

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        return (await self._ask(self.build_search_request(query, limit)))[:limit]

    async def find(self, wanted: WorkQuery) -> tuple[Work, ...]:
        found = [work for question in self.build_lookup_requests(wanted) for work in await self._ask(question)]
        return tuple({work.id: work for work in reversed(found)}.values())[::-1]

    async def _ask(self, question: CatalogueRequest) -> tuple[Work, ...]:
        return await self._web.ask(question, lambda text: self.read_works(text, lookup=question.is_lookup))

    @abstractmethod
    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        """The question for works on a subject."""

    @abstractmethod
    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        """The questions for one work, those for its identifiers first."""

    @abstractmethod
    def read_works(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        """The works in an answer to a search or lookup; what is not in form is left out. Raises `SourceError`."""


class AnswerShape(BaseModel):
    """A part of an answer: fields that we do not know are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")


ShapeT = TypeVar("Shaped", bound=AnswerShape)


def nested_field(field: str, *path: str | int) -> Any:
    """A field of a `Shape` that lies deeper in an answer; None where the answer has nothing there."""
    return Field(default=None, validation_alias=AliasPath(field, *path))


def parse_answer(source: CatalogueName, text: str, shape: type[ShapeT]) -> ShapeT:
    """A whole answer. Raises `SourceError`."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise CatalogueAnswerError(f"{source} answers in an unknown form (at {where})") from None


def parse_works(
    items: Iterable[Any], shape: type[ShapeT], work_of: Callable[[ShapeT], Work | None]
) -> tuple[Work, ...]:
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


def unique_years(*years: int | None) -> tuple[int, ...]:
    """Years that are given, each once."""
    return tuple(dict.fromkeys(year for year in years if year))
