"""Table of all nodes with filters, sorting and columns, available as CSV too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from labwright.inspector.safe_text import to_plain
from labwright.inspector.tree import NodeRow
from labwright.inspector.web.charts import baseline_gap
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.cell_status import CellStatus, CellStatusKind
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level
from labwright.record.schema.nodes import KIND_NAMES
from labwright.record.table import Table

MAX_ROWS: Final = 2000
"""Maximum rows of a page; the CSV has all."""
CellValue = str | float | None
COLUMN_TITLES: Final = {
    name: name
    for name in "node stage kind state parent metric gap cells seconds usd tokens attempts seed error what why".split()
} | {"gap": "method - baseline", "usd": "USD", "what": "change", "why": "error message"}
DEFAULT_COLUMNS: Final = tuple(name for name in COLUMN_TITLES if name not in ("tokens", "attempts", "seed", "why"))
TEXT_COLUMNS: Final = frozenset({"node", "stage", "kind", "state", "parent", "cells", "error", "what", "why"})
"""Columns that are not numeric."""


class TableQuery(FrozenModel):
    """Query of the table, as in its address: search words that must all occur, requested values, order, columns.

    With `part`, the table is wanted without the page around it.
    """

    q: str = ""
    stage: str = ""
    kind: str = ""
    state: str = ""
    sort: str = "node"
    down: bool = False
    show: tuple[str, ...] = ()
    part: bool = False


class TableLine(NamedTuple):
    """A node in the table. `text` is searched and includes conditions and errors."""

    row: NodeRow
    values: Mapping[str, CellValue]
    text: str


class NodeTable(NamedTuple):
    """Matching lines in order, of `total`; `titles` has all columns, `shown` the chosen ones."""

    query: TableQuery
    titles: Mapping[str, str]
    shown: tuple[str, ...]
    lines: tuple[TableLine, ...]
    total: int
    choices: Mapping[str, tuple[str, ...]]


def build_table(run: CachedRun, query: TableQuery) -> NodeTable:
    """Build the table of a run in its current state."""
    tree, state = run.build_tree(), run.state
    every = [_build_line(state, row) for stage in tree.stages for row in stage.nodes]
    conditions = dict.fromkeys(name for line in every for name in line.values if name not in COLUMN_TITLES)
    titles = (
        COLUMN_TITLES | {"metric": tree.metric.title if tree.metric else "metric"} | {name: name for name in conditions}
    )
    words = query.q.lower().split()
    wanted = {"stage": query.stage, "kind": query.kind, "state": query.state}
    lines = [
        line
        for line in every
        if all(word in line.text for word in words)
        and all(not value or line.values[name] == value for name, value in wanted.items())
    ]
    sort = query.sort if query.sort in titles else "node"
    choices = {name: tuple(dict.fromkeys(str(line.values[name]) for line in every)) for name in wanted}
    return NodeTable(
        query.model_copy(update={"sort": sort}),
        titles,
        tuple(one for one in query.show if one in titles) or DEFAULT_COLUMNS,
        tuple(sort_lines(lines, sort, down=query.down)),
        len(every),
        choices,
    )


def sort_lines(lines: Sequence[TableLine], column: str, *, down: bool) -> list[TableLine]:
    """Sort lines by a column; lines without a value always come last."""
    have = [line for line in lines if line.values.get(column) not in (None, "")]
    rest = [line for line in lines if line.values.get(column) in (None, "")]
    return [*sorted(have, key=lambda line: _sort_key(line.values[column]), reverse=down), *rest]


def _sort_key(value: CellValue) -> tuple[float, str]:
    return (value, "") if isinstance(value, int | float) else (0.0, str(value).lower())


def _build_line(state: RunState, row: NodeRow) -> TableLine:
    node = state.nodes[row.id]
    calls = state.calls.settled_costs.get(row.decision)
    values: dict[str, CellValue] = {
        "node": row.id,
        "stage": row.stage,
        "kind": KIND_NAMES[row.kind],
        "state": row.status,
        "parent": row.parent or "",
        "metric": row.metric,
        "gap": baseline_gap(state, row.id)[1],
        "seconds": round(row.seconds, 3),
        "cells": f"{row.cells.done_count}/{row.cells.owed}" if row.cells else "",
        "usd": calls.usd if calls else 0.0,
        "tokens": calls.tokens if calls else 0,
        "attempts": row.attempts,
        "seed": row.seed,
        "error": row.failure or "",
        "what": to_plain(row.varies or row.title),
        "why": to_plain(row.why),
    }
    primary = state.search.data_plan.primary_metric.name if state.search.data_plan is not None else ""
    named = {
        f"{one.condition} on {one.dataset}": one.value
        for one in node.measurements
        if one.name == primary and one.split == "validation"
    }
    text = " ".join(
        (*(str(values[name]) for name in COLUMN_TITLES if name in TEXT_COLUMNS), row.title, *row.suspect, *named)
    )
    return TableLine(row, {**named, **values}, text.lower())


def table_to_csv(table: NodeTable) -> str:
    """Format all columns as CSV for spreadsheets; untrusted text cannot start a formula."""
    rows = [[line.values.get(name) for name in table.titles] for line in table.lines]
    plain = [[to_plain(value) if isinstance(value, str) else value for value in row] for row in rows]
    return Table.of(map(to_plain, table.titles.values()), plain).to_csv()


def parse_node_names(values: Iterable[str]) -> tuple[str, ...]:
    """Parse node ids from an address, repeated or comma-separated, without duplicates."""
    return tuple(dict.fromkeys(name for value in values for name in value.split(",") if name))


# Grid of cells: one row per node, one column per condition and dataset, with the outcomes of the cells.

NODES_PER_PAGE: Final = 100
"""Nodes per page."""
OUTCOMES_WORST_FIRST: Final[tuple[CellStatusKind, ...]] = ("failed", "left out", "waiting", "measured", "taken over")
"""Outcomes by precedence: a grid place shows the first of these that any of its cells has."""
OUTCOME_SIGNS: Final[dict[CellStatusKind, str]] = {
    "measured": "✓",
    "taken over": "↷",
    "failed": "✗",
    "left out": "−",
    "waiting": "·",
}


class GridPlace(NamedTuple):
    """Cells of a node for one condition, over trials and seeds: the mean value and a description."""

    outcome: CellStatusKind
    done: int
    required: int
    mean: float | None
    description: str


class CellGrid(NamedTuple):
    """Nodes with cells, newest first, starting at `first` of `total`. `counts` cover all nodes."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str, tuple[GridPlace | None, ...]], ...]
    """Node, its kind, and its grid places."""
    first: int
    total: int
    counts: tuple[tuple[CellStatusKind, int], ...]
    metric: str


