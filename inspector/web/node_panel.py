"""What a node's panel shows: from the record, and from files that its attempts sealed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pydantic import ValidationError

from labwright.inspector.files import Listed, bytes_of, listed, text_of
from labwright.inspector.web.calls import Call, call_of
from labwright.inspector.web.forms import Actions, actions
from labwright.inspector.web.plots import Chart, charts
from labwright.inspector.web.watched import Watched
from labwright.record.cells import CellCounts, CellStatus, cells_of, counts_of
from labwright.record.nouns.data import DataPlan, Measurement
from labwright.record.nouns.nodes import Attempt, Node
from labwright.record.repository_source import CODE, ArmCode
from labwright.record.source import file_of

CURVES: Final = 8 * 2**20
"""Bytes of curves that are read."""


class SourceFile(NamedTuple):
    """A file of a node's code, and how it differs from that of the same name in its parent; None: no parent has it.

    `diff` has lines with their kinds: add, removed, same or place; `patch` those of a file that is a patch itself.
    """

    name: str
    text: str
    diff: tuple[tuple[str, str], ...] | None
    patch: tuple[tuple[str, str], ...] = ()


class Try(NamedTuple):
    """An attempt with its output and curves."""

    attempt: Attempt
    output: str
    charts: tuple[Chart, ...]


class Shown(NamedTuple):
    """A measurement in a table: whether it is the best of its metric and level, and what it is less others.

    `parent`: less the same of the node's parent; `baseline`: less the baseline's at the same level.
    """

    of: Measurement
    best: bool = False
    parent: float | None = None
    baseline: float | None = None


class Grid(NamedTuple):
    """Final values of one dataset and split: a row a condition, a column a metric."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shown | None, ...]], ...]


class CellRow(NamedTuple):
    """A cell that the node owes. `value`: the primary metric where it was measured."""

    found: CellStatus
    value: float | None


class NodePanel(NamedTuple):
    """Everything about one node that is not in the node itself."""

    node: Node
    children: tuple[str, ...]
    sources: tuple[SourceFile, ...]
    grids: tuple[Grid, ...]
    said: tuple[Grid, ...]
    """What the code itself said of train and dev."""
    cells: tuple[CellRow, ...]
    """In the order in which they are owed; empty for a program that does all at once."""
    counts: CellCounts | None
    made: tuple[tuple[str, str], ...]
    """Of a study of a repository, arm by arm, the words that make it."""
    metric: str
    """The primary one's name."""
    tests: tuple[Grid, ...]
    tries: tuple[Try, ...]
    calls: tuple[Call, ...]
    files: tuple[Listed, ...]
    actions: Actions


def panel_of(run: Watched, name: str) -> NodePanel | None:
    """The panel of a node; None where the run has no such node."""
    node = run.state.nodes.get(name)
    if node is None:
        return None
    cells, plan, tests = cells_of(run.state, name), run.state.data_plan, run.state.tests
    before = run.state.nodes.get(node.parent or "")
    return NodePanel(
        node=node,
        children=tuple(one.id for one in run.state.nodes.values() if one.parent == name),
        sources=tuple(sources_of(run, node, node.parent)),
        grids=grids(node.measurements, before.measurements if before else (), plan),
        said=grids(node.attempts[-1].said if node.attempts else ()),
        cells=tuple(CellRow(one, _primary(one, plan)) for one in cells),
        counts=counts_of(cells),
        made=tuple(_made(run, node)),
        metric=plan.primary.name if plan is not None else "",
        tests=grids(tests.get(name, ()), tests.get(node.parent or "", ()), plan),
        tries=tuple(_tries(run, node)),
        calls=tuple(
            call_of(run.state, answer) for key, answer in run.state.answers.items() if key.decision == node.decision
        ),
        files=listed(run.folder, f"nodes/{name}"),
        actions=actions(run, name),
    )


def _primary(cell: CellStatus, plan: DataPlan | None) -> float | None:
    values = cell.run.measurements if cell.run is not None and cell.outcome != "failed" else ()
    return next((one.value for one in values if plan is not None and one.name == plan.primary.name), None)


_KINDS: Final = {"+": "add", "-": "removed", "@": "place"}


