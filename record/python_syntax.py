"""Python source as a syntax tree, from any thread: the constants that it sets, and what its cells read.

Two threads that make a tree at once can make CPython 3.11 fail with a SystemError ("AST constructor recursion depth
mismatch"); nodes are read and checked in several, and libraries make trees too (numpy, of the header of every array).

Source: github.com/python/cpython, issue 106905.
"""

from __future__ import annotations

import ast
import math
import re
import threading
from typing import Any, cast

from labwright.record.schema.frozen_model import Scalar, replace_unencodable

_NUMBERS_PATTERN = re.compile(r"[\s\d.,:;+-]*\d[\s\d.,:;+%e-]*")
_PARSE_LOCK = threading.RLock()
_ORIGINAL_PARSE = ast.parse


def parse_python(source: str) -> ast.Module:
    """The tree of some source. Raises what `ast.parse` raises: `SyntaxError`, `ValueError`, `RecursionError`."""
    with _PARSE_LOCK:
        return _ORIGINAL_PARSE(source)


def serialise_parsing() -> None:
    """From now on every tree of this process is made alone: `ast.parse` waits its turn, and so `ast.literal_eval`."""

    def alone(*args: Any, **options: Any) -> Any:
        with _PARSE_LOCK:
            return _ORIGINAL_PARSE(*args, **options)

    ast.parse = alone


def collect_strings(text: str) -> set[str]:
    """Every string that a source writes out; none where it is no Python, which the kernel will say better."""
    try:
        nodes = ast.walk(parse_python(text))
        return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def collect_attributes(text: str) -> set[str]:
    """The name of every attribute that a source reads; none where it is no Python."""
    try:
        return {node.attr for node in ast.walk(parse_python(text)) if isinstance(node, ast.Attribute)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()


def collect_constants(source: str) -> dict[str, Scalar]:
    """The upper-case constants that a script assigns at its top level; empty when it does not parse.

    Tuples and lists of scalars are given as `name` -> their items joined by ", ". A name assigned twice is left out:
    its value depends on where one looks. So are numbers that are not finite and texts that UTF-8 cannot hold, which
    nobody could read again, and texts that are lists of numbers: those are written as numbers.
    """
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Scalar] = {}
    seen: set[str] = set()
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or not target.id.isupper():
            continue
        value = _parse_literal(statement.value)
        if target.id in seen:
            found.pop(target.id, None)
        elif value is not None:
            found[target.id] = value
        seen.add(target.id)
    return found


def collect_reads(source: str) -> dict[str, str] | None:
    """What a program of cells says in `lab.measure(function, reads={...})`: arm -> the arm whose artifacts it reads.

    Empty without `reads`, or where that is no literal; None for a plain script, which never calls `lab.measure`, and
    for what does not parse.
    """
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "lab"
    }
    functions = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "lab"
        for alias in node.names
        if alias.name == "measure"
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id=module), attr="measure") if module in modules:
                pass
            case ast.Name(id=name) if name in functions:
                pass
            case _:
                continue
        given = next((one.value for one in node.keywords if one.arg == "reads"), None)
        try:
            value: object = ast.literal_eval(given) if given is not None else {}
        except (ValueError, TypeError, RecursionError, MemoryError):
            return {}
        pairs = cast("dict[object, object]", value).items() if isinstance(value, dict) else ()
        return {arm: other for arm, other in pairs if isinstance(arm, str) and isinstance(other, str)}
    return None


def _parse_literal(node: ast.expr) -> Scalar | None:
    try:
        value: object = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    several = isinstance(value, tuple | list)
    items = [_to_scalar(item) for item in cast("list[object]", value)] if several else [_to_scalar(value)]
    if not items or None in items or any(isinstance(item, str) and _NUMBERS_PATTERN.fullmatch(item) for item in items):
        return None
    return ", ".join(map(str, items)) if several else items[0]


def _to_scalar(value: object) -> Scalar | None:
    """The value, where it can be written down and read again."""
    if isinstance(value, str):
        return value if replace_unencodable(value) == value else None
    try:
        return value if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:  # an integer beyond all floats
        return None
