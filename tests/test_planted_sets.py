"""Planted programs and figures are complete files with a header; blind sets consist of pairs of many kinds."""

from __future__ import annotations

import ast
import builtins
import symtable
from typing import get_args

import pytest

from benchmarks.planted import FOLDER, SETS, programs, scripts
from benchmarks.sets import read_set
from labwright.review.figures import Kind

KINDS = {"blind3": 40}


@pytest.mark.parametrize("name", SETS)
def test_every_program_is_python_and_every_kind_has_both_sides(name: str) -> None:
    planted = programs(name)
    assert len(planted) == len(read_set(FOLDER / f"{name}.tar.gz")) == len({one.source for one in planted})
    sides = {(one.kind, one.honest) for one in planted}
    assert len(sides) == 2 * len({kind for kind, _ in sides}) == 2 * KINDS[name]
    for one in planted:
        assert one.kind and one.why and "import lab" in one.source and one.honest == one.name.endswith("_honest")
        assert unknown_names(one.source) == set(), one.name


def test_every_figure_is_python_and_good_or_of_a_kind_of_finding() -> None:
    planted = scripts()
    assert {one.kind for one in planted} - {""} <= set(get_args(Kind)) and any(not one.kind for one in planted)
    for one in planted:
        ast.parse(one.code)


def unknown_names(source: str) -> set[str]:
    """Return global names that a program uses but neither it nor Python defines."""
    top = symtable.symtable(source, "experiment.py", "exec")
    known = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    used = {one.get_name() for table in _tables(top) for one in table.get_symbols() if one.is_global() or table is top}
    return used - known - set(dir(builtins)) - {"__name__"}


def _tables(table: symtable.SymbolTable) -> list[symtable.SymbolTable]:
    return [table, *(inner for child in table.get_children() for inner in _tables(child))]
