"""Answers on the screen: as JSON, or as lines and tables of text that is safe for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import dumps
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labwright.inspector.text import plain

Lines = Iterable[Text | Table]


def answer(found: BaseModel | dict[str, Any], lines: Lines, *, json: bool) -> None:
    """Print what was found, or its lines, which are not made for JSON."""
    if not json:
        show(lines)
    elif isinstance(found, BaseModel):
        print(found.model_dump_json(indent=1))
    else:
        print(dumps(found, indent=1))


def show(lines: Lines) -> None:
    """Print each line whole, however narrow the terminal is."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)


def line(text: str, style: str = "", *, label: str = "") -> Text:
    """One line; only a label is in its style where there is one."""
    return Text(label, style=style) + Text(plain(text)) if label else Text(plain(text), style=style)


def first(lines: Sequence[Text], most: int) -> list[Text]:
    """The first lines, and how many there are beside."""
    more = [Text(f"... {len(lines) - most} more: --json", style="dim")] if len(lines) > most else []
    return [*lines[:most], *more]


def table(*columns: str, rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table without lines."""
    made = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row))
    return made
