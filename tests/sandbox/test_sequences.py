"""Generated expressions: what they mean, that no one stands twice, and that a kernel gets their tokens as they are."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import numpy as np
import pytest

from sandbox.bundled import BOUNDS, BUNDLED, CLASSES, SYMBOLS, Bundled, drawn, expressions
from sandbox.datasets import materialise

pytestmark = pytest.mark.slow

ARITHMETIC = tuple(source for source in BUNDLED if source.name.startswith("arithmetic_"))
SETS = pytest.mark.parametrize("source", ARITHMETIC, ids=[one.name for one in ARITHMETIC])


def written(row: list[int]) -> str:
    return "".join(SYMBOLS[token] for token in row).rstrip()


def value_of(text: str) -> int:
    """The value by Python's own rules of precedence."""
    return int(eval(compile(ast.parse(text, mode="eval"), "expression", "eval"), {"__builtins__": {}}))


@SETS
def test_every_row_is_an_expression_whose_value_lies_in_its_class(source: Bundled) -> None:
    data = source.load()
    assert data.x.shape == (source.examples, source.features) and data.x.dtype == np.int64
    assert data.class_names == CLASSES and set(data.y) == set(range(source.classes))
    for row, label in zip(data.x.tolist(), data.y.tolist(), strict=True):
        text = written(row)
        assert sum(text.count(sign) for sign in "+-*") == int(source.name[-1])
        assert label == sum(value_of(text) >= bound for bound in BOUNDS)


@SETS
def test_no_expression_stands_twice_and_none_in_two_parts(source: Bundled, tmp_path: Path) -> None:
    assert len(np.unique(source.load().x, axis=0)) == source.examples
    facts = materialise(source.name, views=tmp_path / "views", labels=tmp_path / "labels", seed=5)
    assert facts.duplicates == 0 and facts.duplicates_by == {} and facts.warnings == ()
    assert facts.sizes["train"] >= 2000, "the large training size of the study"


def test_a_dataset_is_the_same_every_time_and_tokens_are_not_rescaled(tmp_path: Path) -> None:
    source = ARITHMETIC[0]
    first, second = source.load(), source.load()
    assert np.array_equal(first.x, second.x) and np.array_equal(first.y, second.y)
    assert [one.text for one in expressions(2, 4)] == ["5+5-7", "0*(1+5)", "2+5+6", "6*(6+3)"]
    materialise(source.name, views=tmp_path / "views", labels=tmp_path / "labels", seed=5)
    with np.load(tmp_path / "views" / f"{source.name}.npz") as view:
        assert view["train_x"].dtype == np.int64
        assert view["train_x"].min() >= 0 and view["train_x"].max() < len(SYMBOLS)
        assert not any(name in view.files for name in ("validation_y", "test_y"))


def test_brackets_stand_where_they_are_needed_and_nowhere_else() -> None:
    rng = random.Random(3)
    for _ in range(300):
        one = drawn(rng, 4)
        assert value_of(one.text) == one.value
        for start, end in bracket_pairs(one.text):
            bare = one.text[:start] + one.text[start + 1:end] + one.text[end + 1:]
            assert ast.dump(ast.parse(bare)) != ast.dump(ast.parse(one.text)), one.text


def bracket_pairs(text: str) -> list[tuple[int, int]]:
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for place, symbol in enumerate(text):
        if symbol == "(":
            opened.append(place)
        elif symbol == ")":
            pairs.append((opened.pop(), place))
    return pairs
