"""Remove text that no reader of a paper sees, and report what was removed.

`guard_paper` returns the paper without hidden text, invisible characters and encoded text, and a list of what was
removed and where. Whether visible text addresses the judge is decided by a model (`review.judge.injection_screening`).

In LaTeX, Markdown and HTML the usual methods are covered: white or tiny text, text shifted off the page, phantom boxes,
macro arguments that are dropped, elements that are not displayed, link definitions. Nothing is executed.
Limits: text that only TeX or a browser would reveal as hidden, such as a macro that builds a command or a style sheet.
Judge the PDF, if there is one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import math
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

from labwright.models.prompt_filters import MARK_PREFIX, format_mark, strip_marks
from labwright.pdf.layout import MAX_HEIGHT_POINTS, format_pages
from labwright.pdf.reader import PdfDocument, PdfError, PdfPage, PdfWord, read_pdf
from labwright.record.schema.paper import RemovedKind, RemovedPassage
from labwright.review.judge.paper_reader import Paper, PaperError, PaperSection, find_group_end, split_pdf_sections

HidingScope = Literal["argument", "group", "paragraph"]
HidingRule = tuple[str, HidingScope, float, float]

_NUMBER = r"\s*(?P<number>-?\s*[\d.]+)\s*(?P<unit>[a-z]{2})?\s*"
_POINTS_PER_UNIT = {"mm": 2.8, "cm": 28.0, "in": 72.0, "em": 10.0, "ex": 4.0, "sp": 0.0}
_OFF_PAGE_POINTS = 280.0
"""Shift in points that moves text off a page."""
_COLOUR = r"\s*(?:\[(?P<model>\w+)\])?\s*\{(?P<colour>[^{}]*)\}"
_NEVER_PRINTED = (
    r"\\(?:[hv]?phantom|typeout|message|wlog|special|pdfinfo|hypersetup|@gobble|@secondoftwo|sbox\s*\d+"
    r"|savebox\s*\{[^{}]*\}|setbox\s*\d+\s*=?\s*\\[hv]box"
)
_RULES: tuple[HidingRule, ...] = (
    (rf"\\scalebox\s*\{{{_NUMBER}\}}", "argument", 0.25, math.inf),
    (rf"\\fontsize\s*\{{{_NUMBER}\}}", "group", 3, math.inf),
    (rf"\\(?:[hv]space\*?\s*\{{|kern|hskip){_NUMBER}\}}?", "paragraph", -_OFF_PAGE_POINTS, math.inf),
    (rf"\\textcolou?r{_COLOUR}", "argument", 0, 0),
    (rf"\\colou?r{_COLOUR}", "group", 0, 0),
)
"""Commands, the scope that they hide, and the range of sizes in which text is visible."""

_COLOUR_BOX = re.compile(
    r"\\(?:cell|row|page|f?colou?r(?:box)?)\w*\s*(?:\[\w+\])?\s*\{(?P<ground>[^{}]*)\}[^\n]{0,60}$"
)
_COLOUR_DEFINITION = re.compile(
    r"\\definecolou?r\s*\{(?P<name>[^{}]*)\}\s*\{(?P<model>[^{}]*)\}\s*\{(?P<colour>[^{}]*)\}|"
    r"\\colorlet\s*\{(?P<alias>[^{}]*)\}\s*\{(?P<of>[^{}]*)\}"
)
_MACRO_DEFINITION = re.compile(
    r"\\(?:(?:re|provide)?newcommand\*?|renewcommand\*?|providecommand\*?|DeclareRobustCommand\*?)\s*"
    r"\{?\\(?P<name>[A-Za-z]+)\}?\s*\[1\]\s*\{|\\def\s*\\(?P<plain>[A-Za-z]+)\s*#1\s*\{"
)
_ARGUMENT = re.compile(r"\s*(?:\[[^\]]*\]\s*)*\{")
_GROUP_ENDS = re.compile(r"\\(?:colou?r\s*\{|normalcolou?r|normalsize|fontsize|end\{)")

_HIDING_STYLE = (
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0*[0-2](?:\.\d*)?\s*(?:px|pt|em|rem"
    r"|%)?\s*[;\"']|opacity\s*:\s*0(?:\.[01]\d*)?\s*[;\"']|(?<![-\w])color\s*:\s*(?:white|#f{3,8}\b"
    r"|#f[a-f0-9]f[a-f0-9]f[a-f0-9]\b|rgba?\(\s*2[45]\d\s*,\s*2[45]\d\s*,\s*2[45]\d)|text-indent\s*:\s*-\d{3,}"
    r"|left\s*:\s*-\d{3,}|\shidden[\s=>]|(?<![-\w])color\s*=\s*[\"']?(?:white|#f{3,8}\b))"
)
_HIDDEN_HTML = re.compile(
    rf"<(?P<tag>[a-z]\w*)\b[^<>]*{_HIDING_STYLE}[^<>]*>.*?(?:</(?P=tag)\s*>|\Z)|<(?P<never>script|style|template"
    rf"|noscript)\b.*?"
    r"(?:</(?P=never)\s*>|\Z)|<meta\b[^<>]*>",
    re.IGNORECASE | re.DOTALL,
)
_MARKDOWN_LINK_COMMENT = re.compile(
    r"^[ ]{0,3}\[(?!\^)[^\]\n]+\]:[ \t]*(?:#|<>|\S+)[ \t]+(?:\"[^\n]*\"|'[^\n]*'"
    r"|\([^\n]*\))[ \t]*$",
    re.MULTILINE,
)


def remove_hidden(text: str, form: str, preamble: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the visible part of a source, and the pieces that are hidden."""
    hidden: list[str] = []
    if form != "LaTeX":
        for pattern in (_HIDDEN_HTML, _MARKDOWN_LINK_COMMENT):
            hidden += [match[0] for match in pattern.finditer(text)]
            text = pattern.sub("", text)
        return text, tuple(hidden)
    whole = f"{preamble}\n{text}"
    white = _list_white_names(whole)
    dropping = "|".join(
        match["name"] or match["plain"]
        for match in _MACRO_DEFINITION.finditer(whole)
        if "#1" not in whole[match.end() : _find_group_end(whole, match.end())]
    )
    never: HidingRule = rf"{_NEVER_PRINTED}|(?:{dropping or '@none'})(?![A-Za-z]))", "argument", 0, 0
    for source, scope, least, most in (*_RULES, never):
        pattern, at = re.compile(source, re.DOTALL), 0
        while match := pattern.search(text, at):
            hides = _is_hiding(match, (least, most), white)
            if not hides or (end := _find_scope_end(text, match.end(), scope)) is None:
                at = match.end()
                continue
            hidden.append(text[match.start() : end])
            text, at = text[: match.start()] + text[end:], match.start()
    return text, tuple(hidden)


