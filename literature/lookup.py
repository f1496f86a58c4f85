"""What others ask of the catalogues, bounded in time: whether a library is true, and works on a subject.

async with open_literature(settings, credentials) as literature:
    ... await literature.check(entries) ...
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import zip_longest

from pydantic import Field

from labwright.literature.library import Entry
from labwright.literature.matching import authors_in, name_words, title_key
from labwright.literature.settings import Credentials, LiteratureSettings, SourceName
from labwright.literature.sources import Catalogue
from labwright.literature.sources.arxiv import Arxiv
from labwright.literature.sources.crossref import Crossref
from labwright.literature.sources.openalex import OpenAlex
from labwright.literature.sources.semantic_scholar import SemanticScholar
from labwright.literature.verification import Outcome, verification_of, verify
from labwright.literature.web import Web
from labwright.literature.works import Answers, Source, Wanted, Work
from labwright.record.nouns.frozen import Frozen

LOOKUP_TIMEOUT = 60.0
"""Seconds for one reference or one search, over all catalogues, waits and retries included."""
LIBRARY_TIMEOUT = 600.0
"""Seconds for a whole library or folder of papers: some hundred references at the pace of the slowest catalogue."""
AT_ONCE = 4
"""References that are looked up at the same time; each catalogue still answers one request after the other."""


class Checked(Frozen):
    """An entry and its outcome. A verified one holds its record."""

    entry: Entry
    outcome: Outcome
    merged_into: str = Field(default="", description="key of the entry before it that is the same work")

    @property
    def reason(self) -> str:
        """Why the entry may not be cited; empty for one that may."""
        if self.merged_into:
            return f"the same work as {self.merged_into!r}: cite that one"
        return self.outcome.reason


class Library(Frozen):
    """The entries of a library in their order."""

    checked: tuple[Checked, ...]

    @property
    def usable(self) -> tuple[Entry, ...]:
        """What may be cited."""
        return tuple(one.entry for one in self.checked if not one.reason)


@dataclass(frozen=True)
class SearchResult:
    """Works on a subject, the catalogues that answered, and why the others did not."""

    works: tuple[Work, ...]
    answered: tuple[str, ...]
    outages: tuple[str, ...]


@dataclass(frozen=True)
class Literature:
    """Catalogues, ready to be asked."""

    sources: tuple[Source, ...] = ()
    today: Callable[[], datetime.date] = datetime.date.today
    pdf: Callable[[str], Awaitable[bytes]] | None = None
    """The full text of a preprint by its arXiv identifier; empty where there is none. Raises `SourceError`."""

    async def verify(self, entry: Entry) -> Outcome:
        """What the catalogues say of an entry, within `LOOKUP_TIMEOUT`."""
        return await verify(entry, self.sources, today=self.today(), timeout=LOOKUP_TIMEOUT)

    async def check(self, entries: Sequence[Entry]) -> Library:
        """Every entry with its outcome, within `LIBRARY_TIMEOUT`; one with a record that holds is not asked for."""
        late = Outcome(outcome="unverified", reason=f"the library took longer than {LIBRARY_TIMEOUT:g} s")
        checked = [Checked(entry=with_record(entry, late), outcome=late) for entry in entries]
        gate = asyncio.Semaphore(AT_ONCE)

        async def check_one(place: int, entry: Entry) -> None:
            if held := verification_of(entry):
                checked[place] = Checked(entry=entry, outcome=Outcome(outcome="verified", verification=held))
                return
            async with gate:
                outcome = await self.verify(entry)
            checked[place] = Checked(entry=with_record(entry, outcome), outcome=outcome)

        with contextlib.suppress(TimeoutError):  # those that are late have said so from the beginning
            async with asyncio.timeout(LIBRARY_TIMEOUT):
                await asyncio.gather(*(check_one(place, entry) for place, entry in enumerate(entries)))
        return _merged(checked)

    async def search(self, query: str, limit: int) -> SearchResult:
        """Works on a subject, within `LOOKUP_TIMEOUT`: the best of each catalogue first, then the seconds; each work
        once, with an abstract where one catalogue has it."""
        answers = Answers(LOOKUP_TIMEOUT)
        await answers.collect(self.sources, lambda source: source.search(query, limit))
        answered = tuple(one.name for one in self.sources if one.name in answers.works)
        lists = [answers.works[one.name] for one in self.sources if one.name in answers.works]
        found: dict[str, Work] = {}
        for work in (work for rank in zip_longest(*lists) for work in rank if work is not None):
            key = title_key(work.title)
            if key not in found or (work.abstract and not found[key].abstract):
                found[key] = work
        outages = tuple(answers.failed[one.name] for one in self.sources if one.name in answers.failed)
        return SearchResult(tuple(found.values())[:limit], answered, outages)

    async def candidates(self, wanted: Wanted) -> tuple[Work, ...]:
        """Works that may be the wanted one, of all catalogues that answer within `LOOKUP_TIMEOUT`."""
        answers = Answers(LOOKUP_TIMEOUT)
        await answers.collect(self.sources, lambda source: source.find(wanted))
        return answers.every(self.sources)


CATALOGUES: dict[SourceName, type[Catalogue]] = {
    "openalex": OpenAlex,
    "crossref": Crossref,
    "semantic_scholar": SemanticScholar,
    "arxiv": Arxiv,
}


@asynccontextmanager
async def open_literature(settings: LiteratureSettings, credentials: Credentials) -> AsyncGenerator[Literature]:
    """The catalogues that the settings name."""
    async with Web(settings, credentials) as web:
        yield Literature(
            tuple(CATALOGUES[name](web) for name in dict.fromkeys(settings.sources)),
            pdf=Arxiv(web).pdf if "arxiv" in settings.sources else None,
        )


def with_record(entry: Entry, outcome: Outcome) -> Entry:
    """The entry with the record of its verification and an abstract where it had none; without record if refused."""
    if outcome.verification is None:
        return entry.with_fields(verified="")
    abstract = entry.fields.get("abstract", "") or outcome.abstract.replace("{", "").replace("}", "").replace("\\", "")
    return entry.with_fields(abstract=abstract, verified=str(outcome.verification))


def _merged(checked: Sequence[Checked]) -> Library:
    """The library, in which every verified entry of a work after the first one is marked."""
    first: dict[str, str] = {}
    found: list[Checked] = []
    for one in checked:
        names = identities_of(one.entry) if one.outcome.verification is not None else ()
        other = next((first[name] for name in names if name in first), "")
        for name in names:
            first.setdefault(name, other or one.entry.key)
        found.append(one.model_copy(update={"merged_into": other}) if other else one)
    return Library(checked=tuple(found))


def identities_of(entry: Entry) -> tuple[str, ...]:
    """What two entries of one work share one of: DOI, arXiv identifier, or title with first author."""
    names, _ = authors_in(entry.fields.get("author", ""))
    author = "".join(name_words(names[0])[-1:]) if names else ""
    return (*entry.identifiers.values(), f"{title_key(entry.fields.get('title', ''))}/{author}")
