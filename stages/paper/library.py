"""The works that a paper may cite: the library that a run was given, verified when it begins, and what was gathered.

Entries whose record of verification still holds count as they are, and nobody is asked. The others are looked up where
catalogues are in reach; what cannot be verified then is not offered to the writer, and the user is told. The PDFs of a
folder become entries by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path

from literature import LibraryError
from literature.library import Entry, as_bibtex, read_library
from literature.lookup import Literature
from literature.matching import authors_in, plain
from literature.papers import read_papers
from literature.settings import LiteratureSettings
from literature.verification import has_record
from models.roles.writing import Reference
from record.events.papers import LibraryChecked
from record.fold.state import RunState
from record.folder import RunFolder, sha256, write_file
from record.nouns.papers import CheckedEntry
from stages.bench import Bench

UNPRINTED = frozenset({"verified", "abstract"})
"""Fields that no style prints."""


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
        entries=tuple(CheckedEntry(key=one.entry.key, outcome=one.outcome.outcome, why=one.reason)
                      for one in library.checked),
        notes=notes, files={str(path.relative_to(bench.folder.root)): sha256(path)})


def library_of(state: RunState, folder: RunFolder, *, before: int | None = None) -> tuple[Entry, ...]:
    """The run's verified entries: of the given library, then gathered ones, of this writing from rounds `before`.

    Raises: `literature.errors.LibraryError`, also for a file that is not as it was recorded.
    """
    gathered = [one for one in state.works_chosen if one.version <= state.version
                and (before is None or one.version < state.version or one.round < before)]
    recorded = [*([state.library] if state.library is not None else []), *gathered]
    return tuple(entry for one in recorded for name, digest in one.files.items()
                 for entry in _as_recorded(folder.root / name, digest))


def _as_recorded(bib: Path, digest: str) -> tuple[Entry, ...]:
    if not bib.is_file() or sha256(bib) != digest:
        raise LibraryError(f"{bib} is not as it was recorded: put it back, or start the run anew")
    return _read(bib, digest)


@cache
def _read(bib: Path, digest: str) -> tuple[Entry, ...]:
    """The entries of a file with these bytes: each is parsed once."""
    return read_verified(bib)


def read_verified(path: Path) -> tuple[Entry, ...]:
    """The entries of a library whose record of verification holds, in its order.

    Raises: `literature.errors.LibraryError`.
    """
    return tuple(entry for entry in read_library(path) if has_record(entry))


def reference(entry: Entry) -> Reference:
    """An entry as a writer sees it."""
    names, cut = authors_in(entry.fields.get("author", ""))
    return Reference(key=entry.key, title=entry.plain("title"), year=entry.plain("year"), note=entry.venue,
                     authors="; ".join([*map(plain, names), *["and others"] * cut]), abstract=entry.plain("abstract"))


def bibliography(entries: Iterable[Entry], cited: Sequence[str]) -> str:
    """A references.bib with the cited entries alone, sorted by key, without what is not printed."""
    wanted = {entry.key: entry for entry in entries if entry.key in set(cited) and entry.fields.get("verified")}
    return as_bibtex([wanted[key] for key in sorted(wanted)], without=UNPRINTED)
