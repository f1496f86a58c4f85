"""OpenAlex: works with versions, an abstract as an index of words, and the mark of retraction.

Source: docs.openalex.org, "Work object", "Search works", "Filter works", "Rate limits and authentication".
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from literature.matching import normalized, without_retraction_mark
from literature.settings import Credentials, SourceName
from literature.web import Question, Web
from literature.works import Shape, Wanted, Work, arxiv_of, arxiv_year, distinct, doi_of, read, works, years_of

_FIELDS = ("id,doi,title,publication_year,authorships,is_retracted,abstract_inverted_index,primary_location,"
           "locations,type")
_MOST_AUTHORS = 100


class _Author(Shape):
    display_name: str | None = None


class _Authorship(Shape):
    author: _Author = _Author()


class _Place(Shape):
    display_name: str | None = None


class _Location(Shape):
    landing_page_url: str | None = None
    source: _Place | None = None


class _Item(Shape):
    id: str
    doi: str | None = None
    title: str | None = None
    type: str | None = None
    publication_year: int | None = None
    authorships: tuple[_Authorship, ...] = ()
    is_retracted: bool | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None
    primary_location: _Location | None = None
    locations: tuple[_Location, ...] | None = None


class _Answer(Shape):
    results: list[Any] = Field(description="each an `_Item`")


class OpenAlex:
    """A `Source`."""

    name: SourceName = "openalex"
    lists_retractions = True

    def __init__(self, web: Web, credentials: Credentials) -> None:
        self._web = web
        self._private = {"mailto": credentials.mail} if credentials.mail else {}

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        return await self._asked(limit, search=" ".join(query.split()))

    async def find(self, wanted: Wanted) -> tuple[Work, ...]:
        found: list[Work] = []
        dois = [one for one in (wanted.doi, f"10.48550/arxiv.{wanted.arxiv}" if wanted.arxiv else "") if one]
        for doi in dois:
            found += await self._asked(5, filter=f"doi:{doi}")
        if words := normalized(wanted.title):  # commas, colons and bars have a meaning in a filter
            found += await self._asked(10, filter=f"title.search:{words}")
        return distinct(found)

    async def _asked(self, limit: int, **parameters: str) -> tuple[Work, ...]:
        parameters |= {"per-page": str(limit), "select": _FIELDS}
        return (await self._web.ask(Question("openalex", "works", parameters, self._private), _works))[:limit]


def _works(text: str) -> tuple[Work, ...]:
    return works(read("openalex", text, _Answer).results, _Item, _work)


def _work(item: _Item) -> Work | None:
    if not item.title or item.type == "retraction":  # a notice is not the work that it is about
        return None
    title, marked = without_retraction_mark(item.title)
    pages = [one.landing_page_url or "" for one in item.locations or ()]
    arxiv = next((found for page in (item.doi or "", *pages) if (found := arxiv_of(page))), "")
    doi = doi_of(item.doi or "")
    elsewhere = [found for page in pages if "doi.org/" in page and (found := doi_of(page))]
    venue = item.primary_location.source if item.primary_location else None
    return Work(
        source="openalex", id=item.id.rsplit("/", 1)[-1], title=title,
        authors=tuple(one.author.display_name or "" for one in item.authorships),
        cut=len(item.authorships) >= _MOST_AUTHORS,
        years=years_of(item.publication_year, arxiv_year(arxiv)),
        venue=(venue.display_name or "") if venue else "", dois=tuple(dict.fromkeys([doi] * bool(doi) + elsewhere)),
        arxiv=arxiv, abstract=_abstract(item.abstract_inverted_index or {}),
        retracted=bool(item.is_retracted) or marked)


def _abstract(index: dict[str, list[int]]) -> str:
    """The text of an index: each word stands at its places."""
    placed = sorted((place, word) for word, places in index.items() for place in places)
    return " ".join(word for _, word in placed)
