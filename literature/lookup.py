"""Verify libraries and search for works, within time limits.

async with open_literature(settings, credentials) as literature:
    ... await literature.check(entries) ...
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from labwright.literature import LibraryError
from labwright.literature.bibtex import BibEntry, build_entry
from labwright.literature.catalogue_client import (
    CatalogueClient,
    CatalogueCredentials,
    CatalogueName,
    LiteratureSettings,
)
from labwright.literature.catalogues import Arxiv, Crossref, OpenAlex, SemanticScholar, WebCatalogue
from labwright.literature.works import (
    CatalogueAnswers,
    PublishedWork,
    WorkCatalogue,
    WorkQuery,
    build_title_key,
    explain_author_mismatch,
    find_arxiv_id,
    find_doi,
    is_same_title,
    normalise_text,
    parse_authors,
    split_name,
)
from labwright.pdf.layout import read_text
from labwright.pdf.reader import PdfError
from labwright.record.float_compare import parse_whole_number
from labwright.record.schema import FrozenModel

# Verify entries: title, authors and year must agree with one work in a catalogue. The rules are in docs/ideas.md. One
# catalogue must agree on title, authors and year; another catalogue may confirm an identifier that the first one
# lacks. A work is refused if any queried catalogue marks it as retracted; at least one catalogue that lists
# retractions must have answered. If a catalogue fails, an entry is unverified rather than refused, unless another
# answer is decisive (retracted, or the identifier of another work). Only verified entries may be cited. The
# verification is stored in the `verified` field of an entry: verified = {source: crossref; id:
# doi:10.1162/neco.1997.9.8.1735; date: 2026-11-21; agreed: title, authors, year; sha256: 5f0c...} The hash covers the
# compared fields (title, authors, year, DOI, arXiv identifier, without TeX and case). Editing any of these
# invalidates the verification; changing braces does not. Limits: anyone who can edit the file can compute the hash;
# pages, volume and venue are not compared; namesakes of an author are not detected; catalogues may not know of a
# retraction.

_RECORD_PART_PATTERN = re.compile(r"^(source|id|date|agreed|sha256):\s*(.+)$", re.DOTALL)


class Verification(FrozenModel):
    """Proof that an entry agrees with a source."""

    source: str = Field(min_length=1, description="a catalogue's name, or `by hand` with the pages consulted")
    id: str = Field(min_length=1, description="as `Work.identifier`")
    date: datetime.date
    agreed: tuple[str, ...] = Field(min_length=3, description="fields that agree")
    sha256: str = Field(pattern=r"^[0-9a-f]{32}$", description="first half of the hash of the compared fields")

    def __str__(self) -> str:
        return (
            f"source: {self.source}; id: {self.id}; date: {self.date}; agreed: {', '.join(self.agreed)}; "
            f"sha256: {self.sha256}"
        )


class VerificationOutcome(FrozenModel):
    """Result of a verification: a catalogue agrees, the catalogues contradict the entry, or the entry could not be
    looked up.
    """

    outcome: Literal["verified", "refused", "unverified"]
    reason: str = Field(default="", description="why it must not be cited; empty if verified")
    verification: Verification | None = None
    abstract: str = ""


def _decide_outcome(
    entry: BibEntry, answers: CatalogueAnswers, sources: Sequence[WorkCatalogue], today: datetime.date
) -> VerificationOutcome:
    every, identifiers = answers.list_all_works(sources), entry.identifiers
    for name, value in identifiers.items():
        named = [work for work in every if value in work.identifiers]
        if named and not any(is_same_title(entry.fields["title"], work.title, work.subtitle) for work in named):
            return VerificationOutcome(
                outcome="refused",
                reason=f"{name}:{value} is another work, {named[0].title[:160]!r} ({named[0].source})",
            )
    works = [work for work in every if not find_disagreements(entry, work)]
    known = frozenset(identifiers.values()).union(*(work.identifiers for work in works))
    if any(work.retracted for work in every if work in works or work.identifiers & known):
        return VerificationOutcome(outcome="refused", reason="it is retracted")
    missing = [name for name, value in identifiers.items() if not any(value in work.identifiers for work in works)]
    if (
        works
        and not missing
        and any(source.lists_retractions and source.name in answers.works_by_catalogue for source in sources)
    ):
        abstract = next((work.abstract for work in works if work.abstract), "")
        return VerificationOutcome(
            outcome="verified",
            abstract=abstract,
            verification=Verification(
                source=works[0].source,
                id=works[0].identifier,
                date=today,
                sha256=hash_compared(entry),
                agreed=("title", "authors", "year", *identifiers),
            ),
        )
    if works and missing:
        reason = f"no queried catalogue lists its {' or '.join(missing)} for this work"
    else:
        reason = "no catalogue that lists retractions answered" if works else _explain_no_match(entry, answers, every)
    if answers.failure_by_catalogue:
        reason = f"{reason}; without an answer: {'; '.join(answers.failure_by_catalogue.values())}"
    refused = not answers.failure_by_catalogue and (missing or not works)
    return VerificationOutcome(outcome="refused" if refused else "unverified", reason=reason)


def _explain_no_match(entry: BibEntry, answers: CatalogueAnswers, works: Sequence[PublishedWork]) -> str:
    """Explain why no work matches, i.e. how the closest work with the same title differs."""
    if not answers.works_by_catalogue:
        return "no catalogue answered"
    alike = [
        find_disagreements(entry, work)
        for work in works
        if is_same_title(entry.fields["title"], work.title, work.subtitle)
    ]
    return "; ".join(min(alike, key=len)) if alike else "no catalogue that answered has a work with this title"


def find_disagreements(entry: BibEntry, work: PublishedWork) -> tuple[str, ...]:
    """Return the differences in title, authors and year between an entry and a work."""
    found: list[str] = []
    if not is_same_title(entry.fields["title"], work.title, work.subtitle):
        found.append(f"the source has the title {work.title[:160]!r}")
    if why := explain_author_mismatch(entry.fields["author"], work.authors, known_cut=work.cut):
        found.append(why)
    year = entry.read_plain("year")
    if parse_whole_number(year) not in work.years:
        found.append(f"the year is {year!r}, {work.source} lists {', '.join(map(str, work.years)) or 'none'}")
    return tuple(found)


# --- the record of a verification -----------------------------------------------------------------------------------


def hash_compared(entry: BibEntry) -> str:
    """Return the first half of the hash of the compared fields."""
    names, cut = parse_authors(entry.fields.get("author", ""))
    content = [
        build_title_key(entry.fields.get("title", "")),
        [normalise_text(name) for name in names],
        cut,
        entry.read_plain("year"),
        entry.doi,
        entry.arxiv,
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def read_verification(entry: BibEntry) -> Verification | None:
    """Return the verification of an entry if it is well-formed and complete and the entry has not been edited since."""
    parts = {
        match[1]: match[2]
        for part in entry.fields.get("verified", "").split(";")
        if (match := _RECORD_PART_PATTERN.match(part.strip()))
    }
    agreed = tuple(name.strip() for name in parts.pop("agreed", "").split(","))
    try:
        record = Verification.model_validate({**parts, "agreed": agreed})
    except ValidationError:
        return None
    holds = {"title", "authors", "year"} <= set(record.agreed) and record.sha256 == hash_compared(entry)
    return record if holds else None


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
        """Verify an entry within `LOOKUP_TIMEOUT_SECONDS`.

        Catalogues that list retractions are always queried, the others only if those do not verify the entry.
        """
        if missing := [name for name in ("title", "author", "year") if not entry.read_plain(name)]:
            return VerificationOutcome(outcome="refused", reason=f"it has no {' and no '.join(missing)}")
        if not self.sources:
            edited = "it was edited after its verification, and " if entry.fields.get("verified") else ""
            return VerificationOutcome(
                outcome="unverified", reason=f"{edited}no catalogue is configured (literature.sources is empty)"
            )
        answers, today = CatalogueAnswers(LOOKUP_TIMEOUT_SECONDS), self.today()
        first = [source for source in self.sources if source.lists_retractions]
        await answers.collect(first, lambda source: source.find(entry.work_query))
        outcome = _decide_outcome(entry, answers, self.sources, today)
        if outcome.outcome == "verified":
            return outcome
        others = [source for source in self.sources if source not in first]
        await answers.collect(others, lambda source: source.find(entry.work_query))
        return _decide_outcome(entry, answers, self.sources, today)

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
        names: list[CatalogueName] = [source.name for source in self.sources]
        answered = [name for name in names if name in answers.works_by_catalogue]
        lists = [answers.works_by_catalogue[name] for name in names if name in answers.works_by_catalogue]
        found: dict[str, PublishedWork] = {}
        for work in (work for rank in zip_longest(*lists) for work in rank if work is not None):
            key = build_title_key(work.title)
            if key not in found or (work.abstract and not found[key].abstract):
                found[key] = work
        outages = tuple(answers.failure_by_catalogue[name] for name in names if name in answers.failure_by_catalogue)
        return SearchResult(tuple(found.values())[:limit], tuple(answered), outages)

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


# Build entries from a folder of PDFs: the first page of each is looked up in the catalogues.
#
# A paper is looked up by the DOI or arXiv identifier on its first page, otherwise by lines that may be its title. A
# work matches if its full title and its authors' family names are on that page. Papers not found are reported.
#
# PDFs are untrusted: one page of each is read (`labwright.pdf`), within `PAGE_TIMEOUT_SECONDS`.

MAX_PAPERS = 200
"""Maximum number of papers read from a folder."""
PAGE_TIMEOUT_SECONDS = 30.0
"""Time limit of a first page in seconds: a PDF may contain any amount of drawing."""
TITLE_LINES = 6
"""Number of lines of a first page that its title may begin in."""


@dataclass(frozen=True)
class PaperEntries:
    """Entries built from papers, and one sentence for each paper not found."""

    entries: tuple[BibEntry, ...]
    notes: tuple[str, ...]


async def read_papers(folder: Path, literature: LiteratureClient, *, taken_keys: Sequence[str] = ()) -> PaperEntries:
    """Build entries for the PDFs in a folder, with keys not in `taken_keys`. Raises `LibraryError`."""
    if not folder.is_dir():
        raise LibraryError(f"the folder of papers {str(folder)!r} does not exist")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".pdf" and path.is_file())
    notes = (
        [f"{len(paths)} papers in {folder}, of which the first {MAX_PAPERS} are read"]
        if len(paths) > MAX_PAPERS
        else []
    )
    entries: list[BibEntry] = []
    late = paths[:MAX_PAPERS]
    try:
        async with asyncio.timeout(LIBRARY_TIMEOUT_SECONDS):
            while late:
                page = await read_first_page(late[0])
                work = await _find_work(page, literature)
                if work is not None:
                    entries.append(build_entry(work, taken_keys=[*taken_keys, *(one.key for one in entries)]))
                else:
                    why = "no catalogue has a matching work" if page.strip() else "it contains no text"
                    notes.append(f"{late[0].name}, first page: {why}")
                late = late[1:]
    except TimeoutError:
        notes.append(f"{late[0].name} and {len(late) - 1} others: not looked up within {LIBRARY_TIMEOUT_SECONDS:g} s")
    return PaperEntries(tuple(entries), tuple(notes))


async def read_first_page(path: Path) -> str:
    """Return the text of the first page; empty if there is none or it takes too long."""
    try:
        return await asyncio.to_thread(read_text, path, max_pages=1, timeout=PAGE_TIMEOUT_SECONDS)
    except PdfError:
        return ""


async def _find_work(page: str, literature: LiteratureClient) -> PublishedWork | None:
    named = WorkQuery(doi=find_doi(page), arxiv=find_arxiv_id(page))
    for wanted in ([named] if named.doi or named.arxiv else []) + [
        WorkQuery(title=title) for title in find_titles(page)
    ]:
        for work in await literature.find_candidates(wanted):
            if is_on_page(work, page):
                return work
    return None


def find_titles(page: str) -> tuple[str, ...]:
    """Return possible titles: a line near the top, alone or joined with the next one or two lines."""
    lines = [line.strip() for line in page.splitlines() if len(line.split()) > 1][:TITLE_LINES]
    found = [" ".join(lines[at : at + size]) for at in range(min(2, len(lines))) for size in (1, 2, 3)]
    return tuple(dict.fromkeys(title for title in found if len(title.split()) > 2))


def is_on_page(work: PublishedWork, page: str) -> bool:
    """Return whether a page contains the title and the family names of the first ten authors."""
    words, text = set(normalise_text(page).split()), build_title_key(page)
    families = [split_name(author)[-1:] for author in work.authors[:10]]
    return (
        bool(families)
        and build_title_key(work.title) in text
        and all(family and (family[0] in words or family[0] in text) for family in families)
    )
