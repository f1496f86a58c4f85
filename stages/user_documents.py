"""Copy and read a folder of the user's papers and notes: PDFs by page, notes in parts.

Guarantees: sizes are bounded; links and special files are ignored; nothing is written next to the originals; an
unreadable file is reported in one line. Names of user files are never used as paths.

Limits: a page with an unusual layout may be read in another order than by a human; figures and scans give no text.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from labwright.models.roles.ideation import PageText
from labwright.pdf.layout import read_text
from labwright.pdf.reader import PdfError
from labwright.record.errors import UsageError
from labwright.record.run_folder import write_file

LIST_FILE = "list.json"
NOTE_SUFFIXES = (".md", ".markdown", ".txt", ".tex")
MAX_DOCUMENTS = 20
MAX_LISTED_FILES = 500
"""Maximum number of folder entries that are examined."""
MAX_PDF_BYTES = 50_000_000
MAX_NOTE_BYTES = 2_000_000
PART_CHARS = 4000
"""Approximate number of characters in a part of a note; parts end at line ends."""
MAX_READ_CHARS = 60_000
"""Maximum number of characters of a document that a model sees."""
MAX_PAGE_CHARS = 12_000
"""Maximum number of characters of a page."""
PDF_SECONDS = 60.0
"""Time limit in seconds for reading a PDF."""


class ContextError(UsageError):
    """Raised when the folder given with --context cannot be used. The message is one line that says how to fix it."""


@dataclass(frozen=True)
class DocumentCopy:
    """A user document and its copy in the run's folder."""

    file: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class UserDocument:
    """A document by pages. `unread_chars` counts the characters omitted because of the document's length."""

    source_copy: DocumentCopy
    pages: tuple[PageText, ...]
    total: int
    unit: Literal["p.", "part"]
    unread_chars: int = 0

    def read_page(self, page: int) -> str:
        """Return the text of a page; empty if there is no such page or it was not read."""
        return next((one.text for one in self.pages if one.page == page), "")


def check_folder(folder: Path) -> None:
    """Raise `ContextError` if `folder` is not a folder or contains no document."""
    if not folder.is_dir():
        raise ContextError(
            f"--context {folder} is not a folder: give one that contains papers (.pdf) and notes "
            f"({', '.join(NOTE_SUFFIXES)})"
        )
    if not find_documents(folder)[0]:
        raise ContextError(f"--context {folder} contains no papers (.pdf) or notes ({', '.join(NOTE_SUFFIXES)})")


