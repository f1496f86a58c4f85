"""Marks that tell of training: its turns and means, parts and order of what is learnt from, choices by score."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from review.honesty import library as lib
from review.honesty.flow.walk import Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import (
    NOTHING,
    UNKNOWN,
    Constant,
    Mark,
    Means,
    Tag,
    Tags,
    Value,
)

TINY = 1e-8
"""A learning rate up to which nothing is learnt."""
PLACES = ast.Name | ast.Attribute
ANSWERS = 10
"""Whole numbers in one list from which on they may be answers."""
CUT = frozenset({Tag.TRAIN, Tag.RANDOM})
"""Of what a part may be kept to learn from: rows of train, or an order of rows."""
LEARNS = re.compile(r"grad|loss|backward|\bfit\(|update|optimi[sz]er|\.step\(|train_")
"""What stands in the body of a loop that trains."""


def no_rate(value: Constant) -> bool:
    """Whether a number is a learning rate at which nothing is learnt."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= TINY


def rated(node: ast.BinOp, found: Value, left: Value, right: Value) -> Value:
    """A product with what may be a learning rate, which is kept beside it."""
    if isinstance(node.op, ast.Div):
        found.rate = left.rate
    elif isinstance(node.op, ast.Mult):
        sides = ((node.left, left, right), (node.right, right, left))
        found.rate = next((rate for one in sides if (rate := _rate(*one)) is not None), None)
    return found


def _rate(side: ast.expr, value: Value, other: Value) -> float | None:
    name = ast.unparse(side).lstrip("-").rstrip("]'\"").rsplit(".", 1)[-1].rsplit("'", 1)[-1]
    number = value.constant
    if isinstance(number, int | float) and other.constant is UNKNOWN and lib.RATES.search(name):
        return float(number)
    return value.rate


def stepped(walk: Walk, node: ast.BinOp | ast.AugAssign, found: Value, held: Value, moved: Value) -> Value:
    """Parameters after a step: by a gradient, down, from where no data stood. Its rate is noted."""
    by = node.right if isinstance(node, ast.BinOp) else node.value
    if moved.rate is None or Tag.DATA in held.deep() or not isinstance(node.op, ast.Add | ast.Sub):
        return found
    text = ast.unparse(by)
    down = isinstance(node.op, ast.Sub) or text.startswith(("-", "(-"))
    if "grad" not in text and not (down and Tag.LABEL in moved.deep()):
        return found
    if no_rate(moved.rate):
        walk.sink(node, "inert", Value(), why="the learning rate is 0")
    found.taint([Means(f"rate of line {node.lineno}", abs(moved.rate))])
    return found


def idle(walk: Walk, body: Sequence[ast.stmt], why: str) -> None:
    """Note training that stands in a loop that is never run."""
    nodes = [one for stmt in body for one in ast.walk(stmt)]
    if any(LEARNS.search(ast.unparse(stmt)) for stmt in body) or any(_descends(one) for one in nodes):
        walk.sink(body[0], "inert", Value(), why=f"training stands in {why}")


def places(walk: Walk, node: ast.expr) -> frozenset[str]:
    """Names and attributes in an expression."""
    if id(node) not in walk.places:
        walk.places[id(node)] = frozenset(ast.unparse(one) for one in ast.walk(node) if isinstance(one, PLACES))
    return walk.places[id(node)]


def _descends(node: ast.AST) -> bool:
    """`w -= rate * gradient`, `w = w - ...`."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Sub) and not isinstance(node.value, ast.Constant)
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)):
        return False
    sides = node.value.left, node.value.right
    return isinstance(node.value.op, ast.Sub) and not any(isinstance(one, ast.Constant) for one in sides) and (
        ast.unparse(sides[0]) in {ast.unparse(target) for target in node.targets})


def stepwise(walk: Walk, targets: Sequence[ast.expr], node: ast.expr, found: Value) -> Value:
    """A value that a loop changes step by step, with the loop's turns."""
    if not walk.training.turning or found.body is not None or found.made_by is not None:
        return found
    if any(places(walk, target) & places(walk, node) for target in targets):
        if walk.training.loose and isinstance(found.constant, int | float):
            return Value(found.tags)
        for one in (found, *(found.elements or ())):
            if one.constant is UNKNOWN and one.elements is None and not one.items:
                more = [Means("turns", walk.training.turns), *means_here(walk)] if Tag.LABEL in one.tags else []
                one.taint([Tag.LEARNT, *more])
    return found


# --- means ----------------------------------------------------------------------------------------------------------


