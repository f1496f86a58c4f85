"""The tables of the page: a grid of cells, and all nodes of a run filtered and sorted, which is also a CSV file.

The grid has one row per node and one column per condition and dataset, with the outcomes of the cells.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from labwright.inspector.safe_text import to_plain
from labwright.inspector.tree import NodeRow
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.cell_status import CellStatus, CellStatusKind, compute_all_cells
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import KIND_NAMES, STAGES
from labwright.record.table import Table

# --- grid of cells ----------------------------------------------------------------------------------------------------

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
    """Nodes with cells, starting at `first` of `total`: those with conditions of the plan before those of other arms,
    then newest first. `counts` cover all nodes."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str, tuple[GridPlace | None, ...]], ...]
    """Node, its kind, and its grid places."""
    first: int
    total: int
    counts: tuple[tuple[CellStatusKind, int], ...]
    metric: str


def build_grid(run: CachedRun, first: int) -> CellGrid:
    """Build the grid of a run in its current state."""
    cells, plan = compute_all_cells(run.state), run.state.search.data_plan
    planned = [(use.name, one) for use in plan.datasets for one in plan.conditions] if plan is not None else []
    ranks = {place: rank for rank, place in enumerate(planned)}
    names = [*cells][::-1]
    names.sort(key=lambda name: ranks.keys().isdisjoint(_group_by_place(cells[name])))
    first = max(0, min(first, len(names) - 1)) // NODES_PER_PAGE * NODES_PER_PAGE
    shown = {name: _group_by_place(cells[name]) for name in names[first : first + NODES_PER_PAGE]}
    places = {place for row in shown.values() for place in row}
    columns = tuple(sorted(places, key=lambda place: (ranks.get(place, len(ranks)), place)))
    counts = Counter(one.outcome for those in cells.values() for one in those)
    primary = plan.primary_metric.name if plan is not None else ""
    rows = (
        (name, run.state.nodes[name].kind, tuple(_summarize_cells(row.get(one, ()), primary) for one in columns))
        for name, row in shown.items()
    )
    return CellGrid(
        columns,
        tuple(rows),
        first,
        len(names),
        tuple((one, counts[one]) for one in OUTCOME_SIGNS if counts[one]),
        (plan.primary_metric.title or primary) if plan is not None else "",
    )


def _group_by_place(cells: tuple[CellStatus, ...]) -> dict[tuple[str, str], list[CellStatus]]:
    found = defaultdict[tuple[str, str], list[CellStatus]](list)
    for one in cells:
        found[one.cell.dataset, one.cell.condition].append(one)
    return found


def _summarize_cells(cells: Sequence[CellStatus], primary: str) -> GridPlace | None:
    if not cells:
        return None
    values = [value for one in cells if (value := one.find_value(primary)) is not None]
    counts = Counter(one.outcome for one in cells)
    whys = "; ".join(dict.fromkeys(one.why for one in cells if one.why))
    done = counts["measured"] + counts["taken over"]
    words = ", ".join(f"{counts[one]} {one}" for one in OUTCOME_SIGNS if counts[one]) + (f": {whys}" if whys else "")
    outcome: CellStatusKind = next(one for one in OUTCOMES_WORST_FIRST if counts[one])
    return GridPlace(outcome, done, len(cells), fmean(values) if values else None, words)


# --- table of nodes ---------------------------------------------------------------------------------------------------

MAX_ROWS: Final = 2000
"""Maximum rows of a page; the CSV has all."""
COLUMNS: Final = ("node", "stage", "kind", "status", "metric", "seed", "seconds", "title")
CellValue = str | float | None


class TableQuery(FrozenModel):
    """Query of the table, as in its address: words that must all occur, the requested stage and status, and the
    order. With `csv`, the table is requested as a file.
    """

    q: str = ""
    stage: str = ""
    status: str = ""
    sort: str = "node"
    down: bool = False
    csv: bool = False


class NodeTable(NamedTuple):
    """Matching nodes in order, of `total`. `choices` has the values to filter by."""

    query: TableQuery
    titles: Mapping[str, str]
    rows: tuple[NodeRow, ...]
    total: int
    choices: Mapping[str, tuple[str, ...]]

    def to_csv(self) -> str:
        """Format the matching nodes as CSV; untrusted text cannot start a spreadsheet formula."""
        values = map(_read_values, self.rows)
        return Table.of(map(to_plain, self.titles.values()), [[*one.values()] for one in values]).to_csv()


def build_table(run: CachedRun, query: TableQuery) -> NodeTable:
    """Build the table of a run in its current state. An unknown column to sort by is replaced by the node."""
    tree = run.build_tree()
    every, words = [row for stage in tree.stages for row in stage.nodes], query.q.lower().split()
    found = [
        row
        for row in every
        if query.stage in ("", row.stage)
        and query.status in ("", row.status)
        and all(word in _read_text(row) for word in words)
    ]
    sort = query.sort if query.sort in COLUMNS else "node"
    have = [row for row in found if _read_values(row)[sort] not in (None, "")]
    rest = [row for row in found if _read_values(row)[sort] in (None, "")]
    return NodeTable(
        query.model_copy(update={"sort": sort}),
        {name: name for name in COLUMNS} | ({"metric": tree.metric.title} if tree.metric else {}),
        (*sorted(have, key=lambda row: _make_row_key(row, sort), reverse=query.down), *rest),
        len(every),
        {name: tuple(dict.fromkeys(getattr(row, name) for row in every)) for name in ("stage", "status")},
    )


def _read_values(row: NodeRow) -> dict[str, CellValue]:
    values = (
        row.id,
        row.stage,
        KIND_NAMES[row.kind],
        row.status,
        row.metric,
        row.seed,
        round(row.seconds, 3),
        to_plain(row.title),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _read_text(row: NodeRow) -> str:
    """Return the text of a node to search: its values, the change it makes and its failure."""
    values = (one for one in _read_values(row).values() if isinstance(one, str))
    return " ".join((*values, row.varies, row.failure or "", row.why, *row.suspect)).lower()


def _make_row_key(row: NodeRow, column: str) -> tuple[float, str]:
    """Return a sort key: nodes in order of decisions, stages as they follow each other, text without case."""
    value = {"node": row.decision, "stage": STAGES.index(row.stage)}.get(column, _read_values(row)[column])
    return (value, "") if isinstance(value, int | float) else (0.0, str(value).lower())
