"""Determine what a patch of Python code changes, by symbol, and whether it stays within the component to ablate.

Symbols are top-level functions and classes, methods as `Class.method`, `import` for imports, and `<module>` for the
code between them. Only syntax is compared, so layout and comments do not count. Only a run shows whether a change has
an effect.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from labwright.record.python_syntax import parse_plain

ScopeVerdict = Literal["in scope", "no change", "decoy", "out of scope"]
METRIC_NAME = re.compile(r"metric|accurac|rmse|_mse|score|evaluat|(^|_)auc|(^|_)f1|(^|_)r2$", re.IGNORECASE)
"""Names of functions that compute a metric; neither a repair nor an ablation may change them."""
_DEFINITION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORT_NODES = (ast.Import, ast.ImportFrom)


class PatchScope(NamedTuple):
    """`changed`: symbols, in the order of the file."""

    changed: tuple[str, ...]
    verdict: ScopeVerdict
    why: str = ""


def check_patch_scope(before: str, after: str, target: str, metric_symbols: Collection[str] = ()) -> PatchScope:
    """Check the patch of one file: it may change the target, its callers and imports, but not code that computes the
    metric.

    `decoy`: the target affects no computed result. Raises `SyntaxError` for the patched file.
    """
    changed = list_changed_symbols(before, after)
    if not changed:
        return PatchScope((), "no change", "the syntax tree is unchanged")
    measuring = [one for one in changed if one in metric_symbols]
    if measuring:
        return PatchScope(changed, "out of scope", f"changes {measuring[0]}, which computes the metric")
    allowed = {target, "import", *list_callers(parse_plain(before), target)}
    other = [one for one in changed if one not in allowed and not one.startswith(f"{target}.")]
    if other:
        return PatchScope(changed, "out of scope", f"changes {other[0]}, which is neither {target} nor calls it")
    if is_decoy(parse_plain(before), target):
        return PatchScope(changed, "decoy", f"{target} affects no computed result")
    return PatchScope(changed, "in scope")


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
    for name, node in _walk_named(tree):
        found[name] = found.get(name, "") + ast.dump(node)
    return found


def _walk_named(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
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


def list_callers(tree: ast.Module, target: str) -> set[str]:
    """Return the symbols that contain a call of the target's name."""
    return {name for name, node in _walk_named(tree) for one in ast.walk(node) if _calls_target(one, target)}


def _calls_target(node: ast.AST, target: str) -> bool:
    last = target.rpartition(".")[2]
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == last)
        or (isinstance(node.func, ast.Attribute) and node.func.attr == last)
    )


def is_decoy(tree: ast.Module, target: str) -> bool:
    """Return whether every call of the target discards its value and the target changes no outside state.

    A target that is not called by name in this file is not a decoy, since its use is unknown.
    """
    calls = [one for one in ast.walk(tree) if _calls_target(one, target)]
    dropped = [one for one in ast.walk(tree) if isinstance(one, ast.Expr) and _calls_target(one.value, target)]
    body = next((node for name, node in _walk_named(tree) if name == target), None)
    return bool(calls) and len(calls) == len(dropped) and body is not None and not any(map(_may_write, ast.walk(body)))


def _may_write(node: ast.AST) -> bool:
    """Return whether a node may change state outside its function: attributes, items, globals."""
    return isinstance(node, ast.Global | ast.Nonlocal) or (
        isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    )
