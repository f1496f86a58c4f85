"""Two to six nodes beside each other, or two to six runs: facts, measurements with differences, curves, code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from labwright.inspector.files import bytes_of
from labwright.inspector.headline import headline_of
from labwright.inspector.web.node_panel import CURVES, SourceFile, sources_of
from labwright.inspector.web.plots import Chart, chart, charts
from labwright.inspector.web.run_chart import best_so_far
from labwright.inspector.web.watched import RunLine, Watched
from labwright.record.fold.state import RunState
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.nodes import Node

MOST: Final = 6
Side = tuple[float, float | None, bool]
"""A value, its difference to that of the first node, whether it is the best of its row."""


class Values(NamedTuple):
    """What one condition came to on one metric, node by node; None where a node did not measure it.

    `main`: of the primary metric.
    """

    condition: str
    metric: str
    sides: tuple[Side | None, ...]
    main: bool = False


class Beside(NamedTuple):
    """Nodes beside each other, the first one as what the others are compared with. `tables` by dataset and split have
    what two of them measured."""

    nodes: tuple[Node, ...]
    tables: tuple[tuple[str, tuple[Values, ...]], ...]
    charts: tuple[Chart, ...]
    code: tuple[tuple[str, tuple[SourceFile, ...]], ...]
    """Node -> its files, with their difference to the first node's."""


def beside(run: Watched, names: Sequence[str]) -> Beside | None:
    """Nodes of a run by their names; None where fewer than two of these are nodes."""
    nodes = tuple(run.state.nodes[name] for name in names if name in run.state.nodes)[:MOST]
    if len(nodes) < 2:
        return None
    curves = {node.id: _curves(run, node) for node in nodes}
    return Beside(
        nodes,
        tuple(_tables(run.state, nodes)),
        charts(curves),
        tuple((node.id, tuple(sources_of(run, node, nodes[0].id))) for node in nodes[1:]),
    )


def _curves(run: Watched, node: Node) -> list[bytes]:
    last = next((one for one in reversed(node.attempts) if one.curves_sha256), None)
    path = f"nodes/{node.id}/attempt{last.number}/measurements.jsonl" if last is not None else ""
    return (bytes_of(run.folder, path, CURVES) or b"").splitlines() if path else []


def _tables(state: RunState, nodes: Sequence[Node]) -> list[tuple[str, tuple[Values, ...]]]:
    found: dict[tuple[str, str], dict[tuple[str, str], dict[str, Measurement]]] = {}
    for node in nodes:
        for one in (*node.measurements, *state.tests.get(node.id, ())):
            table = found.setdefault((one.dataset, one.split), {})
            table.setdefault((one.condition, one.name), {})[node.id] = one
    higher, primary = directions(state), state.data_plan.primary.name if state.data_plan is not None else ""
    return [
        (
            ", ".join(title),
            tuple(
                Values(
                    condition,
                    metric,
                    _sides([row[node.id].value if node.id in row else None for node in nodes], higher.get(metric)),
                    metric == primary,
                )
                for (condition, metric), row in rows.items()
                if len(row) > 1
            ),
        )
        for title, rows in found.items()
        if any(len(row) > 1 for row in rows.values())
    ]


def _sides(values: Sequence[float | None], higher: bool | None) -> tuple[Side | None, ...]:
    there = [value for value in values if value is not None]
    best = None if higher is None or len({*there}) < 2 else (max if higher else min)(there)
    return tuple(
        None if value is None else (value, value - values[0] if n and values[0] is not None else None, value == best)
        for n, value in enumerate(values)
    )


def directions(state: RunState) -> Mapping[str, bool]:
    """Metric of the plan -> whether higher is better; nothing is the best of a metric that is not there."""
    plan = state.data_plan
    return {one.name: one.higher_is_better for one in plan.metrics} if plan is not None else {}


# --- runs -----------------------------------------------------------------------------------------------------------


class RunSide(NamedTuple):
    """A run in a comparison; `settings` are those in which the compared runs differ."""

    line: RunLine
    settings: Mapping[str, str]


class RunsBeside(NamedTuple):
    """Runs beside each other, with the best so far of each over its nodes and over time."""

    sides: tuple[RunSide, ...]
    keys: tuple[str, ...]
    charts: tuple[Chart, ...]


def runs_beside(runs: Sequence[Watched]) -> RunsBeside:
    """Two to six runs."""
    settings = [
        flat(run.state.started.settings if run.state.started else {}) | flat(run.state.overrides) for run in runs
    ]
    keys = tuple(
        key for key in sorted({key for one in settings for key in one}) if len({one.get(key) for one in settings}) > 1
    )
    return RunsBeside(
        tuple(RunSide(RunLine(run, headline_of(run.state)), one) for run, one in zip(runs, settings, strict=True)),
        keys,
        tuple(_best(runs)),
    )


def flat(settings: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Settings by their dotted keys, as text."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found |= flat({str(name): one for name, one in value.items()}, f"{before}{key}.")  # pyright: ignore
        else:
            found[f"{before}{key}"] = str(value)
    return found


def _best(runs: Sequence[Watched]) -> list[Chart]:
    """The best so far over nodes and over minutes, a chart for each metric that the runs select by."""
    found: dict[tuple[str, str], dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for run in runs:
        tree = run.tree()
        rows = sorted((row for stage in tree.stages for row in stage.nodes), key=lambda row: row.decision)
        if tree.metric is None:
            continue
        judged = run.timeline.judged
        for x, at in (
            ("nodes", [*enumerate(rows, 1)]),
            ("minutes worked", [(judged[row.id].seconds / 60, row) for row in rows if row.id in judged]),
        ):
            if points := best_so_far([(float(place), row) for place, row in at], higher=tree.metric.higher_is_better):
                title = f"best {tree.metric.title} of any node so far, on {tree.metric.dataset}, validation"
                found.setdefault((title, x), {})[run.name, ""] = points
    return [chart(title, x, "", curves, steps=True) for (title, x), curves in found.items()]
