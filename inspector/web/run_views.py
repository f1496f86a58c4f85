"""Views of a run on separate pages: chart, table, node comparison, cells, resource usage; and comparison of runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import HTTPException, Query
from starlette.responses import Response

from labwright.inspector.diagnosis import NextSteps, SlotState, describe_slots
from labwright.inspector.status import RemainingEstimate
from labwright.inspector.timeline import compute_used_share
from labwright.inspector.web.cell_grid import OUTCOME_SIGNS, build_grid
from labwright.inspector.web.charts import Chart, build_chart
from labwright.inspector.web.comparison import MAX_COMPARED, build_runs_comparison, compare_nodes
from labwright.inspector.web.node_table import (
    DEFAULT_COLUMNS,
    MAX_ROWS,
    TableQuery,
    build_table,
    parse_node_names,
    table_to_csv,
)
from labwright.inspector.web.page_renderer import PageRenderer
from labwright.inspector.web.run_cache import CachedRun
from labwright.inspector.web.run_chart import ChartAxisUnit, build_run_chart, choose_time_unit
from labwright.record.reducers.run_state import RunState

NodeNames = Annotated[list[str], Query()]
EstimateRemaining = Callable[[RunState], tuple[RemainingEstimate | None, NextSteps]]
"""Estimates the remaining cost of a run and its next steps; supplied by the command that starts the page."""


class CurrentActivity(NamedTuple):
    """Current activity of a running run; `left` is the remaining time in seconds, None without a limit."""

    seconds_left: float | None
    time_limit: float | None
    remaining: RemainingEstimate | None
    slots: tuple[SlotState, ...]


class RunViewHandlers:
    """Request handlers of these views. Synchronous handlers run in threads."""

    def __init__(
        self, get_run: Callable[[str], CachedRun], pages: PageRenderer, estimate: EstimateRemaining | None = None
    ) -> None:
        self._watched, self._pages, self._foresee = get_run, pages, estimate

    def now(self, name: str) -> Response:
        """Render the part of a run's page that is shown while the run is running; empty otherwise."""
        run = self._watched(name)
        with run.lock:
            shown = read_current_activity(run, self._foresee) if run.is_running else None
        return self._pages.render_response("now", run=name, now=shown)

    def chart(self, name: str, over: ChartAxisUnit = "nodes", part: bool = False) -> Response:
        run = self._watched(name)
        with run.lock:
            shown = build_run_chart(run, over)
        return self._render_view("chart", part, run=name, chart=shown)

    def table(
        self,
        name: str,
        q: str = "",
        stage: str = "",
        kind: str = "",
        state: str = "",
        sort: str = "node",
        down: bool = False,
        show: NodeNames = [],  # noqa: B006 - required by FastAPI
        part: bool = False,
    ) -> Response:
        asked = TableQuery(q, stage, kind, state, tuple(show), sort, down)
        run = self._watched(name)
        with run.lock:
            table = build_table(run, asked)
        kept = [("q", q), ("stage", stage), ("kind", kind), ("state", state), *(("show", one) for one in show)]
        return self._render_view(
            "table",
            part,
            run=name,
            table=table,
            most=MAX_ROWS,
            usual=DEFAULT_COLUMNS,
            query=urlencode([(key, value) for key, value in kept if value]),
        )

    def csv(
        self,
        name: str,
        q: str = "",
        stage: str = "",
        kind: str = "",
        state: str = "",
        sort: str = "node",
        down: bool = False,
    ) -> Response:
        run = self._watched(name)
        with run.lock:
            text = table_to_csv(build_table(run, TableQuery(q, stage, kind, state, (), sort, down)))
        return Response(
            text,
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="nodes.csv"'},
        )

    def compare(self, name: str, n: NodeNames = [], part: bool = False) -> Response:  # noqa: B006
        run = self._watched(name)
        with run.lock:
            found = compare_nodes(run, parse_node_names(n))
        return self._render_view("compare", part, run=name, found=found, most=MAX_COMPARED)

    def cells(self, name: str, first: int = 0, part: bool = False) -> Response:
        run = self._watched(name)
        with run.lock:
            grid = build_grid(run, first)
        return self._render_view("cells", part, run=name, grid=grid, signs=OUTCOME_SIGNS)

    def use(self, name: str, part: bool = False) -> Response:
        run = self._watched(name)
        with run.lock:
            charts, facts = chart_usage(run)
        return self._render_view("use", part, run=name, charts=charts, facts=facts)

    def _render_view(self, view: str, part: bool, **values: Any) -> Response:
        return self._pages.render_response(view if part else "view_page", view=view, **values)

    def compare_runs(self, run: NodeNames = []) -> Response:  # noqa: B006
        names = parse_node_names(run)[:MAX_COMPARED]
        if len(names) < 2:
            raise HTTPException(400, "select 2 to 6 runs to compare")
        runs = [self._watched(name) for name in names]
        with ExitStack() as locks:
            for one in sorted(runs, key=lambda one: one.name):  # a fixed order prevents deadlocks
                locks.enter_context(one.lock)
            found = build_runs_comparison(runs)
        return self._pages.render_response("runs", found=found)


def read_current_activity(run: CachedRun, foresee: EstimateRemaining | None) -> CurrentActivity:
    """Describe what a run is currently doing."""
    state, limit = run.state, run.state.read_setting("time_limit")
    worked = state.active_seconds + (0.0 if state.is_paused else max(0.0, time.time() - state.last_event_at))
    workers = state.read_setting("search.num_workers")
    ahead, outlook = (
        foresee(state) if foresee is not None else (None, NextSteps(workers=workers if isinstance(workers, int) else 1))
    )
    seconds = float(limit) if isinstance(limit, int | float) else None
    return CurrentActivity(
        None if seconds is None else max(0.0, seconds - worked), seconds, ahead, describe_slots(state, outlook)
    )


def chart_usage(run: CachedRun) -> tuple[list[Chart], dict[str, str]]:
    """Chart the slots, GPUs, memory and money used over time, with a summary."""
    timeline, state = run.timeline, run.state
    if not timeline.spans and len(timeline.usd) < 2:
        return [], {}
    until = max(state.active_seconds, 1e-9)
    unit, word = choose_time_unit(until)
    workers = state.read_setting("search.num_workers")
    slots, host, gpu = (timeline.compute_usage(what) for what in ("slots", "host", "gpu"))
    found: list[Chart] = []
    for title, name, steps, of in (
        ("Slots in use", "slots", slots, 1.0),
        ("GPUs in use", "GPUs", slots, 1 / max(state.gpus_per_experiment, 1e-9)),
        ("Memory (sum of peaks)", "GB", host, 1e9),
        ("GPU memory (sum of peaks)", "GB", gpu, 1e9),
        ("Cost of model calls", "USD", timeline.usd, 1.0),
        ("Tokens of model calls", "1000", timeline.tokens, 1e3),
    ):
        if any(value for _, value in steps) and (name != "GPUs" or state.gpus_per_experiment):
            points = [(at / unit, value / of) for at, value in (*steps, (until, steps[-1][1]))]
            found.append(build_chart(title, f"run time ({word})", name, {("", ""): points}, zero=True, steps=True))
    share = compute_used_share(slots, until, workers if isinstance(workers, int) else 0)
    facts = {
        "slots": str(workers or "?"),
        "average use": f"{100 * share:.0f} %" if share is not None else "–",
        "peak use": f"{max((value for _, value in slots), default=0):.0f}",
    }
    return found, facts | (
        {"peak memory": f"{max(value for _, value in host) / 1e9:.2f} GB"}
        if len(found) > 1 and any(value for _, value in host)
        else {}
    )
