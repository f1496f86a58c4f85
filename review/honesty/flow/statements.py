"""What statements do in the walk: names are bound, branches are both taken, short loops are unrolled."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from review.honesty.flow.marks import idle, no_rate, stepped, stepwise
from review.honesty.flow.modules import bind_from, bind_import
from review.honesty.flow.operators import binary, floor, rank, truth
from review.honesty.flow.walk import PASSES, Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import SPLITS, UNKNOWN, Constant, Tag, Value, either


def statement(walk: Walk, node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=value):
            walk.value(value)
        case ast.Assign(targets=targets, value=value):
            found = stepwise(walk, targets, value, walk.value(value))
            for target in targets:
                assign(walk, target, found)
        case ast.AnnAssign(target=target, value=value):
            if value is not None:
                assign(walk, target, walk.value(value))
        case ast.AugAssign(target=target, op=op, value=value):
            held, moved = walk.value(target), walk.value(value)
            found = stepped(walk, node, binary(walk, op, held, moved), held, moved)
            found = stepwise(walk, [target], target, found)
            found.taint(tag for tags in walk.control for tag in tags & {Tag.DATA, Tag.OPAQUE} | tags & SPLITS)
            assign(walk, target, found)
        case ast.If(test=test, body=body, orelse=orelse):
            branch(walk, test, body, orelse)
        case ast.For(target=target, iter=iterable, body=body, orelse=orelse) | ast.AsyncFor(
                target=target, iter=iterable, body=body, orelse=orelse):
            loop(walk, target, walk.value(iterable), body)
            walk.block(orelse)
        case ast.While(test=test, body=body, orelse=orelse):
            whiles(walk, test, body)
            walk.block(orelse)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last) | ast.TryStar(
                body=body, handlers=handlers, orelse=orelse, finalbody=last):
            attempt(walk, body, handlers, orelse, last)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            for item in items:
                found = walk.value(item.context_expr)
                if item.optional_vars is not None:
                    assign(walk, item.optional_vars, found)
            walk.block(body)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
                walk.value(default)
            walk.scope.bind(node.name, walk.function(node))
        case ast.ClassDef():
            walk.scope.bind(node.name, Value(template=(node, walk.scope)))
        case ast.Return(value=value):
            found = walk.value(value) if value is not None else Value(constant=None)
            frame = walk.frames[-1]
            frame.returned = found if frame.returned is None else either(frame.returned, found)
            frame.stopped = True
        case ast.Raise(exc=exc):
            if exc is not None:
                walk.value(exc)
            walk.frames[-1].stopped = True
        case ast.Import(names=names):
            for name in names:
                bind_import(walk, name.name, name.asname)
        case ast.ImportFrom():
            bind_from(walk, node)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            walk.scope.foreign |= set(names) if walk.scope is not walk.module else set()
        case ast.Assert(test=test):
            walk.value(test)
        case ast.Match(subject=subject, cases=cases):
            walk.value(subject)
            ways(walk, [case.body for case in cases])
        case _:
            pass


def branch(walk: Walk, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
    tested = walk.value(test)
    known = truth(walk, test)
    if known is not None:
        walk.block(body if known else orelse)
        return
    before = dict(walk.scope.names)
    walk.control.append(tested.deep())
    ways(walk, [body, orelse])
    walk.control.pop()
    chosen(walk, test, tested, body)
    rank(walk, tested, before)
    if walk.training.turning and isinstance(test, ast.Compare):
        for name, value in walk.scope.names.items():
            if before.get(name) not in (None, value):
                value.taint([Tag.LEARNT])
    if isinstance(test, ast.Compare):
        floor(walk, test, body)


def ways(walk: Walk, bodies: Sequence[Sequence[ast.stmt]]) -> None:
    """Follow each from the same state; names then hold what they may come to on any that goes on."""
    before, frame, ends = dict(walk.scope.names), walk.frames[-1], list[dict[str, Value]]()
    for body in bodies:
        walk.scope.names = dict(before)
        walk.block(body)
        if not frame.stopped:
            ends.append(walk.scope.names)
        frame.stopped = False
    frame.stopped = not ends
    walk.scope.names = merged(ends) if ends else before


def attempt(
    walk: Walk, body: Sequence[ast.stmt], handlers: Sequence[ast.ExceptHandler], orelse: Sequence[ast.stmt],
    last: Sequence[ast.stmt],
) -> None:
    for handler in handlers:
        if handler.name:
            walk.scope.bind(handler.name, Value())
    walk.handled |= {id(one) for handler in handlers for stmt in handler.body for one in ast.walk(stmt)}
    ways(walk, [[*body, *orelse], *(handler.body for handler in handlers)])
    stopped, walk.frames[-1].stopped = walk.frames[-1].stopped, False
    walk.block(last)
    walk.frames[-1].stopped = walk.frames[-1].stopped or stopped


def chosen(walk: Walk, test: ast.expr, tested: Value, body: Sequence[ast.stmt]) -> None:
    """`if score > best: best = score`: the name holds the best of several scores."""
    if not isinstance(test, ast.Compare):
        return
    sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
    for one in body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and (
                one.targets[0].id in sides and ast.unparse(one.value) in sides):
            walk.selections.append((test, tested.deep()))
            held = walk.scope.find(one.targets[0].id)
            if held is not None and Tag.TEST in held.deep():
                held.taint([Tag.CHOSEN])


def whiles(walk: Walk, test: ast.expr, body: Sequence[ast.stmt]) -> None:
    if truth(walk, test) is False:
        idle(walk, body, "a loop whose condition never holds")
    for _ in range(PASSES):
        walk.control.append(walk.value(test).deep())
        walk.training.turning.append(limit_of(walk, test))
        walk.training.loose += 1
        walk.block(body)
        walk.training.loose -= 1
        walk.training.turning.pop()
        walk.control.pop()
        walk.frames[-1].stopped = False


def limit_of(walk: Walk, test: ast.expr) -> float:
    """Turns of `while step < 200`; 1 where they are not known."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE):
        bound = walk.value(test.comparators[0]).constant
        return float(bound) if isinstance(bound, int) and bound > 0 else 1.0
    return 1.0


def loop(walk: Walk, target: ast.expr, iterable: Value, body: Sequence[ast.stmt]) -> None:
    if iterable.turns == 0:
        idle(walk, body, "a loop of no turns")
    turns = walk.turns(iterable)
    where = walk.where
    walk.training.turning.append(float(iterable.turns or 1))
    walk.training.loose += turns is None
    for i, element in enumerate(turns if turns is not None else [walk.element(iterable)] * PASSES):
        walk.where = (*where, i) if turns is not None else where
        assign(walk, target, element)
        before = walk.frames[-1].returned
        walk.block(body)
        if walk.frames[-1].returned is not before and walk.frames[-1].stopped and turns is None:
            walk.frames[-1].stopped = False
            break
        walk.frames[-1].stopped = False
    walk.where = where
    walk.training.loose -= turns is None
    walk.training.turning.pop()


def merged(ends: Sequence[dict[str, Value]]) -> dict[str, Value]:
    """Names after several ways through the source."""
    found = dict(ends[0])
    for end in ends[1:]:
        for name, value in end.items():
            found[name] = either(found[name], value) if name in found else value
    return found


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
