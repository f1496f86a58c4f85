"""Print results as JSON, or as lines and tables of text that is safe for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import dumps, loads
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labwright.inspector.safe_text import to_plain

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


def print_lines(lines: Lines) -> None:
    """Print the lines without wrapping them."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)


def format_line(text: str, style: str = "", *, label: str = "") -> Text:
    """Format one line. If there is a label, only the label is styled."""
    return Text(label, style=style) + Text(to_plain(text)) if label else Text(to_plain(text), style=style)


def take_first(lines: Sequence[Text], limit: int) -> list[Text]:
    """Return the first lines, and a line with the number of omitted ones."""
    more = [Text(f"... {len(lines) - limit} more: --json", style="dim")] if len(lines) > limit else []
    return [*lines[:limit], *more]


def build_table(*columns: str, rows: Iterable[Sequence[str | Text]]) -> Table:
    """Build a table without borders."""
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(to_plain(cell)) for cell in row))
    return table
