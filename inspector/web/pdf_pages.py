"""Word positions and page images of PDFs (`labwright.pdf`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple
from unicodedata import normalize

from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, open_within
from labwright.pdf import reader
from labwright.pdf.reader import PdfError

TIME_LIMIT_SECONDS: Final = 30.0
"""Seconds for one document or picture."""
MAX_PAGES: Final = 200
PICTURE_WIDTH_PIXELS: Final = 1100
"""Width of a page image in pixels."""
_READING_LOCK = threading.Lock()
"""Limits reading to one process at a time, since browsers request many pages at once."""


class PdfWord(NamedTuple):
    """A word on a page, with its position in points from the upper left corner."""

    text: str
    page: int
    left: float
    top: float
    right: float
    bottom: float


class PdfDocument(NamedTuple):
    """Page sizes in points, and the words in the order of the content, in which TeX typesets tables row by row."""

    sizes: tuple[tuple[float, float], ...]
    words: tuple[PdfWord, ...]


def read_pdf(run: Path, path: str) -> PdfDocument:
    """Read a PDF of a run. Raises `PdfError`."""
    with _open_pdf(run, path) as pdf:
        pages = reader.read_pdf(pdf, max_pages=MAX_PAGES, timeout=TIME_LIMIT_SECONDS).pages
    words = (
        PdfWord(normalize("NFKC", word.text).replace("\u2212", "-"), number, *word.box)
        for number, page in enumerate(pages, 1)
        for word in page.words
    )
    return PdfDocument(tuple((page.width, page.height) for page in pages), tuple(words))


def render_pdf_page(run: Path, path: str, page: int) -> bytes:
    """Render a page (from 1) as PNG. Raises `PdfError`."""
    with _open_pdf(run, path) as pdf:
        return reader.render_page(pdf, page, pixels=PICTURE_WIDTH_PIXELS, side="width", timeout=TIME_LIMIT_SECONDS)


@contextmanager
def _open_pdf(run: Path, path: str) -> Generator[IO[bytes]]:
    """Open a PDF of a run without following links. Raises `PdfError`."""
    try:
        file = os.fdopen(open_within(run, path), "rb")
    except PathRefusedError:
        raise PdfError("no such PDF") from None
    with _READING_LOCK, file as pdf:
        if os.fstat(pdf.fileno()).st_size > MAX_FILE_BYTES:
            raise PdfError(f"this PDF is larger than {MAX_FILE_BYTES >> 20} MiB")
        yield pdf
