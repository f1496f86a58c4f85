"""Arms trained with different means: switches that nothing reads, loops that one arm leaves early."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from review.honesty.flow import Flow, Sink
from review.honesty.form.lines import Lines
from review.honesty.values import Tag


def is_arm(name: object, roles: Mapping[str, str]) -> bool:
    return isinstance(name, str) and (roles.get(name) in ("baseline", "method") if roles else
                                      name in ("baseline", "method", "ours", "proposed"))


OPENS = frozenset({"vars", "asdict", "__dict__"})
"""Names by which all attributes of an object are read at once."""


def unread_switches(flow: Flow, lines: Lines, plan: DataPlan | None) -> Iterator[Finding]:
    """Parameters that are True beside one arm's name and False beside another's, and are never read."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    tree = flow.tree
    if any(_name(one) in OPENS for one in ast.walk(tree)):
        return
    for (function, name), wording in flow.passed.items():
        beside = [{text for value, texts in wording if value is side for text in texts if is_arm(text, roles)}
                  for side in (True, False)]
        if all(beside) and beside[0] != beside[1] and _unread(function, name, tree):
            yield lines.finding("one for two", function, f"{name!r} tells the arms apart and is never read: they are "
                                                         "trained alike")


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _unread(function: ast.AST, name: str, tree: ast.AST) -> bool:
    """Whether nothing reads the parameter, nor the attributes that alone it is put into."""
    kept = [(target, value) for one in ast.walk(function) if isinstance(one, ast.Assign)
            for target, value in _pairs(one) if isinstance(value, ast.Name) and value.id == name]
    read = {id(one) for one in ast.walk(function)
            if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)}
    attributes = {target.attr for target, _ in kept if isinstance(target, ast.Attribute)}
    if read - {id(value) for target, value in kept if isinstance(target, ast.Attribute)}:
        return False
    return not any((isinstance(one, ast.Attribute) and one.attr in attributes and isinstance(one.ctx, ast.Load))
                   or (isinstance(one, ast.Constant) and one.value in attributes) for one in ast.walk(tree))


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def unused_training(tree: ast.Module, sinks: Sequence[Sink], lines: Lines) -> Iterable[Finding]:
    """A function that trains, that nothing calls, in a program that learns nowhere else."""
    learnt = any(one.name in ("submit", "artifact") and one.tags & {Tag.LABEL, Tag.LEARNT} for one in sinks)
    if learnt or any(one.name in ("fit", "backward") for one in sinks):
        return
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name not in used and not node.name.startswith("__") and any(
                isinstance(one, ast.Attribute) and one.attr == "backward" for one in ast.walk(node)):
            yield lines.finding("inert", node, f"the training in {node.name} is never called")


def cut_short(tree: ast.Module, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """`if arm == "baseline" and step > 3: break`, inside a loop."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For | ast.While):
            continue
        for node in ast.walk(loop):
            if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Break) and any(
                    is_arm(one.value, roles) for one in ast.walk(node.test) if isinstance(one, ast.Constant)) and any(
                    isinstance(one, ast.Lt | ast.Gt | ast.LtE | ast.GtE) for one in ast.walk(node.test)):
                yield lines.finding("unequal", node, "one arm alone leaves a loop early",
                                    suspect=not _method_only(node.test, roles))


def _method_only(test: ast.expr, roles: Mapping[str, str]) -> bool:
    """Whether it is the method that leaves: early stopping is one, and nothing is won by a weaker method."""
    return any(isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq) and any(
        isinstance(side, ast.Constant) and (side.value == "method" if not roles else
                                            roles.get(str(side.value)) == "method")
        for side in (one.left, *one.comparators)) for one in ast.walk(test))
