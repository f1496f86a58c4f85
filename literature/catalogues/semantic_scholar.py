"""Semantic Scholar: works with external identifiers and abstracts. It does not mark retractions.

Source: api.semanticscholar.org, "Academic Graph API" (`/paper/search`, `/paper/{paper_id}`, schema `FullPaper`).
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
    normalise_text,
    read_arxiv_year,
    strip_retraction_mark,
)
from labwright.record.float_compare import parse_whole_number

_REQUESTED_FIELDS = "title,abstract,year,publicationDate,authors,externalIds,venue"


class _SemanticScholarAuthor(AnswerShape):
    name: str | None = None


class _SemanticScholarItem(AnswerShape):
    id: str = Field(alias="paperId")
    title: str | None = None
    abstract: str | None = None
    year: int | None = None
    date: str | None = Field(default=None, alias="publicationDate")
    authors: list[_SemanticScholarAuthor] | None = None
    doi: str | None = nested_field("externalIds", "DOI")
    arxiv: str | None = nested_field("externalIds", "ArXiv")
    venue: str | None = None


class SemanticScholar(WebCatalogue):
    name: CatalogueName = "semantic_scholar"

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        words = " ".join(query.replace("-", " ").split())  # hyphenated terms match nothing
        return CatalogueRequest(
            self.name, "paper/search", {"query": words, "limit": str(limit), "fields": _REQUESTED_FIELDS}
        )

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        for kind, value in (("DOI", wanted.doi), ("ARXIV", wanted.arxiv)):
            if value:
                yield CatalogueRequest(
                    self.name, f"paper/{kind}:{quote(value, safe=':')}", {"fields": _REQUESTED_FIELDS}, is_lookup=True
                )
        if words := normalise_text(wanted.title):
            yield self.build_search_request(words, 10)

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        if '"total"' in text and '"data"' not in text:  # nothing was found
            return ()
        return read_json_works(self.name, text, () if lookup else ("data",), _SemanticScholarItem, _build_work)


def _build_work(item: _SemanticScholarItem) -> PublishedWork | None:
    if not item.title:
        return None
    title, marked = strip_retraction_mark(item.title)
    doi = find_doi(item.doi or "")
    arxiv = find_arxiv_id(f"arXiv:{item.arxiv}" if item.arxiv else item.doi or "")
    dated = parse_whole_number(item.date[:4]) if item.date else None
    return PublishedWork(
        source="semantic_scholar",
        id=item.id,
        title=title,
        authors=tuple(author.name or "" for author in item.authors or ()),
        years=unique_years(item.year, dated, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if doi else (),
        arxiv=arxiv,
        abstract=" ".join((item.abstract or "").split()),
        retracted=marked,
    )
