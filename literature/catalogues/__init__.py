"""Common code of the four catalogues, each a `literature.works.WorkCatalogue`."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from labwright.literature import CatalogueAnswerError
from labwright.literature.catalogue_client import CatalogueClient, CatalogueName, CatalogueRequest
from labwright.literature.works import PublishedWork, WorkQuery


class WebCatalogue(ABC):
    """A `WorkCatalogue` that is queried over HTTP."""

    name: CatalogueName
    lists_retractions: bool = False

    def __init__(self, web: CatalogueClient) -> None:
        self._web = web

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        return (await self._ask(self.build_search_request(query, limit)))[:limit]

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        found = [work for question in self.build_lookup_requests(wanted) for work in await self._ask(question)]
        return tuple({work.id: work for work in reversed(found)}.values())[::-1]

    async def _ask(self, question: CatalogueRequest) -> tuple[PublishedWork, ...]:
        return await self._web.ask(question, lambda text: self.read_works(text, lookup=question.is_lookup))

    @abstractmethod
    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        """Build the request to search for works."""

    @abstractmethod
    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        """Build the requests for one work, by identifiers first."""

    @abstractmethod
    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        """Read the works in an answer, skipping malformed ones. Raises `CatalogueAnswerError`."""


class AnswerShape(BaseModel):
    """A part of an answer; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


ShapeT = TypeVar("ShapeT", bound=AnswerShape)


def nested_field(field: str, *path: str | int) -> Any:
    """Declare a field nested deeper in an answer; None if it is missing."""
    return Field(default=None, validation_alias=AliasPath(field, *path))


def read_json_works(
    source: CatalogueName,
    text: str,
    keys: Iterable[str],
    shape: type[ShapeT],
    build: Callable[[ShapeT], PublishedWork | None],
) -> tuple[PublishedWork, ...]:
    """Read the works below these keys of an answer: one, or a list, of which malformed ones are skipped.

    Raises `CatalogueAnswerError`.
    """
    found: list[PublishedWork | None] = []
    where = "the top level"
    try:
        items: Any = json.loads(text)
        for where in keys:
            items = items[where]
        if isinstance(items, list):
            for item in cast("list[Any]", items):
                with contextlib.suppress(ValidationError):
                    found.append(build(shape.model_validate(item)))
        else:
            found.append(build(shape.model_validate(items)))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise CatalogueAnswerError(f"{source} returned an unknown format (at {where})") from None
    return tuple(work for work in found if work is not None)


def unique_years(*years: int | None) -> tuple[int, ...]:
    """Return the given years without duplicates."""
    return tuple(dict.fromkeys(year for year in years if year))
