"""Routes of the inspector's pages and streams. `inspector.web.server` guards them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from html import escape
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from labwright.inspector.portfolio import build_portfolio_table
from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, open_within, read_blocks
from labwright.inspector.summary import overall_score
from labwright.inspector.web.fragments import LIVE_VIEWS, Fragment, RunFragments, encode_update, group_by_parent
from labwright.inspector.web.node_panel import build_panel, list_calls, open_call
from labwright.inspector.web.page_renderer import (
    NODE_VERBS,
    WEB_FOLDER,
    PageRenderer,
    parse_command,
    parse_fields,
    require_found,
    send_request,
)
from labwright.inspector.web.paper_pages import PaperHandlers
from labwright.inspector.web.run_cache import MAX_RUNS_CACHED, CachedRun, RunCollection, RunListEntry, get_or_make
from labwright.inspector.web.run_views import EstimateRemaining, RunViewHandlers
from labwright.record.errors import UsageError
from labwright.record.schema.nodes import STUDY_STAGES

STATIC_TYPES = {"inspector.js": "text/javascript", "inspector.css": "text/css", "icon.svg": "image/svg+xml"}
INLINE_TYPES = {".png": "image/png", ".pdf": "application/pdf"}
"""Files of other types are served as plain text or as downloads."""
TEXT_SUFFIXES = frozenset(
    {".py", ".txt", ".json", ".jsonl", ".yaml", ".md", ".tex", ".bib", ".log", ".sty", ".cls", ".bbl", ".ipynb"}
)
MAX_STREAMS = 64
"""Maximum number of pages that receive live updates."""
POLL_SECONDS = 0.1
"""Seconds between checks of a run for live updates."""
HEARTBEAT_SECONDS = 15.0
"""Seconds between heartbeats of a stream."""
SORT_KEYS: Mapping[str, Callable[[RunListEntry], Any]] = {
    "": lambda line: 0,
    "run": lambda line: (line.status.title or line.name).lower(),
    "state": lambda line: line.status.condition,
    "best": lambda line: _sort_last(line.best),
    "difference": lambda line: _sort_last(line.headline.mean_difference if line.headline else None),
    "score": lambda line: _sort_last(overall_score(line.status.judgement)[0] if line.status.judgement else None),
    "nodes": lambda line: line.nodes,
    "cost": lambda line: line.status.cost.usd,
    "time": lambda line: line.status.elapsed,
    "started": lambda line: line.status.started or "",
}
"""Sort keys of the list; if unsorted, the newest run comes first."""
ReadFragments = Callable[[], tuple[int, dict[str, Fragment]]]


def make_app(place: Path, *, read_only: bool = False, estimate: EstimateRemaining | None = None) -> FastAPI:
    """Create the application for a run or a folder of runs; `estimate` forecasts the rest of a running run."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handlers = Handlers(place, form_token="" if read_only else secrets.token_urlsafe(24), foresee=estimate)
    papers, views = handlers.papers, handlers.views
    for kind in (StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(kind, handlers.render_error)
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
        "/compare": views.compare_runs,
        f"{run}/trace": papers.trace,
        f"{run}/paper": papers.paper,
        f"{run}/figures/{{figure}}": papers.figure,
        f"{run}/sheets/{{version}}/{{number}}.png": papers.picture,
        f"{run}/{{view}}": handlers.run,
    }.items():
        app.add_api_route(path, handler, methods=["GET", "HEAD"], response_model=None)
    if not read_only:
        app.add_api_route(f"{run}/steer", handlers.steer, methods=["POST"], response_model=None)
    return app


