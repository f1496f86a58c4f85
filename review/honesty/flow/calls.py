"""What calls do: functions, methods and closures of the source are followed, libraries go by `library`."""

from __future__ import annotations

import ast

from review.honesty import library as lib
from review.honesty.flow.libraries import from_library, seeded
from review.honesty.flow.marks import means_of, spend
from review.honesty.flow.methods import method
from review.honesty.flow.objects import OURS, attribute, instance, member
from review.honesty.flow.walk import DEEPEST, LONGEST, Frame, Given, Walk
from review.honesty.values import NOTHING, Body, Scope, Tag, Value, either, of


def call(walk: Walk, node: ast.Call) -> Value:
    """The value of a call."""
    if isinstance(node.func, ast.Attribute):
        owner = walk.value(node.func.value)
        if not (owner.path and owner.path not in OURS) and node.func.attr not in owner.items:
            found = member(walk, owner, node.func.attr) if owner.made_by is not None else None
            if found is None and owner.path != "dataset":
                return method(walk, node, owner, node.func.attr, given_of(walk, node))
            function = found or attribute(walk, owner, node.func.attr)
        else:
            function = attribute(walk, owner, node.func.attr)
    else:
        function = walk.value(node.func)
    return apply(walk, function, given_of(walk, node), node)


def given_of(walk: Walk, node: ast.Call) -> Given:
    args: list[Value] = []
    for one in node.args:
        found = walk.value(one)
        args += found.elements if isinstance(one, ast.Starred) and found.elements is not None else [found]
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        found = walk.value(keyword.value)
        if keyword.arg is not None:
            named[keyword.arg] = found
        else:
            named |= {str(key): part for key, part in found.items.items()}
            if not found.items:
                named["**"] = found
    return Given(args, named)


def apply(walk: Walk, function: Value, given: Given, node: ast.AST) -> Value:
    """What a function, class, network or library makes of its arguments."""
    if len(function.others) > 1 and any(way.body or way.template for way in function.others):
        results = [apply(walk, way, given, node) for way in function.others]
        found = results[0]
        for one in results[1:]:
            found = either(found, one)
        return found
    if function.body is not None:
        name = getattr(function.body.node, "name", "")
        for one in given.args:
            if lib.TRAINS.search(name) and Tag.JOINED in one.tags and isinstance(node, ast.Call):
                walk.sink(node, "fit", one)
        made = follow(walk, function, given, node)
        return _answered(made) if lib.ANSWERS.search(name) else made
    if function.template is not None:
        return instance(walk, function, given, node)
    if function.path and function.path not in OURS and isinstance(node, ast.Call):
        return seeded(walk, node, function.path, given) or from_library(walk, node, function.path, given)
    if function.made_by is not None:
        for name in ("__call__", "forward"):
            found = member(walk, function, name)
            if found is not None:
                made = follow(walk, found, given, node)
                return _predicted(made) if Tag.MODEL in function.tags else made
    if Tag.MODEL in function.deep():
        return Value((function.deep() | given.tags | {Tag.MODEL, Tag.PREDICTED}) - {Tag.NOISED, Tag.SCORE})
    walk.training.fit(given.tags)
    return Value(function.deep() | given.tags | {Tag.OPAQUE})


def _predicted(made: Value) -> Value:
    if made.elements is not None:
        return Value(made.tags | {Tag.PREDICTED, Tag.MODEL}, elements=[_predicted(one) for one in made.elements])
    return Value(made.deep() | {Tag.PREDICTED, Tag.MODEL})


def _answered(made: Value) -> Value:
    """A prediction by its function's name."""
    if made.elements is None and not made.items and not made.made_by and Tag.DATA in made.deep():
        made.taint([Tag.PREDICTED])
    return made


def follow(walk: Walk, function: Value, given: Given, node: ast.AST) -> Value:
    """Run through a function of the source."""
    body = function.body
    assert body is not None
    if len(walk.stack) >= DEEPEST or body.node in walk.stack:
        return Value(given.tags | (body.owner.deep() if body.owner else NOTHING) | {Tag.OPAQUE})
    scope = Scope(outer=body.scope)
    _bind(walk, body, scope, given)
    outer, where, frame = walk.scope, walk.where, Frame()
    walk.scope, walk.where = scope, (*where, id(node))
    walk.stack.append(body.node)
    walk.frames.append(frame)
    if body.owner is not None:
        walk.classes.append("")
    try:
        if isinstance(body.node, ast.Lambda):
            return walk.value(body.node.body)
        walk.block(body.node.body)
    finally:
        walk.scope, walk.where = outer, where
        walk.stack.pop()
        walk.frames.pop()
        if body.owner is not None:
            walk.classes.pop()
    found = frame.returned or Value(constant=None)
    spend(found, means_of(scope.names))
    yields = id(body.node) in walk.generators
    return Value(elements=[found] * (LONGEST + 1)) if yields else found


def _bind(walk: Walk, body: Body, scope: Scope, given: Given) -> None:
    spec = body.node.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    values = [*([body.owner] if body.owner is not None else []), *given.args]
    outer, walk.scope = walk.scope, body.scope
    for name, default in zip(names[len(names) - len(spec.defaults):], spec.defaults, strict=True):
        scope.names[name] = walk.value(default)
    for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        scope.names[one.arg] = walk.value(default) if default is not None else of(Tag.OPAQUE)
    walk.scope = outer
    scope.names |= dict(zip(names, values, strict=False))
    if spec.vararg is not None:
        scope.names[spec.vararg.arg] = Value(elements=values[len(names):])
    known = {*names, *(one.arg for one in spec.kwonlyargs)}
    scope.names |= {name: value for name, value in given.named.items() if name in known}
    if spec.kwarg is not None:
        scope.names[spec.kwarg.arg] = Value(items={k: v for k, v in given.named.items() if k not in known})
    rest = given.named.get("**")
    for name in names:
        if name not in scope.names:
            scope.names[name] = Value((rest.deep() if rest else NOTHING) | {Tag.OPAQUE})
    _note_switches(walk, body, scope)


def _note_switches(walk: Walk, body: Body, scope: Scope) -> None:
    """Which of its parameters a function is told True or False for, and beside which texts."""
    texts = frozenset(one.constant for one in scope.names.values() if isinstance(one.constant, str))
    for name, value in scope.names.items():
        if isinstance(value.constant, bool):
            walk.passed.setdefault((body.node, name), []).append((value.constant, texts))
