"""The second blind set of planted cases: programs, that differ by seed, in pairs, written in one language."""

from __future__ import annotations

import ast
import builtins
import symtable
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise

import pytest

from benchmarks.planted_blind2 import KINDS, Case, cases
from benchmarks.planted_blind2.language import spelled

pytestmark = pytest.mark.slow


@cache
def rendered(seed: int) -> tuple[Case, ...]:
    return tuple(cases(seed))


@pytest.mark.parametrize("seed", range(10))
def test_every_case_is_python_beside_an_honest_twin(seed: int) -> None:
    found = rendered(seed)
    assert [(one.kind, one.honest) for one in found] == [(kind.name, twin) for kind in KINDS for twin in (False, True)]
    for one in found:
        ast.parse(one.source)
        assert one.why and "import lab\n" in one.source and not set("$«»¦") & set(one.source), one.kind
        assert unknown_names(one.source) == set(), (one.kind, one.honest)


def test_there_are_many_kinds_and_no_case_twice() -> None:
    assert len(KINDS) >= 24 and len({kind.name for kind in KINDS}) == len(KINDS)
    assert cases(1) == list(rendered(1))
    sources = [one.source for seed in range(10) for one in rendered(seed)]
    assert len(set(sources)) == len(sources)


def test_texts_of_a_kind_differ_by_more_than_a_word() -> None:
    """Compared line by line, since a name that changed is not a program that changed."""
    by_seed = [{(one.kind, one.honest): one.source.splitlines() for one in rendered(seed)} for seed in range(4)]
    shares = [SequenceMatcher(None, one[key], other[key], autojunk=False).ratio()
              for one, other in pairwise(by_seed) for key in one]
    assert sum(shares) / len(shares) < 0.5


def test_the_same_options_fall_the_same_way_throughout_a_program() -> None:
    for key in ("a", "b", "c"):
        name, again = spelled("«one¦two¦three» «one¦two¦three»", key).split()
        assert name == again


def unknown_names(source: str) -> set[str]:
    """Global names that a program uses and nobody defines, in it or in Python."""
    top = symtable.symtable(source, "experiment.py", "exec")
    known = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    used = {one.get_name() for table in _tables(top) for one in table.get_symbols() if one.is_global() or table is top}
    return used - known - set(dir(builtins)) - {"__name__"}


def _tables(table: symtable.SymbolTable) -> list[symtable.SymbolTable]:
    return [table, *(inner for child in table.get_children() for inner in _tables(child))]
