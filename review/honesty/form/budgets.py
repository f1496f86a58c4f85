"""Training budgets of arms that are typed in one table, or in one choice by arm."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.form.lines import Lines

BUDGETS = (
    (lib.STEPS, 3.0),
    (re.compile(r"^(\w+_)?(lr|learning_rate)(_init)?$", re.I), 100.0),
    (re.compile(r"^(\w+_)?(n_train|train_rows|rows|subset|train_size|n_rows|hidden)$|^(n_)?samples$|^fraction$|^width$"
                r"|(^|_)(train|data|sample|subset)_?(samples|fraction)$|^hidden_(size|units|dim|width)$", re.I), 10.0))
"""Settings that make an arm strong or weak, and the ratio between two arms from which on it is told."""


Gap = tuple[str, float, float]
"""A budget's name, the least and the most that an arm has of it."""


def budgets(tree: ast.Module, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """Arms whose training budgets, typed in one table or one choice by arm, differ by much."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    told = " ".join(f"{arm.title} {arm.description}" for arm in plan.arms) + plan.notes + plan.task if plan else ""
    told = re.sub(r"[\W_]", "", told).lower()
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
                                f"{high:g}", suspect=re.sub(r"\W|_|s$", "", name).lower() not in told
                                and "budget" not in told)


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
