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
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from labwright.models.prompt_filters import cut_line, cut_middle, format_mark
from labwright.pdf.layout import format_pages, split_sections
from labwright.pdf.reader import PdfError, PdfPage, read_pdf
from labwright.record import result_macros
from labwright.record.errors import UsageError

# Split a paper into sections and fit as much as possible into a size limit; every cut is reported.

MIN_SECTION_CHARACTERS = 800
"""Minimum number of characters of a section that is cut; below it, the section is omitted entirely."""

MAX_LISTED_SECTIONS = 40
"""Maximum number of cut sections that are named."""

_BACK_MATTER_TITLE = re.compile(
    r"^(?:references\b|bibliography\b|appendi|acknowledge?ments?\b|supplement)", re.IGNORECASE
)
_LETTERED_HEADING = re.compile(r"^[A-Z]\.?[ \t]")
"""Headings that follow numbered ones, i.e. those of an appendix, even in a paper without references."""
_NUMBERED_HEADING = re.compile(r"^(\d{1,2}|[A-Z])\.?[ \t]+([^\W\d_][^\n]{1,80})$")
_NAMED_HEADING = re.compile(
    r"^(abstract|references|bibliography|acknowledge?ments?|appendix|appendices|supplementary materials?)[ \t:.]*$",
    re.IGNORECASE,
)
_ABSTRACT_OPENING = re.compile(r"^abstract\b[ \t:.—–-]*", re.IGNORECASE)
_MARKDOWN_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$")
_SETEXT_UNDERLINE = re.compile(r"^(=+|-{3,})[ \t]*$")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True)
class PaperSection:
    """A section. `back` marks references and appendices, which are cut first."""

    title: str
    text: str
    is_back_matter: bool = False


@dataclass(frozen=True)
class PaperExcerpt:
    """The part of a paper that is shown, with marks at cuts, and a description of what was omitted."""

    text: str
    left_out: tuple[str, ...] = ()


# --- cutting --------------------------------------------------------------------------------------------------------


def split_pdf_sections(pages: Sequence[PdfPage]) -> tuple[PaperSection, ...]:
    """Split a PDF at its headings, found by layout; otherwise at numbered lines, otherwise by page."""
    sections, back = list[PaperSection](), False
    for one in split_sections(pages):
        back = back or one.is_appendix or bool(one.level and _BACK_MATTER_TITLE.match(one.title))
        sections.append(PaperSection(one.title, one.text, back))
    return tuple(sections) or split_numbered_text(format_pages(pages))


def split_numbered_text(text: str) -> tuple[PaperSection, ...]:
    """Split text at its numbered headings, or by page if none are recognised."""
    found = list(_collect_sections(_mark_numbered_headings(text), back_matter_heading=_LETTERED_HEADING))
    if sum(bool(section.title) for section in found) >= 2:
        return tuple(found)
    pages = [page for page in text.split("\f") if page.strip()]
    return tuple(PaperSection(f"Page {n}", page.strip()) for n, page in enumerate(pages, 1))


