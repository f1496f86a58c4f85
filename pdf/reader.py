"""Words and pictures of a PDF, read by a process of its own (`worker`) with limits on memory, time and output.

The program also isolates this process where it can (`isolate_workers`), since PDFium has had holes. The worker gets the
PDF as its standard input, so it needs no other file.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

MAX_OUTPUT_BYTES = 256 * 2**20
"""Maximum size of the words of a PDF, or of a picture."""
TIMEOUT_SECONDS = 60.0
_WORKER = Path(__file__).resolve().with_name("worker.py")

Isolate = Callable[[Sequence[str], Path], list[str]]
"""Returns the isolated form of a command that needs no file but the given program."""


_isolate: Isolate = lambda command, program: list(command)  # noqa: E731


def isolate_workers(isolate: Isolate) -> None:
    """Start all workers of this process in the isolated form that `isolate` returns.

    It is a function of the sandbox, which this package cannot import.
    """
    global _isolate
    _isolate = isolate


class PdfError(Exception):
    """A PDF cannot be read. The one-line message gives the reason."""


@dataclass(frozen=True)
class PdfWord:
    """A word, in the order of the page's content.

    `box` is left, top, right, bottom and `baseline` a height, in points from the upper left corner of the page; `size`
    is the font size in points as printed; `angle` in degrees, counterclockwise. `contrast` (0 to 255) is that of the
    picture within the box; None if it was not measured or the word is off the page.
    """

    text: str
    box: tuple[float, float, float, float]
    baseline: float
    font: str
    size: float
    angle: int = 0
    contrast: int | None = None


@dataclass(frozen=True)
class PdfPage:
    """A page: size in points, words, and whether a word is set in a Type 3 font."""

    width: float
    height: float
    words: tuple[PdfWord, ...]
    has_type3: bool = False


@dataclass(frozen=True)
class PdfDocument:
    """The pages that were read, and the number of pages of the file."""

    pages: tuple[PdfPage, ...]
    total: int


def read_pdf(
    source: Path | IO[bytes], *, max_pages: int = 10**6, contrast_pages: int = 0, timeout: float = TIMEOUT_SECONDS
) -> PdfDocument:
    """Read the words of a PDF; the contrast of words is measured on the first `contrast_pages` pages.

    `timeout` is in seconds. Raises `PdfError`, and `OSError` if the file cannot be opened.
    """
    request = {"what": "words", "max_pages": max_pages, "ink_pages": contrast_pages}
    found = json.loads(_ask(source, request, timeout))
    return PdfDocument(tuple(map(_build_page, found["pages"])), found["total"])


def render_page(
    source: Path | IO[bytes],
    page: int,
    *,
    pixels: int = 0,
    side: Literal["width", "longest"] = "longest",
    dpi: float = 0.0,
    crop: tuple[float, float, float, float] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> bytes:
    """Return a page (from 1), or the part in `crop`, as PNG, at `dpi` or with `pixels` along a side of the page.

    `crop` is left, top, right, bottom in points. Raises `PdfError`, and `OSError` if the file cannot be opened.
    """
    picture = {"page": page, "scale": dpi / 72, "pixels": pixels, "side": side, "crop": crop}
    return _ask(source, {"what": "picture", "max_pages": page, **picture}, timeout)


def _ask(source: Path | IO[bytes], request: dict[str, Any], seconds: float) -> bytes:
    if isinstance(source, Path):
        with source.open("rb") as file:
            return _ask(file, request, seconds)
    if isinstance(source, io.BytesIO):
        with tempfile.TemporaryFile() as file:
            file.write(source.getvalue())
            return _ask(file, request, seconds)
    source.seek(0)
    command = _isolate([sys.executable, "-P", str(_WORKER), json.dumps({**request, "seconds": seconds})], _WORKER)
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}  # no keys
    with subprocess.Popen(
        command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as child:
        assert child.stdout is not None
        timer = threading.Timer(seconds, child.kill)
        timer.start()
        try:
            answer = child.stdout.read(MAX_OUTPUT_BYTES + 1)
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
            child.kill()
    if is_late or len(answer) > MAX_OUTPUT_BYTES:
        raise PdfError(f"reading this PDF takes more than {seconds:g} s or too much memory")
    if not answer:
        raise PdfError("this PDF is damaged or needs a password")
    return answer


def _build_page(found: dict[str, Any]) -> PdfPage:
    words = (
        PdfWord(text, (left, top, right, bottom), baseline, font, size, angle, contrast)
        for text, left, top, right, bottom, baseline, font, size, angle, contrast in found["words"]
    )
    return PdfPage(found["width"], found["height"], tuple(words), found["type3"])
