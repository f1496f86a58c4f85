"""Crossref: what publishers deposit with a DOI; retractions stand at the work, Retraction Watch's included.

Source: github.com/CrossRef/rest-api-doc, "api_format.md"; crossref.org, "Retraction Watch retractions now in the
Crossref API" (`updated-by` at the work, `update-to` at the notice).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from pydantic import AliasPath, Field

from labwright.literature.matching import abstract_of, without_retraction_mark
from labwright.literature.settings import SourceName
from labwright.literature.sources import Catalogue, Shape, at, parsed, works, years_of
from labwright.literature.web import Question
from labwright.literature.works import Wanted, Work, arxiv_of, arxiv_year, doi_of

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


class _Related(Shape):
    id: str = ""
    type: str = ""


class _Item(Shape):
    doi: str = Field(alias="DOI")
    title: str | None = at("title", 0)
    subtitle: str | None = at("subtitle", 0)
    author: tuple[_Author, ...] = ()
    venue: str | None = at("container-title", 0)
    in_print: int | None = at("published-print", "date-parts", 0, 0)
    online: int | None = at("published-online", "date-parts", 0, 0)
    issued: int | None = at("issued", "date-parts", 0, 0)
    posted: int | None = at("posted", "date-parts", 0, 0)
    abstract: str = ""
    updated_by: tuple[_Related, ...] = Field(default=(), alias="updated-by")
    update_to: tuple[_Related, ...] = Field(default=(), alias="update-to")
    relation: dict[str, tuple[_Related, ...]] = Field(default_factory=dict[str, tuple[_Related, ...]])


class _Many(Shape):
    items: list[Any] = Field(validation_alias=AliasPath("message", "items"))


class _One(Shape):
    message: dict[str, Any]


class Crossref(Catalogue):
    name: SourceName = "crossref"
    lists_retractions = True

    def searching(self, query: str, limit: int) -> Question:
        parameters = {"query.bibliographic": " ".join(query.split()), "rows": str(limit)}
        return Question(self.name, "works", parameters)

    def lookups(self, wanted: Wanted) -> Iterator[Question]:
        if wanted.doi:
            yield Question(self.name, f"works/{quote(wanted.doi, safe='')}", {}, lookup=True)
        if wanted.title:
            yield self.searching(wanted.title, 10)

    def read(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        items = [parsed(self.name, text, _One).message] if lookup else parsed(self.name, text, _Many).items
        return works(items, _Item, _work)


def _work(item: _Item) -> Work | None:
    notice = any(one.type in WITHDRAWING for one in item.update_to)
    if not item.title or notice:  # a notice is not the work that it is about
        return None
    title, marked = without_retraction_mark(item.title)
    preprints = [one.id for one in item.relation.get("has-preprint", ())]
    arxiv = next((match for text in (item.doi, *preprints) if (match := arxiv_of(text))), "")
    return Work(
        source="crossref",
        id=item.doi.lower(),
        title=title,
        subtitle=item.subtitle or "",
        authors=tuple(one.written for one in item.author),
        years=years_of(item.in_print, item.online, item.issued, item.posted, arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if (doi := doi_of(item.doi)) else (),
        arxiv=arxiv,
        abstract=abstract_of(item.abstract),
        retracted=marked or any(one.type in WITHDRAWING for one in item.updated_by),
    )
