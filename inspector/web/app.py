"""The pages and streams of the inspector, by address. `inspector.web.guard` stands before them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from inspector.trace import number_of, trace
from inspector.web.files import LARGEST, RefusedError, blocks, open_within, size_of
from inspector.web.node import panel_of
from inspector.web.pages import HERE, Pages
from inspector.web.pieces import Piece, RunPieces, by_parent, changed
from inspector.web.watched import POLL, Runs, Watched
from record.folder import RunFolder
from record.nouns import STAGES

STATIC = {"inspector.js": "text/javascript", "inspector.css": "text/css", "icon.svg": "image/svg+xml"}
SHOWN_AS = {".png": "image/png", ".pdf": "application/pdf"}
"""Everything else of a run is handed out as plain text, or to be saved."""
AS_TEXT = frozenset({".py", ".txt", ".json", ".jsonl", ".yaml", ".md", ".tex", ".bib", ".log", ".sty", ".cls", ".bbl"})
STREAMS = 64
BEAT = 15.0
"""Seconds after which a stream says that it is alive."""

Look = Callable[[], tuple[int, dict[str, Piece]]]


def make_app(place: Path) -> FastAPI:
    """The application over a run, or over a folder of runs."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    room = _Room(place)
    for path, handler in {
        "/": room.home, "/live": room.home_live, "/static/{stamp}/{name}": room.static, "/runs/{name}": room.run,
        "/runs/{name}/live": room.run_live, "/runs/{name}/nodes/{node}": room.node,
        "/runs/{name}/files/{path:path}": room.file, "/runs/{name}/trace": room.trace,
    }.items():
        app.add_api_route(path, handler, methods=["GET", "HEAD"], response_model=None)
    return app


class _Room:
    """The handlers, with the runs and what was made of them. Plain ones run in threads."""

    def __init__(self, place: Path) -> None:
        self.runs = Runs(place)
        self.static_files = {name: (HERE / "static" / name).read_bytes() for name in STATIC}
        addresses = {name: f"/static/{hashlib.sha256(text).hexdigest()[:12]}/{name}"
                     for name, text in self.static_files.items()}
        self.pages = Pages({"js": addresses["inspector.js"], "css": addresses["inspector.css"],
                            "icon": addresses["icon.svg"]})
        self.pieces: dict[str, RunPieces] = {}
        self.streams = 0

    # --- pages ------------------------------------------------------------------------------------------------------

    def home(self) -> Response:
        if self.runs.single:
            return RedirectResponse(f"/runs/{quote(self.runs.names()[0], safe='')}", status_code=303)
        pieces = self.lines()
        return HTMLResponse(self.pages.page("home", place=str(self.runs.place), pieces=list(pieces.values())))

    def run(self, name: str) -> Response:
        pieces = self.pieces_of(name)
        version, found = pieces.now()
        with pieces.run.held:
            state = pieces.run.state
            title = state.started.idea.title if state.started else name
        return HTMLResponse(self.pages.page(
            "run", run=name, title=title, version=version, stages=STAGES, into=by_parent(found), found=found,
            single=self.runs.single, panel=None))

    def node(self, name: str, node: str, part: bool = False) -> Response:
        run = self.watched(name)
        with run.held:
            panel = panel_of(run, node)
        if panel is None:
            raise HTTPException(404, "this run has no such node")
        page = "node" if part else "node_page"
        return HTMLResponse(self.pages.page(page, run=name, panel=panel, single=self.runs.single))

    def trace(self, name: str, number: str = "", part: bool = False) -> Response:
        run = self.watched(name)
        asked = number_of(number)
        with run.held:
            ready = asked is not None and run.state.data_plan is not None
            found = trace(run.state, RunFolder(run.folder, run.state.version), asked or "",
                          run=shlex.quote(str(run.folder))) if ready else None
        return HTMLResponse(self.pages.page("trace" if part else "trace_page", run=name, asked=number, found=found,
                                            single=self.runs.single))

    def file(self, name: str, path: str) -> Response:
        run = self.watched(name)
        try:
            opened = open_within(run.folder, path)
        except RefusedError as error:
            raise HTTPException(404, str(error)) from None
        size, ending = size_of(opened), Path(path).suffix.lower()
        otherwise = "text/plain; charset=utf-8" if ending in AS_TEXT else "application/octet-stream"
        kind = SHOWN_AS.get(ending, otherwise)
        headers = {"content-length": str(min(size, LARGEST)), "content-security-policy": "default-src 'none'; sandbox"}
        if kind == "application/pdf":  # a viewer within the browser needs its own scripts, and may stand in our page
            headers |= {"content-security-policy": "frame-ancestors 'self'", "x-frame-options": "SAMEORIGIN"}
        if kind == "application/octet-stream":
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(Path(path).name, safe='')}"
        return StreamingResponse(blocks(opened, LARGEST), media_type=kind, headers=headers)

    def static(self, stamp: str, name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "there is no such file")
        return Response(self.static_files[name], media_type=STATIC[name],
                        headers={"cache-control": "private, max-age=86400, immutable"})

    # --- streams ----------------------------------------------------------------------------------------------------

    async def home_live(self) -> Response:
        return self.stream(lambda: (0, self.lines()), {}, every=1.0)

    async def run_live(self, name: str, v: int = -1) -> Response:
        pieces = await asyncio.to_thread(self.pieces_of, name)
        version, found = await asyncio.to_thread(pieces.now)
        return self.stream(pieces.now, found if version == v else {}, every=POLL)

    def stream(self, look: Look, known: Mapping[str, Piece], *, every: float) -> Response:
        if self.streams >= STREAMS:
            raise HTTPException(503, f"{STREAMS} pages are being kept up to date already: close one")
        return StreamingResponse(self.updates(look, known, every), media_type="text/event-stream")

    async def updates(self, look: Look, known: Mapping[str, Piece], every: float) -> AsyncGenerator[str]:
        """Server-sent events: what differs from what the browser has. Ends with the connection."""
        self.streams += 1
        silent = BEAT
        try:
            while True:
                version, found = await asyncio.to_thread(look)
                new = changed(known, found) if found is not known else []
                gone = sorted(known.keys() - found.keys())
                if new or gone:
                    yield f"data: {json.dumps({'version': version, 'pieces': new, 'gone': gone})}\n\n"
                    silent = 0.0
                elif silent >= BEAT:
                    yield ": alive\n\n"
                    silent = 0.0
                known = found
                await asyncio.sleep(every)
                silent += every
        finally:
            self.streams -= 1

    # --- what they are made of --------------------------------------------------------------------------------------

    def watched(self, name: str) -> Watched:
        run = self.runs.run(name)
        if run is None:
            raise HTTPException(404, "there is no such run here (any more)")
        return run

    def pieces_of(self, name: str) -> RunPieces:
        run = self.watched(name)
        known = self.pieces.get(name)
        if known is None or known.run is not run:
            known = self.pieces[name] = RunPieces(run, self.pages)
            for other in self.pieces.keys() - {name}:
                if not self.runs.is_open(other):
                    del self.pieces[other]
        return known

    def lines(self) -> dict[str, Piece]:
        """The runs as pieces of the list."""
        lines = [line for name in self.runs.names() if (line := self.runs.line(name)) is not None]
        return {f"run-{line.name}": Piece(f"run-{line.name}", "runs", self.pages.piece("pieces", "run", line))
                for line in lines}