def _is_hiding(match: re.Match[str], shown: tuple[float, float], white: set[str]) -> bool:
    """Return whether a command hides its scope by size or by a colour near white.

    A colour near white is allowed in a table head with its own background colour.
    """
    named = match.groupdict()
    if number := named.get("number"):
        with contextlib.suppress(ValueError):
            size = float(re.sub(r"\s|\.$", "", number)) * _POINTS_PER_UNIT.get(named["unit"] or "", 1.0)
            return not shown[0] <= size <= shown[1]
        return False
    if (colour := named.get("colour")) is None:
        return True
    box = _COLOUR_BOX.search(match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()])
    return _is_white(named["model"], colour, white) and (box is None or _is_white(None, box["ground"], white))


def _find_scope_end(text: str, begin: int, scope: HidingScope) -> int | None:
    """Return where the hidden scope of a command ends; None if its argument is missing."""
    if scope == "argument":
        match = _ARGUMENT.match(text, begin)
        return _find_group_end(text, match.end()) if match else None
    if scope == "paragraph":
        end = text.find("\n\n", begin)
        return end if end >= 0 else len(text)
    after, end = _GROUP_ENDS.search(text, begin), find_group_end(text, begin)  # or the next colour or size
    return min(len(text) if end is None else end - 1, after.start() if after else len(text))


def _find_group_end(text: str, begin: int) -> int:
    """Return the position after the brace that closes the one before `begin`, or the end of the text."""
    end = find_group_end(text, begin)
    return len(text) if end is None else end


# --- colours --------------------------------------------------------------------------------------------------------

_MIN_WHITE_LIGHTNESS = 0.9
"""Lightness of the darkest channel, from 0 to 1, above which text is invisible on white."""


def _list_white_names(text: str) -> set[str]:
    """Return the names of colours near white that a source defines, and "white"."""
    found = {"white"}
    for match in _COLOUR_DEFINITION.finditer(text):
        model, colour = (match["model"], match["colour"]) if match["name"] else (None, match["of"])
        if _is_white(model, colour, found):
            found.add((match["name"] or match["alias"]).strip())
    return found


