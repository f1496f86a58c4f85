"""Settings as the code has them: constants read from a source's syntax tree, never from what a model says of it."""

from __future__ import annotations

import ast

from record.nouns.frozen import Scalar
from record.syntax import parse


def constants_of(source: str) -> dict[str, Scalar]:
    """The upper-case constants that a script assigns at its top level; empty when it does not parse.

    Tuples and lists of scalars are given as `name` -> their items joined by ", ". A name assigned twice is left out:
    its value depends on where one looks.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return {}
    found: dict[str, Scalar] = {}
    seen: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or not target.id.isupper():
            continue
        value = _literal(statement.value)
        if target.id in seen:
            found.pop(target.id, None)
        elif value is not None:
            found[target.id] = value
        seen.add(target.id)
    return found


def _literal(node: ast.expr) -> Scalar | None:
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple | list) and value and all(isinstance(item, str | int | float) for item in value):  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return None
