"""Routes of the inspector's pages and streams. `inspector.web.server` guards them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from labwright.inspector.diagnosis import list_next_steps, list_waiting
from labwright.inspector.run_files import MAX_FILE_BYTES, PathRefusedError, open_within, read_blocks
from labwright.inspector.status import RemainingEstimate
from labwright.inspector.web.charts import build_run_chart
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
from labwright.inspector.web.run_cache import MAX_RUNS_CACHED, CachedRun, RunCollection, get_or_make
from labwright.inspector.web.tables import MAX_ROWS, OUTCOME_SIGNS, TableQuery, build_grid, build_table
from labwright.record.errors import UsageError
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import STUDY_STAGES

STATIC_TYPES = {"inspector.js": "text/javascript", "inspector.css": "text/css", "icon.svg": "image/svg+xml"}
INLINE_TYPES = {".png": "image/png", ".pdf": "application/pdf"}
"""Files of other types are served as plain text or as downloads."""
TEXT_SUFFIXES = frozenset(
    {".py", ".txt", ".json", ".jsonl", ".yaml", ".md", ".tex", ".bib", ".log", ".sty", ".cls", ".bbl", ".ipynb"}
)
POLL_SECONDS = 0.1
"""Seconds between checks of a run for live updates."""
HEARTBEAT_SECONDS = 15.0
"""Seconds between heartbeats of a stream."""
EstimateRemaining = Callable[[RunState], RemainingEstimate | None]
"""Estimates the remaining cost of a run; supplied by the command that starts the page."""
ReadFragments = Callable[[], tuple[int, dict[str, Fragment]]]


def make_app(place: Path, *, read_only: bool = False, estimate: EstimateRemaining | None = None) -> FastAPI:
    """Create the application for a run or a folder of runs; `estimate` forecasts the rest of a running run."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handlers = Handlers(place, form_token="" if read_only else secrets.token_urlsafe(24), estimate=estimate)
    papers = handlers.papers
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
        f"{run}/now": handlers.now,
        f"{run}/chart": handlers.chart,
        f"{run}/table": handlers.table,
        f"{run}/cells": handlers.cells,
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
    """Request handlers, with cached runs and fragments. Synchronous handlers run in threads.

    A single run is read before the first request. Raises `UsageError` if it is unreadable.
    """

    def __init__(self, place: Path, *, form_token: str, estimate: EstimateRemaining | None = None) -> None:
        self.runs = RunCollection(place)
        self.static_files = {name: (WEB_FOLDER / "static" / name).read_bytes() for name in STATIC_TYPES}
        addresses = {
            Path(name).suffix[1:].replace("svg", "icon"): f"/static/{hashlib.sha256(text).hexdigest()[:12]}/{name}"
            for name, text in self.static_files.items()
        }
        self.pages = PageRenderer(addresses, form_token=form_token, single=self.runs.single)
        self.papers = PaperHandlers(self.get_run, self.pages)
        self.estimate = estimate
        self.form_token = form_token
        self.fragments: dict[CachedRun, RunFragments] = {}
        if self.runs.single and (trouble := self.get_run(*self.runs.find_folders()).trouble):
            raise UsageError(trouble)

    # --- pages ------------------------------------------------------------------------------------------------------

    def home(self) -> Response:
        if self.runs.single:
            return RedirectResponse(_run_address(next(iter(self.runs.find_folders()))), status_code=303)
        _, pieces = self.render_run_list()
        return self.pages.render_response("home", place=str(self.runs.place), pieces=pieces.values())

    def render_error(self, request: Request, error: Exception) -> Response:
        """Render an error as a page for browsers, as a line of text for other clients."""
        status, why = 400, "invalid parameters in this address"
        if isinstance(error, StarletteHTTPException):
            status, why = error.status_code, str(error.detail)
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
        state = pieces.run.state
        title = state.started.idea.title if state.started else name
        if state.started is None and pieces.run.trouble:
            return self.pages.render_view("unreadable", pieces.run, heading=title, why=pieces.run.trouble)
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

    def now(self, name: str) -> Response:
        """Render what a running run does; empty if it is not running."""
        run = self.get_run(name)
        with run.lock:
            state, limit, now = run.state, run.state.time_limit, time.time()
            worked = state.active_seconds + (0.0 if state.is_paused else max(0.0, now - state.last_event_at))
            return self.pages.render_view(
                "now",
                run,
                part=True,
                working=run.process is not None,
                waiting=list_waiting(state, run.process, now),
                next=list_next_steps(state),
                seconds_left=None if limit is None else max(0.0, limit - worked),
                time_limit=limit,
                remaining=self.estimate(state) if self.estimate is not None else None,
            )

    def chart(self, name: str, part: bool = False) -> Response:
        run = self.get_run(name)
        with run.lock:
            shown = build_run_chart(run)
        return self.pages.render_view("chart", run, part=part, live="chart", chart=shown)

    def table(self, name: str, query: Annotated[TableQuery, Query()]) -> Response:
        run = self.get_run(name)
        with run.lock:
            table, metric = build_table(run, query), run.build_tree().metric
        if query.csv:
            headers = {"content-disposition": 'attachment; filename="nodes.csv"'}
            return Response(table.to_csv(), media_type="text/csv; charset=utf-8", headers=headers)
        return self.pages.render_view("table", run, table=table, metric=metric, most=MAX_ROWS)

    def cells(self, name: str, first: int = 0) -> Response:
        run = self.get_run(name)
        with run.lock:
            grid = build_grid(run, first)
        return self.pages.render_view("cells", run, grid=grid, signs=OUTCOME_SIGNS)

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
        other = "text/plain; charset=utf-8" if ending in TEXT_SUFFIXES else "application/octet-stream"
        kind = INLINE_TYPES.get(ending, other)
        # the browser's PDF viewer needs its own scripts
        policy = "frame-ancestors 'none'" if kind == "application/pdf" else "default-src 'none'; sandbox"
        headers = {"content-length": str(min(size, MAX_FILE_BYTES)), "content-security-policy": policy}
        if kind == "application/octet-stream":
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(Path(path).name, safe='')}"
        return StreamingResponse(read_blocks(file, MAX_FILE_BYTES), media_type=kind, headers=headers)

    def static(self, stamp: str, name: str) -> Response:
        if name not in STATIC_TYPES:
            raise HTTPException(404, "file not found")
        headers = {"cache-control": "private, max-age=86400, immutable"}
        return Response(self.static_files[name], media_type=STATIC_TYPES[name], headers=headers)

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
        part = "part" in fields
        back = "" if part else _run_address(name) + (f"/nodes/{command.target}" if about_node else "")
        answer = self.pages.render_view("notice", run, part=part, heading="Sent", notice=notice, back=back)
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

        async def iterate_updates() -> AsyncGenerator[str]:
            yield ": here\n\n"
            before, last_sent = known, time.monotonic()
            while True:
                version, found = await asyncio.to_thread(read_fragments)
                text = encode_update(before, found, version) if found is not before else None
                before = found
                if text is not None or time.monotonic() - last_sent > HEARTBEAT_SECONDS:
                    yield f"data: {text}\n\n" if text is not None else ": alive\n\n"
                    last_sent = time.monotonic()
                await asyncio.sleep(poll_seconds)

        return StreamingResponse(iterate_updates(), media_type="text/event-stream")

    # --- runs and fragments -----------------------------------------------------------------------------------------

    def get_run(self, name: str) -> CachedRun:
        return require_found(self.runs.find_run(name), "run not found")

    def get_fragments(self, name: str) -> RunFragments:
        run = self.get_run(name)
        return get_or_make(self.fragments, run, lambda: RunFragments(run, self.pages), max_entries=MAX_RUNS_CACHED)

    def render_run_list(self) -> tuple[int, dict[str, Fragment]]:
        """Return the runs as pieces of the list, newest first; the version is unused."""
        found = [line for name in self.runs.find_folders() if (line := self.runs.find_entry(name)) is not None]
        pieces = (Fragment(f"run-{one.name}", "runs", self.pages.render_piece("run", one)) for one in found)
        return 0, {piece.id: piece for piece in pieces}


def _run_address(run: str) -> str:
    return f"/runs/{quote(run, safe='')}"
