"""What goes wrong here (the tree is in the docstring of the room)."""

from __future__ import annotations


class LiteratureError(Exception):
    """The root of this room's errors."""


class LibraryError(LiteratureError):
    """A .bib file or a folder of papers that cannot be read. Who acts: the person who gave it."""


class SourceError(LiteratureError):
    """A catalogue gave no usable answer: not reached, too slow, too busy, or in a form that is not its own."""
