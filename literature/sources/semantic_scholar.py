"""Semantic Scholar: works with their identifiers elsewhere, and abstracts. It does not mark retractions.

Source: api.semanticscholar.org, "Academic Graph API" (`/paper/search`, `/paper/{paper_id}`, schema `FullPaper`).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import Field

from literature.matching import normalized, without_retraction_mark
from literature.settings import Credentials, SourceName
from literature.web import Question, Web
from literature.works import Shape, Wanted, Work, arxiv_of, arxiv_year, distinct, doi_of, read, works, years_of

_FIELDS = "title,abstract,year,publicationDate,authors,externalIds,venue"


class _Author(Shape):
    name: str | None = None


class _Ids(Shape):
    doi: str | None = Field(default=None, alias="DOI")
    arxiv: str | None = Field(default=None, alias="ArXiv")


class _Item(Shape):
    id: str = Field(alias="paperId")
    title: str | None = None
    abstract: str | None = None
    year: int | None = None
    date: str | None = Field(default=None, alias="publicationDate")
    authors: list[_Author] | None = None
    ids: _Ids | None = Field(default=None, alias="externalIds")
    venue: str | None = None


class _Answer(Shape):
    total: int
    data: tuple[Any, ...] = Field(default=(), description="each an `_Item`")


class _One(Shape):
    id: str = Field(alias="paperId")


class SemanticScholar:
    """A `Source`."""

    name: SourceName = "semantic_scholar"
    lists_retractions = False

    def __init__(self, web: Web, credentials: Credentials) -> None:
        self._web = web
        self._headers = {"x-api-key": credentials.semantic_scholar} if credentials.semantic_scholar else {}

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        words = " ".join(query.replace("-", " ").split())  # a hyphenated term matches nothing there
        parameters = {"query": words, "limit": str(limit), "fields": _FIELDS}
        question = Question("semantic_scholar", "paper/search", parameters, headers=self._headers)
        return (await self._web.ask(question, _listed))[:limit]

    async def find(self, wanted: Wanted) -> tuple[Work, ...]:
        found: list[Work] = []
        for name in [f"DOI:{wanted.doi}"] * bool(wanted.doi) + [f"ARXIV:{wanted.arxiv}"] * bool(wanted.arxiv):
            question = Question("semantic_scholar", f"paper/{quote(name, safe=':')}", {"fields": _FIELDS},
                                headers=self._headers, lookup=True)
            found += await self._web.ask(question, _one)
        if words := normalized(wanted.title):
            found += await self.search(words, 10)
        return distinct(found)


def _listed(text: str) -> tuple[Work, ...]:
    return works(read("semantic_scholar", text, _Answer).data, _Item, _work)


def _one(text: str) -> tuple[Work, ...]:
    read("semantic_scholar", text, _One)
    return works([read("semantic_scholar", text, _Item)], _Item, _work)


def _work(item: _Item) -> Work | None:
    if not item.title:
        return None
    title, marked = without_retraction_mark(item.title)
    ids = item.ids or _Ids()
    arxiv = arxiv_of(f"arXiv:{ids.arxiv}") if ids.arxiv else arxiv_of(ids.doi or "")
    doi = doi_of(ids.doi or "")
    dated = int(item.date[:4]) if item.date and item.date[:4].isdigit() else None
    return Work(
        source="semantic_scholar", id=item.id, title=title, authors=tuple(one.name or "" for one in item.authors or ()),
        years=years_of(item.year, dated, arxiv_year(arxiv)), venue=item.venue or "", dois=(doi,) if doi else (),
        arxiv=arxiv, abstract=" ".join((item.abstract or "").split()), retracted=marked)
