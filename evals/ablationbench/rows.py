"""Convert judges' answers in the benchmark's files (rows by name) to pairs of positions and votes on entries.

Rows refer to ablations by name. A repeated name counts for every ablation that has it, an unknown one for none;
null, an empty list and a missing side mean no match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

Row = Mapping[str, Any]
Pairs = frozenset[tuple[int, int]]
"""Positions of a gold ablation and of an entry, both from 0."""


def parse_names(value: object) -> tuple[str, ...]:
    """Return the names in a field, which may have one, several or none."""
    if value is None:
        return ()
    listed = cast(Sequence[object], value) if isinstance(value, list | tuple) else [value]
    return tuple(str(one) for one in listed if one is not None)


def parse_pairs(rows: Iterable[Row], gold: Sequence[str], plan: Sequence[str]) -> Pairs:
    """Return the pairs that an author judge's rows name."""
    return frozenset(
        (of_gold, of_plan)
        for row in rows
        for of_gold in _find_positions(row.get("name_in_paper"), gold)
        for of_plan in _find_positions(row.get("name_in_plan"), plan)
    )


def _find_positions(value: object, names: Sequence[str]) -> list[int]:
    wanted = set(parse_names(value))
    return [at for at, name in enumerate(names) if str(name) in wanted]


def find_requested_entries(rows: Iterable[Row], plan: Sequence[str]) -> frozenset[int]:
    """Return the positions of entries that a reviewer judge's rows find in the reviews; contradictory rows count as
    no.
    """
    answers: dict[str, bool] = {}
    for row in rows:
        for name in parse_names(row.get("name_in_plan")):
            answers[name] = answers.get(name, True) and row.get("appears_in_review") is True
    return frozenset(at for at, name in enumerate(plan) if answers.get(str(name), False))