def _is_white(model: str | None, colour: str, names: set[str]) -> bool:
    """Return whether an xcolor colour is near white; mixtures and unknown names are not."""
    if model is None:
        return colour.strip() in names
    if model == "HTML":
        values = [int(pair, 16) / 255 for pair in re.findall(r"[0-9A-Fa-f]{2}", colour)]
    else:
        values = [float(one) / (255 if model == "RGB" else 1) for one in re.findall(r"\d*\.?\d+", colour)]
    darkest = 1 - max(values, default=1.0) if model == "cmyk" else min(values, default=0.0)
    return darkest >= _MIN_WHITE_LIGHTNESS


# Separate the visible words of a PDF from hidden ones. Each page is rendered. A word is hidden if its box has a
# single colour (white text, text under a bar, invisible rendering), its height is below `MIN_WORD_HEIGHT_POINTS`, or
# it lies outside the page. Limits: words under a photograph, or over one in similar colours; words inside an image.
# Pages beyond the rendering limit are not checked, and are reported.

TIMEOUT_SECONDS = 120.0
"""Timeout in seconds for reading the words of an untrusted PDF, and for rendering a page."""
MAX_RENDERED_PAGES = 60
MIN_WORD_HEIGHT_POINTS = 1.5
"""Points from top to bottom of a word's box; a figure's tick label at a fifth of its size has 2 points."""
MIN_HIDDEN_CHARACTERS = 4
"""Minimum number of letters and digits in a run of hidden words; a shorter run is a glyph that is drawn elsewhere."""
MIN_CONTRAST = 24
"""Minimum contrast (0 to 255) in the colour channel that differs most, within the middle of a word's box."""


@dataclass(frozen=True)
class VisibleText:
    """The visible text, with form feeds between pages, its sections, and runs of hidden words by page."""

    text: str
    sections: tuple[PaperSection, ...]
    hidden_runs: tuple[tuple[int, str], ...]
    pages: int
    unrendered_pages: int


def separate_hidden(document: PdfDocument) -> VisibleText:
    """Return the text of visible words, and the runs of hidden ones. `document` has the contrast of its words."""
    pages, hidden = list[PdfPage](), list[tuple[int, str]]()
    for number, page in enumerate(document.pages, 1):
        kept = list[PdfWord]()
        for visible, words in groupby(page.words, key=lambda word: is_visible(word, page)):
            run = list(words)
            if visible or sum(char.isalnum() for word in run for char in word.text) < MIN_HIDDEN_CHARACTERS:
                kept += run
            else:
                hidden.append((number, " ".join(word.text for word in run)))
        pages.append(replace(page, words=tuple(word for word in kept if word.size <= MAX_HEIGHT_POINTS)))
    unrendered = max(0, len(pages) - MAX_RENDERED_PAGES)
    return VisibleText(format_pages(pages), split_pdf_sections(pages), tuple(hidden), len(pages), unrendered)


def is_visible(word: PdfWord, page: PdfPage) -> bool:
    """Return whether a word is visible; marks without a letter or digit are assumed to be visible."""
    x0, y0, x1, y1 = word.box
    if not any(map(str.isalnum, word.text)):
        return True
    if y1 - y0 < MIN_WORD_HEIGHT_POINTS or not (0 <= (x0 + x1) / 2 <= page.width and 0 <= (y0 + y1) / 2 <= page.height):
        return False
    return word.contrast is None or word.contrast >= MIN_CONTRAST


ENCODED_REMOVED_MARK = format_mark("encoded text was removed")
MAX_HIDDEN_SHARE = 0.5
"""Maximum share of hidden words in a PDF; above it, the visible text cannot be determined."""

MARK_PATTERN = re.compile(r"(\[\[scientist: [^\[\]\n]*\]\])")
"""Splits a text at the guards' marks, and keeps them."""
_CHAT_TOKENS = re.compile(r"<\|(?=\w+\|>)|(?<=<)\|?(?=/?(?:s|SYS)>)")
_ENCODED_TEXT = re.compile(r"(?<![A-Za-z0-9+/])(?:[0-9a-fA-F]{2}[ :]?){20,}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,}={0,2}")


@dataclass(frozen=True)
class GuardedPaper:
    """A paper as a judge sees it.

    `removed` lists the removed passages; `pages` is the page count of a PDF, 0 for other formats; images of
    `withheld_pages` are not shown.
    """

    paper: Paper
    removed: tuple[RemovedPassage, ...] = ()
    pages: int = 0
    withheld_pages: tuple[int, ...] = ()
    unchecked: tuple[str, ...] = ()
    page_texts: tuple[str, ...] = ()


