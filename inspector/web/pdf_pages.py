"""The pages of a PDF: where its words stand, and pictures of them. Made by poppler.

The PDF may be anything: poppler reads it in a process of its own, with limits on time, memory and output.
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

from labwright.inspector.files import LARGEST, RefusedError, open_within

TIME: Final = 30.0
"""Seconds for one call of poppler."""
MEMORY: Final = 2 * 2**30
OUTPUT: Final = 64 * 2**20
"""Bytes that it may print."""
PAGES: Final = 200
ACROSS: Final = 1100
"""Pixels of a page's picture from left to right."""
_ONE = threading.Lock()
"""One poppler at a time: pages are asked for many at once."""
_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">')
_WORD = re.compile(r'<word xMin="(-?[\d.]+)" yMin="(-?[\d.]+)" xMax="(-?[\d.]+)" yMax="(-?[\d.]+)">(.*?)</word>')


class PdfError(Exception):
    """The pages cannot be had. The message says why, and how to fix it."""


class Word(NamedTuple):
    """A word on a page; places in points from the upper left corner."""

    text: str
    page: int
    left: float
    top: float
    right: float
    bottom: float


class Document(NamedTuple):
    """Sizes of the pages in points, and the words in the order in which they are read."""

    sizes: tuple[tuple[float, float], ...]
    words: tuple[Word, ...]


def document(run: Path, path: str) -> Document:
    """A PDF of a run. Raises `PdfError`."""
    # raw: in the order of the PDF's content, in which TeX sets tables row by row
    return _document(_poppler(run, path, "pdftotext", "-q", "-raw", "-bbox", "-l", str(PAGES), "{pdf}", "-"))


def picture(run: Path, path: str, page: int) -> bytes:
    """A page as PNG, the first is 1. Raises `PdfError`."""
    return _poppler(
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
        str(ACROSS),
        "-scale-to-y",
        "-1",
        "{pdf}",
    )


def _poppler(run: Path, path: str, program: str, *arguments: str) -> bytes:
    """What a program of poppler prints about a PDF of a run, which is opened without following links."""
    if shutil.which(program) is None:
        raise PdfError(f"{program} is not installed: apt-get install poppler-utils")
    try:
        file = os.fdopen(open_within(run, path), "rb")
    except RefusedError:
        raise PdfError("there is no such PDF") from None
    with _ONE, file as pdf, tempfile.TemporaryFile() as printed:
        if os.fstat(pdf.fileno()).st_size > LARGEST:
            raise PdfError(f"this PDF is larger than {LARGEST >> 20} MiB")
        command = [program, *(one.format(pdf=f"/dev/fd/{pdf.fileno()}") for one in arguments)]
        try:
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL, pass_fds=[pdf.fileno()]
            ) as child:
                try:
                    resource.prlimit(child.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
                    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
                    child.wait(TIME)
                finally:
                    child.kill()
        except (OSError, subprocess.TimeoutExpired):
            raise PdfError(f"{program} could not read this PDF in time and memory") from None
        if child.returncode:
            raise PdfError(f"{program} cannot read this PDF")
        printed.seek(0)
        return printed.read(OUTPUT)


def _document(text: bytes) -> Document:
    sizes: list[tuple[float, float]] = []
    words: list[Word] = []
    for line in text.decode("utf-8", "replace").splitlines():
        if found := _WORD.search(line):
            left, top, right, bottom = map(float, found.groups()[:4])
            words.append(
                Word(normalize("NFKC", unescape(found[5])).replace("\u2212", "-"), len(sizes), left, top, right, bottom)
            )
        elif found := _PAGE.search(line):
            sizes.append((float(found[1]), float(found[2])))
    return Document(tuple(sizes), tuple(words))
