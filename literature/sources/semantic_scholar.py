"""Semantic Scholar: works with their identifiers elsewhere, and abstracts. It does not mark retractions.

Source: api.semanticscholar.org, "Academic Graph API" (`/paper/search`, `/paper/{paper_id}`, schema `FullPaper`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from pydantic import Field

from labwright.literature.matching import normalized, without_retraction_mark
from labwright.literature.settings import SourceName
from labwright.literature.sources import Catalogue, Shape, at, parsed, works, years_of
from labwright.literature.web import Question
from labwright.literature.works import Wanted, Work, arxiv_of, arxiv_year, doi_of
from labwright.record.whole_numbers import parse_whole_number

_FIELDS = "title,abstract,year,publicationDate,authors,externalIds,venue"


class _Author(Shape):
    name: str | None = None


class _Item(Shape):
    id: str = Field(alias="paperId")
    title: str | None = None
    abstract: str | None = None
    year: int | None = None
    date: str | None = Field(default=None, alias="publicationDate")
    authors: list[_Author] | None = None
    doi: str | None = at("externalIds", "DOI")
    arxiv: str | None = at("externalIds", "ArXiv")
    venue: str | None = None


class _Answer(Shape):
    total: int
    data: tuple[Any, ...] = Field(default=(), description="each an `_Item`")


class SemanticScholar(Catalogue):
    name: SourceName = "semantic_scholar"

    def searching(self, query: str, limit: int) -> Question:
        words = " ".join(query.replace("-", " ").split())  # a hyphenated term matches nothing there
        return Question(self.name, "paper/search", {"query": words, "limit": str(limit), "fields": _FIELDS})

    def lookups(self, wanted: Wanted) -> Iterator[Question]:
        for kind, value in (("DOI", wanted.doi), ("ARXIV", wanted.arxiv)):
            if value:
                yield Question(self.name, f"paper/{kind}:{quote(value, safe=':')}", {"fields": _FIELDS}, lookup=True)
        if words := normalized(wanted.title):
            yield self.searching(words, 10)

    def read(self, text: str, *, lookup: bool) -> tuple[Work, ...]:
        items = [parsed(self.name, text, _Item)] if lookup else parsed(self.name, text, _Answer).data
        return works(items, _Item, _work)


def _work(item: _Item) -> Work | None:
    if not item.title:
        return None
    title, marked = without_retraction_mark(item.title)
    doi = doi_of(item.doi or "")
    arxiv = arxiv_of(f"arXiv:{item.arxiv}" if item.arxiv else item.doi or "")
    dated = parse_whole_number(item.date[:4]) if item.date else None
    return Work(
        source="semantic_scholar",
        id=item.id,
        title=title,
        authors=tuple(one.name or "" for one in item.authors or ()),
        years=years_of(item.year, dated, arxiv_year(arxiv)),
        venue=item.venue or "",
        dois=(doi,) if doi else (),
        arxiv=arxiv,
        abstract=" ".join((item.abstract or "").split()),
        retracted=marked,
    )
