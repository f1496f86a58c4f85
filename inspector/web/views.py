"""The views of a run beside its page: chart, table, nodes beside each other, cells, use of time; and runs compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode

from fastapi import HTTPException, Query
from starlette.responses import Response

from labwright.inspector.status import Ahead
from labwright.inspector.timeline import share_used
from labwright.inspector.web.beside import MOST, beside, runs_beside
from labwright.inspector.web.cell_grid import SIGNS, grid_of
from labwright.inspector.web.node_table import MOST as MOST_ROWS
from labwright.inspector.web.node_table import USUAL, Asked, csv_of, names_of, table_of
from labwright.inspector.web.pages import Pages
from labwright.inspector.web.plots import Chart, chart
from labwright.inspector.web.run_chart import Over, run_chart, time_unit
from labwright.inspector.web.watched import Watched
from labwright.inspector.why import Outlook, Slot, slots_of
from labwright.record.fold.state import RunState

Names = Annotated[list[str], Query()]
Foresee = Callable[[RunState], tuple[Ahead | None, Outlook]]
"""What a run is likely to take to its end, and what its slots wait for: known to the search, which starts the page."""


class Now(NamedTuple):
    """What a run that is worked on does; `left` are seconds of its limit, None without one."""

    left: float | None
    limit: float | None
    ahead: Ahead | None
    slots: tuple[Slot, ...]


class RunViews:
    """The handlers of these views. Plain ones run in threads."""

    def __init__(self, watched: Callable[[str], Watched], pages: Pages, foresee: Foresee | None = None) -> None:
        self._watched, self._pages, self._foresee = watched, pages, foresee

    def now(self, name: str) -> Response:
        """A part that the run's page shows while the run goes on; empty when it does not."""
        run = self._watched(name)
        with run.held:
            shown = now_of(run, self._foresee) if run.working else None
        return self._pages.answer("now", run=name, now=shown)

    def chart(self, name: str, over: Over = "nodes", part: bool = False) -> Response:
        run = self._watched(name)
        with run.held:
            shown = run_chart(run, over)
        return self._shown("chart", part, run=name, chart=shown)

    def table(
        self,
        name: str,
        q: str = "",
        stage: str = "",
        kind: str = "",
        state: str = "",
        sort: str = "node",
        down: bool = False,
        show: Names = [],  # noqa: B006 - FastAPI's way
        part: bool = False,
    ) -> Response:
        asked = Asked(q, stage, kind, state, tuple(show), sort, down)
        run = self._watched(name)
        with run.held:
            table = table_of(run, asked)
        kept = [("q", q), ("stage", stage), ("kind", kind), ("state", state), *(("show", one) for one in show)]
        return self._shown(
            "table",
            part,
            run=name,
            table=table,
            most=MOST_ROWS,
            usual=USUAL,
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
        with run.held:
            text = csv_of(table_of(run, Asked(q, stage, kind, state, (), sort, down)))
        return Response(
            text,
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="nodes.csv"'},
        )

    def compare(self, name: str, n: Names = [], part: bool = False) -> Response:  # noqa: B006
        run = self._watched(name)
        with run.held:
            found = beside(run, names_of(n))
        return self._shown("compare", part, run=name, found=found, most=MOST)

    def cells(self, name: str, first: int = 0, part: bool = False) -> Response:
        run = self._watched(name)
        with run.held:
            grid = grid_of(run, first)
        return self._shown("cells", part, run=name, grid=grid, signs=SIGNS)

    def use(self, name: str, part: bool = False) -> Response:
        run = self._watched(name)
        with run.held:
            charts, facts = use_of(run)
        return self._shown("use", part, run=name, charts=charts, facts=facts)

    def _shown(self, view: str, part: bool, **values: Any) -> Response:
        return self._pages.answer(view if part else "view_page", view=view, **values)

    def compare_runs(self, run: Names = []) -> Response:  # noqa: B006
        names = names_of(run)[:MOST]
        if len(names) < 2:
            raise HTTPException(400, "tick two to six runs of the list to compare them")
        runs = [self._watched(name) for name in names]
        with ExitStack() as held:
            for one in sorted(runs, key=lambda one: one.name):  # in one order: two requests never wait in a ring
                held.enter_context(one.held)
            found = runs_beside(runs)
        return self._pages.answer("runs", found=found)


def now_of(run: Watched, foresee: Foresee | None) -> Now:
    """What a run does at this moment."""
    state, limit = run.state, run.state.setting("time_limit")
    worked = state.active_seconds + (0.0 if state.paused else max(0.0, time.time() - state.last_at))
    workers = state.setting("search.num_workers")
    ahead, outlook = (
        foresee(state) if foresee is not None else (None, Outlook(workers=workers if isinstance(workers, int) else 1))
    )
    seconds = float(limit) if isinstance(limit, int | float) else None
    return Now(None if seconds is None else max(0.0, seconds - worked), seconds, ahead, slots_of(state, outlook))


def use_of(run: Watched) -> tuple[list[Chart], dict[str, str]]:
    """What slots, GPUs, memory and money a run used over time; the facts in numbers."""
    timeline, state = run.timeline, run.state
    if not timeline.spans and len(timeline.usd) < 2:
        return [], {}
    until = max(state.active_seconds, 1e-9)
    unit, word = time_unit(until)
    workers = state.setting("search.num_workers")
    slots, host, gpu = (timeline.used(what) for what in ("slots", "host", "gpu"))
    found: list[Chart] = []
    for title, name, steps, of in (
        ("Slots in use", "slots", slots, 1.0),
        ("GPUs in use", "GPUs", slots, 1 / max(state.gpus, 1e-9)),
        ("Memory, most of each experiment together", "GB", host, 1e9),
        ("Memory of GPUs, likewise", "GB", gpu, 1e9),
        ("Paid for model calls", "USD", timeline.usd, 1.0),
        ("Tokens of model calls", "1000", timeline.tokens, 1e3),
    ):
        if any(value for _, value in steps) and (name != "GPUs" or state.gpus):
            points = [(at / unit, value / of) for at, value in (*steps, (until, steps[-1][1]))]
            found.append(chart(title, f"{word} worked", name, {("", ""): points}, zero=True, steps=True))
    share = share_used(slots, until, workers if isinstance(workers, int) else 0)
    facts = {
        "slots": str(workers or "?"),
        "in use, on average": f"{100 * share:.0f} %" if share is not None else "–",
        "most at once": f"{max((value for _, value in slots), default=0):.0f}",
    }
    return found, facts | (
        {"most memory": f"{max(value for _, value in host) / 1e9:.2f} GB"}
        if len(found) > 1 and any(value for _, value in host)
        else {}
    )
