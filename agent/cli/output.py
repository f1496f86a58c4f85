"""Print results as JSON, or as lines and tables of text that is safe for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from json import dumps, loads
from typing import Any

import rich.table
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from labwright.inspector.safe_text import to_plain
from labwright.record.table import Table, format_cell

Lines = Iterable[Text | Table]


def print_result(found: BaseModel | dict[str, Any], lines: Lines, *, json: bool) -> None:
    """Print the result as JSON, or print the lines, which are not evaluated for JSON."""
    if json:
        print(format_json(found))
    else:
        print_lines(lines)


def format_json(found: BaseModel | dict[str, Any]) -> str:
    """Return JSON in ASCII, since a terminal obeys some of the other control characters."""
    return dumps(loads(found.model_dump_json()) if isinstance(found, BaseModel) else found, indent=1)


def print_lines(lines: Lines, console: Console | None = None) -> None:
    """Print the lines without wrapping them."""
    console = console or Console(highlight=False)
    for line in lines:
        for part in _list_parts(line) if isinstance(line, Table) else [line]:
            console.print(part, soft_wrap=True)


def _list_parts(table: Table) -> Iterator[Text | rich.table.Table]:
    if table.title:
        yield Text(to_plain(table.title), style="bold")
    yield to_terminal(table)
    yield from (format_line(note, "dim") for note in table.notes)


def format_line(text: str, style: str = "", *, label: str = "") -> Text:
    """Format one line. If there is a label, only the label is styled."""
    return Text(label, style=style) + Text(to_plain(text)) if label else Text(to_plain(text), style=style)


def take_first(lines: Sequence[Text], limit: int) -> list[Text]:
    """Return the first lines, and a line with the number of omitted ones."""
    more = [Text(f"... {len(lines) - limit} more: --json", style="dim")] if len(lines) > limit else []
    return [*lines[:limit], *more]


def to_terminal(table: Table) -> rich.table.Table:
    """Convert a table for the terminal, without borders; cells that are styled texts keep their style."""
    made = rich.table.Table(box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        made.add_column(
            Text(to_plain(column.title)), justify="right" if column.kind == "number" else "left", overflow="fold"
        )
    for row in table.rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(to_plain(format_cell(cell))) for cell in row))
    return made
