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

from labwright.literature.bibtex import BibEntry
from labwright.literature.catalogue_client import CatalogueClient
from labwright.literature.catalogues import WebCatalogue
from labwright.literature.catalogues.arxiv import Arxiv
from labwright.literature.catalogues.crossref import Crossref
from labwright.literature.catalogues.openalex import OpenAlex
from labwright.literature.catalogues.semantic_scholar import SemanticScholar
from labwright.literature.matching import build_title_key, parse_authors, split_name
from labwright.literature.settings import CatalogueCredentials, CatalogueName, LiteratureSettings
from labwright.literature.verification import VerificationOutcome, read_verification, verify_entry
from labwright.literature.works import CatalogueAnswers, Work, WorkCatalogue, WorkQuery
from labwright.record.schema.frozen_model import FrozenModel

LOOKUP_TIMEOUT_SECONDS = 60.0
"""Seconds for one reference or one search, over all catalogues, waits and retries included."""
LIBRARY_TIMEOUT_SECONDS = 600.0
"""Seconds for a whole library or folder of papers: some hundred references at the pace of the slowest catalogue."""
MAX_CONCURRENT_LOOKUPS = 4
"""References that are looked up at the same time; each catalogue still answers one request after the other."""


class EntryCheck(FrozenModel):
    """An entry and its outcome. A verified one holds its record."""

    entry: BibEntry
    outcome: VerificationOutcome
    merged_into: str = Field(default="", description="key of the entry before it that is the same work")

    @property
    def reason(self) -> str:
        """Why the entry may not be cited; empty for one that may."""
        if self.merged_into:
            return f"the same work as {self.merged_into!r}: cite that one"
        return self.outcome.reason


class CheckedLibrary(FrozenModel):
    """The entries of a library in their order."""

    checked: tuple[EntryCheck, ...]

    @property
    def usable_entries(self) -> tuple[BibEntry, ...]:
        """What may be cited."""
        return tuple(one.entry for one in self.checked if not one.reason)


@dataclass(frozen=True)
class SearchResult:
    """Works on a subject, the catalogues that answered, and why the others did not."""

    works: tuple[Work, ...]
    answered: tuple[str, ...]
    outages: tuple[str, ...]


@dataclass(frozen=True)
class LiteratureClient:
    """Catalogues, ready to be asked."""

    sources: tuple[WorkCatalogue, ...] = ()
    today: Callable[[], datetime.date] = datetime.date.today
    download_pdf: Callable[[str], Awaitable[bytes]] | None = None
    """The full text of a preprint by its arXiv identifier; empty where there is none. Raises `SourceError`."""

    async def verify(self, entry: BibEntry) -> VerificationOutcome:
        """What the catalogues say of an entry, within `LOOKUP_TIMEOUT`."""
        return await verify_entry(entry, self.sources, today=self.today(), timeout=LOOKUP_TIMEOUT_SECONDS)

    async def check(self, entries: Sequence[BibEntry]) -> CheckedLibrary:
        """Every entry with its outcome, within `LIBRARY_TIMEOUT`; one with a record that holds is not asked for."""
        late = VerificationOutcome(
            outcome="unverified", reason=f"the library took longer than {LIBRARY_TIMEOUT_SECONDS:g} s"
        )
        checked = [EntryCheck(entry=attach_verification(entry, late), outcome=late) for entry in entries]
        gate = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

        async def check_one(place: int, entry: BibEntry) -> None:
            if held := read_verification(entry):
                checked[place] = EntryCheck(
                    entry=entry, outcome=VerificationOutcome(outcome="verified", verification=held)
                )
                return
            async with gate:
                outcome = await self.verify(entry)
            checked[place] = EntryCheck(entry=attach_verification(entry, outcome), outcome=outcome)

        with contextlib.suppress(TimeoutError):  # those that are late have said so from the beginning
            async with asyncio.timeout(LIBRARY_TIMEOUT_SECONDS):
                await asyncio.gather(*(check_one(place, entry) for place, entry in enumerate(entries)))
        return _merge_duplicates(checked)

    async def search(self, query: str, limit: int) -> SearchResult:
        """Works on a subject, within `LOOKUP_TIMEOUT`: the best of each catalogue first, then the seconds; each work
        once, with an abstract where one catalogue has it."""
        answers = CatalogueAnswers(LOOKUP_TIMEOUT_SECONDS)
        await answers.collect(self.sources, lambda source: source.search(query, limit))
        answered = tuple(one.name for one in self.sources if one.name in answers.works_by_catalogue)
        lists = [answers.works_by_catalogue[one.name] for one in self.sources if one.name in answers.works_by_catalogue]
        found: dict[str, Work] = {}
        for work in (work for rank in zip_longest(*lists) for work in rank if work is not None):
            key = build_title_key(work.title)
            if key not in found or (work.abstract and not found[key].abstract):
                found[key] = work
        outages = tuple(
            answers.failure_by_catalogue[one.name] for one in self.sources if one.name in answers.failure_by_catalogue
        )
        return SearchResult(tuple(found.values())[:limit], answered, outages)

    async def find_candidates(self, wanted: WorkQuery) -> tuple[Work, ...]:
        """Works that may be the wanted one, of all catalogues that answer within `LOOKUP_TIMEOUT`."""
        answers = CatalogueAnswers(LOOKUP_TIMEOUT_SECONDS)
        await answers.collect(self.sources, lambda source: source.find(wanted))
        return answers.list_all_works(self.sources)


CATALOGUE_CLASSES: dict[CatalogueName, type[WebCatalogue]] = {
    "openalex": OpenAlex,
    "crossref": Crossref,
    "semantic_scholar": SemanticScholar,
    "arxiv": Arxiv,
}


@asynccontextmanager
async def open_literature(
    settings: LiteratureSettings, credentials: CatalogueCredentials
) -> AsyncGenerator[LiteratureClient]:
    """The catalogues that the settings name."""
    async with CatalogueClient(settings, credentials) as web:
        yield LiteratureClient(
            tuple(CATALOGUE_CLASSES[name](web) for name in dict.fromkeys(settings.sources)),
            download_pdf=Arxiv(web).download_pdf if "arxiv" in settings.sources else None,
        )


def attach_verification(entry: BibEntry, outcome: VerificationOutcome) -> BibEntry:
    """The entry with the record of its verification and an abstract where it had none; without record if refused."""
    if outcome.verification is None:
        return entry.with_fields(verified="")
    abstract = entry.fields.get("abstract", "") or outcome.abstract.replace("{", "").replace("}", "").replace("\\", "")
    return entry.with_fields(abstract=abstract, verified=str(outcome.verification))


def _merge_duplicates(checked: Sequence[EntryCheck]) -> CheckedLibrary:
    """The library, in which every verified entry of a work after the first one is marked."""
    first: dict[str, str] = {}
    found: list[EntryCheck] = []
    for one in checked:
        names = list_identities(one.entry) if one.outcome.verification is not None else ()
        other = next((first[name] for name in names if name in first), "")
        for name in names:
            first.setdefault(name, other or one.entry.key)
        found.append(one.model_copy(update={"merged_into": other}) if other else one)
    return CheckedLibrary(checked=tuple(found))


def list_identities(entry: BibEntry) -> tuple[str, ...]:
    """What two entries of one work share one of: DOI, arXiv identifier, or title with first author."""
    names, _ = parse_authors(entry.fields.get("author", ""))
    author = "".join(split_name(names[0])[-1:]) if names else ""
    return (*entry.identifiers.values(), f"{build_title_key(entry.fields.get('title', ''))}/{author}")
