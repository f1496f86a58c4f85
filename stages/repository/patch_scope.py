"""Determine what a patch of Python code changes, by symbol, and refuse what no patch may change.

Symbols are top-level functions and classes, methods as `Class.method`, `import` for imports, and `<module>` for the
code between them. Only syntax is compared, so layout and comments do not count. Only a run shows whether a change has
an effect.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labwright.record.python_syntax import parse_plain

METRIC_NAME = re.compile(r"metric|accurac|rmse|_mse|score|evaluat|(^|_)auc|(^|_)f1|(^|_)r2$", re.IGNORECASE)
"""Names of functions that compute a metric; neither a repair nor an ablation may change them."""
_DEFINITION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORT_NODES = (ast.Import, ast.ImportFrom)


def find_tampering(path: str, before: str, after: str, metric_name: re.Pattern[str] = METRIC_NAME) -> str:
    """Return the reason why a change of a file is never allowed; empty if it may be allowed.

    Code that computes a metric is recognized by the names in the unpatched file.
    """
    if not path.endswith(".py"):
        return ""
    try:
        old, new = parse_plain(before), parse_plain(after)
    except SyntaxError as error:
        return f"{path} no longer parses: {error.msg}, line {error.lineno}"
    if ast.dump(old) == ast.dump(new):
        return f"{path}: the syntax tree is unchanged"
    if _count_swallowed_errors(new) > _count_swallowed_errors(old):
        return f"{path}: swallows an exception"
    known = _index_symbols(old)
    measuring = [name for name in list_changed_symbols(before, after) if name in known and metric_name.search(name)]
    return f"{path}: changes {measuring[0]}, which computes a metric" if measuring else ""


def _count_swallowed_errors(tree: ast.Module) -> int:
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    return sum(not any(isinstance(one, ast.Raise) for one in ast.walk(handler)) for handler in handlers)


def list_changed_symbols(before: str, after: str) -> tuple[str, ...]:
    """Return the symbols whose syntax differs, including added and removed ones."""
    old, new = (_index_symbols(parse_plain(text)) for text in (before, after))
    return tuple(name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name))


def _index_symbols(tree: ast.Module) -> dict[str, str]:
    """Map each symbol to its syntax."""
    found: dict[str, str] = {}
    for name, node in walk_named(tree):
        found[name] = found.get(name, "") + ast.dump(node)
    return found


def walk_named(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the syntax of a file, each piece with its symbol."""
    for node in tree.body:
        if isinstance(node, _DEFINITION_NODES):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *node.keywords):
                yield node.name, part
            for inner in node.body:
                yield f"{node.name}.{inner.name}" if isinstance(inner, _DEFINITION_NODES) else node.name, inner
        else:
            yield "import" if isinstance(node, _IMPORT_NODES) else "<module>", node
