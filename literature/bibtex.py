"""Read and write .bib files, using the parser of bibtexparser."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import Field

from labwright.literature import LibraryError
from labwright.literature.works import (
    PublishedWork,
    WorkQuery,
    find_arxiv_id,
    find_doi,
    normalise_text,
    split_name,
    strip_tex,
)
from labwright.record.schema import FrozenModel

MAX_LIBRARY_BYTES = 20_000_000
"""Size limit of a .bib file in bytes."""
_KEY_PATTERN = re.compile(r"[\w:.+/-]+")


class BibEntry(FrozenModel):
    """An entry of a .bib file; kind and field names in lower case, values unchanged."""

    kind: str
    key: str
    fields: dict[str, str]
    line: int = Field(default=0, description="line in its file, from 1; 0: not from a file")

    def read_plain(self, field: str) -> str:
        """Return a field without TeX; empty if it is missing."""
        return strip_tex(self.fields.get(field, ""))

    @property
    def doi(self) -> str:
        return find_doi(strip_tex(self.fields.get("doi", ""))) or find_doi(self.fields.get("url", ""))

    @property
    def arxiv(self) -> str:
        """The arXiv identifier from `eprint` or from other fields that mention arXiv."""
        texts = [self.read_plain(name) for name in ("note", "journal", "url", "doi", "howpublished", "number")]
        if self.fields.get("archiveprefix", self.fields.get("eprinttype", "arxiv")).lower() == "arxiv":
            texts.insert(0, f"arXiv:{self.fields.get('eprint', '').removeprefix('arXiv:')}")
        return next((match for text in texts if (match := find_arxiv_id(text))), "")

    @property
    def identifiers(self) -> dict[str, str]:
        """Its identifiers by kind: `doi`, `arXiv`."""
        return {kind: value for kind, value in (("doi", self.doi), ("arXiv", self.arxiv)) if value}

    @property
    def venue(self) -> str:
        return self.read_plain("booktitle") or self.read_plain("journal")

    @property
    def work_query(self) -> WorkQuery:
        return WorkQuery(title=self.read_plain("title"), doi=self.doi, arxiv=self.arxiv)

    def with_fields(self, **fields: str) -> BibEntry:
        """Return the entry with fields set; an empty value removes a field."""
        merged = self.fields | fields
        return self.model_copy(update={"fields": {name: value for name, value in merged.items() if value}})


def read_library(path: Path) -> tuple[BibEntry, ...]:
    """Return the entries of a .bib file in order. Raises `LibraryError`."""
    try:
        if path.stat().st_size > MAX_LIBRARY_BYTES:
            raise LibraryError(
                f"the library {str(path)!r} exceeds {MAX_LIBRARY_BYTES} bytes: keep only the entries to cite"
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise LibraryError(f"cannot read the library {str(path)!r}: {why}") from error
    return parse_bibtex(text, str(path))


def read_user_library(path: Path) -> tuple[BibEntry, ...]:
    """Return the entries of a user's library, which must not be empty. Raises `LibraryError`."""
    entries = read_library(path)
    if not entries:
        raise LibraryError(
            f"the library {str(path)!r} contains no BibTeX entry (@article{{key, title = {{...}}}}): give a .bib file"
        )
    return entries


def parse_bibtex(text: str, name: str = "library") -> tuple[BibEntry, ...]:
    """Parse the entries of a BibTeX text. Raises `LibraryError` with the line."""
    from bibtexparser.entrypoint import parse_string
    from bibtexparser.model import DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, String
    from bibtexparser.model import Entry as Block

    logging.getLogger("bibtexparser").addHandler(logging.NullHandler())  # its messages are raised below
    library: Any = parse_string(text, parse_stack=())  # its middleware uses only the first definition of a string
    for block in library.failed_blocks:
        line = int(block.start_line or 0) + 1
        if isinstance(block, DuplicateBlockKeyBlock) and isinstance(block.ignore_error_block, String):
            continue
        if isinstance(block, DuplicateBlockKeyBlock):
            why = f"the key {block.key!r} is used twice: rename one of the entries"
        elif isinstance(block, DuplicateFieldKeyBlock):
            why = f"an entry has the field {', '.join(sorted(block.duplicate_keys))} twice: remove one"
        else:
            why = "an entry cannot be parsed: check for a missing brace or comma"
        raise LibraryError(f"{name}, line {line}: {why}")
    entries: list[BibEntry] = []
    texts: dict[str, str] = {}
    for block in library.blocks:
        block = getattr(block, "ignore_error_block", block)
        if isinstance(block, String):  # as in BibTeX, a redefinition applies from this point on
            texts[block.key.lower()] = _resolve_value(str(block.value), texts)
        if not isinstance(block, Block):
            continue
        line = int(block.start_line or 0) + 1
        if not _KEY_PATTERN.fullmatch(str(block.key)):
            raise LibraryError(
                f"{name}, line {line}: the key {block.key!r} is invalid: use one word of letters, digits and :.+-/"
            )
        fields = {str(field.key).lower(): _resolve_value(str(field.value), texts) for field in block.fields}
        year = re.match(r"\d{4}(?=$|[-/~?%])", fields.get("date", ""))
        biblatex = {"year": year[0] if year else "", "journal": fields.get("journaltitle", "")}
        fields |= {name: value for name, value in biblatex.items() if value and not fields.get(name)}
        entries.append(BibEntry(kind=str(block.entry_type).lower(), key=str(block.key), fields=fields, line=line))
    return tuple(entries)


