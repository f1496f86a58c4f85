"""The pages of a PDF: where its words stand, and pictures of them. Made by poppler, kept in memory, bounded.

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
from collections.abc import Callable, Generator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from unicodedata import normalize

from inspector.files import LARGEST, RefusedError, open_within

TIME: Final = 30.0
"""Seconds for one call of poppler."""
MEMORY: Final = 2 * 2**30
OUTPUT: Final = 64 * 2**20
"""Bytes that it may print."""
PAGES: Final = 200
ACROSS: Final = 1100
"""Pixels of a page's picture from left to right."""
PICTURES: Final = 48 * 2**20
"""Bytes of pictures that are kept."""
DOCUMENTS: Final = 4
T = TypeVar("T")
_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">')
_WORD = re.compile(r'<word xMin="(-?[\d.]+)" yMin="(-?[\d.]+)" xMax="(-?[\d.]+)" yMax="(-?[\d.]+)">(.*?)</word>')


class PdfError(Exception):
    """The pages cannot be had. The message says why, and what mends it."""


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


def kept(
    known: dict[object, T], key: object, *, make: Callable[[], T], most: int, size: Callable[[T], int] = lambda _: 1
) -> T:
    """What was made for a key; of all together only `most` is kept, by `size`, those asked for last."""
    found = known.pop(key, None) or make()
    known[key] = found
    while sum(map(size, known.values())) > most:
        known.pop(next(iter(known)), None)
    return found


class PdfPages:
    """Documents and pictures of pages, those asked for last. A call waits for poppler, at most `TIME`."""

    def __init__(self) -> None:
        self._documents: dict[object, Document] = {}
        self._pictures: dict[object, bytes] = {}
        self._lock = threading.Lock()
        """One poppler at a time: pages are asked for many at once."""

    def document(self, run: Path, path: str) -> Document:
        """A PDF of a run. Raises `PdfError`."""
        with self._lock, _opened(run, path) as pdf:
            # raw: in the order of the PDF's content, in which TeX sets tables row by row
            return kept(self._documents, pdf.stamp, most=DOCUMENTS, make=lambda: _document(pdf.asked(
                "pdftotext", "-q", "-raw", "-bbox", "-l", str(PAGES), "{pdf}", "-")))

    def picture(self, run: Path, path: str, page: int) -> bytes:
        """A page as PNG, the first is 1. Raises `PdfError`."""
        with self._lock, _opened(run, path) as pdf:
            return kept(self._pictures, (pdf.stamp, page), most=PICTURES, size=len, make=lambda: pdf.asked(
                "pdftoppm", "-q", "-png", "-f", str(page), "-l", str(page), "-scale-to-x", str(ACROSS),
                "-scale-to-y", "-1", "{pdf}"))


class _Pdf(NamedTuple):
    """An open PDF; `stamp` tells it from what it was before."""

    file: int
    stamp: tuple[int, int, int, int]

    def asked(self, program: str, *arguments: str) -> bytes:
        """What a program of poppler prints about it."""
        if shutil.which(program) is None:
            raise PdfError(f"{program} is not installed: apt-get install poppler-utils")
        os.lseek(self.file, 0, os.SEEK_SET)
        command = [program, *(one.format(pdf=f"/dev/fd/{self.file}") for one in arguments)]
        with tempfile.TemporaryFile() as printed:
            try:
                with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL,
                                      pass_fds=[self.file]) as child:
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


@contextmanager
def _opened(run: Path, path: str) -> Generator[_Pdf]:
    """A PDF of the run, opened without following links."""
    try:
        file = open_within(run, path)
    except RefusedError:
        raise PdfError("there is no such PDF") from None
    try:
        about = os.fstat(file)
        if about.st_size > LARGEST:
            raise PdfError(f"this PDF is larger than {LARGEST >> 20} MiB")
        yield _Pdf(file, (about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size))
    finally:
        os.close(file)


def _document(text: bytes) -> Document:
    sizes: list[tuple[float, float]] = []
    words: list[Word] = []
    for line in text.decode("utf-8", "replace").splitlines():
        if found := _WORD.search(line):
            left, top, right, bottom = map(float, found.groups()[:4])
            words.append(Word(normalize("NFKC", unescape(found[5])).replace("\u2212", "-"), len(sizes), left, top,
                              right, bottom))
        elif found := _PAGE.search(line):
            sizes.append((float(found[1]), float(found[2])))
    return Document(tuple(sizes), tuple(words))
