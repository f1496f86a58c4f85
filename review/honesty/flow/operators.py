"""Origins through operators, comparisons and subscripts, and what is known of a test."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from review.honesty.flow.choices import marked, ranked
from review.honesty.flow.marks import reused
from review.honesty.flow.walk import Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import UNKNOWN, Constant, Ranked, Tag, Value, either, of, union


def compare(walk: Walk, ops: Sequence[ast.cmpop], sides: Sequence[Value]) -> Value:
    known = holds(walk, ops[0], *sides) if len(sides) == 2 else None
    found = Value(union(sides), UNKNOWN if known is None else known)
    tags = [side.deep() for side in sides[:2]]
    if isinstance(ops[0], ast.Eq | ast.In) and Tag.LABEL not in tags[0] | tags[1]:
        for one, other in (tags, tags[::-1]):
            if Tag.TRAIN in one and not one & HELD and other & HELD and Tag.PREDICTED not in one | other:
                found.taint([Tag.MATCHED])
    near = sides[1].constant
    if isinstance(near, int | float) and abs(near) <= NEAR and isinstance(ops[0], ast.Eq | ast.Lt | ast.LtE) and (
            Tag.TRAIN in tags[0] and tags[0] & HELD and not tags[0] & {Tag.PREDICTED, Tag.MODEL, Tag.LABEL}):
        found.taint([Tag.MATCHED])
    return found


def binary(walk: Walk, op: ast.operator, left: Value, right: Value) -> Value:
    a, b = left.deep(), right.deep()
    known = computed(op, left.constant, right.constant)
    if known is not UNKNOWN:
        return Value(a | b, known)
    if left.items and right.items and isinstance(op, ast.BitOr):
        return Value(left.tags | right.tags, items=left.items | right.items)
    if isinstance(op, ast.Add) and left.elements is not None and right.elements is not None:
        return Value(left.tags | right.tags, elements=left.elements + right.elements)
    if isinstance(op, ast.Div) and isinstance(right.constant, str):  # a path
        return Value(a | b, right.constant, path=left.path)
    tags = (a | b) - {Tag.JOINED}
    tags |= reused(a, b) | reused(b, a)
    if isinstance(op, ast.MatMult):
        tags -= {Tag.PREDICTED}
    if isinstance(op, ast.Add | ast.Sub | ast.Mult | ast.Div) and not walk.classes:
        for one, other in ((a, b), (b, a)):
            drawn = Tag.RANDOM in other and not other & {Tag.DATA, Tag.OPAQUE, Tag.MODEL}
            if drawn and Tag.PREDICTED in one and one & HELD:
                tags |= {Tag.NOISED}
    for one, other in ((left, right), (right, left)):
        typed = isinstance(other.constant, float) and 0.001 <= abs(other.constant) < 1 and other.constant != 0.5
        if isinstance(op, ast.Add) and Tag.SCORE in one.deep() and typed:
            tags |= {Tag.BOOSTED}
    return Value(tags)


def subscript(walk: Walk, held: Value, index: Value) -> Value:
    if index.constant is not UNKNOWN and index.constant in held.items:
        return _picked(held.items[index.constant], index)
    if held.elements is not None and isinstance(index.constant, int) and (
            -len(held.elements) <= index.constant < len(held.elements)):
        return held.elements[index.constant]
    if held.path == "dataset":
        return of(Tag.DATA)
    if (held.elements and index.constant is UNKNOWN) or (held.items and held.path not in ("split",)):
        parts = [*(held.elements or ()), *held.items.values()]
        found = parts[0]
        for part in parts[1:40]:
            found = either(found, part)
        mark = ranked(walk, held, index.deep())
        return marked(found, mark) if mark is not None else _picked(found, index)
    tags, chosen = held.deep(), index.deep()
    if chosen & {Tag.LABEL, Tag.PREDICTED, Tag.DATA}:
        tags -= {Tag.TYPED}  # a table that something is looked up in
    keyed = chosen & HELD and not chosen & {Tag.TRAIN, Tag.MODEL, Tag.PREDICTED, Tag.OPAQUE}
    matched = Tag.MATCHED in chosen or any(Tag.MATCHED in test for test in walk.control)
    if {Tag.LABEL, Tag.TRAIN} <= tags and (matched or keyed):
        tags |= {Tag.LOOKED_UP}
    if Tag.TRAIN in tags and tags & HELD and Tag.LOOKED_UP not in tags and not chosen & HELD:
        tags = (tags - HELD - {Tag.JOINED}) | {Tag.OPAQUE}  # rows of one of several parts, nobody knows which
    if Tag.DATA in tags and chosen:
        tags |= {Tag.PART}
    return Value(tags | (chosen - {Tag.MATCHED}))


def _picked(part: Value, index: Value) -> Value:
    """What stands under a name, which a score may have picked."""
    mark = next((tag for tag in index.tags if isinstance(tag, Ranked)), None)
    return marked(part, mark) if mark is not None else part


def truth(walk: Walk, test: ast.expr) -> bool | None:
    """What a test comes to, if it is made of known constants."""
    match test:
        case ast.BoolOp(op=op, values=values):
            known = [truth(walk, one) for one in values]
            if isinstance(op, ast.And):
                return False if False in known else True if all(known) else None
            return True if True in known else False if all(one is False for one in known) else None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = truth(walk, operand)
            return None if known is None else not known
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return holds(walk, op, walk.value(left), walk.value(right))
        case ast.Call():
            return None
        case _:
            found = walk.value(test).constant
            return None if found is UNKNOWN else bool(found)


def holds(walk: Walk, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if isinstance(op, ast.In | ast.NotIn):
        options = [one.constant for one in right.elements or ()] or list(right.items)
        if left.constant is UNKNOWN or UNKNOWN in options or not options:
            return None
        return (left.constant in options) == isinstance(op, ast.In)
    a, b = left.constant, right.constant
    if a is UNKNOWN or b is UNKNOWN:
        return None
    try:
        match op:
            case ast.Eq() | ast.Is():
                return a == b
            case ast.NotEq() | ast.IsNot():
                return a != b
            case ast.Lt():
                return bool(a < b)  # type: ignore[operator]
            case ast.Gt():
                return bool(a > b)  # type: ignore[operator]
            case ast.LtE():
                return bool(a <= b)  # type: ignore[operator]
            case ast.GtE():
                return bool(a >= b)  # type: ignore[operator]
            case _:
                return None
    except TypeError:
        return None


NEAR = 1e-3
"""Distance up to which a row counts as found again."""


def negated(op: ast.unaryop, value: Constant) -> Constant:
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Not):
        return not value
    return -value if isinstance(op, ast.USub) and isinstance(value, int | float) else UNKNOWN


def computed(op: ast.operator, a: Constant, b: Constant) -> Constant:
    """Arithmetic of known numbers, and texts put together."""
    if isinstance(a, str) and isinstance(b, str) and isinstance(op, ast.Add):
        return a + b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    try:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
            case _:
                return UNKNOWN
    except (ZeroDivisionError, OverflowError):
        return UNKNOWN
