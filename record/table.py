"""One model of a table for papers, terminals and files, with the renderers that need no other package.

`agent.cli.errors.to_terminal` renders a table in a terminal. Each renderer escapes cells itself: callers pass plain
values.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

_NUMBER = re.compile(r"([-+]?\$?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?%)?|-|none|)")


@dataclass(frozen=True)
class Column:
    """A column: its title, and its meaning for a dictionary of columns."""

    title: str
    kind: Literal["text", "number"] = "text"
    """Numbers are aligned to the right."""
    meaning: str = ""


@dataclass(frozen=True)
class Table:
    """A table of plain values; None is a missing value, and a row of one cell is the heading of the rows below it."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[object]]
    title: str = ""
    name: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, titles: Iterable[str], rows: Iterable[Sequence[object]], *, title: str = "", notes: Iterable[str] = ()
    ) -> Self:
        """Build a table from the titles of its columns; a column has numbers if all its values are numbers."""
        titles, rows = tuple(titles), tuple(rows)
        shown = [[format_cell(row[k]) for row in rows] for k in range(len(titles))]
        columns = (
            Column(one, "number" if any(cells) and all(map(_NUMBER.fullmatch, cells)) else "text")
            for one, cells in zip(titles, shown, strict=True)
        )
        return cls(tuple(columns), rows, title, notes=tuple(notes))

    def to_csv(self) -> str:
        """Return the titles and rows as CSV with full precision; no text can start a spreadsheet formula."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(
            [_to_csv_value(cell) for cell in row] for row in ([one.title for one in self.columns], *self.rows)
        )
        return file.getvalue()

    def to_markdown(self) -> str:
        """Return the table as Markdown, with a line for each note below it."""
        rule = ["---:" if one.kind == "number" else "---" for one in self.columns]
        rows = ([one.title for one in self.columns], *self.rows)
        head, *body = (f"| {' | '.join(map(_to_markdown_cell, row))} |" for row in rows)
        return "\n".join((head, f"|{'|'.join(rule)}|", *body, *(f"- {note}" for note in self.notes)))


def format_quantity(number: int, noun: str) -> str:
    """Return a number and its noun in the right form: `1 seed`, `2 seeds`, `3 entries`."""
    return f"{number} {noun if number == 1 else re.sub('(?<=[^aeiou])y$', 'ie', noun) + 's'}"


def format_cell(value: object) -> str:
    """Format a value on one line; a missing value is empty."""
    return "" if value is None else " ".join(str(value).split())


def _to_csv_value(value: object) -> object:
    text = format_cell(value) if value is None or isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and re.match(r"[=+@-](?![\d.e+ -]*$)", text) else text


def _to_markdown_cell(value: object) -> str:
    return format_cell(value).replace("|", r"\|")
