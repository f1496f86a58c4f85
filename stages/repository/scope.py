"""What a patch of Python code changes, by symbol, and whether it stays with the part that is taken out.

Symbols are top-level functions and classes, methods as `Class.method`, `import` for imports and the code between them
as `<module>`. Only syntax is looked at: layout and comments are no change, and whether a change makes a difference the
run tells.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

Verdict = Literal["in scope", "no change", "decoy", "out of scope"]
MEASURES = re.compile(r"metric|accurac|rmse|_mse|score|evaluat|(^|_)auc|(^|_)f1|(^|_)r2$", re.IGNORECASE)
"""Names of what computes a metric, in a repair or where a part is taken out."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


class Scope(NamedTuple):
    """`changed`: symbols, in the order of the file."""

    changed: tuple[str, ...]
    verdict: Verdict
    why: str = ""


def patch_scope(before: str, after: str, target: str, metric_symbols: Collection[str] = ()) -> Scope:
    """Of one file: the target, what calls it, and imports may change; what computes the metric may not.

    `decoy`: nothing that the target does reaches what is computed. Raises: SyntaxError, of the patched file.
    """
    changed = changed_symbols(before, after)
    if not changed:
        return Scope((), "no change", "the syntax tree is the same")
    measuring = [one for one in changed if one in metric_symbols]
    if measuring:
        return Scope(changed, "out of scope", f"changes {measuring[0]}, which computes the metric")
    allowed = {target, "import", *callers_of(ast.parse(before), target)}
    other = [one for one in changed if one not in allowed and not one.startswith(f"{target}.")]
    if other:
        return Scope(changed, "out of scope", f"changes {other[0]}, which is neither {target} nor calls it")
    if is_decoy(ast.parse(before), target):
        return Scope(changed, "decoy", f"nothing that is computed uses what {target} does")
    return Scope(changed, "in scope")


def tampers(path: str, before: str, after: str, measures: re.Pattern[str] = MEASURES) -> str:
    """Why a change of a file is none that may be made, whatever it is for; empty where it may.

    What measures is known by its name, among what was there before.
    """
    if not path.endswith(".py"):
        return ""
    try:
        old, new = ast.parse(before), ast.parse(after)
    except SyntaxError as error:
        return f"{path} does not parse then: {error.msg}, line {error.lineno}"
    if ast.dump(old) == ast.dump(new):
        return f"{path}: the syntax tree is the same"
    if _swallows(new) > _swallows(old):
        return f"{path}: it swallows an exception"
    known = _symbols(old)
    measuring = [name for name in changed_symbols(before, after) if name in known and measures.search(name)]
    return f"{path}: it changes {measuring[0]}, which measures" if measuring else ""


def _swallows(tree: ast.Module) -> int:
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    return sum(not any(isinstance(one, ast.Raise) for one in ast.walk(handler)) for handler in handlers)


def changed_symbols(before: str, after: str) -> tuple[str, ...]:
    """Symbols whose syntax differs, those that came or went included."""
    old, new = (_symbols(ast.parse(text)) for text in (before, after))
    return tuple(name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name))


def _symbols(tree: ast.Module) -> dict[str, str]:
    """Symbol -> its syntax."""
    found: dict[str, str] = {}
    for name, node in _named(tree):
        found[name] = found.get(name, "") + ast.dump(node)
    return found


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *node.keywords):
                yield node.name, part
            for inner in node.body:
                yield f"{node.name}.{inner.name}" if isinstance(inner, _DEFINITIONS) else node.name, inner
        else:
            yield "import" if isinstance(node, _IMPORTS) else "<module>", node


def callers_of(tree: ast.Module, target: str) -> set[str]:
    """The symbols in which something of the target's name is called."""
    return {name for name, node in _named(tree) for one in ast.walk(node) if _calls(one, target)}


def _calls(node: ast.AST, target: str) -> bool:
    last = target.rpartition(".")[2]
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id == last)
        or (isinstance(node.func, ast.Attribute) and node.func.attr == last)
    )


def is_decoy(tree: ast.Module, target: str) -> bool:
    """Whether every call of the target drops its value, and it writes to nothing that outlives it.

    A part that is never called by its name in this file is none: nobody knows.
    """
    calls = [one for one in ast.walk(tree) if _calls(one, target)]
    dropped = [one for one in ast.walk(tree) if isinstance(one, ast.Expr) and _calls(one.value, target)]
    body = next((node for name, node in _named(tree) if name == target), None)
    return bool(calls) and len(calls) == len(dropped) and body is not None and not any(map(_writes, ast.walk(body)))


def _writes(node: ast.AST) -> bool:
    """Whether a statement may change something outside its function: attributes, items, globals."""
    return isinstance(node, ast.Global | ast.Nonlocal) or (
        isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    )
