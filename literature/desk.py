"""The room's desk: everything that others ask of it, bounded in time.

    async with open_literature(settings, credentials) as literature:
        ... await literature.check(entries) ...
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from literature.check import Checked, Library, merged
from literature.errors import SourceError
from literature.library import Entry
from literature.settings import Credentials, LiteratureSettings, SourceName
from literature.sources.arxiv import Arxiv
from literature.sources.crossref import Crossref
from literature.sources.openalex import OpenAlex
from literature.sources.semantic_scholar import SemanticScholar
from literature.verified import Verification, verification_of
from literature.verify import Outcome, Unverified, Verified, verify
from literature.web import Web
from literature.works import Source, Wanted, Work

AT_ONCE = 4
"""References that are looked up at the same time; each catalogue still answers one request after the other."""


@dataclass(frozen=True)
class Found:
    """Works on a subject, and why catalogues are missing from it."""

    works: tuple[Work, ...]
    outages: tuple[str, ...]


@dataclass(frozen=True)
class Literature:
    """Catalogues, ready to be asked."""

    sources: tuple[Source, ...]
    settings: LiteratureSettings
    today: Callable[[], datetime.date] = datetime.date.today

    async def verify(self, entry: Entry) -> Outcome:
        """What the catalogues say of an entry, within `lookup_timeout`."""
        return await verify(entry, self.sources, today=self.today(), timeout=self.settings.lookup_timeout)

    async def check(self, entries: Sequence[Entry]) -> Library:
        """Every entry with its outcome, within `library_timeout`; one with a record that holds is not asked for."""
        checked: dict[int, Checked] = {}
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(place: int, entry: Entry) -> None:
            held = verification_of(entry)
            if isinstance(held, Verification):
                checked[place] = Checked(entry=entry, outcome=Verified(verification=held), earlier=True)
                return
            async with gate:
                outcome = await self.verify(entry)
            checked[place] = Checked(entry=with_record(entry, outcome), outcome=outcome)

        try:
            async with asyncio.timeout(self.settings.library_timeout):
                await asyncio.gather(*(one(place, entry) for place, entry in enumerate(entries)))
        except TimeoutError:
            late = Unverified(reason=f"the library took longer than {self.settings.library_timeout:g} s "
                                     "(literature.library_timeout)")
            for place, entry in enumerate(entries):
                checked.setdefault(place, Checked(entry=with_record(entry, late), outcome=late))
        return merged([checked[place] for place in range(len(entries))])

    async def search(self, query: str, limit: int) -> Found:
        """Works on a subject from every catalogue, taking turns, each work once; within `lookup_timeout`."""
        lists: dict[SourceName, tuple[Work, ...]] = {}
        outages: dict[SourceName, str] = {}

        async def ask(source: Source) -> None:
            try:
                lists[source.name] = await source.search(query, limit)
            except SourceError as error:
                outages[source.name] = str(error)

        limits = self.settings.lookup_timeout
        try:
            async with asyncio.timeout(limits):
                await asyncio.gather(*(ask(source) for source in self.sources))
        except TimeoutError:
            for one in self.sources:
                if one.name not in lists:
                    outages.setdefault(one.name, f"{one.name} gave no answer within {limits:g} s")
        names = [one.name for one in self.sources]
        return Found(_in_turns([lists[name] for name in names if name in lists], limit),
                     tuple(outages[name] for name in names if name in outages))

    async def candidates(self, wanted: Wanted) -> tuple[Work, ...]:
        """Works that may be the wanted one, of all catalogues that answer within `lookup_timeout`."""
        found: dict[SourceName, tuple[Work, ...]] = {}

        async def one(source: Source) -> None:
            try:
                found[source.name] = await source.find(wanted)
            except SourceError:
                return  # the entry that is made of another catalogue's answer is verified, and says who was missing

        try:
            async with asyncio.timeout(self.settings.lookup_timeout):
                await asyncio.gather(*(one(source) for source in self.sources))
        except TimeoutError:
            pass
        return tuple(work for source in self.sources for work in found.get(source.name, ()))


def with_record(entry: Entry, outcome: Outcome) -> Entry:
    """The entry with the record of its verification and an abstract where it had none; without record if refused."""
    if not isinstance(outcome, Verified):
        return entry.with_fields(verified="")
    abstract = entry.fields.get("abstract", "") or outcome.abstract.replace("{", "").replace("}", "").replace("\\", "")
    return entry.with_fields(abstract=abstract, verified=str(outcome.verification))


def _in_turns(lists: Sequence[Sequence[Work]], limit: int) -> tuple[Work, ...]:
    """The best of each list first, then the seconds; each work once, with an abstract where one of them has it."""
    from literature.titles import pressed

    taken: dict[str, Work] = {}
    for rank in range(max((len(one) for one in lists), default=0)):
        for one in (works[rank] for works in lists if rank < len(works)):
            name = pressed(one.title)
            if name not in taken or (one.abstract and not taken[name].abstract):
                taken[name] = one
    return tuple(taken.values())[:limit]


@asynccontextmanager
async def open_literature(settings: LiteratureSettings, credentials: Credentials) -> AsyncGenerator[Literature]:
    """The catalogues that the settings name."""
    async with Web(settings) as web:
        every: dict[SourceName, Source] = {
            "openalex": OpenAlex(web, credentials), "crossref": Crossref(web, credentials),
            "semantic_scholar": SemanticScholar(web, credentials), "arxiv": Arxiv(web)}
        yield Literature(tuple(every[name] for name in dict.fromkeys(settings.sources)), settings)
