"""Crossref: metadata that publishers deposit with a DOI, including retractions (and those from Retraction Watch).

Source: github.com/CrossRef/rest-api-doc, "api_format.md"; crossref.org, "Retraction Watch retractions now in the
Crossref API" (`updated-by` at the work, `update-to` at the notice).
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from pydantic import Field

from labwright.literature.catalogue_client import CatalogueName, CatalogueRequest
from labwright.literature.catalogues import AnswerShape, WebCatalogue, nested_field, read_json_works, unique_years
from labwright.literature.works import (
    PublishedWork,
    WorkQuery,
    find_arxiv_id,
    find_doi,
    read_abstract,
    read_arxiv_year,
    strip_retraction_mark,
)

WITHDRAWAL_TYPES = frozenset({"retraction", "withdrawal", "removal", "partial_retraction"})


class _CrossrefAuthor(AnswerShape):
    given: str | None = None
    family: str | None = None
    name: str | None = None

    @property
    def full_name(self) -> str:
        if self.family:
            return f"{self.family}, {self.given}" if self.given else self.family
        return self.name or self.given or ""


class _CrossrefRelation(AnswerShape):
    id: str = ""
    type: str = ""


class _CrossrefItem(AnswerShape):
    doi: str = Field(alias="DOI")
    title: str | None = nested_field("title", 0)
    subtitle: str | None = nested_field("subtitle", 0)
    author: tuple[_CrossrefAuthor, ...] = ()
    venue: str | None = nested_field("container-title", 0)
    in_print: int | None = nested_field("published-print", "date-parts", 0, 0)
    online: int | None = nested_field("published-online", "date-parts", 0, 0)
    issued: int | None = nested_field("issued", "date-parts", 0, 0)
    posted: int | None = nested_field("posted", "date-parts", 0, 0)
    abstract: str = ""
    updated_by: tuple[_CrossrefRelation, ...] = Field(default=(), alias="updated-by")
    update_to: tuple[_CrossrefRelation, ...] = Field(default=(), alias="update-to")
    relation: dict[str, tuple[_CrossrefRelation, ...]] = Field(default_factory=dict[str, tuple[_CrossrefRelation, ...]])


class Crossref(WebCatalogue):
    name: CatalogueName = "crossref"
    lists_retractions = True

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        parameters = {"query.bibliographic": " ".join(query.split()), "rows": str(limit)}
        return CatalogueRequest(self.name, "works", parameters)

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        if wanted.doi:
            yield CatalogueRequest(self.name, f"works/{quote(wanted.doi, safe='')}", {}, is_lookup=True)
        if wanted.title:
            yield self.build_search_request(wanted.title, 10)

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        keys = ("message",) if lookup else ("message", "items")
        return read_json_works(self.name, text, keys, _CrossrefItem, _build_work)


def _build_work(item: _CrossrefItem) -> PublishedWork | None:
    notice = any(update.type in WITHDRAWAL_TYPES for update in item.update_to)
    if not item.title or notice:  # a retraction notice is not the work itself
        return None
    title, marked = strip_retraction_mark(item.title)
    preprints = [preprint.id for preprint in item.relation.get("has-preprint", ())]
    arxiv = next((match for text in (item.doi, *preprints) if (match := find_arxiv_id(text))), "")
    return PublishedWork(
        source="crossref",
        id=item.doi.lower(),
        title=title,
        subtitle=item.subtitle or "",
        authors=tuple(author.full_name for author in item.author),
        years=unique_years(item.in_print, item.online, item.issued, item.posted, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if (doi := find_doi(item.doi)) else (),
        arxiv=arxiv,
        abstract=read_abstract(item.abstract),
        retracted=marked or any(update.type in WITHDRAWAL_TYPES for update in item.updated_by),
    )
