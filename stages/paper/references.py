"""The references of a paper: verified entries of the run's library, as a writer sees them and as BibTeX gets them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from literature.library import Entry, as_bibtex, read_library
from literature.names import authors_in
from literature.tex import plain
from literature.verified import has_record
from models.roles import Reference

UNPRINTED = frozenset({"verified", "abstract"})
"""Fields that no style prints."""


def read(path: Path) -> tuple[Entry, ...]:
    """The entries of a library whose record of verification holds, in its order.

    Raises: `literature.errors.LibraryError`.
    """
    return tuple(entry for entry in read_library(path) if has_record(entry))


def read_older(path: Path) -> tuple[Entry, ...]:
    """The same for the library of a run from before records had a form: a `verified` field that is not empty counts."""
    return tuple(entry for entry in read_library(path) if entry.fields.get("verified", "").strip())


def reference(entry: Entry) -> Reference:
    """An entry as a writer sees it."""
    names, cut = authors_in(entry.fields.get("author", ""))
    return Reference(key=entry.key, title=entry.plain("title"), year=entry.plain("year"), note=entry.venue,
                     authors="; ".join([*map(plain, names), *["and others"] * cut]), abstract=entry.plain("abstract"))


def write(entries: Iterable[Entry], cited: Sequence[str]) -> str:
    """A references.bib with the cited entries alone, sorted by key, without what is not printed."""
    wanted = {entry.key: entry for entry in entries if entry.key in set(cited) and entry.fields.get("verified")}
    return as_bibtex([wanted[key] for key in sorted(wanted)], without=UNPRINTED)
