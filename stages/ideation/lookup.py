"""Where ideation looks papers up: catalogues of published works as one library, all asked at once.

Nothing is waited for longer than `PATIENCE`, and silence is an answer of its own. Not guaranteed: that a search which
was answered finds the work that comes closest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from literature.works import Source, Work
from record.ideation import FoundWork, LiteratureSearch

PATIENCE = 90.0
"""Seconds for one query, all sources together."""
RESULTS = 10
"""Works of one query at most."""
ABSTRACT = 3000
"""Characters of an abstract that are kept."""


class Library(Protocol):
    """Papers by key words."""

    async def search(self, query: str, limit: int) -> LiteratureSearch:
        """What the sources returned, and which of them gave no answer."""
        ...


@dataclass(frozen=True)
class NoLibrary:
    """A library on a machine without sources: every query is made, and nobody answers."""

    why: str = "no source of literature is configured"

    async def search(self, query: str, limit: int) -> LiteratureSearch:
        return LiteratureSearch(query=query, silent=(self.why,))


async def looked_up(library: Library, query: str, *, patience: float = PATIENCE) -> LiteratureSearch:
    """The answer to a query, its texts bounded; what raises or is late is a source that gave no answer."""
    query = " ".join(query.split())
    try:
        async with asyncio.timeout(patience):
            found = await library.search(query, RESULTS)
    except TimeoutError:
        return LiteratureSearch(query=query, silent=(f"no answer within {patience:g} s",))
    except Exception as error:  # noqa: BLE001  the edge to the network: a failed source must not cost an idea
        return LiteratureSearch(query=query, silent=(f"{type(error).__name__}: {error}"[:300],))
    works = tuple(one.model_copy(update={"title": one.title[:400], "authors": one.authors[:20],
                                         "abstract": one.abstract[:ABSTRACT]}) for one in found.works[:RESULTS])
    return found.model_copy(update={"query": query, "works": works})


def distinct(searches: tuple[LiteratureSearch, ...], most: int = 24) -> tuple[FoundWork, ...]:
    """The works of all searches, each once, in the order in which they were found; those with an abstract stand in."""
    found: dict[str, FoundWork] = {}
    for work in (work for search in searches for work in search.works):
        key = "".join(char for char in work.title.casefold() if char.isalnum())
        if key and (key not in found or (work.abstract and not found[key].abstract)):
            found[key] = work
    return tuple(found.values())[:most]


@dataclass(frozen=True)
class Catalogues:
    """A `Library` over the catalogues of `literature`; those asked first stand first in the results."""

    sources: Sequence[Source]
    patience: float
    """Seconds that each catalogue may take for one query."""

    async def search(self, query: str, limit: int) -> LiteratureSearch:
        """What all catalogues returned, the best of each in turn. A catalogue that fails is named with its reason."""
        asked = (asyncio.wait_for(one.search(query, limit), self.patience) for one in self.sources)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        answered, silent, found = list[str](), list[str](), list[tuple[Work, ...]]()
        for source, answer in zip(self.sources, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, Exception):
                    raise answer
                why = str(answer) or f"no answer within {self.patience:g} s"
                silent.append(f"{source.name}: {why}"[:300])
            else:
                answered.append(source.name)
                found.append(answer)
        ranks = max((len(one) for one in found), default=0)
        mixed = [one[rank] for rank in range(ranks) for one in found if rank < len(one)]
        return LiteratureSearch(query=query, answered=tuple(answered), silent=tuple(silent),
                                works=tuple(FoundWork(
                                    title=f"{one.title}: {one.subtitle}" if one.subtitle else one.title,
                                    authors=one.authors, year=one.years[0] if one.years else None, venue=one.venue,
                                    abstract=one.abstract, identifier=one.identifier, source=one.source)
                                    for one in mixed[: 2 * limit]))
