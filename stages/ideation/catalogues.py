"""Catalogues of published works as one library: all are asked at once, and each answers or is silent for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from literature.works import Source, Work
from record.ideation import FoundWork, LiteratureSearch


class Catalogues:
    """A `Library` over the catalogues of `literature`; those asked first stand first in the results."""

    def __init__(self, sources: Sequence[Source], *, patience: float) -> None:
        """`patience` is the seconds that each catalogue may take for one query."""
        self._sources = tuple(sources)
        self._patience = patience

    async def search(self, query: str, limit: int) -> LiteratureSearch:
        """What all catalogues returned, the best of each in turn. A catalogue that fails is named with its reason."""
        asked = (asyncio.wait_for(one.search(query, limit), self._patience) for one in self._sources)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        answered, silent, found = list[str](), list[str](), list[tuple[Work, ...]]()
        for source, answer in zip(self._sources, answers, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, Exception):
                    raise answer
                why = str(answer) or f"no answer within {self._patience:g} s"
                silent.append(f"{source.name}: {why}"[:300])
            else:
                answered.append(source.name)
                found.append(answer)
        ranks = max((len(one) for one in found), default=0)
        mixed = [one[rank] for rank in range(ranks) for one in found if rank < len(one)]
        return LiteratureSearch(query=query, answered=tuple(answered), silent=tuple(silent),
                                works=tuple(_found(one) for one in mixed[: 2 * limit]))


def _found(work: Work) -> FoundWork:
    title = f"{work.title}: {work.subtitle}" if work.subtitle else work.title
    return FoundWork(title=title, authors=work.authors, year=work.years[0] if work.years else None, venue=work.venue,
                     abstract=work.abstract, identifier=work.identifier, source=work.source)
