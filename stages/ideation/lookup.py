"""Where ideation looks papers up: a query to all catalogues, and the works of many queries, each once.

Silence is an answer of its own. Not guaranteed: that a search which was answered finds the work that comes closest.
"""

from __future__ import annotations

from literature.lookup import Literature
from record.ideation import FoundWork, LiteratureSearch

RESULTS = 10
"""Works of one query at most."""
ABSTRACT = 3000
"""Characters of an abstract that are kept."""


async def looked_up(literature: Literature, query: str) -> LiteratureSearch:
    """What the catalogues answered to a query, its texts bounded, and which of them gave no answer."""
    answer = await literature.search(query, RESULTS)
    silent = answer.outages if answer.answered or answer.outages else ("no catalogue is asked",)
    return LiteratureSearch(query=query, answered=answer.answered, silent=silent, works=tuple(FoundWork(
        title=(f"{one.title}: {one.subtitle}" if one.subtitle else one.title)[:400], authors=one.authors[:20],
        year=one.years[0] if one.years else None, venue=one.venue, abstract=one.abstract[:ABSTRACT],
        identifier=one.identifier, source=one.source) for one in answer.works))


def distinct(searches: tuple[LiteratureSearch, ...], most: int = 24) -> tuple[FoundWork, ...]:
    """The works of all searches, each once, in the order in which they were found; those with an abstract stand in."""
    found: dict[str, FoundWork] = {}
    for work in (work for search in searches for work in search.works):
        key = "".join(char for char in work.title.casefold() if char.isalnum())
        if key and (key not in found or (work.abstract and not found[key].abstract)):
            found[key] = work
    return tuple(found.values())[:most]
