"""Names, attributes and items are bound."""

from __future__ import annotations

import ast

from review.honesty.flow.marks import no_rate
from review.honesty.flow.walk import Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import UNKNOWN, Constant, Tag, Value, either


def assign(walk: Walk, target: ast.expr, value: Value) -> None:
    match target:
        case ast.Name(id=name):
            walk.scope.bind(name, value)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            starred = any(isinstance(part, ast.Starred) for part in parts)
            same = value.elements is not None and len(value.elements) == len(parts) and not starred
            for i, part in enumerate(parts):
                part = part.value if isinstance(part, ast.Starred) else part
                assign(walk, part, value.elements[i] if same and value.elements else walk.element(value))
        case ast.Attribute(value=owner, attr=name):
            held = walk.value(owner)
            if name == "requires_grad":
                walk.training.freeze(held.deep(), frozen=value.constant is False)
            elif Tag.MODEL in held.deep() and not inside_init(walk):
                walk.training.fit(held.deep())
            held.items[name] = value
        case ast.Subscript(value=owner, slice=index):
            put(walk, target, index=walk.value(index), value=value)
        case _:
            pass


def put(walk: Walk, node: ast.Subscript, *, index: Value, value: Value) -> None:
    """`held[index] = value`."""
    held = walk.value(node.value)
    if index.constant == "lr" and Tag.MODEL in held.deep():
        if no_rate(value.constant):
            walk.sink(node, "inert", Value(held.deep()), why="the learning rate is set to 0")
        else:
            walk.training.rate(held.deep())
    if Tag.MODEL in held.deep() and index.constant != "lr":
        walk.training.fit(held.deep())
    tags = value.deep() | index.deep()
    if isinstance(index.constant, str) or (held.items and index.constant is not UNKNOWN):
        before = held.items.get(index.constant) if id(node) in walk.handled else None
        held.items[index.constant] = value if before is None else either(before, value)
    elif held.items:
        for part in held.items.values():
            part.taint(tags)
    drawn = Tag.RANDOM in tags and Tag.DATA not in value.deep()
    if drawn and Tag.PREDICTED in held.tags and held.tags & HELD and not walk.classes:
        held.taint([Tag.NOISED])
    if not isinstance(index.constant, str):
        held.taint(tags)
        _put_into_list(held, index.constant, value)


def _put_into_list(held: Value, index: Constant, value: Value) -> None:
    """In a list whose length is known, the element is the new value from now on: `weights[k] = weights[k] - step`."""
    if held.elements is None:
        return
    if isinstance(index, int) and -len(held.elements) <= index < len(held.elements):
        held.elements[index] = value
    elif index is UNKNOWN:
        held.taint(tag for part in held.elements for tag in part.deep())
        held.elements = None


def inside_init(walk: Walk) -> bool:
    """Whether the object is only being made."""
    return bool(walk.stack) and getattr(walk.stack[-1], "name", "") == "__init__"
