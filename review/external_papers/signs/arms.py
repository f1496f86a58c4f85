"""Find scores that are changed or rounded for one arm only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.sign import CONCLUSIVE, Kind, Sign


def for_one_arm(own: Sequence[ast.AST], script: AuditedScript) -> Iterator[Sign]:
    """Yield changes in one scope to the scores of only one arm."""
    yield from _changed(own, script)
    yield from _rounded(own, script)


def _changed(own: Sequence[ast.AST], script: AuditedScript) -> Iterator[Sign]:
    """Find a computed value that is changed by a typed number for one arm and then stored."""
    kept = {name for one in own for name in _kept(one)}
    for block in (one for node in own for one in _blocks(node)):
        for at, one in enumerate(block):
            if not isinstance(one, ast.If) or not _is_arm(one.test):
                continue
            for inner in one.body:
                name, value = _again(inner)
                fresh = any(
                    isinstance(other, ast.Assign)
                    and name in targets_of(other)
                    and not _uses(other.value, name)
                    and not isinstance(other.value, ast.Constant)
                    for other in block[:at]
                )
                if value is not None and fresh and name in kept and _is_scalar(value) and _chosen(value):
                    yield _sign(
                        "bonus for one method",
                        f"{name} is changed by a typed number for one case, and stored",
                        script,
                        inner.lineno,
                        CONCLUSIVE,
                    )


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield cast("list[ast.stmt]", block)


def _again(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """Return the name that a statement updates from its previous value, and the new value."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        return name, statement.value if _uses(statement.value, name) else None
    return "", None


def _uses(value: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(value))


def _is_scalar(value: ast.expr) -> bool:
    """Return whether an expression is pure arithmetic."""
    return not any(
        isinstance(one, ast.MatMult)
        or (
            isinstance(one, ast.Call) and called_name(one) not in ("max", "min", "abs", "round", "float", "int", "clip")
        )
        for one in ast.walk(value)
    )


def _is_arm(test: ast.expr) -> bool:
    """Return whether a condition selects one of several arms: a name compared with a string or a function."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.Is | ast.In):
        return False
    other = test.comparators[0]
    texts = [other] if not isinstance(other, ast.Tuple | ast.List | ast.Set) else other.elts
    named = all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in texts)
    return named or (isinstance(test.ops[0], ast.Is) and isinstance(other, ast.Name | ast.Attribute))


def _kept(node: ast.AST) -> Iterator[str]:
    """Yield names whose values are stored in a record or list, or printed."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        values = node.values
    elif isinstance(node, ast.Call) and called_name(node) in ("append", "print", "info", "log", "writerow", "write"):
        values = [*node.args, *(word.value for word in node.keywords)]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        values = [node.value]
    for value in values:
        if isinstance(value, ast.Call) and called_name(value) in ("round", "float") and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name):
            yield value.id


def targets_of(node: ast.Assign) -> set[str]:
    return {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _chosen(value: ast.expr) -> bool:
    numbers = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, float)]
    return any(abs(number) not in (0, 1, 0.5, 2, 10, 60, 100, 1000) and abs(number) > 1e-5 for number in numbers)


def _rounded(own: Sequence[ast.AST], script: AuditedScript) -> Iterator[Sign]:
    """Find rounding up or down for one arm, but to the nearest for others."""
    for one in own:
        if isinstance(one, ast.IfExp) and _is_arm(one.test):
            ways = {_last(one.body), _last(one.orelse)}
        elif (
            isinstance(one, ast.Call)
            and called_name(one) == "get"
            and len(one.args) == 2
            and isinstance(one.func, ast.Attribute)
            and isinstance(one.func.value, ast.Dict)
        ):
            ways = {_last(one.args[1]), *map(_last, one.func.value.values)}
        else:
            continue
        if "round" in ways and ways & {"ceil", "floor"}:
            yield _sign(
                "bonus for one method",
                "one case is rounded differently from the others",
                script,
                one.lineno,
                CONCLUSIVE,
            )


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _sign(kind: Kind, what: str, script: AuditedScript, line: int, weight: float) -> Sign:
    return Sign(kind, what, f"{script.path}:{line}", script.text.splitlines()[line - 1].strip()[:160], weight)
