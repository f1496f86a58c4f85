"""The pages and streams of the inspector, by address. `inspector.web.server` stands before them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from labwright.inspector.files import LARGEST, RefusedError, blocks, open_within
from labwright.inspector.headline import score_of_paper
from labwright.inspector.web.calls import calls_of, opened
from labwright.inspector.web.forms import OF_NODES, ask, command_of, fields_of
from labwright.inspector.web.node_panel import panel_of
from labwright.inspector.web.pages import HERE, Pages, or_404
from labwright.inspector.web.paper_pages import PaperPages
from labwright.inspector.web.pieces import Piece, RunPieces, by_parent, update
from labwright.inspector.web.views import Foresee, RunViews
from labwright.inspector.web.watched import FOLDED, RunLine, Runs, Watched, kept
from labwright.record.nouns.nodes import STAGES

STATIC = {"inspector.js": "text/javascript", "inspector.css": "text/css", "icon.svg": "image/svg+xml"}
SHOWN_AS = {".png": "image/png", ".pdf": "application/pdf"}
"""Everything else of a run is handed out as plain text, or to be saved."""
AS_TEXT = frozenset(
    {".py", ".txt", ".json", ".jsonl", ".yaml", ".md", ".tex", ".bib", ".log", ".sty", ".cls", ".bbl", ".ipynb"}
)
MOST = 64
"""Pages that are kept up to date at a time."""
EVERY = 0.1
"""Seconds between two looks at a run for a page that is kept up to date."""
BEAT = 15.0
"""Seconds after which a stream says that it is alive."""
ORDERS: Mapping[str, Callable[[RunLine], Any]] = {
    "": lambda line: 0,
    "run": lambda line: (line.status.title or line.name).lower(),
    "state": lambda line: line.status.condition,
    "best": lambda line: _last(line.best),
    "difference": lambda line: _last(line.headline.mean if line.headline else None),
    "score": lambda line: _last(score_of_paper(line.status.judgement)[0] if line.status.judgement else None),
    "nodes": lambda line: line.nodes,
    "cost": lambda line: line.status.cost.usd,
    "time": lambda line: line.status.elapsed,
    "started": lambda line: line.status.started or "",
}
"""What the list can be sorted by; as it stands: the newest first."""
Look = Callable[[], tuple[int, dict[str, Piece]]]


def make_app(place: Path, *, read_only: bool = False, foresee: Foresee | None = None) -> FastAPI:
    """The application over a run, or over a folder of runs; `foresee` tells what is ahead of one that goes on."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handlers = Handlers(place, form_token="" if read_only else secrets.token_urlsafe(24), foresee=foresee)
    papers, views = handlers.papers, handlers.views
    for kind in (StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(kind, handlers.fault)
    run = "/runs/{name}"
    for path, handler in {
        "/": handlers.home,
        "/live": handlers.home_live,
        "/static/{stamp}/{name}": handlers.static,
        run: handlers.run,
        f"{run}/live": handlers.run_live,
        f"{run}/nodes/{{node}}": handlers.node,
        f"{run}/calls": handlers.calls,
        f"{run}/calls/{{call}}": handlers.call,
        f"{run}/files/{{path:path}}": handlers.file,
        f"{run}/now": views.now,
        f"{run}/chart": views.chart,
        f"{run}/table": views.table,
        f"{run}/table.csv": views.csv,
        f"{run}/compare": views.compare,
        f"{run}/cells": views.cells,
        f"{run}/use": views.use,
        "/compare": views.compare_runs,
        f"{run}/trace": papers.trace,
        f"{run}/paper": papers.paper,
        f"{run}/figures/{{figure}}": papers.figure,
        f"{run}/sheets/{{version}}/{{number}}.png": papers.picture,
    }.items():
        app.add_api_route(path, handler, methods=["GET", "HEAD"], response_model=None)
    if not read_only:
        app.add_api_route(f"{run}/steer", handlers.steer, methods=["POST"], response_model=None)
    return app


class Handlers:
    """The handlers, with the runs and what was made of them. Plain ones run in threads."""

    def __init__(self, place: Path, *, form_token: str, foresee: Foresee | None = None) -> None:
        self.runs = Runs(place)
        self.static_files = {name: (HERE / "static" / name).read_bytes() for name in STATIC}
        self.pages = Pages(
            {
                Path(name).suffix[1:].replace("svg", "icon"): f"/static/{hashlib.sha256(text).hexdigest()[:12]}/{name}"
                for name, text in self.static_files.items()
            },
            form_token=form_token,
            single=self.runs.single,
        )
        self.papers = PaperPages(self.watched, self.pages)
        self.views = RunViews(self.watched, self.pages, foresee)
        self.form_token = form_token
        self.pieces: dict[Watched, RunPieces] = {}
        self.open_streams = 0

    # --- pages ------------------------------------------------------------------------------------------------------

    def home(self, sort: str = "", down: bool = False) -> Response:
        if self.runs.single:
            return RedirectResponse(_address(self.runs.names()[0]), status_code=303)
        lines = sorted(self.every_line(), key=ORDERS.get(sort, ORDERS[""]), reverse=down)
        return self.pages.answer(
            "home", place=str(self.runs.place), sort=sort, down=down, pieces=[self.line_piece(line) for line in lines]
        )

    def fault(self, request: Request, error: Exception) -> Response:
        """What is wrong, as a page where a person opened an address, else as a line of text."""
        status, why = (
            (error.status_code, str(error.detail))
            if isinstance(error, StarletteHTTPException)
            else (400, "this address asks for something that a page of ours does not ask for")
        )
        if "text/html" not in request.headers.get("accept", "") or "part" in request.query_params:
            return PlainTextResponse(why, status)
        answer = self.pages.answer("fault", why=why, status=status)
        answer.status_code = status
        return answer

    def run(self, name: str) -> Response:
        pieces = self.pieces_of(name)
        version, made = pieces.now()
        with pieces.run.held:
            state = pieces.run.state
            title = state.started.idea.title if state.started else name
            blank = pieces.run.trouble if state.started is None else ""
        return self.pages.answer(
            "run", run=name, title=title, blank=blank, version=version, stages=STAGES, into=by_parent(made), found=made
        )

    def node(self, name: str, node: str, part: bool = False) -> Response:
        run = self.watched(name)
        with run.held:
            panel = or_404(panel_of(run, node), "this run has no such node")
        return self.pages.answer("node", part=part, run=name, panel=panel)

    def calls(self, name: str, role: str = "", first: int = 0) -> Response:
        run = self.watched(name)
        with run.held:
            calls = calls_of(run.state, role, first)
        return self.pages.answer("calls", run=name, calls=calls)

    def call(self, name: str, call: str, part: bool = False) -> Response:
        run = self.watched(name)
        with run.held:
            shown = or_404(opened(run, call), "this run has no such call")
        return self.pages.answer("call", part=part, run=name, opened=shown)

    def file(self, name: str, path: str) -> Response:
        run = self.watched(name)
        try:
            file = open_within(run.folder, path)
        except RefusedError as error:
            raise HTTPException(404, str(error)) from None
        size, ending = os.fstat(file).st_size, Path(path).suffix.lower()
        kind = SHOWN_AS.get(ending, "text/plain; charset=utf-8" if ending in AS_TEXT else "application/octet-stream")
        headers = {"content-length": str(min(size, LARGEST)), "content-security-policy": "default-src 'none'; sandbox"}
        if kind == "application/pdf":  # a viewer within the browser needs its own scripts
            headers |= {"content-security-policy": "frame-ancestors 'none'"}
        if kind == "application/octet-stream":
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(Path(path).name, safe='')}"
        return StreamingResponse(blocks(file, LARGEST), media_type=kind, headers=headers)

    def static(self, stamp: str, name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "there is no such file")
        return Response(
            self.static_files[name],
            media_type=STATIC[name],
            headers={"cache-control": "private, max-age=86400, immutable"},
        )

    # --- steering ---------------------------------------------------------------------------------------------------

    async def steer(self, name: str, request: Request) -> Response:
        """Ask something of a run; answers what became of it, alone or as a page that leads back to that of the form."""
        run = await asyncio.to_thread(self.watched, name)
        fields = fields_of(await request.body())
        if not secrets.compare_digest(fields.get("form", "").encode(), self.form_token.encode()):
            raise HTTPException(403, "this form is from an earlier server: reload the page")
        command = command_of(fields)
        notice = await asyncio.to_thread(ask, run, command)
        about_node = command.verb in OF_NODES and command.target in run.state.nodes
        back = _address(name) + (f"/nodes/{command.target}" if about_node else "")
        answer = self.pages.answer("notice", part="part" in fields, run=name, notice=notice, back=back)
        answer.status_code = 200 if notice.taken else 409
        return answer

    # --- streams ----------------------------------------------------------------------------------------------------

    async def home_live(self) -> Response:
        return self.stream(self.lines, {}, every=1.0)

    async def run_live(self, name: str, v: int = -1) -> Response:
        pieces = await asyncio.to_thread(self.pieces_of, name)
        version, found = await asyncio.to_thread(pieces.now)
        return self.stream(pieces.now, found if version == v else {}, every=EVERY)

    def stream(self, look: Look, known: Mapping[str, Piece], *, every: float) -> Response:
        """Server-sent events until the browser leaves: pieces that differ from `known`, which the browser has."""
        if self.open_streams >= MOST:
            raise HTTPException(503, f"{MOST} pages are being kept up to date already: close one")
        return StreamingResponse(self._updates(look, known, every), media_type="text/event-stream")

    async def _updates(self, look: Look, known: Mapping[str, Piece], every: float) -> AsyncGenerator[str]:
        self.open_streams += 1
        try:
            yield ": here\n\n"
            spoke = time.monotonic()
            while True:
                version, found = await asyncio.to_thread(look)
                text = update(known, found, version) if found is not known else None
                known = found
                if text is not None or time.monotonic() - spoke > BEAT:
                    yield f"data: {text}\n\n" if text is not None else ": alive\n\n"
                    spoke = time.monotonic()
                await asyncio.sleep(every)
        finally:
            self.open_streams -= 1

    # --- what they are made of --------------------------------------------------------------------------------------

    def watched(self, name: str) -> Watched:
        return or_404(self.runs.run(name), "there is no such run here")

    def pieces_of(self, name: str) -> RunPieces:
        run = self.watched(name)
        return kept(self.pieces, run, lambda: RunPieces(run, self.pages), most=FOLDED)

    def every_line(self) -> list[RunLine]:
        return [line for name in self.runs.names() if (line := self.runs.line(name)) is not None]

    def line_piece(self, line: RunLine) -> Piece:
        return Piece(f"run-{line.name}", "runs", self.pages.piece("pieces", "run", line))

    def lines(self) -> tuple[int, dict[str, Piece]]:
        """The runs as pieces of the list; the version means nothing."""
        return 0, {piece.id: piece for piece in map(self.line_piece, self.every_line())}


def _last(value: float | None) -> float:
    return -inf if value is None else value


def _address(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"
