"""Pages about a paper: its PDF pages with links, its figures, and traces of values."""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import eq
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import quote

from fastapi import HTTPException
from starlette.responses import Response

from labwright.inspector.number_tracer import (
    SOURCE_FILES,
    NumberTracer,
    TextBits,
    parse_number,
    read_values,
    split_text,
)
from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, open_within, read_text
from labwright.inspector.web.page_renderer import PageRenderer, require_found
from labwright.inspector.web.run_cache import CachedRun, get_or_make
from labwright.pdf import reader
from labwright.pdf.reader import PdfError, PdfPage
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.paper import FigureReview
from labwright.record.zips import find_zip

# Word positions and page images of PDFs (`labwright.pdf`).

TIME_LIMIT_SECONDS: Final = 30.0
"""Seconds for one document or picture."""
MAX_PAGES: Final = 200
PICTURE_WIDTH_PIXELS: Final = 1100
"""Width of a page image in pixels."""
_READING_LOCK = threading.Lock()
"""Limits reading to one process at a time, since browsers request many pages at once."""


class PlacedWord(NamedTuple):
    """A word on a page, with its position in points from the upper left corner."""

    text: str
    page: int
    left: float
    top: float
    right: float
    bottom: float


def read_pages(run: Path, path: str) -> tuple[PdfPage, ...]:
    """Read the pages of a PDF of a run, with their words in the order of the content, in which TeX typesets tables row
    by row. Raises `PdfError`."""
    with _open_pdf(run, path) as pdf:
        return reader.read_pdf(pdf, max_pages=MAX_PAGES, timeout=TIME_LIMIT_SECONDS).pages


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


# Link every printed value in the released paper to the key to which it is bound. The paper's TeX gives the words
# around each value (`inspector.number_tracer`), the PDF gives the positions of words (`inspector.web.paper_pages`). A
# value is located where the PDF prints it between the same words, which distinguishes equal values too. Values
# without a key in the source (rows typeset by the program) are linked by their digits, and node ids to their nodes.
# Limits: a value may not be found. If the surrounding words differ from the source, it is linked only by its digits.

