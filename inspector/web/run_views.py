"""Views of a run on separate pages: chart, table, node comparison, cells, resource usage; and comparison of runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import HTTPException, Query
from starlette.responses import Response

from labwright.inspector.cell_text import compute_used_share
from labwright.inspector.diagnosis import NextSteps, SlotState, describe_slots
from labwright.inspector.run_files import read_curve_lines
from labwright.inspector.status import RemainingEstimate
from labwright.inspector.summary import build_headline
from labwright.inspector.web.charts import (
    Chart,
    ChartAxisUnit,
    build_chart,
    build_charts,
    build_run_chart,
    choose_time_unit,
    compute_best_so_far,
)
from labwright.inspector.web.node_panel import MAX_CURVES_BYTES, SourceFile, read_sources
from labwright.inspector.web.node_table import (
    MAX_ROWS,
    OUTCOME_SIGNS,
    TableQuery,
    build_grid,
    build_table,
    parse_node_names,
    table_to_csv,
)
from labwright.inspector.web.page_renderer import PageRenderer
from labwright.inspector.web.run_cache import CachedRun, RunListEntry
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Node

# Comparisons of two to six nodes or runs: facts, measurements with differences, curves, code.

MAX_COMPARED: Final = 6
SideValue = tuple[float, float | None, bool]
"""A value, its difference from the first node's, and whether it is the best of its row."""


class ConditionValues(NamedTuple):
    """Values of one condition and metric, node by node; None if a node did not measure it.

    `is_primary` marks the primary metric.
    """

    condition: str
    metric: str
    sides: tuple[SideValue | None, ...]
    is_primary: bool = False


class NodeComparison(NamedTuple):
    """Compared nodes; the first is the reference. `tables` has, by dataset and split, the values that at least two
    nodes measured.
    """

    nodes: tuple[Node, ...]
    tables: tuple[tuple[str, tuple[ConditionValues, ...]], ...]
    charts: tuple[Chart, ...]
    code: tuple[tuple[str, tuple[SourceFile, ...]], ...]
    """Node -> its files with their diff against the first node's."""


def compare_nodes(run: CachedRun, names: Sequence[str]) -> NodeComparison | None:
    """Compare nodes by id; None if fewer than two exist."""
    nodes = tuple(run.state.nodes[name] for name in names if name in run.state.nodes)[:MAX_COMPARED]
    if len(nodes) < 2:
        return None
    curves = {node.id: _read_curves(run, node) for node in nodes}
    return NodeComparison(
        nodes,
        tuple(_build_tables(run.state, nodes)),
        build_charts(curves),
        tuple((node.id, tuple(read_sources(run, node, nodes[0].id))) for node in nodes[1:]),
    )


def _read_curves(run: CachedRun, node: Node) -> list[bytes]:
    found = (read_curve_lines(run.folder, run.state, node, one, MAX_CURVES_BYTES) for one in reversed(node.attempts))
    return next(filter(None, found), list[bytes]())


def _build_tables(state: RunState, nodes: Sequence[Node]) -> list[tuple[str, tuple[ConditionValues, ...]]]:
    found: dict[tuple[str, str], dict[tuple[str, str], dict[str, Measurement]]] = {}
    for node in nodes:
        for one in (*node.measurements, *state.search.test_measurements.get(node.id, ())):
            table = found.setdefault((one.dataset, one.split), {})
            table.setdefault((one.condition, one.name), {})[node.id] = one
    higher, primary = (
        metric_directions(state),
        state.search.data_plan.primary_metric.name if state.search.data_plan is not None else "",
    )
    return [
        (
            ", ".join(title),
            tuple(
                ConditionValues(
                    condition,
                    metric,
                    _build_sides(
                        [row[node.id].value if node.id in row else None for node in nodes], higher.get(metric)
                    ),
                    metric == primary,
                )
                for (condition, metric), row in rows.items()
                if len(row) > 1
            ),
        )
        for title, rows in found.items()
        if any(len(row) > 1 for row in rows.values())
    ]


def _build_sides(values: Sequence[float | None], higher: bool | None) -> tuple[SideValue | None, ...]:
    there = [value for value in values if value is not None]
    best = None if higher is None or len({*there}) < 2 else (max if higher else min)(there)
    return tuple(
        None if value is None else (value, value - values[0] if n and values[0] is not None else None, value == best)
        for n, value in enumerate(values)
    )


def metric_directions(state: RunState) -> Mapping[str, bool]:
    """Return, for each metric of the plan, whether higher values are better."""
    plan = state.search.data_plan
    return {one.name: one.higher_is_better for one in plan.metrics} if plan is not None else {}


# --- runs -----------------------------------------------------------------------------------------------------------


class RunSide(NamedTuple):
    """One run in a comparison; `settings` are those that differ between the runs."""

    line: RunListEntry
    settings: Mapping[str, str]


class RunsComparison(NamedTuple):
    """Compared runs, with charts of the best value so far over nodes and over time."""

    sides: tuple[RunSide, ...]
    keys: tuple[str, ...]
    charts: tuple[Chart, ...]


