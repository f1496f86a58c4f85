"""Find published works in four public catalogues and verify references.

LibraryError            for the user: a .bib file or folder of papers cannot be read; the message gives the line and the
fix CatalogueAnswerError    internal: a catalogue gave no usable answer in time; the affected entries stay unverified
"""

from __future__ import annotations

from labwright.record.errors import UsageError


class LibraryError(UsageError):
    """Raised if a .bib file or a folder of papers cannot be read."""


class CatalogueAnswerError(Exception):
    """Raised if a catalogue gave no usable answer: unreachable, too slow, overloaded, or an unknown format."""
