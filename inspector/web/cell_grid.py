"""Grid of cells: one row per node, one column per condition and dataset, with the outcomes of the cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import fmean
from typing import Final, NamedTuple

from labwright.inspector.web.run_cache import CachedRun
from labwright.record.cell_status import CellStatus, CellStatusKind
from labwright.record.schema.data_plan import DataPlan, parse_arm, parse_level

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
