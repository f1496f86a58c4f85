"""Parse Python source in any thread, and find the constants that it defines and the arms that its cells read.

In CPython 3.11, parsing in two threads at once can raise a SystemError ("AST constructor recursion depth mismatch");
here nodes are processed in several threads, and libraries also parse (numpy, for the header of every array). Source:
github.com/python/cpython, issue 106905.
"""

from __future__ import annotations

import ast
import math
import re
import threading
from contextlib import suppress
from typing import Any, cast

from labwright.record.schema import Scalar, replace_unencodable

_NUMBERS_PATTERN = re.compile(r"[\s\d.,:;+-]*\d[\s\d.,:;+%e-]*")
_MAX_EXPRESSION_DEPTH = 150
_PARSE_LOCK = threading.RLock()
_ORIGINAL_PARSE = ast.parse


def parse_python(source: str) -> ast.Module:
    """Parse source code. Raises `SyntaxError` for all that `ast.parse` cannot parse."""
    try:
        with _PARSE_LOCK:
            return _ORIGINAL_PARSE(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or "it is nested too deeply") from error


def parse_plain(source: str) -> ast.Module:
    """Parse source code that can be printed again. Raises `SyntaxError` for any other, such as one of expressions
    nested so deeply that functions of `ast` cannot follow them."""
    tree = parse_python(source)
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _MAX_EXPRESSION_DEPTH:
            raise SyntaxError(f"its expressions are nested more than {_MAX_EXPRESSION_DEPTH} deep")
        waiting += [(one, depth + isinstance(one, ast.expr)) for one in ast.iter_child_nodes(node)]
    return tree


def parse_expression(text: str) -> ast.expr:
    """Parse one expression. Raises `SyntaxError`."""
    match parse_plain(text).body:
        case [ast.Expr(value=value)]:
            return value
        case _:
            raise SyntaxError("it is not one expression")


def serialise_parsing() -> None:
    """Serialise all parsing in this process: `ast.parse` and `ast.literal_eval` wait for a lock."""

    def parse_alone(*args: Any, **options: Any) -> Any:
        with _PARSE_LOCK:
            return _ORIGINAL_PARSE(*args, **options)

    ast.parse = parse_alone


def collect_strings(text: str) -> set[str]:
    """Return every string literal of a source; none if it is not valid Python (which the kernel reports)."""
    with suppress(SyntaxError):
        nodes = ast.walk(parse_python(text))
        return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return set()


def collect_attributes(text: str) -> set[str]:
    """Return the name of every attribute that a source reads; none if it is not valid Python."""
    with suppress(SyntaxError):
        return {node.attr for node in ast.walk(parse_python(text)) if isinstance(node, ast.Attribute)}
    return set()


def collect_constants(source: str) -> dict[str, Scalar]:
    """Return the upper-case constants that a script assigns at top level; empty if it does not parse.

    Tuples and lists of scalars are returned as their items joined by ", ", dictionaries of scalars by their keys:
    `RATES.sgd`. Names assigned twice are left out, since their value is ambiguous. So are non-finite numbers and
    strings that UTF-8 cannot encode, since they cannot be read back, and strings that are lists of numbers, since these
    are stored for tuples.
    """
    try:
        tree = parse_python(source)
    except SyntaxError:
        return {}
    found: dict[str, Scalar | None] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                items = {name: statement.value}
                if isinstance(statement.value, ast.Dict):
                    pairs = zip(statement.value.keys, statement.value.values, strict=True)
                    items = {f"{name}.{_read_key(one)}": value for one, value in pairs if _read_key(one)}
                values = {key: _parse_literal(value) for key, value in items.items()}
                if len(values) == 1 or None not in values.values():
                    found |= {key: None if key in found else value for key, value in values.items()}
            case _:
                pass
    return {name: value for name, value in found.items() if value is not None}


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def read_last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _read_key(node: ast.expr | None) -> str:
    """Return a key of a dictionary if it is a plain word; empty for another."""
    key = str(node.value) if isinstance(node, ast.Constant) else ""
    return key if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", key, re.ASCII) else ""


def collect_defaults(source: str) -> dict[str, Scalar]:
    """Return the numbers that are defaults of parameters of functions: `steps=200`. Names with several values are left
    out; empty if the source does not parse."""
    try:
        functions = [one for one in ast.walk(parse_python(source)) if isinstance(one, ast.FunctionDef)]
    except SyntaxError:
        return {}
    found: dict[str, set[Scalar]] = {}
    for one in (each.args for each in functions):
        names = [*one.posonlyargs, *one.args]
        pairs = [*zip(names[len(names) - len(one.defaults) :], one.defaults, strict=True)]
        for name, node in (*pairs, *zip(one.kwonlyargs, one.kw_defaults, strict=True)):
            value = _parse_literal(node) if node is not None else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name.arg, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def collect_reads(source: str) -> dict[str, str] | None:
    """Return, by arm, the arm whose artifacts it reads, from `lab.measure(function, reads={...})`.

    Empty without `reads`, or if that is not a literal; None for a plain script, which never calls `lab.measure`, and
    for invalid Python.
    """
    try:
        tree = parse_python(source)
    except SyntaxError:
        return None
    modules, functions = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name for one in node.names if one.name == "lab"}
        elif isinstance(node, ast.ImportFrom) and node.module == "lab":
            functions |= {one.asname or one.name for one in node.names if one.name == "measure"}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr="measure")) if module in modules:
                pass
            case ast.Call(func=ast.Name(id=name)) if name in functions:
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
    """Return the value if it can be stored and read back."""
    if isinstance(value, str):
        return value if replace_unencodable(value) == value else None
    try:
        return value if isinstance(value, int | float) and math.isfinite(value) else None
    except OverflowError:  # an integer too large for a float
        return None
