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
from labwright.record.errors import UsageError
from labwright.record.run_folder import write_file
from labwright.record.schema.frozen_model import FrozenModel
from labwright.review.evidence.pdf_check import extract_pdf_text
from labwright.review.evidence.tex_runner import TexMissing

LIST_FILE = "list.json"
NOTE_SUFFIXES = (".md", ".markdown", ".txt", ".tex")
MAX_DOCUMENTS = 20
MAX_LISTED_FILES = 500
"""Entries of the folder that are looked at."""
MAX_PDF_BYTES = 50_000_000
MAX_NOTE_BYTES = 2_000_000
PART_CHARS = 4000
"""Characters of a part of a note, about; parts end at line ends."""
MAX_READ_CHARS = 60_000
"""Characters of one document that are shown to a model."""
MAX_PAGE_CHARS = 12_000
"""Characters of one page at most."""


class ContextError(UsageError):
    """The folder of --context cannot be used. The message is one line that says how to fix it."""


@dataclass(frozen=True)
class DocumentCopy:
    """A document of the user's, and our copy of it."""

    file: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class UserDocument:
    """A document by pages. `unread` counts characters that were left out since it is long."""

    source_copy: DocumentCopy
    pages: tuple[PageText, ...]
    total: int
    unit: Literal["p.", "part"]
    unread_chars: int = 0

    def read_page(self, page: int) -> str:
        """The text of a page; empty where there is no such page, or it was not shown."""
        return next((one.text for one in self.pages if one.page == page), "")


def check_folder(folder: Path) -> None:
    """Raises `ContextError` for a folder that is none, or that holds no document."""
    if not folder.is_dir():
        raise ContextError(
            f"--context {folder} is not a folder: give one that holds papers (.pdf) and notes "
            f"({', '.join(NOTE_SUFFIXES)})"
        )
    if not find_documents(folder)[0]:
        raise ContextError(f"--context {folder} holds no paper (.pdf) and no note ({', '.join(NOTE_SUFFIXES)})")


def find_documents(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The documents of a folder by name, and what is left out of it, one line each. Hidden files are not mentioned."""
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ContextError(f"cannot read --context {folder}: {error.strerror}") from None
    found: list[Path] = []
    out: list[str] = []
    for path in entries[:MAX_LISTED_FILES]:
        suffix, why = path.suffix.lower(), ""
        most = MAX_PDF_BYTES if suffix == ".pdf" else MAX_NOTE_BYTES
        if path.is_symlink():
            why = "it is a link: put the file itself there"
        elif not path.is_file():
            why = "it is not a file (folders are not searched)"
        elif suffix not in (".pdf", *NOTE_SUFFIXES):
            why = f"it is neither a .pdf nor a note ({', '.join(NOTE_SUFFIXES)})"
        elif not 0 < (size := path.stat().st_size) <= most:
            why = f"it is larger than {most / 1e6:g} MB" if size else "it is empty"
        elif len(found) >= MAX_DOCUMENTS:
            why = f"there are more than {MAX_DOCUMENTS} documents"
        if why:
            out.append(f"{sanitize_name(path.name)}: {why}")
        else:
            found.append(path)
    if len(entries) > MAX_LISTED_FILES:
        out.append(f"{len(entries) - MAX_LISTED_FILES} more files: {MAX_LISTED_FILES} are looked at")
    return tuple(found), tuple(out)


def sanitize_name(name: str) -> str:
    """A file's name on one line, without what could do something to a terminal or end a bracket."""
    plain = "".join(char if char.isprintable() and char not in "[]`" else "?" for char in name)
    return plain if len(plain) <= 80 else f"{plain[:60]}...{plain[-16:]}"


class _StoredDocument(FrozenModel):
    """One line of the list of copies."""

    file: str
    stored: str
    sha256: str


class _DocumentList(FrozenModel):
    kept: tuple[_StoredDocument, ...]
    refused: tuple[str, ...]


def copy_documents(folder: Path, home: Path) -> None:
    """Copy a folder's documents to `home`, named by number, with a list of them. What is read later are the copies."""
    found, out = find_documents(folder) if not (home / LIST_FILE).exists() else ((), ())
    refused = list(out)

    def contents() -> Iterator[tuple[str, bytes]]:
        for path in found:
            try:
                yield path.name, path.read_bytes()
            except OSError as error:
                refused.append(f"{sanitize_name(path.name)}: {error.strerror}")

    store_documents(home, contents(), refused)


def store_documents(home: Path, contents: Iterable[tuple[str, bytes]], refused: Sequence[str]) -> None:
    """Write documents, each a name and its bytes, to `home` with a list of them; nothing where the list is there."""
    if (home / LIST_FILE).exists():
        return
    kept: list[_StoredDocument] = []
    for number, (name, data) in enumerate(contents, 1):
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).stem)[:40].strip("-.") or "document"
        copy = home / f"{number:02d}_{slug}{Path(name).suffix.lower()}"
        write_file(copy, data)
        kept.append(
            _StoredDocument(file=sanitize_name(name), stored=copy.name, sha256=hashlib.sha256(data).hexdigest())
        )
    write_file(home / LIST_FILE, _DocumentList(kept=tuple(kept), refused=tuple(refused)).model_dump_json(indent=1))


def read_copies(home: Path) -> tuple[tuple[DocumentCopy, ...], tuple[str, ...]]:
    """The copies that `keep` made, and what it left out, in lines; nothing where it was not called."""
    if not (home / LIST_FILE).exists():
        return (), ()
    found = _DocumentList.model_validate_json((home / LIST_FILE).read_bytes())
    return tuple(DocumentCopy(one.file, home / one.stored, one.sha256) for one in found.kept), found.refused


async def read_document(source_copy: DocumentCopy, *, timeout: float = 60.0) -> UserDocument | str:
    """The first pages of the document up to the bound, or why it cannot be read; `timeout` in seconds for a PDF.

    An empty page keeps its number.
    """
    data = await asyncio.to_thread(source_copy.path.read_bytes)
    is_pdf = source_copy.path.suffix == ".pdf"
    texts = await _read_pdf_pages(data, timeout) if is_pdf else _split_parts(data)
    if isinstance(texts, str):
        return f"{source_copy.file}: {texts}"
    room, pages, unread = MAX_READ_CHARS, list[PageText](), 0
    for number, text in enumerate(texts, 1):
        page = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)[
            : min(MAX_PAGE_CHARS, room)
        ]
        unread += len(text) - len(page)
        room -= len(page)
        if page.strip():
            pages.append(PageText(page=number, text=page))
    return UserDocument(source_copy, tuple(pages), len(texts), "p." if is_pdf else "part", unread)


async def _read_pdf_pages(data: bytes, timeout: float) -> tuple[str, ...] | str:
    if not data.startswith(b"%PDF-"):
        return "it is not a PDF, whatever its name says"
    with tempfile.TemporaryDirectory(prefix="context-", ignore_cleanup_errors=True) as name:
        copy = Path(name) / "document.pdf"
        await asyncio.to_thread(copy.write_bytes, data)
        try:
            text = await extract_pdf_text(copy, timeout)
        except TexMissing:
            return "there is no pdftotext; on Debian: apt-get install poppler-utils"
    if not text.strip():
        return "it gives no text: it is damaged, locked by a password, or a scan"
    return tuple(text.removesuffix("\f").split("\f"))


def _split_parts(data: bytes) -> tuple[str, ...] | str:
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
        if part and len(part) + len(line) > PART_CHARS:
            parts.append(part)
            part = ""
        part += line
    return (*parts, part)
