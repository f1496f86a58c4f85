"""Crossref: what publishers deposit with a DOI; retractions stand at the work, Retraction Watch's included.

Source: github.com/CrossRef/rest-api-doc, "api_format.md"; crossref.org, "Retraction Watch retractions now in the
Crossref API" (`updated-by` at the work, `update-to` at the notice).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import Field

from literature.matching import abstract_of, without_retraction_mark
from literature.settings import Credentials, SourceName
from literature.web import Question, Web
from literature.works import Shape, Wanted, Work, arxiv_of, arxiv_year, distinct, doi_of, read, works, years_of

WITHDRAWING = frozenset({"retraction", "withdrawal", "removal", "partial_retraction"})


class _Author(Shape):
    given: str | None = None
    family: str | None = None
    name: str | None = None

    @property
    def written(self) -> str:
        if self.family:
            return f"{self.family}, {self.given}" if self.given else self.family
        return self.name or self.given or ""


class _Date(Shape):
    parts: tuple[tuple[int | None, ...], ...] = Field(default=(), alias="date-parts")

    @property
    def year(self) -> int | None:
        return self.parts[0][0] if self.parts and self.parts[0] else None


class _Update(Shape):
    type: str = ""


class _Related(Shape):
    id: str = ""


class _Item(Shape):
    doi: str = Field(alias="DOI")
    title: tuple[str, ...] = ()
    subtitle: tuple[str, ...] = ()
    author: tuple[_Author, ...] = ()
    container: tuple[str, ...] = Field(default=(), alias="container-title")
    issued: _Date | None = None
    in_print: _Date | None = Field(default=None, alias="published-print")
    online: _Date | None = Field(default=None, alias="published-online")
    posted: _Date | None = None
    abstract: str = ""
    updated_by: tuple[_Update, ...] = Field(default=(), alias="updated-by")
    update_to: tuple[_Update, ...] = Field(default=(), alias="update-to")
    relation: dict[str, tuple[_Related, ...]] = Field(default_factory=dict[str, tuple[_Related, ...]])


class _List(Shape):
    items: list[Any]


class _Search(Shape):
    message: _List


class _One(Shape):
    message: dict[str, Any]


class Crossref:
    """A `Source`."""

    name: SourceName = "crossref"
    lists_retractions = True

    def __init__(self, web: Web, credentials: Credentials) -> None:
        self._web = web
        self._private = {"mailto": credentials.mail} if credentials.mail else {}

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        question = Question("crossref", "works", {"query.bibliographic": " ".join(query.split()), "rows": str(limit)},
                            self._private)
        return (await self._web.ask(question, _listed))[:limit]

    async def find(self, wanted: Wanted) -> tuple[Work, ...]:
        found: list[Work] = []
        if wanted.doi:
            path = f"works/{quote(wanted.doi, safe='')}"
            found += await self._web.ask(Question("crossref", path, {}, self._private, lookup=True), _one)
        if wanted.title:
            found += await self.search(wanted.title, 10)
        return distinct(found)


def _listed(text: str) -> tuple[Work, ...]:
    return works(read("crossref", text, _Search).message.items, _Item, _work)


def _one(text: str) -> tuple[Work, ...]:
    return works([read("crossref", text, _One).message], _Item, _work)


def _work(item: _Item) -> Work | None:
    notice = any(one.type in WITHDRAWING for one in item.update_to)
    if not item.title or notice:  # a notice is not the work that it is about
        return None
    title, marked = without_retraction_mark(item.title[0])
    preprints = [one.id for one in item.relation.get("has-preprint", ())]
    arxiv = next((found for text in (item.doi, *preprints) if (found := arxiv_of(text))), "")
    dates = (item.in_print, item.online, item.issued, item.posted)
    return Work(
        source="crossref", id=item.doi.lower(), title=title, subtitle=item.subtitle[0] if item.subtitle else "",
        authors=tuple(one.written for one in item.author),
        years=years_of(*(one.year for one in dates if one is not None), arxiv_year(arxiv)),
        venue=item.container[0] if item.container else "", dois=(doi,) if (doi := doi_of(item.doi)) else (),
        arxiv=arxiv, abstract=abstract_of(item.abstract),
        retracted=marked or any(one.type in WITHDRAWING for one in item.updated_by))
