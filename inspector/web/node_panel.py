"""What a node's panel shows: from the record, and from files that its attempts sealed."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from inspector.files import Listed, bytes_of, listed, text_of
from inspector.text import printable
from inspector.web.calls import Call, call_of
from inspector.web.drawing import Chart, charts
from inspector.web.forms import Actions, node_actions
from inspector.web.watched import Watched
from record.nouns.data import Measurement
from record.nouns.figures import FigureReview
from record.nouns.nodes import Attempt, Node


class DiffLine(NamedTuple):
    """`kind` is add, removed, same or place."""

    kind: str
    text: str


class SourceFile(NamedTuple):
    """A file of a node's code, and how it differs from that of the same name in its parent; None: no parent has it."""

    name: str
    text: str
    diff: tuple[DiffLine, ...] | None


class Picture(NamedTuple):
    """A figure with the verdict on it, if one was given."""

    path: str
    name: str
    review: FigureReview | None


class Try(NamedTuple):
    """An attempt with its output and curves."""

    attempt: Attempt
    output: str | None
    charts: tuple[Chart, ...]


class Plots(NamedTuple):
    """A plotting with its figures, the last one first."""

    n: int
    looked: bool
    trouble: str
    pictures: tuple[Picture, ...]


class Grid(NamedTuple):
    """Final values of one dataset and split: a row a condition, a column a metric."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Measurement | None, ...]], ...]


class Panel(NamedTuple):
    """Everything about one node."""

    node: Node
    children: tuple[str, ...]
    sources: tuple[SourceFile, ...]
    grids: tuple[Grid, ...]
    said: tuple[Grid, ...]
    """What the code itself said of train and dev."""
    tests: tuple[Grid, ...]
    tries: tuple[Try, ...]
    plots: tuple[Plots, ...]
    calls: tuple[Call, ...]
    files: tuple[Listed, ...]
    actions: Actions


def panel_of(run: Watched, name: str) -> Panel | None:
    """The panel of a node; None where the run has no such node."""
    node = run.state.nodes.get(name)
    if node is None:
        return None
    return Panel(
        node=node, children=tuple(one.id for one in run.state.nodes.values() if one.parent == name),
        sources=tuple(_sources(run, node)), grids=grids(node.measurements),
        said=grids(node.attempts[-1].said if node.attempts else ()),
        tests=grids(run.state.tests.get(name, ())), tries=tuple(_try(run, node, one) for one in node.attempts),
        plots=tuple(_plots(node)), calls=tuple(
            call_of(run.state, one) for key, one in run.state.answers.items() if key.decision == node.decision),
        files=listed(run.folder, f"nodes/{name}"), actions=node_actions(run, node))


def _sources(run: Watched, node: Node) -> Iterator[SourceFile]:
    files = {one.path.rpartition("/")[2]: one.path for one in listed(run.folder, f"nodes/{node.id}/source")}
    for name, path in files.items():
        text = text_of(run.folder, path) or ""
        before = text_of(run.folder, f"nodes/{node.parent}/source/{name}") if node.parent else None
        yield SourceFile(name, text, None if before is None else tuple(_diff(before, text)))


def _diff(before: str, after: str) -> Iterator[DiffLine]:
    kinds = {"+": "add", "-": "removed", "@": "place"}
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    for number, line in enumerate(found):
        if number > 1:
            yield DiffLine(kinds.get(line[:1], "same"), line)


def grids(values: tuple[Measurement, ...]) -> tuple[Grid, ...]:
    """Measurements as tables, in the order in which they were made."""
    tables: dict[str, dict[str, dict[str, Measurement]]] = {}
    for one in values:
        title = f"{one.dataset}, {one.split}"
        tables.setdefault(title, {}).setdefault(one.condition, {})[one.name] = one
    return tuple(_grid(title, rows) for title, rows in tables.items())


def _grid(title: str, rows: dict[str, dict[str, Measurement]]) -> Grid:
    names = tuple(dict.fromkeys(name for row in rows.values() for name in row))
    return Grid(title, names, tuple((condition, tuple(row.get(name) for name in names))
                                    for condition, row in rows.items()))


def _try(run: Watched, node: Node, attempt: Attempt) -> Try:
    place = f"nodes/{node.id}/attempt{attempt.number}"
    output = text_of(run.folder, f"{place}/stdout.txt", end=True)
    curves = bytes_of(run.folder, f"{place}/measurements.jsonl", CURVES) if attempt.curves_sha256 else None
    return Try(attempt, attempt.stdout_tail if output is None else output, charts((curves or b"").splitlines()))


def _plots(node: Node) -> Iterator[Plots]:
    for one in reversed(node.plottings):
        reviews = {review.name: review for review in one.reviews or ()}
        yield Plots(one.n, one.looked, one.failure.message if one.failure else "", tuple(
            Picture(f"nodes/{node.id}/plots{one.n}/figures/{figure.name}", figure.name, reviews.get(figure.name))
            for figure in one.figures))


CURVES: Final = 8 * 2**20
"""Bytes of curves that are read."""
LARGEST: Final = 8_000_000
"""Bytes of a notebook."""
CELLS: Final = 200
TEXT: Final = 100_000
"""Characters of a cell, and of each of its outputs."""


class Output(NamedTuple):
    """`kind` is text, error or picture; a picture has its bytes (PNG)."""

    kind: str
    text: str
    picture: bytes = b""


class Cell(NamedTuple):
    """A cell: its kind in the notebook's words, its text, its outputs."""

    kind: str
    source: str
    outputs: tuple[Output, ...]


def cells_of(run: Watched, node: str, attempt: int) -> tuple[Cell, ...] | None:
    """The cells of an attempt's notebook; None where there is none that can be read."""
    text = text_of(run.folder, f"nodes/{node}/attempt{attempt}/node.ipynb", most=LARGEST)
    try:
        cells = cast("list[Any]", json.loads(text or "")["cells"])
        return tuple(_cell(one) for one in cells[:CELLS])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def picture_of(cells: tuple[Cell, ...], number: int) -> bytes | None:
    """The n-th picture of a notebook, counted from 0."""
    found = [one.picture for cell in cells for one in cell.outputs if one.picture]
    return found[number] if 0 <= number < len(found) else None


def _cell(one: Any) -> Cell:
    return Cell(str(one.get("cell_type", "")), _text(one.get("source", "")), tuple(
        found for output in one.get("outputs", [])[:CELLS] for found in _outputs(output)))


def _outputs(one: Any) -> Iterator[Output]:
    if one.get("output_type") == "error":
        yield Output("error", _text("\n".join(map(str, one.get("traceback", [])))))
    elif "text" in one:
        yield Output("text", _text(one["text"]))
    else:
        data = one.get("data", {})
        picture = _png(data.get("image/png"))
        yield Output("picture", "", picture) if picture else Output("text", _text(data.get("text/plain", "")))


def _png(data: Any) -> bytes:
    try:
        found = base64.b64decode("".join(cast("list[str]", data)) if isinstance(data, list) else data)
    except (binascii.Error, TypeError, ValueError):
        return b""
    return found if found.startswith(b"\x89PNG\r\n\x1a\n") else b""


def _text(value: Any) -> str:
    whole = "".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
    text = printable(whole[:TEXT])
    return text if len(whole) <= TEXT else f"{text}\n... {len(whole) - TEXT} characters more"
