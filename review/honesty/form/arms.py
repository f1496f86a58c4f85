"""Arms trained with different means: typed budgets, switches that nothing reads, loops that one arm leaves early."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.flow import Flow, Sink
from review.honesty.form.lines import Lines
from review.honesty.values import Tag

BUDGETS = (
    (lib.STEPS, 3.0),
    (re.compile(r"^(\w+_)?(lr|learning_rate)(_init)?$", re.I), 100.0),
    (re.compile(r"^(\w+_)?(n_train|train_rows|rows|subset|train_size|n_rows|hidden)$|^(n_)?samples$|^fraction$|^width$"
                r"|(^|_)(train|data|sample|subset)_?(samples|fraction)$|^hidden_(size|units|dim|width)$", re.I), 10.0))
"""Settings that make an arm strong or weak, and the ratio between two arms from which on there is a finding."""


Gap = tuple[str, float, float]
"""A budget's name, the least and the most that an arm has of it."""


def budgets(tree: ast.Module, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """Arms whose training budgets, typed in one table or one choice by arm, differ by much."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    wording = " ".join(f"{arm.title} {arm.description}" for arm in plan.arms) + plan.notes + plan.task if plan else ""
    wording = re.sub(r"[\W_]", "", wording).lower()
    numbers = _numbers(tree)
    for node in ast.walk(tree):
        found: Iterable[tuple[str, float, float]] = ()
        if isinstance(node, ast.Dict):
            found = _table(node, roles, numbers)
        elif isinstance(node, ast.IfExp):
            found = _choice(node, tree, roles, numbers)
        elif isinstance(node, ast.Assign):
            found = _by_arm(node, roles, numbers)
        elif isinstance(node, ast.If):
            found = _branches(node, roles, numbers)
        for name, low, high in found:
            yield lines.finding("unequal", node, f"arms are trained with unequal means: {name} {low:g} against "
                                f"{high:g}", suspect=re.sub(r"\W|_|s$", "", name).lower() not in wording
                                and "budget" not in wording)


def _numbers(tree: ast.Module) -> dict[str, float]:
    return {target.id: float(node.value.value) for node in tree.body if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)
            for target in node.targets if isinstance(target, ast.Name)}


def _number(node: ast.expr, numbers: Mapping[str, float]) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return numbers.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
        a, b = _number(node.left, numbers), _number(node.right, numbers)
        if a is not None and b:
            return a * b if isinstance(node.op, ast.Mult) else a / b
    return None


def is_arm(name: object, roles: Mapping[str, str]) -> bool:
    return isinstance(name, str) and (roles.get(name) in ("baseline", "method") if roles else
                                      name in ("baseline", "method", "ours", "proposed"))


def _table(node: ast.Dict, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    rows = [value for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and is_arm(key.value, roles)]
    fields: dict[str, list[float]] = {}
    by_optimiser = len(rows) > 1 and all(re.search(r"optim|solver|SGD|Adam", ast.unparse(row)) for row in rows)
    for row in rows:
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(row, ast.Dict):
            pairs = [(key.value if isinstance(key, ast.Constant) else None, value)
                     for key, value in zip(row.keys, row.values, strict=True)]
        elif isinstance(row, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in row.keywords]
        for name, value in pairs:
            number = _number(value, numbers)
            if isinstance(name, str) and number is not None:
                fields.setdefault(name, []).append(number)
    for name, values in fields.items():
        if by_optimiser and lib.GIVEN_RATES.search(name):  # Adam's rates are not those of SGD
            continue
        if len(values) == len(rows) > 1 and _far(name, values):
            yield name, min(values), max(values)


def _far(name: str, values: Sequence[float]) -> bool:
    # A setting with a qualified name that one arm has none of is switched off there: warmup_steps, mask_fraction
    off = min(values) == 0 and "_" in name and not lib.GIVEN_RATES.search(name)
    return not off and any(
        pattern.search(name) and max(values) >= ratio * max(min(values), 1e-9) for pattern, ratio in BUDGETS)


def _by_arm(node: ast.Assign, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    """`EPOCHS = {"baseline": 1, "method": 60}`."""
    if not isinstance(node.value, ast.Dict) or not isinstance(node.targets[0], ast.Name):
        return
    values = [number for key, value in zip(node.value.keys, node.value.values, strict=True)
              if isinstance(key, ast.Constant) and is_arm(key.value, roles)
              and (number := _number(value, numbers)) is not None]
    if len(values) > 1 and _far(node.targets[0].id, values):
        yield node.targets[0].id, min(values), max(values)


def _branches(node: ast.If, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    """`if arm == "baseline": epochs = 1`, with an `else`."""
    if not any(is_arm(one.value, roles) for one in ast.walk(node.test) if isinstance(one, ast.Constant)):
        return
    sides = [{target.id: number for one in body if isinstance(one, ast.Assign) for target in one.targets
              if isinstance(target, ast.Name) and (number := _number(one.value, numbers)) is not None}
             for body in (node.body, node.orelse)]
    for name in sides[0].keys() & sides[1].keys():
        values = (sides[0][name], sides[1][name])
        if _far(name, values):
            yield name, min(values), max(values)


def _choice(node: ast.IfExp, tree: ast.Module, roles: Mapping[str, str], numbers: Mapping[str, float],
            ) -> Iterable[Gap]:
    tested = [one.value for one in ast.walk(node.test) if isinstance(one, ast.Constant)]
    if not any(is_arm(one, roles) for one in tested):
        return
    sides = [_number(side, numbers) for side in (node.body, node.orelse)]
    names = [target.id for one in ast.walk(tree) if isinstance(one, ast.Assign) and one.value is node
             for target in one.targets if isinstance(target, ast.Name)]
    names += [k.arg for one in ast.walk(tree) if isinstance(one, ast.Call) for k in one.keywords
              if k.value is node and k.arg]
    names += [ast.unparse(side) for side in (node.body, node.orelse)]
    a, b = sides
    named = next((name for name in names if a is not None and b is not None and _far(name, (a, b))), None)
    if named is not None and a is not None and b is not None:
        yield named, min(a, b), max(a, b)


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
