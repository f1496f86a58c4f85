"""OpenAlex: works with their versions, an inverted index of the abstract, and a retraction mark.

Source: docs.openalex.org, "Work object", "Search works", "Filter works", "Rate limits and authentication".
"""

from __future__ import annotations

from collections.abc import Iterator

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

_REQUESTED_FIELDS = (
    "id,doi,title,publication_year,authorships,is_retracted,abstract_inverted_index,primary_location,locations,type"
)
_MAX_AUTHORS = 100


class _OpenAlexAuthor(AnswerShape):
    name: str | None = nested_field("author", "display_name")


class _OpenAlexLocation(AnswerShape):
    landing_page_url: str | None = None


class _OpenAlexItem(AnswerShape):
    id: str
    doi: str | None = None
    title: str | None = None
    type: str | None = None
    publication_year: int | None = None
    authorships: tuple[_OpenAlexAuthor, ...] = ()
    is_retracted: bool | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None
    venue: str | None = nested_field("primary_location", "source", "display_name")
    locations: tuple[_OpenAlexLocation, ...] | None = None


class OpenAlex(WebCatalogue):
    name: CatalogueName = "openalex"
    lists_retractions = True

    def build_search_request(self, query: str, limit: int) -> CatalogueRequest:
        return self._build_request(limit, "search", " ".join(query.split()))

    def build_lookup_requests(self, wanted: WorkQuery) -> Iterator[CatalogueRequest]:
        for doi in (wanted.doi, f"10.48550/arxiv.{wanted.arxiv}" if wanted.arxiv else ""):
            if doi:
                yield self._build_request(5, "filter", f"doi:{doi}")
        if words := normalise_text(wanted.title):  # commas, colons and bars have special meanings in a filter
            yield self._build_request(10, "filter", f"title.search:{words}")

    def _build_request(self, limit: int, parameter: str, value: str) -> CatalogueRequest:
        return CatalogueRequest(
            self.name, "works", {parameter: value, "per-page": str(limit), "select": _REQUESTED_FIELDS}
        )

    def read_works(self, text: str, *, lookup: bool) -> tuple[PublishedWork, ...]:
        return read_json_works(self.name, text, ("results",), _OpenAlexItem, _build_work)


def _build_work(item: _OpenAlexItem) -> PublishedWork | None:
    if not item.title or item.type == "retraction":  # a retraction notice is not the work itself
        return None
    title, marked = strip_retraction_mark(item.title)
    pages = [location.landing_page_url or "" for location in item.locations or ()]
    arxiv = next((match for page in (item.doi or "", *pages) if (match := find_arxiv_id(page))), "")
    dois = [find_doi(item.doi or ""), *(find_doi(page) for page in pages if "doi.org/" in page)]
    index = item.abstract_inverted_index or {}  # word -> positions
    placed = sorted((position, word) for word, positions in index.items() for position in positions)
    return PublishedWork(
        source="openalex",
        id=item.id.rsplit("/", 1)[-1],
        title=title,
        authors=tuple(author.name or "" for author in item.authorships),
        cut=len(item.authorships) >= _MAX_AUTHORS,
        years=unique_years(item.publication_year, read_arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=tuple(dict.fromkeys(filter(None, dois))),
        arxiv=arxiv,
        abstract=" ".join(word for _, word in placed),
        retracted=bool(item.is_retracted) or marked,
    )