def _mark_numbered_headings(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield each line with its heading, if it is one.

    Heading numbers must be consecutive from 1, then from A.
    """
    expected, letter = 1, "A"
    for line in text.replace("\f", "\n").split("\n"):
        match = _NUMBERED_HEADING.match(line.strip())
        number = match[1] if match and match[2][0].isupper() and match[2][-1] not in ".,;" else ""
        if number == str(expected):
            expected += 1
            yield line.strip(), ""
        elif expected > 1 and number == letter:
            letter = chr(ord(letter) + 1)
            yield line.strip(), ""
        elif _NAMED_HEADING.match(line.strip()):
            yield line.strip(), ""
        elif expected == 1 and (abstract := _ABSTRACT_OPENING.match(line)):
            yield "Abstract", line[abstract.end() :]
        else:
            yield None, line


def split_markdown_sections(text: str) -> tuple[PaperSection, ...]:
    """Split Markdown at its headings; code blocks are skipped."""
    return tuple(_collect_sections(_mark_markdown_headings(text)))


def _mark_markdown_headings(text: str) -> Iterator[tuple[str | None, str]]:
    fenced, lines = False, text.split("\n")
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if not fenced and (match := _MARKDOWN_HEADING.match(line)):
            yield match[2], ""
        elif not fenced and line.strip() and _SETEXT_UNDERLINE.match(following) and not _SETEXT_UNDERLINE.match(line):
            yield line.strip(), ""
        elif not (not fenced and _SETEXT_UNDERLINE.match(line)):
            yield None, line


def _collect_sections(
    lines: Iterable[tuple[str | None, str]], back_matter_heading: re.Pattern[str] = _BACK_MATTER_TITLE
) -> Iterator[PaperSection]:
    """Yield sections from lines; after a heading of the back matter, all further sections belong to it."""
    title, kept, back = "", list[str](), False
    for heading, line in (*lines, ("", "")):
        if heading is None:
            kept.append(line)
            continue
        text = "\n".join(kept).strip()
        if title or text:
            yield PaperSection(title, text, back)
        title, kept, back = (
            heading,
            [line],
            back or bool(_BACK_MATTER_TITLE.match(heading) or back_matter_heading.match(heading)),
        )


def find_group_end(text: str, begin: int) -> int | None:
    """Return the position after the LaTeX brace that closes the one before `begin`; None if there is none."""
    depth = 1
    for match in _BRACE.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return None


# --- fitting --------------------------------------------------------------------------------------------------------


def make_excerpt(sections: Sequence[PaperSection], limit: int) -> PaperExcerpt:
    """Return about `limit` characters: short sections in full, long ones cut in the middle, back matter last."""
    allowed = allot_characters(sections, limit)
    text, left_out = "\n\n".join(_format_shown(sections, allowed)), list[str]()
    cut = [(section, share) for section, share in zip(sections, allowed, strict=True) if share < len(section.text)]
    for section, share in cut[:MAX_LISTED_SECTIONS]:
        what = f"{len(section.text) - share} of {len(section.text)} characters" if share else "all of it"
        left_out.append(f"{cut_line(section.title, 100) or 'before the first heading'}: {what}")
    if len(cut) > MAX_LISTED_SECTIONS:
        left_out.append(f"and {len(cut) - MAX_LISTED_SECTIONS} more sections, in part or whole")
    most = limit * 11 // 10  # leave room for titles and marks
    if len(text) > most:  # thousands of headings with little text
        left_out.append(f"{len(text) - most} characters in the middle of the rest")
    return PaperExcerpt(cut_middle(text, most, min_saved_share=0), tuple(left_out))


def allot_characters(sections: Sequence[PaperSection], limit: int) -> list[int]:
    """Return how many characters of each section are shown."""
    given = allot_budget([len(section.text) for section in sections if not section.is_back_matter], limit)
    rest = allot_budget([len(section.text) for section in sections if section.is_back_matter], limit - sum(given))
    either = (iter(given), iter(rest))
    return [next(either[section.is_back_matter]) for section in sections]


def allot_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Return the number of characters for each section, at most `budget` in total, with one cap for all long
    sections.
    """
    places = max(0, budget) // MIN_SECTION_CHARACTERS
    served = list(lengths[:places]) if sum(lengths) > budget else list(lengths)
    shares = [0] * len(lengths)
    left = max(0, budget)
    for done, at in enumerate(sorted(range(len(served)), key=lambda at: served[at])):
        shares[at] = min(served[at], left // (len(served) - done))
        left -= shares[at]
    return shares


def _format_shown(sections: Sequence[PaperSection], allowed: Sequence[int]) -> Iterator[str]:
    """Yield the sections, cut as allotted; a run of omitted sections becomes one mark."""
    for skip, run in groupby(zip(sections, allowed, strict=True), key=lambda one: bool(one[0].text and not one[1])):
        if skip:
            lengths = [len(section.text) for section, _ in run]
            yield format_mark(f"{len(lengths)} sections of {sum(lengths)} characters left out here")
            continue
        for section, share in run:
            title = f"## {cut_line(section.title, 160)}\n\n" if section.title else ""
            yield title + cut_middle(section.text, share, min_saved_share=0)


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


# Check whether a quoted passage is in the paper. Differences from copying are tolerated: white space, line ends,
# hyphenation, ligatures, kinds of quotes and dashes, case, LaTeX commands, omissions marked by dots. Words, digits,
# decimal points and signs must match. Limits: whether the passage supports the score, or is quoted out of context, is
# not checked.

MIN_PIECE_CHARACTERS = 10
"""Minimum letters and digits in each piece of a quote: 'the model' is in every paper."""

_GAP = re.compile(r"\[\s*(?:\.\s*){3}\]|\[\s*…\s*\]|(?:\.\s*){3,}|…")
_SILENT_COMMAND = re.compile(r"\\(?:cite\w*|ref|eqref|autoref|cref|label)\*?\s*(?:\[[^\[\]]*\]\s*)*\{[^{}]*\}")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?\s*|\\(.)")
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−\u00ad"), "-")
_MINUS = re.compile(r"(?<![\w-])-(?=\d|\.\d)")
_POINT = re.compile(r"(?<=\d)([.,])(?=\d)")
_NUMBER_END = re.compile(r"(?<=\d)[^\w·~]+(?=[\d~])")
_NUMBER = "0123456789·~"


def quote_is_in(quote: str, paper: str) -> bool:
    """Return whether every piece of the quote is in the paper's text, in order."""
    pieces = [squeeze(piece) for piece in _GAP.split(_SILENT_COMMAND.sub(" ", quote))]
    pieces = [piece for piece in pieces if piece]
    if not pieces or any(sum(map(str.isalnum, piece)) < MIN_PIECE_CHARACTERS for piece in pieces):
        return False
    return any(_are_in_order(pieces, squeeze(text)) for text in (paper, _SILENT_COMMAND.sub(" ", paper)))


def _are_in_order(pieces: list[str], text: str) -> bool:
    """Return whether the pieces follow one another; a number at the edge of a piece must be a whole number in the
    text.
    """
    at = 0
    for piece in pieces:
        before = rf"(?<![{_NUMBER}])" if piece[0].isdigit() else ""
        after = rf"(?![{_NUMBER}])" if piece[-1].isdigit() else ""
        match = re.compile(before + re.escape(piece) + after).search(text, at)
        if match is None:
            return False
        at = match.end()
    return True


def squeeze(text: str) -> str:
    """Return the letters and digits of a string; signs, points and ends of numbers become `~`, `·` and `|`."""
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    text = text.replace("$", "").replace("\\ensuremath{-}", "-")
    text = _COMMAND.sub(lambda match: match[1] or " ", text)
    text = _POINT.sub("·", _MINUS.sub("~", text.replace("{", "").replace("}", "")))
    return "".join(char for char in _NUMBER_END.sub("|", text) if char.isalnum() or char in "~·|")
