"""A published work as a catalogue describes it, and what is known of one that is looked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from literature import SourceError
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


@dataclass
class Answers:
    """What catalogues answered, and why others did not."""

    works: dict[SourceName, tuple[Work, ...]] = field(default_factory=dict[SourceName, tuple[Work, ...]])
    failed: dict[SourceName, str] = field(default_factory=dict[SourceName, str])

    def every(self, sources: Iterable[Source]) -> tuple[Work, ...]:
        """All works, in the order of the sources."""
        return tuple(work for source in sources for work in self.works.get(source.name, ()))

    async def collect(self, sources: Iterable[Source], ask: Callable[[Source], Awaitable[tuple[Work, ...]]]) -> None:
        """Ask the sources at the same time."""

        async def collect_one(source: Source) -> None:
            try:
                self.works[source.name] = await ask(source)
            except SourceError as error:
                self.failed[source.name] = str(error)

        await asyncio.gather(*map(collect_one, sources))

    @asynccontextmanager
    async def within(self, seconds: float, sources: Iterable[Source]) -> AsyncGenerator[None]:
        """Limits the time to collect; a source that has not answered by then has failed."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            for one in sources:
                if one.name not in self.works:
                    self.failed.setdefault(one.name, f"{one.name} gave no answer within {seconds:g} s")


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


Shaped = TypeVar("Shaped", bound="Shape")


class Shape(BaseModel):
    """A part of an answer: fields that we do not know are no fault."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def read(source: SourceName, text: str, shape: type[Shaped]) -> Shaped:
    """A whole answer. Raises `SourceError`."""
    try:
        return shape.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole"
        raise SourceError(f"{source} answers in an unknown form (at {where})") from None


def works(items: Iterable[Any], shape: type[Shaped], make: Callable[[Shaped], Work | None]) -> tuple[Work, ...]:
    """The works in a list; an item that is not in form is left out."""
    found: list[Work] = []
    for item in items:
        try:
            work = make(shape.model_validate(item))
        except ValidationError:
            continue
        if work is not None:
            found.append(work)
    return tuple(found)
