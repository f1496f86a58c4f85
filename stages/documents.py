"""A folder of the user's papers and notes, copied and read: PDFs by page, notes by parts.

    ContextError   you: the folder is not there, or holds nothing that can be read

Held: sizes are bounded, links and whatever is no plain file are left alone, nothing is written beside the originals,
and a file that cannot be read costs one line. Names from outside are never used as paths of ours.

Not held: that pdftotext reads a page in the order in which a person does; figures and scans give no text.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labwright.models.roles.ideation import PageText
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.nouns.frozen import Frozen
from labwright.review.evidence.pdf import pdf_text
from labwright.review.evidence.tex import TexMissing

LIST = "list.json"
NOTES = (".md", ".markdown", ".txt", ".tex")
MOST_DOCUMENTS = 20
MOST_LISTED = 500
"""Entries of the folder that are looked at."""
PDF_BYTES = 50_000_000
NOTE_BYTES = 2_000_000
PART = 4000
"""Characters of a part of a note, about; parts end at line ends."""
READ = 60_000
"""Characters of one document that are shown to a model."""
PAGE = 12_000
"""Characters of one page at most."""


class ContextError(WrongUse):
    """The folder of --context cannot be used. The message is one line that says how to fix it."""


@dataclass(frozen=True)
class Copied:
    """A document of the user's, and our copy of it."""

    file: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class Document:
    """A document by pages. `unread` counts characters that were left out since it is long."""

    copied: Copied
    pages: tuple[PageText, ...]
    total: int
    unit: Literal["p.", "part"]
    unread: int = 0

    def text(self, page: int) -> str:
        """The text of a page; empty where there is no such page, or it was not shown."""
        return next((one.text for one in self.pages if one.page == page), "")


def check(folder: Path) -> None:
    """Raises `ContextError` for a folder that is none, or that holds no document."""
    if not folder.is_dir():
        raise ContextError(
            f"--context {folder} is not a folder: give one that holds papers (.pdf) and notes ({', '.join(NOTES)})"
        )
    if not documents_in(folder)[0]:
        raise ContextError(f"--context {folder} holds no paper (.pdf) and no note ({', '.join(NOTES)})")


def documents_in(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The documents of a folder by name, and what is left out of it, one line each. Hidden files are not mentioned."""
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ContextError(f"cannot read --context {folder}: {error.strerror}") from None
    found: list[Path] = []
    out: list[str] = []
    for path in entries[:MOST_LISTED]:
        suffix, why = path.suffix.lower(), ""
        most = PDF_BYTES if suffix == ".pdf" else NOTE_BYTES
        if path.is_symlink():
            why = "it is a link: put the file itself there"
        elif not path.is_file():
            why = "it is not a file (folders are not searched)"
        elif suffix not in (".pdf", *NOTES):
            why = f"it is neither a .pdf nor a note ({', '.join(NOTES)})"
        elif not 0 < (size := path.stat().st_size) <= most:
            why = f"it is larger than {most / 1e6:g} MB" if size else "it is empty"
        elif len(found) >= MOST_DOCUMENTS:
            why = f"there are more than {MOST_DOCUMENTS} documents"
        if why:
            out.append(f"{shown(path.name)}: {why}")
        else:
            found.append(path)
    if len(entries) > MOST_LISTED:
        out.append(f"{len(entries) - MOST_LISTED} more files: {MOST_LISTED} are looked at")
    return tuple(found), tuple(out)


def shown(name: str) -> str:
    """A file's name on one line, without what could do something to a terminal or end a bracket."""
    plain = "".join(char if char.isprintable() and char not in "[]`" else "?" for char in name)
    return plain if len(plain) <= 80 else f"{plain[:60]}...{plain[-16:]}"


class _Kept(Frozen):
    """One line of the list of copies."""

    file: str
    stored: str
    sha256: str


class _List(Frozen):
    kept: tuple[_Kept, ...]
    refused: tuple[str, ...]


def keep(folder: Path, home: Path) -> None:
    """Copy a folder's documents to `home`, named by number, with a list of them. What is read later are the copies."""
    found, out = documents_in(folder) if not (home / LIST).exists() else ((), ())
    refused = list(out)

    def contents() -> Iterator[tuple[str, bytes]]:
        for path in found:
            try:
                yield path.name, path.read_bytes()
            except OSError as error:
                refused.append(f"{shown(path.name)}: {error.strerror}")

    store(home, contents(), refused)


def store(home: Path, contents: Iterable[tuple[str, bytes]], refused: Sequence[str]) -> None:
    """Write documents, each a name and its bytes, to `home` with a list of them; nothing where the list is there."""
    if (home / LIST).exists():
        return
    kept: list[_Kept] = []
    for number, (name, data) in enumerate(contents, 1):
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).stem)[:40].strip("-.") or "document"
        copy = home / f"{number:02d}_{slug}{Path(name).suffix.lower()}"
        write_file(copy, data)
        kept.append(_Kept(file=shown(name), stored=copy.name, sha256=hashlib.sha256(data).hexdigest()))
    write_file(home / LIST, _List(kept=tuple(kept), refused=tuple(refused)).model_dump_json(indent=1))


def copies_in(home: Path) -> tuple[tuple[Copied, ...], tuple[str, ...]]:
    """The copies that `keep` made, and what it left out, in lines; nothing where it was not called."""
    if not (home / LIST).exists():
        return (), ()
    found = _List.model_validate_json((home / LIST).read_bytes())
    return tuple(Copied(one.file, home / one.stored, one.sha256) for one in found.kept), found.refused


async def read(copied: Copied, *, timeout: float = 60.0) -> Document | str:
    """The first pages of the document up to the bound, or why it cannot be read; `timeout` in seconds for a PDF.

    An empty page keeps its number.
    """
    data = await asyncio.to_thread(copied.path.read_bytes)
    is_pdf = copied.path.suffix == ".pdf"
    texts = await _pdf_pages(data, timeout) if is_pdf else _parts(data)
    if isinstance(texts, str):
        return f"{copied.file}: {texts}"
    room, pages, unread = READ, list[PageText](), 0
    for number, text in enumerate(texts, 1):
        page = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)[: min(PAGE, room)]
        unread += len(text) - len(page)
        room -= len(page)
        if page.strip():
            pages.append(PageText(page=number, text=page))
    return Document(copied, tuple(pages), len(texts), "p." if is_pdf else "part", unread)


async def _pdf_pages(data: bytes, timeout: float) -> tuple[str, ...] | str:
    if not data.startswith(b"%PDF-"):
        return "it is not a PDF, whatever its name says"
    with tempfile.TemporaryDirectory(prefix="context-", ignore_cleanup_errors=True) as name:
        copy = Path(name) / "document.pdf"
        await asyncio.to_thread(copy.write_bytes, data)
        try:
            text = await pdf_text(copy, timeout)
        except TexMissing:
            return "there is no pdftotext; on Debian: apt-get install poppler-utils"
    if not text.strip():
        return "it gives no text: it is damaged, locked by a password, or a scan"
    return tuple(text.removesuffix("\f").split("\f"))


def _parts(data: bytes) -> tuple[str, ...] | str:
    if b"\0" in data:
        return "it is not text, whatever its name says"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if not text.strip():
        return "it holds no text"
    parts, part = list[str](), ""
    for line in text.splitlines(keepends=True):
        if part and len(part) + len(line) > PART:
            parts.append(part)
            part = ""
        part += line
    return (*parts, part)
