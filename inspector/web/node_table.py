"""Table of all nodes of a run, filtered and sorted, for the page and as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from labwright.inspector.safe_text import to_plain
from labwright.inspector.tree import NodeRow
from labwright.inspector.web.run_cache import CachedRun
from labwright.record.schema import FrozenModel
from labwright.record.schema.nodes import KIND_NAMES, STAGES
from labwright.record.table import Table

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
    every = [row for stage in tree.stages for row in stage.nodes]
    words = query.q.lower().split()
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
        (*sorted(have, key=lambda row: _make_sort_key(row, sort), reverse=query.down), *rest),
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


def _make_sort_key(row: NodeRow, column: str) -> tuple[float, str]:
    """Return a sort key: nodes in order of decisions, stages as they follow each other, text without case."""
    value = {"node": row.decision, "stage": STAGES.index(row.stage)}.get(column, _read_values(row)[column])
    return (value, "") if isinstance(value, int | float) else (0.0, str(value).lower())
