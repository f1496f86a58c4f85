"""The library of works that a paper may cite: a .bib file, of which only verified entries count.

An entry is verified when it has a `verified` field that names an identifier and what it was compared with. The parser
reads the BibTeX that people write (braces or quotes, nested braces, comments); it knows no @string macros.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.roles import Reference


class LibraryError(Exception):
    """A .bib file that cannot be read. Who acts: the person who gave it."""


@dataclass(frozen=True)
class Entry:
    """An entry of a .bib file; field names in lower case."""

    kind: str
    key: str
    fields: dict[str, str]

    @property
    def verified(self) -> bool:
        return bool(self.fields.get("verified", "").strip())

    @property
    def reference(self) -> Reference:
        """As a writer sees it."""
        named = {name: _plain(self.fields.get(name, "")) for name in ("title", "author", "year")}
        venue = self.fields.get("booktitle") or self.fields.get("journal") or ""
        return Reference(key=self.key, title=named["title"], authors=named["author"].replace(" and ", "; "),
                         year=named["year"], note=_plain(venue))


def read(path: Path) -> tuple[Entry, ...]:
    """The verified entries of a library, in its order. Raises `LibraryError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LibraryError(f"cannot read the library {str(path)!r}: {error}") from error
    return tuple(entry for entry in parse(text, str(path)) if entry.verified)


def write(entries: Iterable[Entry], cited: Sequence[str]) -> str:
    """A references.bib with the cited entries alone, sorted by key, without the `verified` field."""
    wanted = {entry.key: entry for entry in entries if entry.verified and entry.key in set(cited)}
    return "\n\n".join(_bibtex(wanted[key]) for key in sorted(wanted)) + "\n"


def parse(text: str, name: str = "library") -> tuple[Entry, ...]:
    """Every entry of a BibTeX text. Raises `LibraryError`."""
    entries: list[Entry] = []
    position = 0
    while match := re.compile(r"^[ \t]*@\s*(\w+)\s*\{\s*", re.MULTILINE).search(text, position):
        body, position = _braced(text, match.end() - 1 - _trailing(match[0]), name)
        if match[1].lower() in ("comment", "preamble", "string"):
            continue
        key, _, rest = body.partition(",")
        entry = Entry(match[1].lower(), key.strip(), dict(_fields(rest, name)))
        if not re.fullmatch(r"[\w:.+-]+", entry.key):
            raise LibraryError(f"{name}: the key {entry.key!r} of an entry is not one word of letters, digits and :.+-")
        if any(entry.key == other.key for other in entries):
            raise LibraryError(f"{name}: the key {entry.key!r} stands twice")
        entries.append(entry)
    return tuple(entries)


def _trailing(head: str) -> int:
    return len(head) - 1 - head.rindex("{")


def _braced(text: str, start: int, name: str) -> tuple[str, int]:
    """What stands between the brace at `start` and its partner, and the place after it."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1:at], at + 1
    line = text.count("\n", 0, start) + 1
    raise LibraryError(f"{name}: the entry or field at line {line} has no closing brace")


def _fields(body: str, name: str) -> Iterable[tuple[str, str]]:
    position = 0
    while match := re.compile(r"[\s,]*([\w-]+)\s*=\s*").match(body, position):
        start = match.end()
        if body[start:start + 1] == "{":
            value, position = _braced(body, start, name)
        elif quoted := re.compile(r'"((?:[^"{}]|\{[^{}]*\})*)"').match(body, start):
            value, position = quoted[1], quoted.end()
        elif bare := re.compile(r"[^\s,{}\"]+").match(body, start):
            value, position = bare[0], bare.end()
        else:
            raise LibraryError(f"{name}: the field {match[1]!r} has no value in braces or quotes")
        yield match[1].lower(), " ".join(value.split())


_ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "c": "\u0327", "v": "\u030c"}


def _plain(value: str) -> str:
    """A field without TeX: accents as characters, no braces."""
    import unicodedata

    value = re.sub(r"\\([\"'`^~]|[cv](?=[ {]))\s*\{?([A-Za-z])\}?", lambda m: m[2] + _ACCENTS[m[1]], value)
    return unicodedata.normalize("NFC", re.sub(r"[{}]", "", value).replace("--", "\u2013"))


def _bibtex(entry: Entry) -> str:
    fields = "".join(f"  {name:9} = {{{value}}},\n" for name, value in entry.fields.items() if name != "verified")
    return f"@{entry.kind}{{{entry.key},\n{fields}}}"
