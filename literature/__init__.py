"""Published works: finding them in four public catalogues, and telling which references are true.

LibraryError   for the user: a .bib file or a folder of papers cannot be read; the message has line and fix
SourceError    for nobody: a catalogue gave no usable answer in time; what depends on it stays unverified
"""

from __future__ import annotations

from labwright.record.errors import UsageError


class LibraryError(UsageError):
    """A .bib file or a folder of papers that cannot be read."""


class CatalogueAnswerError(Exception):
    """A catalogue gave no usable answer: not reached, too slow, too busy, or in an unknown form."""