CONTEXT_TOKENS: Final = 12
"""Number of words compared on each side of a value."""
MIN_CONTEXT_MATCH: Final = 0.45
"""Minimum share of the words before or after a value that must match."""
MIN_SHARE_OF_BEST: Final = 0.7
"""The next position after the previous value is chosen if it reaches this share of the best match, since rows of a
table look alike.
"""
_TOKEN = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\W\d_]+|\d+")
_NODE = re.compile(r"n\d{4,}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


LinkKind = Literal["key", "number", "node", "figure"]


class PageLink(NamedTuple):
    """A rectangle on a page that links to a value by key, a number, a node, or a figure."""

    kind: LinkKind
    target: str
    text: str
    page: int
    left: float
    top: float
    width: float
    height: float


def find_links(
    pages: Sequence[PdfPage], texts: Iterable[TextBits], figures: Mapping[str, str], nodes: Mapping[str, object]
) -> tuple[PageLink, ...]:
    """Find the links on the pages of a document. `texts` have keys, `figures` maps name -> caption.

    Passages that the PDF may omit come last, so that they match only places not yet used.
    """
    words = [
        PlacedWord(normalize("NFKC", word.text).replace("\u2212", "-"), number, *word.box)
        for number, page in enumerate(pages, 1)
        for word in page.words
    ]
    spelled = [(token, word) for word in words for token in tokenize(word.text)]
    tokens, places = [token for token, _ in spelled], dict[str, list[int]]()
    for at, token in enumerate(tokens):
        places.setdefault(token, []).append(at)
    found, taken = list[PageLink](), set[PlacedWord]()
    for text in texts:
        for key, place in _locate_values(text, tokens, places):
            value = [*dict.fromkeys(word for _, word in spelled[place.start : place.stop])]
            found += _link_boxes("key", key, value)
            taken.update(value)
    for word in words:
        bare, node = word.text.strip(".,;:()[]%"), _NODE.search(word.text)
        if word in taken:
            continue
        if node is not None and node[0] in nodes:
            found += _link_boxes("node", node[0], [word._replace(text=node[0])])
        elif "." in bare and _NUMBER.fullmatch(bare):
            found += _link_boxes("number", bare, [word._replace(text=bare)])
    for name, caption in figures.items():  # link the words `Figure 3` before the caption
        begin = tokenize(caption)[:8]
        heads = (at for at in places.get("figure", ()) if tokens[at + 2 : at + 2 + len(begin)] == begin)
        if begin and (at := next((at for at in heads if tokens[at + 1].isdigit()), None)) is not None:
            found += _link_boxes("figure", name, [word for _, word in spelled[at : at + 2]])
    return tuple(sorted(found, key=lambda mark: (mark.page, mark.top, mark.left)))


def tokenize(text: str) -> list[str]:
    """Split a string into words and numbers for comparison."""
    return [one.lower() for one in _TOKEN.findall(text.replace("\u2212", "-"))]


def _locate_values(
    text: TextBits, tokens: Sequence[str], places: Mapping[str, list[int]]
) -> Iterator[tuple[str, range]]:
    """Yield each value of a passage with its token range, which is then removed from `places`."""
    source, values, last = list[str](), list[tuple[str, range]](), 0
    for bit in text:
        own = tokenize(bit.text)
        if bit.key and own:
            values.append((bit.key, range(len(source), len(source) + len(own))))
        source += own
    for key, span in values:
        own = source[span.start : span.stop]
        before = source[max(0, span.start - CONTEXT_TOKENS) : span.start]
        after = source[span.stop : span.stop + CONTEXT_TOKENS]
        fits = {
            at: (
                _match_share(before[::-1], tokens[max(0, at - CONTEXT_TOKENS) : at][::-1]),
                _match_share(after, tokens[at + len(own) : at + len(own) + CONTEXT_TOKENS]),
            )
            for at in places.get(own[0], ())
            if tokens[at : at + len(own)] == own
        }
        best = max(map(sum, fits.values()), default=0.0)
        at = min(
            (at for at, fit in fits.items() if sum(fit) >= MIN_SHARE_OF_BEST * best),
            default=-1,
            key=lambda at, last=last: (at < last, abs(at - last)),
        )
        if at >= 0 and max(fits[at]) >= MIN_CONTEXT_MATCH * max(len(before), len(after)):
            last = at
            for at in range(last, last + len(own)):
                places[tokens[at]].remove(at)
            yield key, range(last, last + len(own))


def _match_share(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the share of words of one sequence that occur in the other; half of the weight counts only words at
    the same position.
    """
    return (len(set(a) & set(b)) + sum(map(eq, a, b))) / 2


def _link_boxes(kind: LinkKind, target: str, words: Sequence[PlacedWord]) -> Iterator[PageLink]:
    """Yield one box per line that a value occupies."""
    lines: list[list[PlacedWord]] = []
    for word in words:
        if not lines or lines[-1][-1].page != word.page or abs(lines[-1][-1].bottom - word.bottom) >= 4:
            lines.append([])
        lines[-1].append(word)
    text = " ".join(word.text for word in words)
    for line in lines:
        left, top = min(word.left for word in line), min(word.top for word in line)
        right, bottom = max(word.right for word in line), max(word.bottom for word in line)
        yield PageLink(kind, target, text, line[0].page, left, top, right - left, bottom - top)


SHEETS_PER_PAGE: Final = 8
"""PDF pages per browser page."""
MAX_SOURCE_BYTES: Final = 4_000_000
"""Maximum bytes of a source file of the paper that are read."""
MAX_PAPERS_CACHED: Final = 4
"""Maximum cached papers and tracers."""
_COMMENT = re.compile(r"(?<!\\)%.*")
_CAPTION = re.compile(r"\\figurefloat\{([^{}]*)\}\{[^{}]*\}\{[^{}]*\}\s*\{")
"""Matches the start of a figure in floats.tex, up to its caption."""


class PaperSheet(NamedTuple):
    """A page of the PDF: number, size in points, and links."""

    number: int
    width: float
    height: float
    links: tuple[PageLink, ...]


class PaperFigure(NamedTuple):
    """A figure of the paper, with the nodes whose arrays its script read."""

    name: str
    caption: str
    picture: str
    script: str
    review: FigureReview | None
    nodes: tuple[str, ...]


class PaperHandlers:
    """Request handlers; `get_run` returns a run by name, or raises."""

    def __init__(self, get_run: Callable[[str], CachedRun], pages: PageRenderer) -> None:
        self._watched, self._pages = get_run, pages
        self._papers: dict[object, tuple[tuple[PaperSheet, ...], str]] = {}
        self._tracers: dict[object, NumberTracer] = {}

    def paper(self, name: str, v: int = 0, page: int = 1) -> Response:
        """Show the paper, a few pages at a time."""
        run, version = self._find_version(name, v)
        stamp = (run.folder, version, _file_stamp(run.folder / _pdf_path(version)), len(run.state.nodes))
        sheets, why = get_or_make(self._papers, stamp, lambda: _read_paper(run, version), max_entries=MAX_PAPERS_CACHED)
        first = (max(1, min(page, len(sheets))) - 1) // SHEETS_PER_PAGE * SHEETS_PER_PAGE
        parts = [(n + 1, min(n + SHEETS_PER_PAGE, len(sheets))) for n in range(0, len(sheets), SHEETS_PER_PAGE)]
        with run.lock:
            paper = run.state.paper
            released = {paper.version: paper.released}
            if paper.current is not None:
                released[paper.current.version] = paper.current.released
        return self._pages.render_view(
            "paper",
            run,
            paper=paper.current,
            version=version,
            newest=paper.version,
            released=released.get(version),
            pdf=_pdf_path(version),
            why=why,
            sheets=sheets[first : first + SHEETS_PER_PAGE],
            parts=parts,
            first=first + 1,
        )

    def picture(self, name: str, version: int, number: int) -> Response:
        """Render a page of the PDF as an image."""
        run, _ = self._find_version(name, version)
        try:
            found = render_pdf_page(run.folder, _pdf_path(version), max(1, number))
        except PdfError as error:
            raise HTTPException(404, str(error)) from None
        return Response(found, media_type="image/png", headers={"cache-control": "private, max-age=600"})

    def figure(self, name: str, figure: str, v: int = 0, part: bool = False) -> Response:
        """Show a figure of the paper and the nodes that it uses."""
        run, _ = self._find_version(name, v)
        with run.lock:
            drawn = next((one for one in list_figures(run.state) if one.name == figure), None)
        drawn = require_found(drawn, "figure not found in this paper")
        return self._pages.render_view("figure", run, part=part, heading=f"Figure {figure}", drawn=drawn)

    def trace(self, name: str, number: str = "", key: str = "", v: int = 0, part: bool = False) -> Response:
        """Trace a printed value by its key or its digits."""
        run, version = self._find_version(name, v)
        asked = parse_number(number)
        with run.lock:
            found = None
            if run.state.search.data_plan is not None:
                folder = RunFolder(run.folder, version)
                stamp = (run, version, run.version, *(_file_stamp(folder.paper_folder / name) for name in SOURCE_FILES))
                tracer = get_or_make(
                    self._tracers,
                    stamp,
                    lambda: NumberTracer(run.state, folder, run=shlex.quote(str(find_zip(run.folder)))),
                    max_entries=MAX_PAPERS_CACHED,
                )
                found = tracer.trace_key(key) if key else tracer.trace_number(asked) if asked is not None else None
        return self._pages.render_view(
            "trace",
            run,
            part=part,
            heading="Where a number comes from",
            asked=found.number if found and key else key or number,
            found=found,
            by_key=bool(key),
        )

    def _find_version(self, name: str, version: int) -> tuple[CachedRun, int]:
        run = self._watched(name)
        if not 0 <= version <= run.state.paper.version:
            raise HTTPException(404, f"the paper has {run.state.paper.version} versions")
        current = run.state.paper.current
        return run, version or (current.version if current is not None else run.state.paper.version)


def list_figures(state: RunState) -> Iterator[PaperFigure]:
    """List the figures of a paper as they were drawn from the record."""
    made = state.paper.figures
    if made is None:
        return
    given, folder = frozenset(made.arrays), RunFolder(Path()).get_figures_path(made.version)
    nodes = tuple(
        node.id
        for node in state.nodes.values()
        if any(attempt.arrays and given.issuperset(attempt.arrays.values()) for attempt in node.attempts)
    )
    reviews = {one.name.partition(".")[0]: one for one in made.reviews}
    for name, caption in made.descriptions.items():
        picture = f"{folder}/{name}.png" if f"{name}.png" in made.figures else ""
        yield PaperFigure(name, caption, picture, f"{folder}/source/{name}.py", reviews.get(name), nodes)


class BestFigure(NamedTuple):
    """A picture to show of a run: its path, the address of what it belongs to (both inside the run's), its caption."""

    picture: str
    place: str
    caption: str


def find_best_figure(run: CachedRun, best: str | None) -> BestFigure | None:
    """Find a figure that passed its review: the paper's first one, else one of the best node; None if there is none."""
    found = [
        BestFigure(one.picture, f"figures/{quote(one.name, safe='')}", one.caption)
        for one in list_figures(run.state)
        if one.picture and (one.review is None or one.review.readable)
    ]
    if not found and best is not None and best in run.state.nodes:
        node = run.state.nodes[best]
        place = f"nodes/{best}/plots{node.plot_count}/figures"
        found = [
            BestFigure(f"{place}/{one.name}", f"nodes/{best}", f"{one.name}: {one.description}")
            for one in node.reviews
            if one.readable and one.name.endswith(".png")
        ]
    return next((one for one in found if (run.folder / one.picture).is_file()), None)


def _pdf_path(version: int) -> str:
    """Return the PDF of a paper version, relative to the run's folder."""
    return str(RunFolder(Path(), version).paper_folder / "paper.pdf")


def _file_stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.lstat()
    except OSError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


def _read_paper(run: CachedRun, version: int) -> tuple[tuple[PaperSheet, ...], str]:
    """Read the pages of a paper version; if that fails, return the reason."""
    place = str(RunFolder(Path(), version).paper_folder)
    try:
        pages = read_pages(run.folder, _pdf_path(version))
    except PdfError as error:
        return (), str(error)
    results, text, appendix, floats = (
        _COMMENT.sub("", read_text(run.folder, f"{place}/{name}.tex", max_characters=MAX_SOURCE_BYTES) or "")
        for name in ("results", "paper", "appendix", "floats")
    )
    values = read_values(results)
    texts = [split_text(text, values) for text in (text + appendix, *floats.split(r"\definefloat")[1:])]
    captions = {
        figure[1]: "".join(bit.text for bit in split_text(floats[figure.end() : figure.end() + 300], values))
        for figure in _CAPTION.finditer(floats)
    }
    marks = find_links(pages, texts, captions, run.state.nodes)
    return tuple(
        PaperSheet(n, page.width, page.height, tuple(mark for mark in marks if mark.page == n))
        for n, page in enumerate(pages, 1)
    ), ""
