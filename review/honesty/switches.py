"""What needs the interpreter's walk besides the tree: switches that nothing reads, seeds of the code's own."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from review.honesty.flow import Flow, Sink
from review.honesty.form import Lines
from review.honesty.form.arms import is_arm
from review.honesty.values import Tag

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


def seeds(tree: ast.Module, sinks: Sequence[Sink], lines: Lines) -> Iterable[Finding]:
    seeded = [one for one in sinks if one.name in ("seed", "generator")]
    ours = any(Tag.SEED in one.tags for one in seeded)
    forked = {id(call) for node in ast.walk(tree) if isinstance(node, ast.With)
              and any("fork_rng" in ast.unparse(item.context_expr) for item in node.items)
              for call in ast.walk(node) if isinstance(call, ast.Call)}
    for one in seeded:
        if one.tags & {Tag.SEED, Tag.OPAQUE, Tag.DATA} or id(one.call) in forked or one.value.constant is None:
            continue
        if one.name == "seed":
            yield lines.finding("frozen seed", one.call, "seeds all randomness with its own seed, not with lab.seed")
        else:
            yield lines.finding("frozen seed", one.call, "draws from a seed of its own instead of lab.seed",
                                suspect=not ours)