async def guard_paper(paper: Paper) -> GuardedPaper:
    """Return the paper without hidden and encoded text. Raises `PaperError`."""
    found: list[RemovedPassage] = []
    pages, not_looked_at, sight = 0, (), None
    if paper.form == "PDF":
        sight = await _read_visible_text(paper.path)
        paper = replace(paper, sections=sight.sections)
        found += [_make_removed("hidden", f"page {page}", text) for page, text in sight.hidden_runs]
        pages = sight.pages
        if sight.unrendered_pages:
            not_looked_at = (f"the last {sight.unrendered_pages} of {pages} pages were not checked for hidden text",)
    sections: list[PaperSection] = []
    for section in paper.sections:
        title, of_title = neutralise(section.title, "a heading")
        shown, of_hidden = (section.text, ()) if sight else _keep_printed(section, paper)
        text, of_text = neutralise(shown, section.title or "before the first heading")
        found += [*of_title, *of_hidden, *of_text]
        sections.append(PaperSection(title, text, section.is_back_matter))
    texts = tuple(sight.text.split("\f")) if sight else ()
    return GuardedPaper(
        replace(paper, sections=tuple(sections)), tuple(found), pages, unchecked=not_looked_at, page_texts=texts
    )


def neutralise(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the text without encoded text, invisible characters and forged marks, and what was removed."""
    shown, hidden = strip_invisible(text, where)
    shown, found = remove_encoded(shown, where)
    return shown, (*hidden, *found)


def strip_invisible(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the text without invisible characters and forged marks, and what was written in those characters.

    Marks may be added afterwards.
    """
    secret = "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) < 0xE007F)
    marks = {char for char in set(text) if unicodedata.category(char) == "Cf"}  # joiners, direction marks, soft hyphens
    selectors = {char for char in set(text) if 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF}
    text = text.translate(dict.fromkeys(map(ord, marks | selectors)))
    return strip_marks(text), (_make_removed("hidden", where, secret),) if secret else ()


def remove_encoded(text: str, where: str) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return a visible text without encoded text and tokens of chats, its marks unchanged, and what was removed."""
    parts, found = MARK_PATTERN.split(text), list[RemovedPassage]()

    def remove(match: re.Match[str]) -> str:
        if (decoded := _decode(match[0])) is None:
            return match[0]
        found.append(_make_removed("encoded", where, decoded))
        return ENCODED_REMOVED_MARK

    for at, part in enumerate(parts):
        if not part.startswith(MARK_PREFIX):
            parts[at] = _CHAT_TOKENS.sub(lambda match: f"{match[0]} ", _ENCODED_TEXT.sub(remove, part))
    return "".join(parts), tuple(found)


def _keep_printed(section: PaperSection, paper: Paper) -> tuple[str, tuple[RemovedPassage, ...]]:
    """Return the printed part of a section's source and the rest."""
    text = html.unescape(section.text) if paper.form == "Markdown" else section.text
    text, hidden = remove_hidden(text, paper.form, paper.preamble)
    return text, tuple(
        _make_removed("hidden", section.title or "before the first heading", piece)
        for piece in hidden
        if len(re.findall(r"[^\W\d_]{2,}", piece)) > 2
    )  # \phantom{0} carries no message


async def _read_visible_text(path: Path) -> VisibleText:
    """Return the visible text of a PDF. Raises `PaperError` if most of it is hidden."""
    try:
        document = await asyncio.to_thread(read_pdf, path, contrast_pages=MAX_RENDERED_PAGES, timeout=TIMEOUT_SECONDS)
    except PdfError as error:
        raise PaperError(f"{path} contains no extractable text: {error}") from None
    found = await asyncio.to_thread(separate_hidden, document)
    hidden, shown = sum(len(text.split()) for _, text in found.hidden_runs), len(found.text.split())
    if hidden > MAX_HIDDEN_SHARE * (hidden + shown):
        raise PaperError(
            f"{path}: {hidden} of its {hidden + shown} words are hidden, so it cannot be "
            "judged by its text; print it to a new PDF"
        )
    return found


def _decode(coded: str) -> str | None:
    """Return the text of a run of base64 or hexadecimal digits, if it decodes to words."""
    bare = coded.rstrip("=")
    for decode, digits in (
        (bytes.fromhex, re.sub(r"[ :]", "", coded)),
        (partial(base64.b64decode, validate=True), bare + "=" * (-len(bare) % 4)),
    ):
        with contextlib.suppress(ValueError):
            text = decode(digits).decode("utf-8", "replace")
            words = re.findall(r"[^\W\d_]{2,}", text)
            if len(words) >= 4 and sum(map(len, words)) > 0.6 * len(text) and text.isprintable():
                return text
    return None


def _make_removed(kind: RemovedKind, where: str, text: str) -> RemovedPassage:
    return RemovedPassage(kind=kind, where=" ".join(where.split())[:200], text=text[:2000], characters=len(text))
