"""Published works and the catalogues that describe them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from labwright.literature import CatalogueAnswerError
from labwright.literature.settings import CatalogueName
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import PublishedWork

_DOI_PATTERN = re.compile(r"10\.\d{4,9}/[^\s\"<>{}|\\^`]+")
_ARXIV_PATTERN = re.compile(r"(?P<id>\d{4}\.\d{4,5}|[a-z][a-z.-]+/\d{7})(?:v\d+)?", re.IGNORECASE)
_ARXIV_DOI_PREFIX = "10.48550/arxiv."


class WorkQuery(FrozenModel):
    """Known facts about a work to look up. Identifiers have the same form as in `Work`."""

    title: str = ""
    doi: str = ""
    arxiv: str = ""


class WorkCatalogue(Protocol):
    """A catalogue of works."""

    @property
    def name(self) -> CatalogueName: ...

    @property
    def lists_retractions(self) -> bool:
        """Whether the absence of a retraction mark means that no retraction is known."""
        ...

    async def search(self, query: str, limit: int) -> tuple[PublishedWork, ...]:
        """Search for works, best first, at most `limit`. Raises `CatalogueAnswerError`."""
        ...

    async def find(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        """Return candidates for one work without duplicates: those with matching identifiers first, then those with
        similar titles.

        Raises `CatalogueAnswerError`.
        """
        ...


@dataclass
class CatalogueAnswers:
    """The catalogues' answers within a time limit, and the reasons why other catalogues did not answer."""

    seconds: float
    works_by_catalogue: dict[CatalogueName, tuple[PublishedWork, ...]] = field(
        default_factory=dict[CatalogueName, tuple[PublishedWork, ...]]
    )
    failure_by_catalogue: dict[CatalogueName, str] = field(default_factory=dict[CatalogueName, str])

    def __post_init__(self) -> None:
        self._deadline = asyncio.get_running_loop().time() + self.seconds

    async def collect(
        self, sources: Iterable[WorkCatalogue], ask: Callable[[WorkCatalogue], Awaitable[tuple[PublishedWork, ...]]]
    ) -> None:
        """Query the catalogues concurrently; a catalogue that has not answered by the deadline counts as failed."""

        async def collect_one(source: WorkCatalogue) -> None:
            try:
                async with asyncio.timeout_at(self._deadline):
                    self.works_by_catalogue[source.name] = await ask(source)
            except TimeoutError:
                self.failure_by_catalogue[source.name] = f"{source.name} gave no answer within {self.seconds:g} s"
            except CatalogueAnswerError as error:
                self.failure_by_catalogue[source.name] = str(error)

        await asyncio.gather(*map(collect_one, sources))

    def list_all_works(self, sources: Iterable[WorkCatalogue]) -> tuple[PublishedWork, ...]:
        """Return all works in the order of the catalogues."""
        return tuple(work for source in sources for work in self.works_by_catalogue.get(source.name, ()))


def find_doi(text: str) -> str:
    """Return the first DOI in a string, in lower case, without trailing punctuation; empty if there is none.

    DOIs assigned by arXiv are skipped: `find_arxiv_id` reads them.
    """
    match = _DOI_PATTERN.search(text)
    doi = match[0].rstrip(".,;:)]'").lower() if match else ""
    return "" if doi.startswith(_ARXIV_DOI_PREFIX) else doi


def find_arxiv_id(text: str) -> str:
    """Return the arXiv identifier in a string that mentions arXiv (`arXiv:1706.04599v2`, a URL, a DOI); else empty."""
    for marked in re.finditer(r"arxiv(?:\.org/(?:abs|pdf)/|[.:/]\s*|\s+)(?:abs/)?", text, re.IGNORECASE):
        if match := _ARXIV_PATTERN.match(text, marked.end()):
            return match["id"].lower()
    return ""


def read_arxiv_year(identifier: str) -> int | None:
    """Return the year of an arXiv identifier, from its first two digits."""
    digits = re.search(r"(?:^|/)(\d\d)\d\d", identifier)
    if digits is None:
        return None
    return (1900 if int(digits[1]) > 90 else 2000) + int(digits[1])
