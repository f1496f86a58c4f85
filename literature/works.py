"""A published work as a catalogue describes it, and what is known of one that is looked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from labwright.literature import CatalogueAnswerError
from labwright.literature.settings import CatalogueName
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.paper import PublishedWork as Work

_DOI_PATTERN = re.compile(r"10\.\d{4,9}/[^\s\"<>{}|\\^`]+")
_ARXIV_PATTERN = re.compile(r"(?P<id>\d{4}\.\d{4,5}|[a-z][a-z.-]+/\d{7})(?:v\d+)?", re.IGNORECASE)
_ARXIV_DOI_PREFIX = "10.48550/arxiv."


class WorkQuery(FrozenModel):
    """What is known of a work that is looked for. Identifiers are in the form that `Work` has them in."""

    title: str = ""
    doi: str = ""
    arxiv: str = ""


class WorkCatalogue(Protocol):
    """A catalogue of works."""

    @property
    def name(self) -> CatalogueName: ...

    @property
    def lists_retractions(self) -> bool:
        """Whether a work without the mark may be taken as not retracted, as far as the catalogue knows."""
        ...

    async def search(self, query: str, limit: int) -> tuple[Work, ...]:
        """Works on a subject, the best first, `limit` at most. Raises `SourceError`."""
        ...

    async def find(self, wanted: WorkQuery) -> tuple[Work, ...]:
        """Candidates for one work, each once: those with its identifiers first, then those with a like title.

        Raises: `SourceError`.
        """
        ...


@dataclass
class CatalogueAnswers:
    """What catalogues answered within some seconds from now, and why others did not."""

    seconds: float
    works_by_catalogue: dict[CatalogueName, tuple[Work, ...]] = field(
        default_factory=dict[CatalogueName, tuple[Work, ...]]
    )
    failure_by_catalogue: dict[CatalogueName, str] = field(default_factory=dict[CatalogueName, str])

    def __post_init__(self) -> None:
        self._deadline = asyncio.get_running_loop().time() + self.seconds

    async def collect(
        self, sources: Iterable[WorkCatalogue], ask: Callable[[WorkCatalogue], Awaitable[tuple[Work, ...]]]
    ) -> None:
        """Ask the sources at the same time; one that has not answered by the deadline has failed."""

        async def collect_one(source: WorkCatalogue) -> None:
            try:
                async with asyncio.timeout_at(self._deadline):
                    self.works_by_catalogue[source.name] = await ask(source)
            except TimeoutError:
                self.failure_by_catalogue[source.name] = f"{source.name} gave no answer within {self.seconds:g} s"
            except CatalogueAnswerError as error:
                self.failure_by_catalogue[source.name] = str(error)

        await asyncio.gather(*map(collect_one, sources))

    def list_all_works(self, sources: Iterable[WorkCatalogue]) -> tuple[Work, ...]:
        """All works, in the order of the sources."""
        return tuple(work for source in sources for work in self.works_by_catalogue.get(source.name, ()))


def find_doi(text: str) -> str:
    """The first DOI in a text, in lower case, without what a sentence puts after it; empty where there is none.

    The DOIs that arXiv gives are identifiers of arXiv: `arxiv_of` reads those.
    """
    match = _DOI_PATTERN.search(text)
    doi = match[0].rstrip(".,;:)]'").lower() if match else ""
    return "" if doi.startswith(_ARXIV_DOI_PREFIX) else doi


def find_arxiv_id(text: str) -> str:
    """The arXiv identifier in a text that names arXiv (`arXiv:1706.04599v2`, an address, a DOI); else empty."""
    for marked in re.finditer(r"arxiv(?:\.org/(?:abs|pdf)/|[.:/]\s*|\s+)(?:abs/)?", text, re.IGNORECASE):
        if match := _ARXIV_PATTERN.match(text, marked.end()):
            return match["id"].lower()
    return ""


def read_arxiv_year(identifier: str) -> int | None:
    """The year in which arXiv gave an identifier: its first two digits say it."""
    digits = re.search(r"(?:^|/)(\d\d)\d\d", identifier)
    if digits is None:
        return None
    return (1900 if int(digits[1]) > 90 else 2000) + int(digits[1])
