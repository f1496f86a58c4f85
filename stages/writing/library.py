"""The library that a run was given: verified when the run begins, so that only what is true may be cited.

Entries with a record of verification that still holds count as they are, and nobody is asked. The others are looked up
where catalogues are in reach; what cannot be verified then is not offered to the writer, and the user is told. Papers
of a folder become entries by the same rule.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from literature.desk import Literature
from literature.library import Entry, as_bibtex, read_library
from literature.papers import read_papers
from literature.settings import LiteratureSettings
from record.citing import CheckedEntry
from record.events.papers import LibraryChecked
from record.folder import sha256, write_file
from stages.bench import Bench


async def check_library(bench: Bench) -> None:
    """Record what of the run's library may be cited, once. Raises `literature.errors.LibraryError`."""
    given, papers = bench.folder.library, bench.paper.papers
    if bench.state.library is not None or not (given.is_file() or papers is not None):
        return
    entries = read_library(given) if given.is_file() else ()
    async with AsyncExitStack() as stack:
        literature = Literature((), LiteratureSettings(sources=()))
        if bench.literature is not None:
            literature = await stack.enter_async_context(bench.literature())
        notes: tuple[str, ...] = ()
        if papers is not None:
            found = await read_papers(papers, literature, taken=[one.key for one in entries])
            entries, notes = (*entries, *found.entries), found.notes
        bench.recorder.append(await _checked(bench, literature, entries, notes))


async def _checked(
    bench: Bench, literature: Literature, entries: tuple[Entry, ...], notes: tuple[str, ...],
) -> LibraryChecked:
    library = await literature.check(entries)
    path = bench.folder.checked
    write_file(path, as_bibtex(library.usable))
    return LibraryChecked(
        entries=tuple(CheckedEntry(key=one.entry.key, outcome=one.outcome.outcome, why=one.told)
                      for one in library.checked),
        notes=notes, files={str(path.relative_to(bench.folder.root)): sha256(path)})
