"""Verify libraries and search for works, within time limits.

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
from labwright.literature.works import CatalogueAnswers, PublishedWork, WorkCatalogue, WorkQuery
from labwright.record.schema.frozen_model import FrozenModel

LOOKUP_TIMEOUT_SECONDS = 60.0
"""Time limit of one reference or search in seconds, including all catalogues, waits and retries."""
LIBRARY_TIMEOUT_SECONDS = 600.0
"""Time limit of a library or folder of papers in seconds: a few hundred references at the slowest rate limit."""
MAX_CONCURRENT_LOOKUPS = 4
"""References looked up concurrently; each catalogue still gets one request at a time."""


class EntryCheck(FrozenModel):
    """An entry and its outcome. A verified entry contains its verification."""

    entry: BibEntry
    outcome: VerificationOutcome
    merged_into: str = Field(default="", description="key of the earlier entry for the same work")

    @property
    def reason(self) -> str:
        """The reason why the entry must not be cited; empty if it may be cited."""
        if self.merged_into:
            return f"the same work as {self.merged_into!r}: cite that one"
        return self.outcome.reason


class CheckedLibrary(FrozenModel):
    """The checked entries of a library in order."""

    checked: tuple[EntryCheck, ...]

    @property
    def usable_entries(self) -> tuple[BibEntry, ...]:
        """The entries that may be cited."""
        return tuple(check.entry for check in self.checked if not check.reason)


@dataclass(frozen=True)
class SearchResult:
    """Works that were found, the catalogues that answered, and the reasons why others did not answer."""

    works: tuple[PublishedWork, ...]
    answered: tuple[str, ...]
    outages: tuple[str, ...]


@dataclass(frozen=True)
class LiteratureClient:
    """Access to the configured catalogues."""

    sources: tuple[WorkCatalogue, ...] = ()
    today: Callable[[], datetime.date] = datetime.date.today
    download_pdf: Callable[[str], Awaitable[bytes]] | None = None
    """Downloads a preprint by its arXiv identifier; empty if there is none. Raises `CatalogueAnswerError`."""

    async def verify(self, entry: BibEntry) -> VerificationOutcome:
        """Verify an entry within `LOOKUP_TIMEOUT_SECONDS`."""
        return await verify_entry(entry, self.sources, today=self.today(), timeout=LOOKUP_TIMEOUT_SECONDS)

    async def check(self, entries: Sequence[BibEntry]) -> CheckedLibrary:
        """Verify all entries within `LIBRARY_TIMEOUT_SECONDS`; entries with a valid verification are skipped."""
        late = VerificationOutcome(
            outcome="unverified", reason=f"checking the library took longer than {LIBRARY_TIMEOUT_SECONDS:g} s"
        )
        checked = [EntryCheck(entry=attach_verification(entry, late), outcome=late) for entry in entries]
        gate = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

        async def check_one(place: int, entry: BibEntry) -> None:
            if verification := read_verification(entry):
                checked[place] = EntryCheck(
                    entry=entry, outcome=VerificationOutcome(outcome="verified", verification=verification)
                )
                return
            async with gate:
                outcome = await self.verify(entry)
            checked[place] = EntryCheck(entry=attach_verification(entry, outcome), outcome=outcome)

        with contextlib.suppress(TimeoutError):  # entries not reached keep their initial outcome
            async with asyncio.timeout(LIBRARY_TIMEOUT_SECONDS):
                await asyncio.gather(*(check_one(place, entry) for place, entry in enumerate(entries)))
        return _merge_duplicates(checked)

    async def search(self, query: str, limit: int) -> SearchResult:
        """Search within `LOOKUP_TIMEOUT_SECONDS`: the best result of each catalogue first, then the second best, and so
        on. Each work appears once, with an abstract if a catalogue has one."""
        answers = CatalogueAnswers(LOOKUP_TIMEOUT_SECONDS)
        await answers.collect(self.sources, lambda source: source.search(query, limit))
        answered = tuple(source.name for source in self.sources if source.name in answers.works_by_catalogue)
        lists = [
            answers.works_by_catalogue[source.name]
            for source in self.sources
            if source.name in answers.works_by_catalogue
        ]
        found: dict[str, PublishedWork] = {}
        for work in (work for rank in zip_longest(*lists) for work in rank if work is not None):
            key = build_title_key(work.title)
            if key not in found or (work.abstract and not found[key].abstract):
                found[key] = work
        outages = tuple(
            answers.failure_by_catalogue[source.name]
            for source in self.sources
            if source.name in answers.failure_by_catalogue
        )
        return SearchResult(tuple(found.values())[:limit], answered, outages)

    async def find_candidates(self, wanted: WorkQuery) -> tuple[PublishedWork, ...]:
        """Return candidates for a work from all catalogues that answer within `LOOKUP_TIMEOUT_SECONDS`."""
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
    """Open the configured catalogues."""
    async with CatalogueClient(settings, credentials) as web:
        yield LiteratureClient(
            tuple(CATALOGUE_CLASSES[name](web) for name in dict.fromkeys(settings.sources)),
            download_pdf=Arxiv(web).download_pdf if "arxiv" in settings.sources else None,
        )


def attach_verification(entry: BibEntry, outcome: VerificationOutcome) -> BibEntry:
    """Add the verification and a missing abstract to an entry, or remove its old verification if the check failed."""
    if outcome.verification is None:
        return entry.with_fields(verified="")
    abstract = entry.fields.get("abstract", "") or outcome.abstract.replace("{", "").replace("}", "").replace("\\", "")
    return entry.with_fields(abstract=abstract, verified=str(outcome.verification))


def _merge_duplicates(checked: Sequence[EntryCheck]) -> CheckedLibrary:
    """Mark all verified entries of a work except the first as duplicates."""
    first: dict[str, str] = {}
    found: list[EntryCheck] = []
    for check in checked:
        names = list_identities(check.entry) if check.outcome.verification is not None else ()
        other = next((first[name] for name in names if name in first), "")
        for name in names:
            first.setdefault(name, other or check.entry.key)
        found.append(check.model_copy(update={"merged_into": other}) if other else check)
    return CheckedLibrary(checked=tuple(found))


def list_identities(entry: BibEntry) -> tuple[str, ...]:
    """Return the identities of an entry: DOI, arXiv identifier, and title with first author. Entries of one work share
    at least one."""
    names, _ = parse_authors(entry.fields.get("author", ""))
    author = "".join(split_name(names[0])[-1:]) if names else ""
    return (*entry.identifiers.values(), f"{build_title_key(entry.fields.get('title', ''))}/{author}")
