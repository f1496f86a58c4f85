"""Entries made of works: a catalogue's words as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

from literature.library import Entry
from literature.names import name_of
from literature.tex import folded
from literature.works import Work

_CAPITALS = re.compile(r"\b(\w*[A-Z]\w*[A-Z]\w*)\b")
"""Words that a bibliography style would put into lower case, as RNN and BatchNorm."""


def entry_of(work: Work, *, taken: Sequence[str] = ()) -> Entry:
    """A work as an entry, in a catalogue's words; its record of verification is still to come."""
    title = f"{work.title}: {work.subtitle}" if work.subtitle else work.title
    fields = {
        "title": _CAPITALS.sub(r"{\1}", _safe(title)), "author": _people(work),
        "journal": _safe(work.venue), "year": str(work.years[0]) if work.years else "",
        "doi": work.dois[0] if work.dois else "", "eprint": work.arxiv, "archiveprefix": "arXiv" if work.arxiv else "",
        "abstract": _safe(work.abstract)}
    kind = "article" if work.venue else "misc"
    return Entry(kind=kind, key=_key(work, taken), fields={name: value for name, value in fields.items() if value})


def _key(work: Work, taken: Sequence[str]) -> str:
    """Family name, year and first long word of the title, as libraries name entries."""
    name = name_of(work.authors[0]) if work.authors else name_of("anonymous")
    family = (name.family or name.words or ("anonymous",))[-1]
    word = next((one for one in folded(work.title).split() if len(one) > 3), "work")
    base = "".join(one for one in f"{family}{work.years[0] if work.years else ''}{word}" if one.isascii())
    names = (f"{base}{'' if n == 1 else f'-{n}'}" for n in count(1))
    return next(one for one in names if one not in taken)


def _people(work: Work) -> str:
    names = " and ".join(_safe(one).replace(" and ", " ") for one in work.authors)
    return f"{names} and others" if work.cut else names


def _safe(text: str) -> str:
    """Text of a catalogue in a BibTeX field: nothing in it is a command or ends the field."""
    kept = " ".join(text.translate({ord(sign): None for sign in "{}\\^~"}).split())
    return "".join(f"\\{sign}" if sign in "%&#_$" else sign for sign in kept)