def build_grid(run: CachedRun, first: int) -> CellGrid:
    """Build the grid of a run in its current state."""
    cells, plan = run.read_cells(), run.state.search.data_plan
    names = [*cells][::-1]
    first = max(0, min(first, len(names) - 1)) // NODES_PER_PAGE * NODES_PER_PAGE
    shown = {name: _group_by_place(cells[name]) for name in names[first : first + NODES_PER_PAGE]}
    columns = tuple(sorted({place for row in shown.values() for place in row}, key=_make_sort_key(plan)))
    counts = Counter(one.outcome for those in cells.values() for one in those)
    primary = plan.primary_metric.name if plan is not None else ""
    return CellGrid(
        columns,
        tuple(
            (
                name,
                run.state.nodes[name].kind,
                tuple(_summarize_cells(row[one], primary) if one in row else None for one in columns),
            )
            for name, row in shown.items()
        ),
        first,
        len(names),
        tuple((one, counts[one]) for one in OUTCOME_SIGNS if counts[one]),
        (plan.primary_metric.title or primary) if plan is not None else "",
    )


def _make_sort_key(plan: DataPlan | None) -> Callable[[tuple[str, str]], tuple[object, ...]]:
    """Return a sort key that orders datasets, arms and levels as in the plan, others last."""
    ranks = [
        {one.name: rank for rank, one in enumerate(those)}
        for those in ((plan.datasets, plan.arms, plan.all_levels) if plan is not None else ((), (), ()))
    ]
    return lambda place: (
        *(
            rank.get(part, len(rank))
            for rank, part in zip(ranks, (place[0], parse_arm(place[1]), parse_level(place[1])), strict=True)
        ),
        place,
    )


def _group_by_place(cells: tuple[CellStatus, ...]) -> dict[tuple[str, str], list[CellStatus]]:
    found: dict[tuple[str, str], list[CellStatus]] = {}
    for one in cells:
        found.setdefault((one.cell.dataset, one.cell.condition), []).append(one)
    return found


def _summarize_cells(cells: list[CellStatus], primary: str) -> GridPlace:
    values = [value for one in cells if (value := one.find_value(primary)) is not None]
    counts = Counter(one.outcome for one in cells)
    whys = "; ".join(dict.fromkeys(one.why for one in cells if one.why))
    done = counts["measured"] + counts["taken over"]
    words = ", ".join(f"{counts[one]} {one}" for one in OUTCOME_SIGNS if counts[one]) + (f": {whys}" if whys else "")
    return GridPlace(
        next(one for one in OUTCOMES_WORST_FIRST if counts[one]),
        done,
        len(cells),
        fmean(values) if values else None,
        words,
    )