def _resolve_value(value: str, texts: Mapping[str, str]) -> str:
    """Return a value without delimiters and with string names replaced, as in `short # " of 2020"`."""
    pieces, depth, quoted = [""], 0, False
    for sign in value:
        depth += (sign == "{") - (sign == "}")
        quoted ^= sign == '"' and not depth
        if sign == "#" and not depth and not quoted:
            pieces.append("")
        else:
            pieces[-1] += sign
    pieces = [piece.strip() for piece in pieces]
    found = (piece[1:-1] if piece[:1] in ("{", '"') else texts.get(piece.lower(), piece) for piece in pieces)
    return " ".join("".join(found).split())


def format_bibtex(entries: Iterable[BibEntry], *, excluded_fields: frozenset[str] = frozenset()) -> str:
    """Format entries as a .bib file, without `excluded_fields`. Comments are lost."""
    texts: list[str] = []
    for entry in entries:
        fields = "".join(
            f"  {name:9} = {{{value}}},\n" for name, value in entry.fields.items() if name not in excluded_fields
        )
        texts.append(f"@{entry.kind}{{{entry.key},\n{fields}}}")
    return "\n\n".join(texts) + "\n"


_CAPITALS_PATTERN = re.compile(r"\b(\w*[A-Z]\w*[A-Z]\w*)\b")
"""Words that a bibliography style would convert to lower case, such as RNN and BatchNorm."""


def build_entry(work: PublishedWork, *, taken_keys: Sequence[str] = ()) -> BibEntry:
    """Convert a catalogue's work to an entry, not yet verified."""
    title = f"{work.title}: {work.subtitle}" if work.subtitle else work.title
    people = " and ".join(_escape_text(author).replace(" and ", " ") for author in work.authors)
    fields = {
        "title": _CAPITALS_PATTERN.sub(r"{\1}", _escape_text(title)),
        "author": f"{people} and others" if work.cut else people,
        "journal": _escape_text(work.venue),
        "year": str(work.years[0]) if work.years else "",
        "doi": work.dois[0] if work.dois else "",
        "eprint": work.arxiv,
        "archiveprefix": "arXiv" if work.arxiv else "",
        "abstract": _escape_text(work.abstract),
    }
    kind = "article" if work.venue else "misc"
    return BibEntry(
        kind=kind, key=_build_key(work, taken_keys), fields={name: value for name, value in fields.items() if value}
    )


def _build_key(work: PublishedWork, taken: Sequence[str]) -> str:
    """Build the usual key: family name, year and first long word of the title."""
    family = ["anonymous", *(split_name(work.authors[0]) if work.authors else ())][-1]
    word = next((title_word for title_word in normalise_text(work.title).split() if len(title_word) > 3), "work")
    base = "".join(letter for letter in f"{family}{work.years[0] if work.years else ''}{word}" if letter.isascii())
    return next(name for n in count(1) if (name := base if n == 1 else f"{base}-{n}") not in taken)


def _escape_text(text: str) -> str:
    """Escape catalogue text for a BibTeX field, so that it contains no command and cannot end the field."""
    plain = " ".join(text.translate({ord(sign): None for sign in "{}\\^~"}).split())
    return "".join(f"\\{sign}" if sign in "%&#_$" else sign for sign in plain)
