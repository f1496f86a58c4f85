"""Pages about a paper: its PDF pages with links, its figures, and traces of values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import HTTPException
from starlette.responses import Response

from labwright.inspector.number_tracer import NumberTracer, parse_number
from labwright.inspector.paper_text import SOURCE_FILES, read_values, split_text
from labwright.inspector.run_files import read_text
from labwright.inspector.web.page_renderer import PageRenderer, require_found
from labwright.inspector.web.paper_links import PageLink, find_links
from labwright.inspector.web.pdf_pages import PdfError, read_pdf, render_pdf_page
from labwright.inspector.web.run_cache import CachedRun, get_or_make
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.figures import FigureReview

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
            current = run.state.paper.current
            released = (
                current.released
                if current is not None and version == current.version
                else (run.state.paper.released if version == run.state.paper.version else None)
            )
            newest = run.state.paper.version
        supplement = str(Path(_pdf_path(version)).with_name("supplement.pdf"))
        return self._pages.render_response(
            "paper",
            run=name,
            version=version,
            newest=newest,
            released=released,
            pdf=_pdf_path(version),
            supplement=supplement if (run.folder / supplement).is_file() else "",
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
        run, version = self._find_version(name, v)
        with run.lock:
            drawn = require_found(
                next((one for one in list_figures(run.state) if one.name == figure), None),
                "figure not found in this paper",
            )
        return self._pages.render_response("figure", part=part, run=name, drawn=drawn, version=version)

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
                    lambda: NumberTracer(run.state, folder, run=shlex.quote(str(run.folder))),
                    max_entries=MAX_PAPERS_CACHED,
                )
                found = tracer.trace_key(key) if key else tracer.trace_number(asked) if asked is not None else None
        return self._pages.render_response(
            "trace",
            part=part,
            run=name,
            asked=found.number if found and key else key or number,
            found=found,
            by_key=bool(key),
            version=version,
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
    given = frozenset(made.arrays)
    nodes = tuple(
        node.id
        for node in state.nodes.values()
        if any(attempt.arrays and given.issuperset(attempt.arrays.values()) for attempt in node.attempts)
    )
    reviews = {one.name.partition(".")[0]: one for one in made.reviews}
    for name, caption in made.descriptions.items():
        script = f"source/{name}.py"
        yield PaperFigure(
            name,
            caption,
            f"paper/figures/{name}.png" if f"{name}.png" in made.figures else "",
            f"paper/figures/{script}",
            reviews.get(name),
            nodes,
        )


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
        found = read_pdf(run.folder, _pdf_path(version))
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
    marks = find_links(found, texts, captions, run.state.nodes)
    return tuple(
        PaperSheet(n, *size, tuple(mark for mark in marks if mark.page == n)) for n, size in enumerate(found.sizes, 1)
    ), ""