class Handlers:
    """Request handlers, with cached runs and fragments. Synchronous handlers run in threads."""

    def __init__(self, place: Path, *, form_token: str, foresee: EstimateRemaining | None = None) -> None:
        self.runs = RunCollection(place)
        self.static_files = {name: (WEB_FOLDER / "static" / name).read_bytes() for name in STATIC_TYPES}
        self.pages = PageRenderer(
            {
                Path(name).suffix[1:].replace("svg", "icon"): f"/static/{hashlib.sha256(text).hexdigest()[:12]}/{name}"
                for name, text in self.static_files.items()
            },
            form_token=form_token,
            single=self.runs.single,
        )
        self.papers = PaperHandlers(self.get_run, self.pages)
        self.views = RunViewHandlers(self.get_run, self.pages, foresee)
        self.form_token = form_token
        self.fragments: dict[CachedRun, RunFragments] = {}
        self.open_streams = 0

    # --- pages ------------------------------------------------------------------------------------------------------

    def home(self, sort: str = "", down: bool = False) -> Response:
        if self.runs.single:
            return RedirectResponse(_run_address(self.runs.list_names()[0]), status_code=303)
        lines = sorted(self.list_runs(), key=SORT_KEYS.get(sort, SORT_KEYS[""]), reverse=down)
        return self.pages.render_response(
            "home",
            place=str(self.runs.place),
            sort=sort,
            down=down,
            pieces=[self.render_run_line(line) for line in lines],
            portfolio=_render_portfolio(self.runs.place.parent),
        )

    def render_error(self, request: Request, error: Exception) -> Response:
        """Render an error as a page for browsers, as a line of text for other clients."""
        status, why = (
            (error.status_code, str(error.detail))
            if isinstance(error, StarletteHTTPException)
            else (400, "invalid parameters in this address")
        )
        if "text/html" not in request.headers.get("accept", "") or "part" in request.query_params:
            return PlainTextResponse(why, status)
        answer = self.pages.render_response("fault", why=why, status=status)
        answer.status_code = status
        return answer

    def run(self, name: str, view: str = "overview") -> Response:
        """Show a live view of a run, or why the run cannot be read."""
        if view not in LIVE_VIEWS:
            raise HTTPException(404, "view not found")
        pieces = self.get_fragments(name)
        version, made = pieces.render(view)
        with pieces.run.lock:
            state = pieces.run.state
            title = state.started.idea.title if state.started else name
            blank = pieces.run.trouble if state.started is None else ""
        if blank:
            return self.pages.render_view("unreadable", pieces.run, heading=title, why=blank)
        return self.pages.render_view(
            view if view in ("overview", "tree") else "pieces_of",
            pieces.run,
            heading=title,
            live=view,
            version=version,
            stages=STUDY_STAGES[state.kind],
            into=group_by_parent(made),
            found=made,
        )

    def node(self, name: str, node: str, part: bool = False) -> Response:
        run = self.get_run(name)
        with run.lock:
            panel = require_found(build_panel(run, node), "node not found in this run")
        return self.pages.render_view("node", run, part=part, heading=f"{node}: {panel.node.title}", panel=panel)

    def calls(self, name: str, role: str = "", first: int = 0) -> Response:
        run = self.get_run(name)
        with run.lock:
            calls = list_calls(run.state, role, first)
        return self.pages.render_view("calls", run, calls=calls)

    def call(self, name: str, call: str, part: bool = False) -> Response:
        run = self.get_run(name)
        with run.lock:
            shown = require_found(open_call(run, call), "model call not found in this run")
        return self.pages.render_view("call", run, part=part, heading=f"Call {call}", opened=shown)

    def file(self, name: str, path: str) -> Response:
        run = self.get_run(name)
        try:
            file = open_within(run.folder, path)
        except PathRefusedError as error:
            raise HTTPException(404, str(error)) from None
        size, ending = os.fstat(file).st_size, Path(path).suffix.lower()
        kind = INLINE_TYPES.get(
            ending, "text/plain; charset=utf-8" if ending in TEXT_SUFFIXES else "application/octet-stream"
        )
        headers = {
            "content-length": str(min(size, MAX_FILE_BYTES)),
            "content-security-policy": "default-src 'none'; sandbox",
        }
        if kind == "application/pdf":  # the browser's PDF viewer needs its own scripts
            headers |= {"content-security-policy": "frame-ancestors 'none'"}
        if kind == "application/octet-stream":
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(Path(path).name, safe='')}"
        return StreamingResponse(read_blocks(file, MAX_FILE_BYTES), media_type=kind, headers=headers)

    def static(self, stamp: str, name: str) -> Response:
        if name not in STATIC_TYPES:
            raise HTTPException(404, "file not found")
        return Response(
            self.static_files[name],
            media_type=STATIC_TYPES[name],
            headers={"cache-control": "private, max-age=86400, immutable"},
        )

    # --- actions ----------------------------------------------------------------------------------------------------

    async def steer(self, name: str, request: Request) -> Response:
        """Send a command to a run; answer with a notice, either alone or as a page that links back."""
        run = await asyncio.to_thread(self.get_run, name)
        fields = parse_fields(await request.body())
        if not secrets.compare_digest(fields.get("form", "").encode(), self.form_token.encode()):
            raise HTTPException(403, "session expired: reload the page")
        command = parse_command(fields)
        notice = await asyncio.to_thread(send_request, run, command)
        about_node = command.verb in NODE_VERBS and command.target in run.state.nodes
        back = _run_address(name) + (f"/nodes/{command.target}" if about_node else "")
        part = "part" in fields
        answer = self.pages.render_view(
            "notice", run, part=part, heading="Sent", notice=notice, back="" if part else back
        )
        answer.status_code = 200 if notice.accepted else 409
        return answer

    # --- streams ----------------------------------------------------------------------------------------------------

    async def home_live(self) -> Response:
        return self.stream_updates(self.render_run_list, {}, poll_seconds=1.0)

    async def run_live(self, name: str, view: str = "overview", v: int = -1) -> Response:
        """Stream the changes of a live view since version `v` of the run."""
        pieces = await asyncio.to_thread(self.get_fragments, name)
        render = partial(pieces.render, view)
        version, found = await asyncio.to_thread(render)
        return self.stream_updates(render, found if version == v else {}, poll_seconds=POLL_SECONDS)

    def stream_updates(
        self, read_fragments: ReadFragments, known: Mapping[str, Fragment], *, poll_seconds: float
    ) -> Response:
        """Until the browser disconnects, stream server-sent events with the pieces that differ from `known`, the
        pieces that it already has.
        """
        if self.open_streams >= MAX_STREAMS:
            raise HTTPException(503, f"{MAX_STREAMS} live pages are open: close one")
        return StreamingResponse(
            self._iter_updates(read_fragments, known, poll_seconds), media_type="text/event-stream"
        )

    async def _iter_updates(
        self, look: ReadFragments, known: Mapping[str, Fragment], every: float
    ) -> AsyncGenerator[str]:
        self.open_streams += 1
        try:
            yield ": here\n\n"
            last_sent = time.monotonic()
            while True:
                version, found = await asyncio.to_thread(look)
                text = encode_update(known, found, version) if found is not known else None
                known = found
                if text is not None or time.monotonic() - last_sent > HEARTBEAT_SECONDS:
                    yield f"data: {text}\n\n" if text is not None else ": alive\n\n"
                    last_sent = time.monotonic()
                await asyncio.sleep(every)
        finally:
            self.open_streams -= 1

    # --- runs and fragments -----------------------------------------------------------------------------------------

    def get_run(self, name: str) -> CachedRun:
        return require_found(self.runs.find_run(name), "run not found")

    def get_fragments(self, name: str) -> RunFragments:
        run = self.get_run(name)
        return get_or_make(self.fragments, run, lambda: RunFragments(run, self.pages), max_entries=MAX_RUNS_CACHED)

    def list_runs(self) -> list[RunListEntry]:
        return [line for name in self.runs.list_names() if (line := self.runs.find_entry(name)) is not None]

    def render_run_line(self, line: RunListEntry) -> Fragment:
        return Fragment(f"run-{line.name}", "runs", self.pages.render_macro("pieces", "run", line))

    def render_run_list(self) -> tuple[int, dict[str, Fragment]]:
        """Return the runs as pieces of the list; the version is unused."""
        return 0, {piece.id: piece for piece in map(self.render_run_line, self.list_runs())}


def _sort_last(value: float | None) -> float:
    return -inf if value is None else value


def _render_portfolio(folder: Path) -> str:
    """Render the portfolio of a campaign's folder; empty if there is none."""
    try:
        table = build_portfolio_table(folder)
    except UsageError as error:
        return escape(str(error))
    return table.to_html() if table is not None else ""


def _run_address(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"
