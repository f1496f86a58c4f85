"""Comparisons of two to six nodes or runs: facts, measurements with differences, curves, code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from labwright.inspector.headline import build_headline
from labwright.inspector.run_files import read_curve_lines
from labwright.inspector.web.charts import Chart, build_chart, build_charts
from labwright.inspector.web.node_panel import MAX_CURVES_BYTES, SourceFile, read_sources
from labwright.inspector.web.run_cache import CachedRun, RunListEntry
from labwright.inspector.web.run_chart import compute_best_so_far
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Node

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
        tuple(_best_so_far_charts(runs)),
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


def _best_so_far_charts(runs: Sequence[CachedRun]) -> list[Chart]:
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
