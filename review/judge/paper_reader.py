"""Read a paper for a judge: text by section, from PDF, LaTeX, Markdown or plain text.

LaTeX includes are read only from the paper's own folder. Comments are dropped and this project's value
macros are filled in; other commands are kept, since a language model can read them. Nothing is executed. pylatexenc is
not used because it takes seconds to parse an appendix. `review.judge.guards` finds text that a human reader cannot
see.

JudgeError
  PaperError the paper cannot be read
  RubricError    the rubric file cannot be used
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from labwright.pdf.reader import PdfError, PdfPage, read_pdf
from labwright.record import result_macros
from labwright.record.errors import UsageError
from labwright.review.judge.sections import PaperSection, find_group_end, split_markdown_sections, split_pdf_sections


class JudgeError(UsageError):
    """A paper cannot be judged. The one-line message gives the reason and the fix."""


class PaperError(JudgeError):
    """The paper cannot be read."""


class RubricError(JudgeError):
    """The rubric cannot be used."""


FORM_BY_SUFFIX = {".pdf": "PDF", ".tex": "LaTeX", ".md": "Markdown", ".markdown": "Markdown", ".txt": "text"}
MAX_BYTES_BY_FORM = {"PDF": 200_000_000, "LaTeX": 10_000_000, "Markdown": 10_000_000, "text": 10_000_000}
MIN_WORDS = 50
"""A paper with fewer words, such as a scan without text or an empty file, cannot be judged."""

MAX_FILES, MAX_CHARACTERS = 100, 10_000_000
"""Limits on the LaTeX files that a paper includes."""
_HTML_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_UNPRINTED_LATEX = re.compile(r"\\begin\{comment\}.*?\\end\{comment\}|\\iffalse\b.*?\\fi\b", re.DOTALL)
_INCLUDE = re.compile(r"\\(?:input|include|subfile)\s*\{([^{}]+)\}")
_FLOAT = re.compile(r"\\begin\{(table|figure)(\*?)\}.*?\\end\{\1\2\}", re.DOTALL)
_HEADING = re.compile(
    r"\\(section|chapter)\*?\s*(?:\[[^\[\]]*\])?\s*\{|\\(appendix)\b|\\begin\{(thebibliography|abstract)\}"
)


@dataclass(frozen=True)
class Paper:
    """The text of a paper.

    `missing_files` names included files that do not exist; `preamble` is the LaTeX before the document. Text that TeX
    and Markdown skip (comments, branches never taken) is left out.
    """

    path: Path
    form: str
    sha256: str
    sections: tuple[PaperSection, ...] = ()
    missing_files: tuple[str, ...] = ()
    preamble: str = ""

    @property
    def text(self) -> str:
        """Titles and contents of all sections, in which quotes are looked up."""
        return "\n\n".join(f"{section.title}\n{section.text}" for section in self.sections)

    @property
    def characters(self) -> int:
        return sum(len(section.text) for section in self.sections)


async def read_paper(path: Path) -> Paper:
    """Read the paper in a file. Raises `PaperError`."""
    form, known = FORM_BY_SUFFIX.get(path.suffix.lower()), ", ".join(f"*{suffix}" for suffix in FORM_BY_SUFFIX)
    if path.is_dir():
        raise PaperError(f"{path} is a folder but not a run: give a paper as a file ({known}), or the folder of a run")
    if form is None:
        raise PaperError(f"{path} is not a readable paper: give {known}")
    data = read_bounded(path, MAX_BYTES_BY_FORM[form], "give a smaller file with only the paper")
    paper = Paper(path, form, hashlib.sha256(data).hexdigest())
    if form == "PDF":
        paper = replace(paper, sections=split_pdf_sections(await _read_pdf(path, data)))
    else:
        text = decode_text(data, f"{path} is not a text file, whatever its suffix")
        if form == "LaTeX":
            paper = _read_latex(paper, text)
        else:
            printed = _HTML_COMMENT.sub("", text) if form == "Markdown" else text
            paper = replace(paper, sections=split_markdown_sections(printed))
    if len(paper.text.split()) < MIN_WORDS:
        scan = "; a scan needs text recognition first" if form == "PDF" else ""
        raise PaperError(f"{path} has fewer than {MIN_WORDS} words of text, too few to judge{scan}")
    return paper


def read_bounded(path: Path, max_bytes: int, fix: str) -> bytes:
    """Return the content of a file of at most `max_bytes`; `fix` is the advice for a larger file.

    Raises `PaperError`.
    """
    try:
        if path.stat().st_size > max_bytes:
            raise PaperError(f"{path} is larger than {max_bytes // 10**6} MB: {fix}")
        return path.read_bytes()
    except OSError as error:
        raise PaperError(f"cannot read {path}: {error.strerror}") from None


async def read_pdf_text(path: Path, data: bytes) -> str:
    """Return the text of a PDF in reading order. Raises `PaperError`."""
    sections = split_pdf_sections(await _read_pdf(path, data))
    return "\n\n".join(f"{section.title}\n{section.text}".strip() for section in sections)


async def _read_pdf(path: Path, data: bytes) -> tuple[PdfPage, ...]:
    if not data.startswith(b"%PDF-"):
        raise PaperError(f"{path} is not a PDF, whatever its suffix")
    try:
        pages = (await asyncio.to_thread(read_pdf, io.BytesIO(data))).pages
    except PdfError:
        pages = ()
    if not any(page.words for page in pages):
        raise PaperError(f"{path} contains no extractable text: it is damaged, password-protected, or a scan")
    return pages


def decode_text(data: bytes, error_message: str) -> str:
    """Decode UTF-8, otherwise Latin-1.

    Raises `PaperError` with `error_message` if the data are not text.
    """
    if b"\0" in data:
        raise PaperError(error_message)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return data.decode("latin-1").replace("\r\n", "\n")


@dataclass
class _LatexFiles:
    folder: Path
    missing_files: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])

    def expand_includes(self, text: str, depth: int = 0) -> str:
        """Return the text with includes expanded and without parts that are never printed."""
        self.texts.append(_UNPRINTED_LATEX.sub("", _COMMENT.sub(r"\1", text)))
        return _INCLUDE.sub(lambda match: self._read_include(match[1].strip(), depth), self.texts[-1])

    def _read_include(self, name: str, depth: int) -> str:
        if depth <= 8 and len(self.texts) <= MAX_FILES and sum(map(len, self.texts)) <= MAX_CHARACTERS:
            for candidate in (name, f"{name}.tex"):
                with contextlib.suppress(OSError, ValueError):  # not a possible file name
                    path = Path(os.path.realpath(self.folder / candidate))
                    if path.is_relative_to(os.path.realpath(self.folder)) and path.is_file():
                        with open(path, encoding="utf-8", errors="replace") as file:
                            return self.expand_includes(file.read(MAX_CHARACTERS), depth + 1)
        self.missing_files.append(name)
        return ""


def _read_latex(paper: Paper, text: str) -> Paper:
    """Return a LaTeX paper with its sections; floats in the preamble count as one."""
    files = _LatexFiles(paper.path.parent)
    source = files.expand_includes(text)
    defined = result_macros.parse_results(source)
    source = result_macros.fill_macros(result_macros.strip_result_lines(source), lambda use: defined.get(use, str(use)))
    head, begun, body = source.partition(r"\begin{document}")
    head, body = (head, body.partition(r"\end{document}")[0]) if begun else ("", source)
    sections = list(_split_sections(body))
    if match := re.search(r"\\title\s*(?:\[[^\[\]]*\])?\s*\{", head or body):
        sections.insert(0, PaperSection("Title", _read_argument(head or body, match.end())))
    floats = "\n\n".join(match[0] for match in _FLOAT.finditer(head))
    if floats:
        sections.append(PaperSection("Tables and figures", floats))
    return replace(
        paper, sections=tuple(sections), missing_files=tuple(dict.fromkeys(files.missing_files)), preamble=head
    )


def _split_sections(body: str) -> Iterator[PaperSection]:
    title, begin, back = "", 0, False
    for match in (*_HEADING.finditer(body), None):
        text = re.sub(r"\n{3,}", "\n\n", body[begin : match.start() if match else None]).strip()
        if text:
            aside = bool(re.match(r"appendix|references|acknowledg", title, re.IGNORECASE))
            yield PaperSection(title, text, back or aside)
        if match:
            section, appendix, environment = match[1], match[2], match[3]
            back = back or bool(appendix) or environment == "thebibliography"
            title = _read_argument(body, match.end()) if section else (appendix or environment or "").capitalize()
            begin = match.end() + (len(title) + 1 if section else 0)


def _read_argument(text: str, begin: int) -> str:
    """Return the text up to the brace that closes the one before `begin`."""
    end = find_group_end(text, begin)
    return text[begin : begin + 200] if end is None else text[begin : end - 1]
