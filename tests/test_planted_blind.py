"""The blind cases of benchmarks/planted_blind are programs, differ by seed, and come in pairs."""

from __future__ import annotations

import ast

import pytest

from benchmarks.planted_blind import KINDS, cases


@pytest.mark.parametrize("seed", range(12))
def test_every_case_is_python_beside_an_honest_twin(seed: int) -> None:
    found = cases(seed)
    assert [(one.kind, one.honest) for one in found] == [(kind.name, twin) for kind in KINDS for twin in (False, True)]
    for one in found:
        ast.parse(one.source)
        assert "import lab" in one.source and "$" not in one.source and one.why


def test_there_are_many_kinds_and_no_case_twice() -> None:
    assert len(KINDS) >= 11 and len({kind.name for kind in KINDS}) == len(KINDS)
    assert cases(1) == cases(1)
    sources = [one.source for seed in range(6) for one in cases(seed)]
    assert len(set(sources)) == len(sources)
