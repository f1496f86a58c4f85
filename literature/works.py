"""A published work as a catalogue describes it, and what is known of one that is looked for."""

from __future__ import annotations

import re
from typing import Protocol

from pydantic import Field

from literature.settings import SourceName
from record.nouns.frozen import Frozen

_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>{}|\\^`]+")
_ARXIV = re.compile(r"(?P<id>\d{4}\.\d{4,5}|[a-z][a-z.-]+/\d{7})(?:v\d+)?", re.IGNORECASE)
_ARXIV_DOI = "10.48550/arxiv."


class Work(Frozen):
    """A work in one catalogue, with every version that this catalogue lists."""

    source: SourceName
    id: str = Field(description="in the catalogue")
    title: str
    subtitle: str = ""
    authors: tuple[str, ...] = Field(description="in order, as `Family, Given` or as they are shown")
    cut: bool = Field(default=False, description="whether the catalogue lists no more than the first of the authors")
    years: tuple[int, ...] = Field(description="of every version that the catalogue lists, the published one first")
    venue: str = ""
    dois: tuple[str, ...] = Field(default=(), description="in lower case, without an address; the published one first")
    arxiv: str = Field(default="", description="identifier without its version")
    abstract: str = ""
    retracted: bool = False

    @property
    def identifier(self) -> str:
        """The best name for the work: its DOI, its arXiv identifier, or the catalogue's own."""
        if self.dois:
            return f"doi:{self.dois[0]}"
        return f"arXiv:{self.arxiv}" if self.arxiv else f"{self.source}:{self.id}"


class Wanted(Frozen):
    """What is known of a work that is looked for. Identifiers are in the form that `Work` has them in."""

    title: str = ""
    doi: str = ""
    arxiv: str = ""


class Source(Protocol):
    """A catalogue of works."""

    @property
    def name(self) -> SourceName: ...

    @property
    def lists_retractions(self) -> bool:
        """Whether a work without the mark may be taken as not retracted, as far as the catalogue knows."""
        ...

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        """Works on a subject, the best first, `limit` at most. Raises `SourceError`."""
        ...

    async def find(self, wanted: Wanted) -> tuple[Work, ...]:
        """Candidates for one work, each once: those with its identifiers first, then those with a like title.

        Raises: `SourceError`.
        """
        ...


def doi_of(text: str) -> str:
    """The first DOI in a text, in lower case, without what a sentence puts after it; empty where there is none.

    The DOIs that arXiv gives are identifiers of arXiv: `arxiv_of` reads those.
    """
    found = _DOI.search(text)
    doi = found[0].rstrip(".,;:)]'").lower() if found else ""
    return "" if doi.startswith(_ARXIV_DOI) else doi


def arxiv_of(text: str) -> str:
    """The arXiv identifier in a text that names arXiv (`arXiv:1706.04599v2`, an address, a DOI); else empty."""
    for marked in re.finditer(r"arxiv(?:\.org/(?:abs|pdf)/|[.:/]\s*|\s+)(?:abs/)?", text, re.IGNORECASE):
        if found := _ARXIV.match(text, marked.end()):
            return found["id"].lower()
    return ""


def arxiv_year(identifier: str) -> int | None:
    """The year in which arXiv gave an identifier: its first two digits say it."""
    digits = re.search(r"(?:^|/)(\d\d)\d\d", identifier)
    if digits is None:
        return None
    return (1900 if int(digits[1]) > 90 else 2000) + int(digits[1])


def years_of(*years: int | None) -> tuple[int, ...]:
    """Years that are given, each once."""
    return tuple(dict.fromkeys(one for one in years if one))


def distinct(works: list[Work]) -> tuple[Work, ...]:
    """Each work once, by its identifier in the catalogue."""
    return tuple({one.id: one for one in reversed(works)}.values())[::-1]
