"""Tests of the model of a table: alignment by kind, and the escaping of each renderer."""

from __future__ import annotations

import csv
import io

from rich.console import Console
from rich.text import Text

from labwright.agent.cli.errors import print_lines
from labwright.record.table import Column, Table, format_quantity

HOSTILE = ("a|b\nc", "=HYPERLINK(1)", "<script>&", "\x1b[31mred\x1b[0m [bold]x", "\u202eback")
TABLE = Table.of(("name", "value"), [*((text, k) for k, text in enumerate(HOSTILE)), ("none", None)], title="A & B")


def test_columns_of_numbers_are_found_by_their_values():
    rows = [("a1", 3, "-0.5", "12 %", "-", ""), ("b", None, "1e-3", "-", "-", "")]
    kinds = [one.kind for one in Table.of("abcdef", rows=rows).columns]
    assert kinds == ["text", "number", "number", "number", "number", "text"]
    assert [one.kind for one in Table.of(("a",), ()).columns] == ["text"]


def test_csv_keeps_values_and_starts_no_formula():
    head, *rows = csv.reader(io.StringIO(TABLE.to_csv()))
    assert head == ["name", "value"]
    assert rows[:3] == [["a|b c", "0"], ["'=HYPERLINK(1)", "1"], ["<script>&", "2"]]
    assert rows[-1] == ["none", ""], "a missing value is an empty cell"


def test_markdown_has_one_line_a_row_and_the_notes_below():
    lines = Table(TABLE.columns, TABLE.rows, notes=("a note",)).to_markdown().split("\n")
    assert lines[:3] == ["| name | value |", "|---|---:|", r"| a\|b c | 0 |"]
    assert lines[-1] == "- a note" and len(lines) == 2 + len(TABLE.rows) + 1


def test_a_terminal_gets_plain_text_with_numbers_to_the_right():
    out = io.StringIO()
    styled = Table((Column("x"), Column("n", "number")), [(Text("ok", style="green"), 5), ("b", 12)], notes=("end",))
    print_lines([TABLE, styled], Console(file=out, width=80, highlight=False))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[0] == "A & B" and "\x1b" not in out.getvalue() and "\u202e" not in out.getvalue()
    assert any(line.startswith("red [bold]x") for line in lines), "markup of a cell is not parsed"
    assert lines[-4:] == ["x    n", "ok   5", "b   12", "end"]


def test_a_number_has_its_noun_in_the_right_form():
    found = [format_quantity(n, noun) for n, noun in ((0, "seed"), (1, "fresh seed"), (2, "entry"), (3, "play"))]
    assert found == ["0 seeds", "1 fresh seed", "2 entries", "3 plays"]
