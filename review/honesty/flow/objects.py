"""Attributes of objects, and objects of classes of the source."""

from __future__ import annotations

import ast

from review.honesty import library as lib
from review.honesty.flow.walk import Given, Walk
from review.honesty.values import Body, Scope, Tag, Value, of

OURS = ("dataset", "split", "generator", "pairs")
SPLIT_TAGS = {"train": Tag.TRAIN, "dev": Tag.DEV, "validation": Tag.VALIDATION, "test": Tag.TEST}


def attribute(walk: Walk, owner: Value, name: str) -> Value:
    """`owner.name`."""
    if owner.path == "dataset":
        return _of_dataset(owner, name)
    if owner.path == "split":
        return Value(owner.tags | {Tag.LABEL if name == "y" else Tag.ROWS})
    if owner.path == "lab" and name in ("seed", "device"):
        return of(Tag.SEED) if name == "seed" else Value()
    if owner.path and owner.path not in OURS:
        return Value(owner.tags, path=f"{owner.path}.{name}")
    if name in owner.items:
        return owner.items[name]
    if owner.made_by is not None:
        found = member(walk, owner, name)
        if found is not None:
            return found
    if name in lib.SIZES:
        return Value()
    return Value(owner.deep())


def _of_dataset(owner: Value, name: str) -> Value:
    if name in SPLIT_TAGS:
        return Value(frozenset({Tag.DATA, SPLIT_TAGS[name]}), path="split")
    if name == "name":
        return owner.items.get("name", Value())
    return of(Tag.DATA) if name == "path" else Value()


def member(walk: Walk, owner: Value, name: str) -> Value | None:
    """A method or constant of an object's class, or of the classes of the source that it builds on."""
    assert owner.made_by is not None
    for node, scope in lineage(owner.made_by):
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name:
                static = any("staticmethod" in ast.unparse(d) for d in one.decorator_list)
                bound = Value(body=Body(one, scope, None if static else owner))
                if any("property" in ast.unparse(d) for d in one.decorator_list):
                    return walk.follow(bound, Given([], {}), one)
                return bound
            if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in one.targets):
                return walk.value(one.value)
    return None


def lineage(template: tuple[ast.ClassDef, Scope]) -> list[tuple[ast.ClassDef, Scope]]:
    found, node, scope = [template], *template
    for base in node.bases:
        known = scope.find(base.id) if isinstance(base, ast.Name) else None
        if known is not None and known.template is not None and known.template[0] is not node:
            found += lineage(known.template)
    return found


def instance(walk: Walk, function: Value, given: Given, node: ast.AST) -> Value:
    """An object of a class of the source."""
    assert function.template is not None
    made = Value(made_by=function.template)
    bases = [walk.value(base).path for one, _ in lineage(function.template) for base in one.bases
             if isinstance(base, ast.Name | ast.Attribute)]
    if any(base.startswith(lib.MODELS) and not base.startswith(lib.FUNCTIONAL) for base in bases):
        made.taint([Tag.MODEL, walk.training.make()])
    start = member(walk, made, "__init__")
    if start is not None:
        walk.follow(start, given, node)
        return made
    fields = [one.target.id for one in function.template[0].body
              if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    made.items |= {one.target.id: walk.value(one.value) for one in function.template[0].body
                   if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None}
    made.items |= dict(zip(fields, given.args, strict=False))
    made.items |= dict(given.named)
    return made


def copied(owner: Value) -> Value:
    return Value(owner.tags, owner.constant, owner.path, dict(owner.items),
                 list(owner.elements) if owner.elements is not None else None, owner.body, owner.template,
                 owner.made_by, list(owner.others))
