"""Word positions and page images of PDFs, produced by poppler.

PDFs are untrusted: poppler runs in a separate process with limits on time, memory and output.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
import threading
from html import unescape
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, open_within

TIME_LIMIT_SECONDS: Final = 30.0
"""Seconds for one call of poppler."""
MEMORY_LIMIT_BYTES: Final = 2 * 2**30
MAX_OUTPUT_BYTES: Final = 64 * 2**20
"""Maximum bytes of its output."""
MAX_PAGES: Final = 200
PICTURE_WIDTH_PIXELS: Final = 1100
"""Width of a page image in pixels."""
_POPPLER_LOCK = threading.Lock()
"""Limits poppler to one process at a time, since browsers request many pages at once."""
_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">')
_WORD = re.compile(r'<word xMin="(-?[\d.]+)" yMin="(-?[\d.]+)" xMax="(-?[\d.]+)" yMax="(-?[\d.]+)">(.*?)</word>')


class PdfError(Exception):
    """Raised if pages cannot be read. The message gives the reason and the fix."""


class PdfWord(NamedTuple):
    """A word on a page, with its position in points from the upper left corner."""

    text: str
    page: int
    left: float
    top: float
    right: float
    bottom: float


class PdfDocument(NamedTuple):
    """Page sizes in points, and the words in reading order."""

    sizes: tuple[tuple[float, float], ...]
    words: tuple[PdfWord, ...]


def read_pdf(run: Path, path: str) -> PdfDocument:
    """Read a PDF of a run. Raises `PdfError`."""
    # raw: content order, in which TeX typesets tables row by row
    return _parse_words(_run_poppler(run, path, "pdftotext", "-q", "-raw", "-bbox", "-l", str(MAX_PAGES), "{pdf}", "-"))


def render_pdf_page(run: Path, path: str, page: int) -> bytes:
    """Render a page (from 1) as PNG. Raises `PdfError`."""
    return _run_poppler(
        run,
        path,
        "pdftoppm",
        "-q",
        "-png",
        "-f",
        str(page),
        "-l",
        str(page),
        "-scale-to-x",
        str(PICTURE_WIDTH_PIXELS),
        "-scale-to-y",
        "-1",
        "{pdf}",
    )


def _run_poppler(run: Path, path: str, program: str, *arguments: str) -> bytes:
    """Run a poppler program on a PDF of a run, opened without following links, and return its output."""
    if shutil.which(program) is None:
        raise PdfError(f"{program} is not installed: apt-get install poppler-utils")
    try:
        file = os.fdopen(open_within(run, path), "rb")
    except PathRefusedError:
        raise PdfError("no such PDF") from None
    with _POPPLER_LOCK, file as pdf, tempfile.TemporaryFile() as printed:
        if os.fstat(pdf.fileno()).st_size > MAX_FILE_BYTES:
            raise PdfError(f"this PDF is larger than {MAX_FILE_BYTES >> 20} MiB")
        command = [program, *(one.format(pdf=f"/dev/fd/{pdf.fileno()}") for one in arguments)]
        try:
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL, pass_fds=[pdf.fileno()]
            ) as child:
                try:
                    resource.prlimit(child.pid, resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
                    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (MAX_OUTPUT_BYTES, MAX_OUTPUT_BYTES))
                    child.wait(TIME_LIMIT_SECONDS)
                finally:
                    child.kill()
        except (OSError, subprocess.TimeoutExpired):
            raise PdfError(f"{program} exceeded the time or memory limit on this PDF") from None
        if child.returncode:
            raise PdfError(f"{program} cannot read this PDF")
        printed.seek(0)
        return printed.read(MAX_OUTPUT_BYTES)


def _parse_words(text: bytes) -> PdfDocument:
    sizes: list[tuple[float, float]] = []
    words: list[PdfWord] = []
    for line in text.decode("utf-8", "replace").splitlines():
        if found := _WORD.search(line):
            left, top, right, bottom = map(float, found.groups()[:4])
            words.append(
                PdfWord(
                    normalize("NFKC", unescape(found[5])).replace("\u2212", "-"), len(sizes), left, top, right, bottom
                )
            )
        elif found := _PAGE.search(line):
            sizes.append((float(found[1]), float(found[2])))
    return PdfDocument(tuple(sizes), tuple(words))
