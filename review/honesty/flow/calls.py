"""What calls do: code of the source is followed, methods of arrays and networks are known, libraries by `library`."""

from __future__ import annotations

import ast

from review.honesty import library as lib
from review.honesty.flow.builtin_calls import keep, read, texts_of
from review.honesty.flow.libraries import from_library, seeded
from review.honesty.flow.marks import means_here, means_of, rated, reused, shuffled, spend, stepped
from review.honesty.flow.objects import OURS, attribute, copied, instance, member
from review.honesty.flow.walk import DEEPEST, LONGEST, Frame, Given, Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import NOTHING, UNKNOWN, Body, Scope, Tag, Value, either, of, union


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


SAME = frozenset({"to", "cpu", "cuda", "eval", "train", "float", "double", "half", "bfloat16", "requires_grad_",
                  "compile", "share_memory", "manual_seed", "__enter__"})
"""Methods that give their own object back, as far as its origin goes."""


def method(walk: Walk, node: ast.Call, owner: Value, name: str, given: Given) -> Value:
    """`owner.name(...)`."""
    tags = owner.deep() | given.tags
    if len(owner.others) > 1 and any(way.made_by for way in owner.others):
        results = [walk.apply(found, given, node) if (found := member(walk, way, name)) else Value(tags)
                   for way in owner.others if way.made_by]
        return results[0] if len(results) == 1 else either(results[0], results[1])
    _sinks_of(walk, node, owner, name, given)
    _trained(walk, node, owner, name, given)
    if name == "permutation" and (shuffled(given.get(0, "x")) or owner.path != "generator"):
        return Value(tags | ({Tag.SHUFFLED} if shuffled(given.get(0, "x")) else NOTHING))
    if name == "shuffle" and shuffled(given.get(0, "x")):
        given.get(0, "x").taint([Tag.SHUFFLED])
    if owner.path == "generator":
        return owner if name == "manual_seed" else Value(given.tags | {Tag.RANDOM} | (owner.tags & {Tag.SEED}))
    held = _container(walk, owner, name, given)
    if held is not None:
        return held
    if name in lib.SIZES:
        return Value()
    if name in SAME:
        return owner if owner.made_by or Tag.MODEL in owner.tags else copied(owner)
    if name in lib.READ_METHODS or (name == "open" and not owner.deep() & {Tag.OPAQUE}):
        return read(walk, node, owner, given)
    if name in lib.WRITE_METHODS:
        walk.written |= texts_of(walk, node)
        keep(walk, node, tags)
    if name in ("glob", "rglob", "iterdir") and not tags & {Tag.DATA, Tag.OPAQUE}:
        return of(Tag.FILE)
    if name in lib.MUTATORS:
        owner.taint(given.tags)
        tags = owner.deep()
    if name in lib.PREDICTS and owner.deep() & {Tag.MODEL, Tag.OPAQUE}:
        tags = (tags | {Tag.PREDICTED} | reused(owner.deep(), given.tags)) - {Tag.NOISED}
    if lib.SOFTMAX.search(name) and Tag.DATA in tags:
        tags |= {Tag.PREDICTED}
    if lib.SCORES.search(name):
        tags |= {Tag.SCORE}
    if name in ("detach", "clone", "copy", "numpy", "tolist", "items", "values"):
        return copied(owner)
    return Value(tags, path="generator" if name == "spawn" else "")


def _sinks_of(walk: Walk, node: ast.Call, owner: Value, name: str, given: Given) -> None:
    if name == "backward":
        walk.sink(node, "backward", owner)
    elif name in lib.FITS and not owner.elements and not owner.items:
        learnt = [*given.args, *(v for k, v in given.named.items() if k in ("X", "x", "y"))]
        walk.sink(node, "fit", Value(union(learnt)))
    elif name == "manual_seed" and owner.path == "generator":
        walk.sink(node, "generator", given.get(0, "seed"))
        owner.taint(given.tags & {Tag.SEED})
    elif (name in lib.STATISTICS or lib.RELATED.search(f".{name}")) and Tag.JOINED in owner.deep():
        walk.sink(node, "statistic", owner)
    seeded(walk, node, name, given)


def _trained(walk: Walk, node: ast.Call, owner: Value, name: str, given: Given) -> None:
    """Note what trains, freezes or redraws a network."""
    tags, training = owner.deep(), walk.training
    if name == "backward":
        training.lose(tags | given.tags, means_here(walk))
    elif name in lib.FITS:
        training.fit(tags | given.tags, means_here(walk))
    elif name == "step":
        for one in (*given.args, *given.named.values()):
            if one.body is not None:
                walk.apply(one, Given([], {}), node)
        training.step(tags | given.tags)
    elif name in lib.REDRAWS and Tag.MODEL in tags:
        training.reset(tags)
    elif name == "requires_grad_":
        training.freeze(tags, frozen=given.get(0, "requires_grad").constant is False)
    elif name == "zero_grad" and not walk.control:
        training.clear(tags)
    elif name == "load_state_dict":
        training.load(owner.deep(), given.tags)
    elif name in lib.UPDATES and not walk.classes:
        _step(walk, node, owner, given)
        training.fit(tags)


def _step(walk: Walk, node: ast.Call, owner: Value, given: Given) -> None:
    """Note `w.sub_(rate * g)` and `w.add_(g, alpha=-rate)` as what they are, `w - rate * g`."""
    signs = {"sub_": ast.Sub(), "add_": ast.Add()}
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in signs or not node.args:
        return
    by, moved = node.args[0], given.args[0]
    alpha = next((one.value for one in node.keywords if one.arg == "alpha"), None)
    if alpha is not None:
        by = ast.BinOp(alpha, ast.Mult(), by)
        moved = rated(by, Value(moved.deep()), given.named["alpha"], moved)
    step = ast.copy_location(ast.BinOp(node.func.value, signs[node.func.attr], by), node)
    owner.taint(stepped(walk, step, Value(), owner, moved).tags)


def _container(walk: Walk, owner: Value, name: str, given: Given) -> Value | None:
    """Methods of lists, dicts and texts whose parts are known."""
    first = given.args[0] if given.args else Value()
    if name == "append" and owner.elements is not None and given.args:
        if len(owner.elements) < 40:
            owner.elements.append(first)
        return Value(constant=None)
    if name == "split" and isinstance(owner.constant, str) and not given.args:
        return Value(elements=[Value(constant=part) for part in owner.constant.split()])
    if owner.made_by is None and owner.items:
        if name == "items":
            return Value(elements=[Value(elements=[Value(constant=k), v]) for k, v in owner.items.items()])
        if name == "values":
            return Value(owner.tags, elements=list(owner.items.values()))
        if name == "keys":
            return Value(elements=[Value(constant=key) for key in owner.items])
    if name in ("get", "pop", "setdefault") and (owner.items or Tag.DATA in owner.deep()):
        if first.constant is not UNKNOWN and first.constant in owner.items:
            return owner.items[first.constant]
        tags = owner.deep() | given.tags
        looked_up = Tag.LABEL in owner.deep() and Tag.TRAIN in owner.deep() and first.deep() & HELD
        return Value(tags | ({Tag.LOOKED_UP} if looked_up and Tag.PREDICTED not in tags else NOTHING))
    if name == "update" and first.items:
        owner.items |= first.items
        return Value(constant=None)
    if name == "items":
        return Value(elements=[Value(elements=[Value(), Value(owner.deep())])] * (LONGEST + 1))
    return None
