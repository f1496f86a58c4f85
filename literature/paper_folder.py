"""Build entries from a folder of PDFs: the first page of each is looked up in the catalogues.

A paper is looked up by the DOI or arXiv identifier on its first page, otherwise by lines that may be its title. A work
matches if its full title and its authors' family names are on that page. Papers not found are reported.

PDFs are untrusted: one page of each is read (`labwright.pdf`), within `PAGE_TIMEOUT_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.literature import LibraryError
from labwright.literature.bibtex import BibEntry, build_entry
from labwright.literature.lookup import LIBRARY_TIMEOUT_SECONDS, LiteratureClient
from labwright.literature.works import (
    PublishedWork,
    WorkQuery,
    build_title_key,
    find_arxiv_id,
    find_doi,
    normalise_text,
    split_name,
)
from labwright.pdf.layout import read_text
from labwright.pdf.reader import PdfError

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
