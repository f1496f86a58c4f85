"""A folder of papers as PDFs, as candidates for entries: what the first page says, found in a catalogue.

A paper is looked up by the DOI or arXiv identifier on its first page, else by the lines that may be its title. A work
is taken where its whole title and the family names of its authors stand on that page. What is not found is reported.

PDFs are strangers' files: pdftotext reads one page of each, within `TIMEOUT` seconds and `LARGEST` bytes of text.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labwright.literature import LibraryError
from labwright.literature.library import Entry, entry_of
from labwright.literature.lookup import LIBRARY_TIMEOUT, Literature
from labwright.literature.matching import name_words, normalized, title_key
from labwright.literature.works import Wanted, Work, arxiv_of, doi_of

MOST = 200
"""Papers of a folder at most."""
TIMEOUT = 30.0
"""Seconds for a first page: a stranger's PDF may hold any amount of drawing."""
LARGEST = 200_000
HEAD = 6
"""Lines of a first page that its title may begin in."""


@dataclass(frozen=True)
class Papers:
    """Entries that were made of papers, and what was not found, a sentence each."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]


async def read_papers(folder: Path, literature: Literature, *, taken: Sequence[str] = ()) -> Papers:
    """Entries of the PDFs in a folder, with keys that are not `taken`. Raises `LibraryError`."""
    if not folder.is_dir():
        raise LibraryError(f"there is no folder of papers {str(folder)!r}")
    if shutil.which("pdftotext") is None:
        raise LibraryError("there is no pdftotext to read papers with; on Debian: apt-get install poppler-utils")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".pdf" and path.is_file())
    notes = [f"{len(paths)} papers in {folder}, of which the first {MOST} are read"] if len(paths) > MOST else []
    entries: list[Entry] = []
    late = paths[:MOST]
    try:
        async with asyncio.timeout(LIBRARY_TIMEOUT):
            while late:
                page = await first_page(late[0])
                work = await _work_of(page, literature)
                if work is not None:
                    entries.append(entry_of(work, taken=[*taken, *(one.key for one in entries)]))
                else:
                    why = "no work of a catalogue is found there" if page.strip() else "there is no text"
                    notes.append(f"{late[0].name}, first page: {why}")
                late = late[1:]
    except TimeoutError:
        notes.append(f"{late[0].name} and {len(late) - 1} others: not looked up within {LIBRARY_TIMEOUT:g} s")
    return Papers(tuple(entries), tuple(notes))


async def first_page(path: Path) -> str:
    """The text of the first page; empty where there is none, or it takes too long."""
    process = await asyncio.create_subprocess_exec(
        "pdftotext",
        "-q",
        "-enc",
        "UTF-8",
        "-f",
        "1",
        "-l",
        "1",
        str(path.absolute()),
        "-",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT):
            data = await process.stdout.readexactly(LARGEST)
    except asyncio.IncompleteReadError as error:
        data = error.partial
    except TimeoutError:
        data = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return data.decode("utf-8", errors="replace")


async def _work_of(page: str, literature: Literature) -> Work | None:
    named = Wanted(doi=doi_of(page), arxiv=arxiv_of(page))
    for wanted in ([named] if named.doi or named.arxiv else []) + [Wanted(title=title) for title in titles_on(page)]:
        for work in await literature.candidates(wanted):
            if is_on_page(work, page):
                return work
    return None


def titles_on(page: str) -> tuple[str, ...]:
    """What may be the title: a line near the top, alone or with the one or two after it."""
    lines = [line.strip() for line in page.splitlines() if len(line.split()) > 1][:HEAD]
    found = [" ".join(lines[at : at + size]) for at in range(min(2, len(lines))) for size in (1, 2, 3)]
    return tuple(dict.fromkeys(one for one in found if len(one.split()) > 2))


def is_on_page(work: Work, page: str) -> bool:
    """Whether the title and every author's family name (of the first ten) stand on a page."""
    words, text = set(normalized(page).split()), title_key(page)
    families = [name_words(author)[-1:] for author in work.authors[:10]]
    return (
        bool(families)
        and title_key(work.title) in text
        and all(family and (family[0] in words or family[0] in text) for family in families)
    )
