"""The value of an expression, by the form of its node; operators and calls have modules of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from review.honesty.flow.calls import call
from review.honesty.flow.marks import CUT, answers_like, kept_part, rated, reordered, stepped
from review.honesty.flow.operators import binary, by_score, compare, floored, negated, subscript, truth
from review.honesty.flow.statements import assign
from review.honesty.flow.walk import LONGEST, MOST_STEPS, TooLongError, Walk
from review.honesty.values import UNKNOWN, Scope, Tag, Value, either, of, union


def value(walk: Walk, node: ast.expr) -> Value:
    walk.steps += 1
    if walk.steps > MOST_STEPS:
        raise TooLongError
    match node:
        case ast.Constant(value=value):
            return Value(constant=value if isinstance(value, str | int | float | bool | bytes | None) else UNKNOWN)
        case ast.Name(id="__name__"):
            return Value(constant="__main__")
        case ast.Name(id=name):
            return walk.scope.find(name) or Value(path=f"builtins.{name}")
        case ast.Attribute(value=owner, attr=name):
            return walk.attribute(walk.value(owner), name)
        case ast.Call():
            return call(walk, node)
        case ast.BinOp(left=left, op=op, right=right):
            sides = walk.value(left), walk.value(right)
            return stepped(walk, node, rated(node, binary(walk, op, *sides), *sides), *sides)
        case ast.UnaryOp(op=op, operand=operand):
            found = walk.value(operand)
            return Value(found.deep(), negated(op, found.constant), rate=found.rate)
        case ast.BoolOp(values=values):
            found = [walk.value(one) for one in values]
            return either(found[0], found[1]) if len(found) == 2 else Value(union(found))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return compare(walk, ops, [walk.value(left), *(walk.value(one) for one in comparators)])
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return sequence(walk, parts)
        case ast.Dict(keys=keys, values=values):
            return mapping(walk, keys, values)
        case ast.Subscript(value=owner, slice=index):
            held, chosen = walk.value(owner), walk.value(index)
            found = subscript(walk, held, chosen)
            found = reordered(found, held, index)
            return kept_part(walk, found, held, index) if held.tags & CUT else found
        case ast.IfExp(test=test, body=body, orelse=orelse):
            tested = walk.value(test)
            known = truth(walk, test)
            if known is not None:
                return walk.value(body if known else orelse)
            return by_score(walk, tested, floored(node, walk.value(body), walk.value(orelse)))
        case ast.Lambda():
            return walk.function(node)
        case ast.ListComp(elt=elt, generators=generators) | ast.GeneratorExp(
                elt=elt, generators=generators) | ast.SetComp(elt=elt, generators=generators):
            return comprehension(walk, None, elt, generators)
        case ast.DictComp(key=key, value=value, generators=generators):
            return comprehension(walk, key, value, generators)
        case ast.JoinedStr(values=values):
            return text(walk, values)
        case ast.FormattedValue(value=value):
            return walk.value(value)
        case ast.NamedExpr(target=target, value=value):
            found = walk.value(value)
            assign(walk, target, found)
            return found
        case ast.Starred(value=value) | ast.Await(value=value):
            return walk.value(value)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return Value(union(walk.value(one) for one in (lower, upper, step) if one is not None))
        case ast.Yield(value=value) | ast.YieldFrom(value=value):
            found = walk.value(value) if value is not None else Value()
            frame = walk.frames[-1]
            frame.returned = found if frame.returned is None else either(frame.returned, found)
            return Value()
        case _:
            return of(Tag.OPAQUE)


def text(walk: Walk, parts: Iterable[ast.expr]) -> Value:
    found = [walk.value(part) for part in parts]
    known = all(part.constant is not UNKNOWN for part in found)
    return Value(union(found), "".join(str(part.constant) for part in found) if known else UNKNOWN)


def sequence(walk: Walk, parts: Sequence[ast.expr]) -> Value:
    elements: list[Value] = []
    for part in parts:
        found = walk.value(part)
        if isinstance(part, ast.Starred):
            if found.elements is None:
                return Value(union([*elements, *(walk.value(one) for one in parts)]))
            elements += found.elements
        else:
            elements.append(found)
    return Value(elements=typed(elements))


def typed(elements: list[Value]) -> list[Value]:
    """Elements of the source, marked where they may be answers."""
    return [Value(one.tags | {Tag.TYPED}, one.constant) for one in elements] if answers_like(elements) else elements


def mapping(walk: Walk, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> Value:
    held = Value()
    for key, value in zip(keys, values, strict=True):
        found = walk.value(value)
        if key is None:
            held.items |= found.items
            held.taint(found.tags)
            continue
        name = walk.value(key)
        if name.constant is UNKNOWN:
            held.taint(name.deep() | found.deep())
        else:
            held.items[name.constant] = found
    held.items = dict(zip(held.items, typed(list(held.items.values())), strict=True))
    return held


def comprehension(walk: Walk, key: ast.expr | None, elt: ast.expr, generators: Sequence[ast.comprehension]) -> Value:
    outer, where = walk.scope, walk.where
    walk.scope = Scope(outer=outer)
    held = Value(elements=[] if key is None else None)
    try:
        generate(walk, key, elt, generators, held)
    finally:
        walk.scope, walk.where = outer, where
    return held


def generate(
    walk: Walk, key: ast.expr | None, elt: ast.expr, generators: Sequence[ast.comprehension], held: Value,
) -> None:
    if not generators:
        found = walk.value(elt)
        if key is not None:
            name = walk.value(key)
            if name.constant is not UNKNOWN:
                held.items[name.constant] = found
            else:
                held.taint(found.deep() | name.deep())
        elif held.elements is not None:
            held.elements.append(found)
        return
    first, rest = generators[0], generators[1:]
    iterable = walk.value(first.iter)
    turns = walk.turns(iterable)
    where = walk.where
    for i, element in enumerate(turns if turns is not None else [walk.element(iterable)]):
        walk.where = (*where, i) if turns is not None else where
        assign(walk, first.target, element)
        tests = [walk.value(test) for test in first.ifs]
        if any(truth(walk, test) is False for test in first.ifs):
            continue
        held.taint(tag for test in tests for tag in test.deep() & {Tag.LABEL, Tag.DATA})
        generate(walk, key, elt, rest, held)
    if turns is None and held.elements is not None:
        held.taint(union(held.elements))
        parts, held.elements = held.elements, None
        if len(parts) == 1 and (parts[0].elements or parts[0].items or parts[0].body):
            held.elements = [parts[0]] * (LONGEST + 1)  # too long to unroll, and each like the one that is known
    walk.where = where
