"""The pages about a paper: its sheets with links, its figures, and where a value comes from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import HTTPException
from starlette.responses import Response

from labwright.inspector.files import text_of
from labwright.inspector.paper_text import SOURCES, bits_of, values_of
from labwright.inspector.tracer import Tracer, number_of
from labwright.inspector.web.pages import Pages, or_404
from labwright.inspector.web.paper_links import Link, links_of
from labwright.inspector.web.pdf_pages import PdfError, document, picture
from labwright.inspector.web.watched import Watched, kept
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder
from labwright.record.nouns.figures import FigureReview

AT_ONCE: Final = 8
"""Sheets on one page of the browser."""
SOURCE: Final = 4_000_000
"""Bytes of a file of the paper's source that are read."""
KEPT: Final = 4
"""Papers and tracers that are kept."""
_COMMENT = re.compile(r"(?<!\\)%.*")
_CAPTION = re.compile(r"\\figurefloat\{([^{}]*)\}\{[^{}]*\}\{[^{}]*\}\s*\{")
"""The beginning of a figure of floats.tex, up to its caption."""


class Sheet(NamedTuple):
    """A page of the PDF: its number, its size in points, what links on it."""

    number: int
    width: float
    height: float
    marks: tuple[Link, ...]


class PaperFigure(NamedTuple):
    """A figure of the paper, with the nodes whose arrays its script was given."""

    name: str
    caption: str
    picture: str
    script: str
    review: FigureReview | None
    nodes: tuple[str, ...]


class PaperPages:
    """The handlers; `watched` gives a run by its name, or refuses."""

    def __init__(self, watched: Callable[[str], Watched], pages: Pages) -> None:
        self._watched, self._pages = watched, pages
        self._papers: dict[object, tuple[tuple[Sheet, ...], str]] = {}
        self._tracers: dict[object, Tracer] = {}

    def paper(self, name: str, v: int = 0, page: int = 1) -> Response:
        """The paper, some sheets at a time."""
        run, version = self._version(name, v)
        stamp = (run.folder, version, _stamp(run.folder / _pdf(version)), len(run.state.nodes))
        sheets, why = kept(self._papers, stamp, lambda: _paper(run, version), most=KEPT)
        first = (max(1, min(page, len(sheets))) - 1) // AT_ONCE * AT_ONCE
        parts = [(n + 1, min(n + AT_ONCE, len(sheets))) for n in range(0, len(sheets), AT_ONCE)]
        with run.held:
            standing = run.state.standing
            released = (
                standing.released
                if standing is not None and version == standing.version
                else (run.state.released if version == run.state.version else None)
            )
            newest = run.state.version
        beside = str(Path(_pdf(version)).with_name("supplement.pdf"))
        return self._pages.answer(
            "paper",
            run=name,
            version=version,
            newest=newest,
            released=released,
            pdf=_pdf(version),
            supplement=beside if (run.folder / beside).is_file() else "",
            why=why,
            sheets=sheets[first : first + AT_ONCE],
            parts=parts,
            first=first + 1,
        )

    def picture(self, name: str, version: int, number: int) -> Response:
        """A page of the PDF as a picture."""
        run, _ = self._version(name, version)
        try:
            found = picture(run.folder, _pdf(version), max(1, number))
        except PdfError as error:
            raise HTTPException(404, str(error)) from None
        return Response(found, media_type="image/png", headers={"cache-control": "private, max-age=600"})

    def figure(self, name: str, figure: str, v: int = 0, part: bool = False) -> Response:
        """A figure of the paper, and what it was drawn from."""
        run, version = self._version(name, v)
        with run.held:
            drawn = or_404(
                next((one for one in figures_of(run.state) if one.name == figure), None),
                "this paper has no such figure",
            )
        return self._pages.answer("figure", part=part, run=name, drawn=drawn, version=version)

    def trace(self, name: str, number: str = "", key: str = "", v: int = 0, part: bool = False) -> Response:
        """Where a printed value comes from: by its key, or by its digits."""
        run, version = self._version(name, v)
        asked = number_of(number)
        with run.held:
            found = None
            if run.state.data_plan is not None:
                folder = RunFolder(run.folder, version)
                stamp = (run, version, run.version, *(_stamp(folder.paper / name) for name in SOURCES))
                tracer = kept(
                    self._tracers, stamp, lambda: Tracer(run.state, folder, run=shlex.quote(str(run.folder))), most=KEPT
                )
                found = tracer.key(key) if key else tracer.number(asked) if asked is not None else None
        return self._pages.answer(
            "trace",
            part=part,
            run=name,
            asked=found.number if found and key else key or number,
            found=found,
            by_key=bool(key),
            version=version,
        )

    def _version(self, name: str, version: int) -> tuple[Watched, int]:
        run = self._watched(name)
        if not 0 <= version <= run.state.version:
            raise HTTPException(404, f"the paper was written {run.state.version} times")
        standing = run.state.standing
        return run, version or (standing.version if standing is not None else run.state.version)


def figures_of(state: RunState) -> Iterator[PaperFigure]:
    """The figures of a paper, as they were drawn from the record."""
    made = state.figures
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


def _pdf(version: int) -> str:
    """The PDF of a writing, relative to the run's folder."""
    return str(RunFolder(Path(), version).paper / "paper.pdf")


def _stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.lstat()
    except OSError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


def _paper(run: Watched, version: int) -> tuple[tuple[Sheet, ...], str]:
    """The sheets of a writing of the paper; why they cannot be shown."""
    place = str(RunFolder(Path(), version).paper)
    try:
        found = document(run.folder, _pdf(version))
    except PdfError as error:
        return (), str(error)
    results, text, appendix, floats = (
        _COMMENT.sub("", text_of(run.folder, f"{place}/{name}.tex", most=SOURCE) or "")
        for name in ("results", "paper", "appendix", "floats")
    )
    values = values_of(results)
    texts = [bits_of(text, values) for text in (text + appendix, *floats.split(r"\definefloat")[1:])]
    captions = {
        figure[1]: "".join(bit.text for bit in bits_of(floats[figure.end() : figure.end() + 300], values))
        for figure in _CAPTION.finditer(floats)
    }
    marks = links_of(found, texts, captions, run.state.nodes)
    return tuple(
        Sheet(n, *size, tuple(mark for mark in marks if mark.page == n)) for n, size in enumerate(found.sizes, 1)
    ), ""
