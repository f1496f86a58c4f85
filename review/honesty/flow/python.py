"""Builtins of Python."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from review.honesty.flow import choices
from review.honesty.flow.choices import marked, ranked
from review.honesty.flow.files import read
from review.honesty.flow.objects import copied
from review.honesty.flow.walk import LONGEST, Given, Walk
from review.honesty.values import NOTHING, UNKNOWN, Ranked, Tag, Tags, Value, either, union


def builtin(walk: Walk, node: ast.Call, name: str, given: Given) -> Value:
    first = given.args[0] if given.args else Value()
    match name:
        case "len" | "isinstance" | "print" | "hasattr" | "id" | "super" | "exit" | "callable":
            return Value()
        case "range":
            return _range(given.args)
        case "zip" | "enumerate":
            return _paired(walk, name, given.args)
        case "getattr":
            key = given.get(1, "name").constant
            if isinstance(key, str):
                return walk.attribute(first, key)
            if first.path == "dataset":
                return Value(first.tags | {Tag.OPAQUE}, path="split")
            return Value(first.deep())
        case "list" | "tuple" | "sorted" | "reversed" | "set" | "iter":
            turns = walk.turns(first)
            mark = ranked(walk, first, _keyed(walk, node, first, given)) if name == "sorted" else None
            if mark is not None:
                return marked(Value(first.tags, elements=list(turns)) if turns else walk.element(first), mark)
            return Value(first.tags, elements=list(turns)) if turns is not None and not first.others else copied(first)
        case "dict":
            return Value(first.deep()) if first.elements else Value(first.tags, items=first.items | given.named)
        case "map" | "filter" if len(given.args) > 1:
            return Value(walk.apply(first, Given([walk.element(given.args[1])], {}), node).deep()
                         | (given.args[1].deep() if name == "filter" else NOTHING))
        case "open":
            return read(walk, node, first, given)
        case "max" | "min":
            return _extreme(walk, node, given)
        case "float" | "int" | "round" | "abs" | "str" | "sum" | "bool" | "divmod" | "pow":
            typed = first.constant if name in ("float", "str", "int", "round") else UNKNOWN
            more = {Tag.SCORE} if name in ("float", "round") and Tag.DATA in given.tags else frozenset[Tag]()
            return Value(given.tags | more, typed)
        case "next" | "any" | "all" | "bytes" | "hash" | "frozenset" | "repr" | "slice" | "ord" | "chr" | "format":
            return walk.element(first) if name == "next" else Value(given.tags)
        case _:
            return Value(given.tags | {Tag.OPAQUE})


def _range(args: Sequence[Value]) -> Value:
    bounds = [one.constant for one in args]
    if all(isinstance(one, int) for one in bounds) and 1 <= len(bounds) <= 3:
        numbers = range(*bounds)  # type: ignore[arg-type]
        if len(numbers) <= LONGEST:
            return Value(elements=[Value(constant=i) for i in numbers], turns=len(numbers))
        return Value(turns=len(numbers))
    return Value(union(args) - {Tag.DATA})


def _paired(walk: Walk, name: str, args: Sequence[Value]) -> Value:
    if name == "enumerate":
        args = [Value(), *args[:1]]
    turns = [walk.turns(one) for one in args]
    known = [one for one in turns if one is not None]
    if known and (name == "enumerate" or len(known) == len(args)):
        shortest = min(len(one) for one in known)
        rows = [[Value(constant=i) if one is None else one[i] for one in turns] for i in range(shortest)]
        return Value(elements=[Value(elements=row) for row in rows])
    row = Value(elements=[walk.element(one) for one in args])
    return Value(elements=[row] * (LONGEST + 1))


def _extreme(walk: Walk, node: ast.Call, given: Given) -> Value:
    tags = given.tags
    typed = any(isinstance(one.constant, float) and 0.01 < one.constant < 1 for one in given.args)
    if typed and len(given.args) > 1 and Tag.SCORE in tags:
        tags |= {Tag.BOOSTED}
    if len(given.args) == 1 and {Tag.SCORE, Tag.TEST} <= tags:
        tags |= {Tag.CHOSEN}
    one = Value(elements=list(given.args)) if len(given.args) > 1 else given.get(0, "iterable")
    judge = _keyed(walk, node, one, given)
    same = hash(frozenset(id(arg) for arg in given.args)) if len(given.args) > 1 else None
    mark = ranked(walk, one, judge, same)
    if mark is None and len(given.args) > 1 and all(choices.judges(arg.deep()) for arg in given.args):
        walk.kept += given.args
        return Value(tags | {Ranked(same or 0)})
    if mark is not None:
        return marked(_any_of(walk, one), mark)
    if "key" in given.named and len(given.args) == 1:
        return walk.element(one)
    return Value(tags - {Tag.JOINED})


def _keyed(walk: Walk, node: ast.Call, held: Value, given: Given) -> Tags:
    """Tags of what a key function makes of the elements."""
    key = given.named.get("key")
    if key is None:
        return NOTHING
    names = [Value(constant=one) for one in held.items]
    element = either(names[0], Value()) if names else walk.element(held)
    return walk.apply(key, Given([element], {}), node).deep() | key.deep()


def _any_of(walk: Walk, held: Value) -> Value:
    """One of the elements, or of the keys of a dict; as what it may be."""
    keys = [Value(constant=key) for key in held.items] if held.made_by is None else []
    ways = keys or list(held.elements or ())
    found = ways[0] if ways else walk.element(held)
    for way in ways[1:8]:
        found = either(found, way)
    return found
