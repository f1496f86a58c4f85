"""The table of all nodes: which are shown in which order, with which columns; and the same as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from labwright.inspector.text import plain
from labwright.inspector.tree import Row
from labwright.inspector.web.run_chart import gap_of
from labwright.inspector.web.watched import Watched
from labwright.record.fold.state import RunState

MOST: Final = 2000
"""Rows of a page; the CSV has all."""
Value = str | float | None
TITLES: Final = {
    "node": "node",
    "stage": "stage",
    "kind": "kind",
    "state": "state",
    "parent": "parent",
    "metric": "metric",
    "gap": "method less baseline",
    "cells": "cells",
    "seconds": "seconds",
    "usd": "USD",
    "tokens": "tokens",
    "attempts": "attempts",
    "seed": "seed",
    "error": "error",
    "what": "what it tries",
    "why": "message of the error",
}
USUAL: Final = ("node", "stage", "kind", "state", "parent", "metric", "gap", "cells", "seconds", "usd", "error", "what")
TEXTS: Final = frozenset({"node", "stage", "kind", "state", "parent", "cells", "error", "what", "why"})
"""The columns that are not numbers."""


class Asked(NamedTuple):
    """What is asked of the table: words that each must be found, values that are wanted, columns, order."""

    words: str = ""
    stage: str = ""
    kind: str = ""
    state: str = ""
    columns: tuple[str, ...] = ()
    sort: str = "node"
    down: bool = False


class Line(NamedTuple):
    """A node in the table. `text` is what is searched: conditions and errors too."""

    row: Row
    values: Mapping[str, Value]
    text: str


class Table(NamedTuple):
    """The lines that fit, in order, of `total`; `titles` are of all columns that there are, `shown` those chosen."""

    asked: Asked
    titles: Mapping[str, str]
    shown: tuple[str, ...]
    lines: tuple[Line, ...]
    total: int
    choices: Mapping[str, tuple[str, ...]]


def table_of(run: Watched, asked: Asked) -> Table:
    """The table of a run as it is now."""
    tree, state = run.tree(), run.state
    every = [_line(state, row) for stage in tree.stages for row in stage.nodes]
    conditions = dict.fromkeys(name for line in every for name in line.values if name not in TITLES)
    titles = TITLES | {"metric": tree.metric.title if tree.metric else "metric"} | {name: name for name in conditions}
    words = asked.words.lower().split()
    wanted = {"stage": asked.stage, "kind": asked.kind, "state": asked.state}
    lines = [
        line
        for line in every
        if all(word in line.text for word in words)
        and all(not value or line.values[name] == value for name, value in wanted.items())
    ]
    sort = asked.sort if asked.sort in titles else "node"
    choices = {name: tuple(dict.fromkeys(str(line.values[name]) for line in every)) for name in wanted}
    return Table(
        asked._replace(sort=sort),
        titles,
        tuple(one for one in asked.columns if one in titles) or USUAL,
        tuple(ordered(lines, sort, down=asked.down)),
        len(every),
        choices,
    )


def ordered(lines: Sequence[Line], column: str, *, down: bool) -> list[Line]:
    """Lines by a column; those without a value come last either way."""
    have = [line for line in lines if line.values.get(column) not in (None, "")]
    rest = [line for line in lines if line.values.get(column) in (None, "")]
    return [*sorted(have, key=lambda line: _key(line.values[column]), reverse=down), *rest]


def _key(value: Value) -> tuple[float, str]:
    return (value, "") if isinstance(value, int | float) else (0.0, str(value).lower())


def _line(state: RunState, row: Row) -> Line:
    node = state.nodes[row.id]
    calls = state.settled.get(row.decision)
    values: dict[str, Value] = {
        "node": row.id,
        "stage": row.stage,
        "kind": row.kind,
        "state": row.status,
        "parent": row.parent or "",
        "metric": row.metric,
        "gap": gap_of(state, row.id)[1],
        "seconds": round(row.seconds, 3),
        "cells": f"{row.cells.done}/{row.cells.owed}" if row.cells else "",
        "usd": calls.usd if calls else 0.0,
        "tokens": calls.tokens if calls else 0,
        "attempts": row.attempts,
        "seed": row.seed,
        "error": row.failure or "",
        "what": plain(row.varies or row.title),
        "why": plain(row.why),
    }
    primary = state.data_plan.primary.name if state.data_plan is not None else ""
    named = {
        f"{one.condition} on {one.dataset}": one.value
        for one in node.measurements
        if one.name == primary and one.split == "validation"
    }
    text = " ".join((*(str(values[name]) for name in TITLES if name in TEXTS), row.title, *row.suspect, *named))
    return Line(row, {**named, **values}, text.lower())


def csv_of(table: Table) -> str:
    """The lines of a table with all columns, as a spreadsheet opens them: no text of others begins a formula."""
    file = io.StringIO()
    out = csv.writer(file)
    out.writerow(map(_cell, table.titles.values()))
    out.writerows(map(_cell, (line.values.get(name) for name in table.titles)) for line in table.lines)
    return file.getvalue()


def _cell(value: Value) -> Value:
    text = plain(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text[:1] in ("=", "+", "-", "@") else text


def names_of(values: Iterable[str]) -> tuple[str, ...]:
    """Names of nodes from an address, each once: repeated, or with commas."""
    return tuple(dict.fromkeys(name for value in values for name in value.split(",") if name))