def sources_of(run: Watched, node: Node, other: str | None) -> Iterator[SourceFile]:
    """The files of its code, against those of another node; of a repository the patches first, and not what the panel
    has as words."""
    root = f"nodes/{node.id}/source/"
    paths = [one.path for one in listed(run.folder, root)]
    ours = f"{root}{CODE}" in paths
    for path in sorted(paths, key=lambda one: not one.endswith(".diff")):
        name, text = path.removeprefix(root), text_of(run.folder, path) or ""
        if ours and name.startswith("arms/") and name.endswith(".json"):
            continue
        before = text_of(run.folder, f"nodes/{other}/source/{name}") if other else None
        lines = difflib.unified_diff((before or "").splitlines(), text.splitlines(), lineterm="", n=3)
        yield SourceFile(
            name,
            text,
            None
            if before is None
            else tuple((_KINDS.get(line[:1], "same"), line) for number, line in enumerate(lines) if number > 1),
            tuple(map(_of_patch, text.splitlines())) if name.endswith(".diff") else (),
        )


def _of_patch(line: str) -> tuple[str, str]:
    head = line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file"))
    return "place" if head else _KINDS.get(line[:1], "same"), line


def _made(run: Watched, node: Node) -> Iterator[tuple[str, str]]:
    root = f"nodes/{node.id}/source/"
    plan = run.state.data_plan
    for name in (*(arm.name for arm in plan.arms), *node.arms) if plan is not None else ():
        if (text := text_of(run.folder, root + file_of(name, ".json"))) is not None:
            with suppress(ValidationError):
                yield name, " ".join(ArmCode.model_validate_json(text).words)


def grids(
    values: Sequence[Measurement], before: Sequence[Measurement] = (), plan: DataPlan | None = None
) -> tuple[Grid, ...]:
    """Measurements as tables, in the order in which they were made; `before` are those of the node's parent.

    Nothing is marked or compared of metrics that the plan does not name.
    """
    tables: dict[str, dict[str, dict[str, Measurement]]] = {}
    for value in values:
        table = tables.setdefault(f"{value.dataset}, {value.split}", {})
        table.setdefault(value.condition, {})[value.name] = value
    shown = _compared(values, before, plan) if plan is not None else Shown
    found: list[Grid] = []
    for title, rows in tables.items():
        names = sorted(
            dict.fromkeys(name for row in rows.values() for name in row),
            key=lambda name: plan is None or name != plan.primary.name,
        )
        found.append(
            Grid(
                title,
                tuple(names),
                tuple(
                    (condition, tuple(shown(row[name]) if name in row else None for name in names))
                    for condition, row in rows.items()
                ),
            )
        )
    return tuple(found)


def _compared(
    values: Sequence[Measurement], before: Sequence[Measurement], plan: DataPlan
) -> Callable[[Measurement], Shown]:
    higher = {metric.name: metric.higher_is_better for metric in plan.metrics}
    baselines = {arm.name for arm in plan.arms if arm.role == "baseline"}
    earlier = {_place(one): one.value for one in before}
    columns: dict[tuple[str, str, str, str], list[float]] = {}
    base: dict[tuple[str, str, str, str], float] = {}
    for one in values:
        columns.setdefault((one.dataset, one.split, one.name, one.level), []).append(one.value)
        if one.arm in baselines:
            base.setdefault((one.dataset, one.split, one.name, one.level), one.value)

    def shown(one: Measurement) -> Shown:
        column = columns[one.dataset, one.split, one.name, one.level]
        if one.name not in higher:
            return Shown(one)
        best = len({*column}) > 1 and one.value == (max if higher[one.name] else min)(column)
        less = base.get((one.dataset, one.split, one.name, one.level)) if one.arm not in baselines else None
        parent = earlier.get(_place(one))
        return Shown(
            one, best, None if parent is None else one.value - parent, None if less is None else one.value - less
        )

    return shown


def _place(one: Measurement) -> tuple[str, str, str, str]:
    return one.dataset, one.split, one.condition, one.name


def _tries(run: Watched, node: Node) -> Iterator[Try]:
    for attempt in node.attempts:
        place = f"nodes/{node.id}/attempt{attempt.number}"
        output = text_of(run.folder, f"{place}/stdout.txt", end=True)
        log = bytes_of(run.folder, f"{place}/measurements.jsonl", CURVES) if attempt.curves_sha256 else None
        yield Try(attempt, attempt.stdout_tail if output is None else output, charts({"": (log or b"").splitlines()}))
