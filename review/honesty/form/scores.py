"""Scores with random numbers put into them, as they stand in the call that hands them in or shortly before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.form.errors import DRAWS
from review.honesty.form.lines import Lines

PASSING = frozenset({"float", "round", "min", "max", "abs", "clip", "array", "asarray", "mean", "item"})
"""Functions that a score goes through and stays one."""
HOPS = 3
"""Names that are followed back to what they were bound to."""


def noised_scores(tree: ast.Module, lines: Lines) -> Iterable[Finding]:
    """One finding a call that hands in a score with drawn numbers added to it or multiplied into it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Module)]
    for function in functions:
        bound = _bound(function)
        for node in _own(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("lab.result", "lab.log") and _quality(node):
                value = node.args[1] if len(node.args) > 1 else next(
                    (one.value for one in node.keywords if one.arg == "value"), None)
                if value is not None and any(_noised(one) for one in _said(value, bound, HOPS)):
                    yield lines.finding("noised", node, "the value is a score with random numbers put into it")


def _own(function: ast.FunctionDef | ast.Module) -> Iterator[ast.AST]:
    """Nodes of a function, without those of functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _bound(function: ast.FunctionDef | ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in _own(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.AugAssign):
            both = ast.BinOp(node.target, node.op, node.value)
            found.setdefault(ast.unparse(node.target), []).append(both)
    return found


def _quality(node: ast.Call) -> bool:
    name = node.args[0] if node.args else None
    return not isinstance(name, ast.Constant) or lib.QUALITY.search(str(name.value)) is not None


def _said(value: ast.expr, bound: dict[str, list[ast.expr]], hops: int) -> Iterator[ast.expr]:
    """The expression, what its outer functions are given, and what its name was bound to."""
    yield value
    if isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in PASSING:
        for one in value.args:
            yield from _said(one, bound, hops)
    elif isinstance(value, ast.Name | ast.Subscript | ast.Attribute) and hops:
        for one in bound.get(ast.unparse(value), ()):
            yield from _said(one, bound, hops - 1)


def _noised(value: ast.expr) -> bool:
    """`score + rng.normal(...)`: a drawn number itself, not one that went into a function."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult)):
        return False
    return any(_drawn(side) for side in (value.left, value.right)) or any(
        _noised(side) for side in (value.left, value.right))


def _drawn(side: ast.expr) -> bool:
    if isinstance(side, ast.BinOp):
        return _drawn(side.left) or _drawn(side.right)
    if isinstance(side, ast.Call) and ast.unparse(side.func) in ("abs", "float", "np.abs", "round") and side.args:
        return _drawn(side.args[0])
    return isinstance(side, ast.Call) and DRAWS.search(ast.unparse(side.func)) is not None
