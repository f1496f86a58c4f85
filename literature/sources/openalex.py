"""OpenAlex: works with versions, an abstract as an index of words, and the mark of retraction.

Source: docs.openalex.org, "Work object", "Search works", "Filter works", "Rate limits and authentication".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from labwright.literature.matching import normalized, without_retraction_mark
from labwright.literature.settings import SourceName
from labwright.literature.sources import Catalogue, Shape, at, parsed, works, years_of
from labwright.literature.web import Question
from labwright.literature.works import Wanted, Work, arxiv_of, arxiv_year, doi_of

_FIELDS = (
    "id,doi,title,publication_year,authorships,is_retracted,abstract_inverted_index,primary_location,locations,type"
)
_MOST_AUTHORS = 100


class _Author(Shape):
    name: str | None = at("author", "display_name")


class _Location(Shape):
    landing_page_url: str | None = None


class _Item(Shape):
    id: str
    doi: str | None = None
    title: str | None = None
    type: str | None = None
    publication_year: int | None = None
    authorships: tuple[_Author, ...] = ()
    is_retracted: bool | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None
    venue: str | None = at("primary_location", "source", "display_name")
    locations: tuple[_Location, ...] | None = None


class _Answer(Shape):
    results: list[Any] = Field(description="each an `_Item`")


class OpenAlex(Catalogue):
    name: SourceName = "openalex"
    lists_retractions = True

    def searching(self, query: str, limit: int) -> Question:
        return self._question(limit, "search", " ".join(query.split()))

    def lookups(self, wanted: Wanted) -> Iterator[Question]:
        for doi in (wanted.doi, f"10.48550/arxiv.{wanted.arxiv}" if wanted.arxiv else ""):
            if doi:
                yield self._question(5, "filter", f"doi:{doi}")
        if words := normalized(wanted.title):  # commas, colons and bars have a meaning in a filter
            yield self._question(10, "filter", f"title.search:{words}")

    def _question(self, limit: int, parameter: str, value: str) -> Question:
        return Question(self.name, "works", {parameter: value, "per-page": str(limit), "select": _FIELDS})

    def read(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        return works(parsed(self.name, text, _Answer).results, _Item, _work)


def _work(item: _Item) -> Work | None:
    if not item.title or item.type == "retraction":  # a notice is not the work that it is about
        return None
    title, marked = without_retraction_mark(item.title)
    pages = [one.landing_page_url or "" for one in item.locations or ()]
    arxiv = next((match for page in (item.doi or "", *pages) if (match := arxiv_of(page))), "")
    dois = [doi_of(item.doi or ""), *(doi_of(page) for page in pages if "doi.org/" in page)]
    index = item.abstract_inverted_index or {}  # each word with its places
    placed = sorted((place, word) for word, places in index.items() for place in places)
    return Work(
        source="openalex",
        id=item.id.rsplit("/", 1)[-1],
        title=title,
        authors=tuple(one.name or "" for one in item.authorships),
        cut=len(item.authorships) >= _MOST_AUTHORS,
        years=years_of(item.publication_year, arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=tuple(dict.fromkeys(filter(None, dois))),
        arxiv=arxiv,
        abstract=" ".join(word for _, word in placed),
        retracted=bool(item.is_retracted) or marked,
    )
