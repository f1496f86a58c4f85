"""Origins through operators, comparisons and subscripts; what is known of a test, and what is picked by a score."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from review.honesty.flow.marks import reused
from review.honesty.flow.walk import Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import UNKNOWN, Constant, Mark, Ranked, Tag, Tags, Value, either, of, union


def judges(tags: Tags) -> bool:
    """Whether something tells how good predictions are."""
    return {Tag.LABEL, Tag.SCORE} <= tags


def options(values: Iterable[Value]) -> frozenset[str] | None:
    """The names among several options, empty where they are predictions; None where they are neither."""
    names: set[str] = set()
    found = False
    for one in values:
        tags = one.deep()
        texts = {way.constant for way in (one, *one.others) if isinstance(way.constant, str)}
        names |= texts
        found = found or bool(texts) or bool(Tag.PREDICTED in tags and tags & HELD)
    return frozenset(names) if found else None


def marked(value: Value, mark: Mark, depth: int = 3) -> Value:
    """The value and its parts with a mark; what it was made from stays as it was."""
    if depth == 0 or value.body is not None or value.made_by is not None:
        return value
    return Value(
        value.tags | {mark}, value.constant, value.path, {key: marked(one, mark, depth - 1)
                                                          for key, one in value.items.items()},
        [marked(one, mark, depth - 1) for one in value.elements] if value.elements is not None else None,
        others=[marked(one, mark, depth - 1) for one in value.others])


def ranked(walk: Walk, held: Value, judge: Tags, choice: int | None = None) -> Ranked | None:
    """The mark of what `sorted`, `max`, `min` or an index picks out of predictions or names by their scores."""
    parts = [*(held.elements or ()), *held.items.values(), *(Value(constant=key) for key in held.items)]
    inner = [one for part in parts for one in (part, *(part.elements or ()))]
    if len(parts) < 2 or not judges(judge | union(inner)):
        return None
    names = options(inner)
    if names is None and not all(judges(part.deep()) for part in parts):
        return None
    walk.kept.append(held)
    names = names or frozenset[str]()
    return Ranked(id(held) if choice is None else choice, names)


def by_score(walk: Walk, tested: Value, found: Value) -> Value:
    """`a if score_a > score_b else b`, of two predictions or two names."""
    parts = [one for way in (found.others or [found]) for one in (way, *(way.elements or ()))]
    names = options(parts) if judges(tested.deep()) else None
    if names is None:
        return found
    walk.kept.append(tested)
    return marked(found, Ranked(id(tested), names))


def rank(walk: Walk, tested: Value, before: dict[str, Value]) -> None:
    """Mark the predictions and names that a branch on scores bound."""
    if not judges(tested.deep()):
        return
    bound = {name: value for name, value in walk.scope.names.items() if value is not before.get(name)}
    names = options(bound.values())
    if names is None:
        return
    walk.kept.append(tested)
    for name, value in bound.items():
        if options([value]) is not None:
            walk.scope.names[name] = marked(value, Ranked(id(tested), names))


# --- scores that are held up ----------------------------------------------------------------------------------------


def typed_share(value: Value) -> bool:
    return isinstance(value.constant, float) and 0.01 < value.constant < 1


def floored(node: ast.IfExp, body: Value, orelse: Value) -> Value:
    """Either; where it is `score if score > 0.8 else 0.8`, a score that is held up."""
    found = either(body, orelse)
    for one, other in ((body, orelse), (orelse, body)):
        if Tag.SCORE in one.deep() and typed_share(other) and isinstance(node.test, ast.Compare):
            return Value(found.deep() | {Tag.BOOSTED})
    return found


def floor(walk: Walk, test: ast.Compare, body: Sequence[ast.stmt]) -> None:
    """`if score < 0.8: score = 0.8`."""
    sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
    for one in body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id in sides:
            held = walk.scope.find(one.targets[0].id)
            if held is not None and Tag.SCORE in held.deep() and typed_share(walk.value(one.value)):
                walk.scope.bind(one.targets[0].id, Value(held.deep() | {Tag.BOOSTED}))


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
