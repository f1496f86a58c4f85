"""A paper as a judge gets it: text by section, from PDF, LaTeX, Markdown or plain text.

Comments in LaTeX and HTML are not part of it; `review.judge.guards` looks for what else a reader cannot see.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from review.evidence import tex
from review.evidence.pdf import pdf_text
from review.judge import latex
from review.judge.errors import PaperError
from review.judge.sections import Part, of_headings, of_pdf

FORMS = {".pdf": "PDF", ".tex": "LaTeX", ".md": "Markdown", ".markdown": "Markdown", ".txt": "text"}
MOST_BYTES = {"PDF": 200_000_000, "LaTeX": 10_000_000, "Markdown": 10_000_000, "text": 10_000_000}
LEAST_WORDS = 50
"""Below this there is nothing to judge: a scan without text, an empty file."""

_UNSEEN = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Paper:
    """The text of a paper. `missing` names files that it includes and that are not there; `unseen` is what stands in
    its comments, `preamble` its LaTeX before the document begins."""

    path: Path
    form: str
    sha256: str
    parts: tuple[Part, ...]
    missing: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    preamble: str = ""

    @property
    def text(self) -> str:
        """Titles and texts of all parts: what quotes are looked up in."""
        return "\n\n".join(f"{part.title}\n{part.text}" for part in self.parts)

    @property
    def characters(self) -> int:
        return sum(len(part.text) for part in self.parts)


async def read_paper(path: Path, *, timeout: float = 60.0) -> Paper:
    """The paper in a file; `timeout` seconds for reading a PDF. Raises `PaperError`."""
    form = FORMS.get(path.suffix.lower())
    if path.is_dir():
        raise PaperError(f"{path} is a folder and no run: give a paper as a file ({_known()}), or the folder of a run")
    if form is None:
        raise PaperError(f"{path} is not a paper that can be read: give {_known()}")
    try:
        if path.stat().st_size > MOST_BYTES[form]:
            raise PaperError(f"{path} is larger than {MOST_BYTES[form] // 10**6} MB: give the paper alone")
        data = path.read_bytes()
    except OSError as error:
        raise PaperError(f"cannot read {path}: {error.strerror}") from None
    source = await _source(path, form, data, timeout)
    paper = Paper(path, form, hashlib.sha256(data).hexdigest(), source.parts, source.missing, source.unseen,
                  source.preamble)
    if len(paper.text.split()) < LEAST_WORDS:
        scan = "; a scan has to go through text recognition first" if form == "PDF" else ""
        raise PaperError(f"{path} holds fewer than {LEAST_WORDS} words of text: there is nothing to judge{scan}")
    return paper


def _known() -> str:
    return ", ".join(f"*{suffix}" for suffix in FORMS)


async def _source(path: Path, form: str, data: bytes, timeout: float) -> latex.Source:
    if form == "PDF":
        return latex.Source(of_pdf(await _pdf(path, data, timeout)))
    text = decoded(data, path)
    if form == "LaTeX":
        return latex.read(text, path.parent)
    if form == "Markdown":
        return latex.Source(of_headings(_UNSEEN.sub("", text)), unseen=tuple(_UNSEEN.findall(text)))
    return latex.Source(of_headings(text))


async def _pdf(path: Path, data: bytes, timeout: float) -> str:
    """The text of a PDF, read from a copy: whatever its name is, and nothing is written beside it."""
    if not data.startswith(b"%PDF-"):
        raise PaperError(f"{path} is not a PDF, whatever its name says")
    with tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as name:
        copy = Path(name) / "paper.pdf"
        copy.write_bytes(data)
        try:
            text = await pdf_text(copy, timeout)
        except tex.TexMissing:
            raise PaperError(
                f"cannot read {path}: there is no pdftotext; on Debian: apt-get install poppler-utils") from None
    if not text.strip():
        raise PaperError(f"{path} gives no text: it is damaged, locked by a password, or a scan without text")
    return text


def decoded(data: bytes, path: Path) -> str:
    """Text of a file, UTF-8 or else Latin-1. Raises `PaperError` for what is no text."""
    if b"\0" in data:
        raise PaperError(f"{path} is not text, whatever its name says")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return data.decode("latin-1").replace("\r\n", "\n")