def means_of(names: Mapping[Constant, Value] | Mapping[str, Value], deep: int = 2) -> set[Mark]:
    """Settings of a training among names, or among attributes of objects."""
    found: set[Mark] = set()
    for name, value in names.items():
        number = value.constant
        if value.made_by is not None and deep and Tag.MODEL not in value.tags:
            found |= means_of(value.items, deep - 1)
        if isinstance(number, bool) or not isinstance(number, int | float) or not isinstance(name, str):
            continue
        if lib.STEPS.search(name):
            found.add(Means("steps", float(number)))
    return found


def means_here(walk: Walk) -> set[Mark]:
    """Those of the function that is being followed, and of the functions that it was made in."""
    scope, found = walk.scope, set[Mark]()
    while scope is not walk.module:
        found |= means_of(scope.names)
        if scope.outer is None:
            break
        scope = scope.outer
    return found


def spend(found: Value, means: Iterable[Mark]) -> None:
    """Mark what a function gave with the settings that it had."""
    means = set(means)
    for part in (found.elements or [])[:8]:
        if part.tags & {Tag.DATA, Tag.MODEL, Tag.RANDOM}:
            part.taint(means)
    if found.tags & {Tag.DATA, Tag.MODEL, Tag.RANDOM}:
        found.taint(means)


def kept_part(walk: Walk, found: Value, held: Value, index: ast.expr) -> Value:
    """`x[:40]`, `x[::10]`: how much is kept of the rows of train, or of an order of them."""
    first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
    if not isinstance(first, ast.Slice) or found is held or found.constant is not UNKNOWN:
        return found
    share: Means | None = None
    lower = first.lower is None or (isinstance(first.lower, ast.Constant) and first.lower.value == 0)
    if isinstance(first.step, ast.Constant) and isinstance(first.step.value, int) and first.step.value > 2:
        share = Means("share of rows", 1 / first.step.value)
    elif lower and first.upper is not None and isinstance(rows := walk.value(first.upper).constant, int):
        share = Means("rows", float(rows)) if rows > 0 else None
    elif lower and first.upper is not None:
        share = _share(first.upper)
    if share is not None:
        found = Value(found.deep() | {share}) if found.elements is None and not found.items else found
    return found


def _share(upper: ast.expr) -> Means | None:
    """Of `int(0.05 * len(x))` and `len(x) // 20`."""
    if not any((isinstance(one, ast.Call) and ast.unparse(one.func) == "len") or
               (isinstance(one, ast.Attribute) and one.attr in ("shape", "size")) for one in ast.walk(upper)):
        return None
    for one in ast.walk(upper):
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and 0 < one.value < 1:
            return Means("share of rows", one.value)
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv | ast.Div) and isinstance(
                one.right, ast.Constant) and isinstance(one.right.value, int | float) and one.right.value > 1:
            return Means("share of rows", 1 / one.right.value)
    return None


# --- labels ---------------------------------------------------------------------------------------------------------


def shuffled(value: Value) -> bool:
    """Whether these are labels alone, so that another order of them is no order of rows."""
    tags = value.deep()
    return Tag.LABEL in tags and not tags & {Tag.ROWS, Tag.PREDICTED, Tag.MODEL, Tag.OPAQUE} and Tag.TRAIN in tags


def reused(fitted: Tags, rows: Tags) -> Tags:
    """REUSED where rows of a part of train go through what was fitted on all of train."""
    whole = {Tag.TRAIN, Tag.LABEL} <= fitted and not fitted & {Tag.PART, Tag.OPAQUE} and not fitted & HELD
    part = {Tag.TRAIN, Tag.PART} <= rows and not rows & {Tag.LABEL, Tag.OPAQUE} and not rows & HELD
    return frozenset({Tag.REUSED}) if whole and part else NOTHING


def answers_like(elements: Sequence[Value]) -> bool:
    """Whether a list of the source may be answers: many small whole numbers, in no regular order."""
    numbers = [one.constant for one in elements]
    if len(numbers) < ANSWERS or not all(isinstance(one, int) for one in numbers):
        return False
    whole = [one for one in numbers if isinstance(one, int)]
    return len(set(whole)) <= len(whole) // 2 + 1 and whole != sorted(whole)


def reordered(found: Value, held: Value, index: ast.expr) -> Value:
    """`y[rng.permutation(len(y))]`: labels in an order that no rows can be in."""
    drawn = isinstance(index, ast.Call) and lib.PERMUTES.search(ast.unparse(index.func)) is not None
    return Value(found.deep() | {Tag.SHUFFLED}) if drawn and shuffled(held) else found