def find_documents(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the documents of a folder by name, and one line per skipped file; hidden files are not mentioned."""
    try:
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ContextError(f"cannot read --context {folder}: {error.strerror}") from None
    documents: list[Path] = []
    skipped: list[str] = []
    for path in entries[:MAX_LISTED_FILES]:
        suffix, why = path.suffix.lower(), ""
        max_bytes = MAX_PDF_BYTES if suffix == ".pdf" else MAX_NOTE_BYTES
        if path.is_symlink():
            why = "it is a link: replace it with the file"
        elif not path.is_file():
            why = "it is not a file (folders are not searched)"
        elif suffix not in (".pdf", *NOTE_SUFFIXES):
            why = f"it is neither a .pdf nor a note ({', '.join(NOTE_SUFFIXES)})"
        elif not 0 < (size := path.stat().st_size) <= max_bytes:
            why = f"it is larger than {max_bytes / 1e6:g} MB" if size else "it is empty"
        elif len(documents) >= MAX_DOCUMENTS:
            why = f"there are more than {MAX_DOCUMENTS} documents"
        if why:
            skipped.append(f"{sanitize_name(path.name)}: {why}")
        else:
            documents.append(path)
    if len(entries) > MAX_LISTED_FILES:
        skipped.append(f"{len(entries) - MAX_LISTED_FILES} more files: only {MAX_LISTED_FILES} are examined")
    return tuple(documents), tuple(skipped)


def sanitize_name(name: str) -> str:
    """Return a file name on one line, without characters that could affect a terminal or close a bracket."""
    plain = "".join(char if char.isprintable() and char not in "[]`" else "?" for char in name)
    return plain if len(plain) <= 80 else f"{plain[:60]}...{plain[-16:]}"


def copy_documents(folder: Path, home: Path) -> None:
    """Copy a folder's documents to `home`, numbered, with a list of them. After this, only the copies are read."""
    documents, skipped = find_documents(folder) if not (home / LIST_FILE).exists() else ((), ())
    refused = list(skipped)

    def contents() -> Iterator[tuple[str, bytes]]:
        for path in documents:
            try:
                yield path.name, path.read_bytes()
            except OSError as error:
                refused.append(f"{sanitize_name(path.name)}: {error.strerror}")

    store_documents(home, contents(), refused)


def store_documents(home: Path, contents: Iterable[tuple[str, bytes]], refused: Sequence[str]) -> None:
    """Write documents (name and bytes) and a list of them to `home`; do nothing if the list exists."""
    if (home / LIST_FILE).exists():
        return
    kept: list[dict[str, str]] = []
    for number, (name, data) in enumerate(contents, 1):
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).stem)[:40].strip("-.") or "document"
        copy = home / f"{number:02d}_{slug}{Path(name).suffix.lower()}"
        write_file(copy, data)
        kept.append({"file": sanitize_name(name), "stored": copy.name, "sha256": hashlib.sha256(data).hexdigest()})
    write_file(home / LIST_FILE, json.dumps({"kept": kept, "refused": list(refused)}, indent=1))


def read_copies(home: Path) -> tuple[tuple[DocumentCopy, ...], tuple[str, ...]]:
    """Return the copies that `copy_documents` made and one line per skipped file; empty if it was not called."""
    if not (home / LIST_FILE).exists():
        return (), ()
    known = json.loads((home / LIST_FILE).read_bytes())
    kept = tuple(DocumentCopy(one["file"], home / one["stored"], one["sha256"]) for one in known["kept"])
    return kept, tuple(known["refused"])


async def read_document(source_copy: DocumentCopy) -> UserDocument | str:
    """Read the leading pages of a document up to the limit, or return why it cannot be read.

    Empty pages keep their number.
    """
    data = await asyncio.to_thread(source_copy.path.read_bytes)
    is_pdf = source_copy.path.suffix == ".pdf"
    texts = await _read_pdf_pages(data) if is_pdf else _split_parts(data)
    if isinstance(texts, str):
        return f"{source_copy.file}: {texts}"
    room, pages, unread = MAX_READ_CHARS, list[PageText](), 0
    for number, text in enumerate(texts, 1):
        printable = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
        page = printable[: min(MAX_PAGE_CHARS, room)]
        unread += len(text) - len(page)
        room -= len(page)
        if page.strip():
            pages.append(PageText(page=number, text=page))
    return UserDocument(source_copy, tuple(pages), len(texts), "p." if is_pdf else "part", unread)


async def _read_pdf_pages(data: bytes) -> tuple[str, ...] | str:
    if not data.startswith(b"%PDF-"):
        return "it is not a PDF, despite its name"
    try:
        text = await asyncio.to_thread(read_text, io.BytesIO(data), timeout=PDF_SECONDS)
    except PdfError:
        text = ""
    if not text.strip():
        return "it has no extractable text: it is damaged, password-protected, or a scan"
    return tuple(text.split("\f"))


def _split_parts(data: bytes) -> tuple[str, ...] | str:
    if b"\0" in data:
        return "it is not text, despite its name"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    if not text.strip():
        return "it contains no text"
    parts, part = list[str](), ""
    for line in text.splitlines(keepends=True):
        if part and len(part) + len(line) > PART_CHARS:
            parts.append(part)
            part = ""
        part += line
    return (*parts, part)