def build_runs_comparison(runs: Sequence[CachedRun]) -> RunsComparison:
    """Compare two to six runs."""
    settings = [
        flatten_settings(run.state.started.settings if run.state.started else {})
        | flatten_settings(run.state.overrides)
        for run in runs
    ]
    keys = tuple(
        key for key in sorted({key for one in settings for key in one}) if len({one.get(key) for one in settings}) > 1
    )
    return RunsComparison(
        tuple(
            RunSide(RunListEntry(run, build_headline(run.state)), one) for run, one in zip(runs, settings, strict=True)
        ),
        keys,
        tuple(draw_best_so_far(runs)),
    )


def flatten_settings(settings: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Flatten settings to dotted keys with values as text."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found |= flatten_settings({str(name): one for name, one in value.items()}, f"{before}{key}.")  # pyright: ignore
        else:
            found[f"{before}{key}"] = str(value)
    return found


def draw_best_so_far(runs: Sequence[CachedRun]) -> list[Chart]:
    """Draw the best value so far over nodes and over minutes, for each primary metric of the runs."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for run in runs:
        tree = run.build_tree()
        rows = sorted((row for stage in tree.stages for row in stage.nodes), key=lambda row: row.decision)
        if tree.metric is None:
            continue
        judged = run.timeline.judged
        for x, at in (
            ("nodes", [*enumerate(rows, 1)]),
            ("minutes worked", [(judged[row.id].seconds / 60, row) for row in rows if row.id in judged]),
        ):
            if points := compute_best_so_far(
                [(float(place), row) for place, row in at], higher=tree.metric.higher_is_better
            ):
                title = f"best {tree.metric.title} so far on {tree.metric.dataset}, validation"
                found.setdefault((title, x), {})[run.name, ""] = points
    return [build_chart(title, x, "", curves, steps=True) for (title, x), curves in found.items()]


NodeNames = Annotated[list[str], Query()]
EstimateRemaining = Callable[[RunState], tuple[RemainingEstimate | None, NextSteps]]
"""Estimates the remaining cost of a run and its next steps; supplied by the command that starts the page."""


class CurrentActivity(NamedTuple):
    """Current activity of a running run, its time limit and remaining time in seconds (None: no limit), and the next
    steps."""

    seconds_left: float | None
    time_limit: float | None
    remaining: RemainingEstimate | None
    slots: tuple[SlotState, ...]
    next: tuple[str, ...]


class RunViewHandlers:
    """Request handlers of these views. Synchronous handlers run in threads."""

    def __init__(
        self, get_run: Callable[[str], CachedRun], pages: PageRenderer, estimate: EstimateRemaining | None = None
    ) -> None:
        self._watched, self._pages, self._foresee = get_run, pages, estimate

    def now(self, name: str) -> Response:
        """Render what a running run does; empty if it is not running."""
        run = self._watched(name)
        with run.lock:
            shown = read_current_activity(run, self._foresee) if run.process else None
        return self._pages.render_view("now", run, part=True, now=shown)

    def chart(self, name: str, over: ChartAxisUnit = "nodes", part: bool = False) -> Response:
        run = self._watched(name)
        with run.lock:
            shown = build_run_chart(run, over)
        return self._pages.render_view("chart", run, part=part, live="chart", chart=shown)

    def table(self, name: str, query: Annotated[TableQuery, Query()]) -> Response:
        run = self._watched(name)
        with run.lock:
            table = build_table(run, query)
        kept = query.model_dump(exclude={"sort", "down", "part"}, exclude_defaults=True)
        return self._pages.render_view(
            "table", run, part=query.part, table=table, most=MAX_ROWS, query=urlencode(kept, doseq=True)
        )

    def csv(self, name: str, query: Annotated[TableQuery, Query()]) -> Response:
        run = self._watched(name)
        with run.lock:
            text = table_to_csv(build_table(run, query))
        return Response(
            text,
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="nodes.csv"'},
        )

    def compare(self, name: str, n: NodeNames = [], part: bool = False) -> Response:  # noqa: B006
        run = self._watched(name)
        with run.lock:
            found = compare_nodes(run, parse_node_names(n))
        return self._pages.render_view("compare", run, part=part, heading="Compare", found=found, most=MAX_COMPARED)

    def cells(self, name: str, first: int = 0, part: bool = False) -> Response:
        run = self._watched(name)
        with run.lock:
            grid = build_grid(run, first)
        return self._pages.render_view("cells", run, part=part, grid=grid, signs=OUTCOME_SIGNS)

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
    state, limit = run.state, run.state.time_limit
    worked = state.active_seconds + (0.0 if state.is_paused else max(0.0, time.time() - state.last_event_at))
    workers = state.read_setting("search.num_workers")
    ahead, outlook = (
        foresee(state) if foresee is not None else (None, NextSteps(workers=workers if isinstance(workers, int) else 1))
    )
    left = None if limit is None else max(0.0, limit - worked)
    return CurrentActivity(left, limit, ahead, describe_slots(state, outlook), outlook.actions)


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
