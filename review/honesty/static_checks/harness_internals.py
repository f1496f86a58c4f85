"""Find uses of the harness's internals: its private names, other stack frames, live objects of the process.

Limits: a use through `eval`, `ctypes` or a name built at run time is missed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from labwright.record.schema.nodes import HonestyFinding
from labwright.review.honesty.static_checks.source_lines import SourceLines

FRAME_ATTRIBUTES = frozenset({"f_locals", "f_globals", "f_back"})
REFERENCE_CALLS = frozenset({"gc.get_referrers", "gc.get_referents"})
INTERNAL_ATTRIBUTES = FRAME_ATTRIBUTES | {"__dict__", "__closure__", "__globals__", "cell_contents"}


def find_internals_use(tree: ast.Module, lines: SourceLines) -> Iterator[HonestyFinding]:
    """Return all uses. Counting live objects is allowed; inspecting them is not."""
    for node in ast.walk(tree):
        why = _private_name(node)
        if why:
            yield lines.make_finding("reaching", node, why)
        for target, iterable, body in _iter_loops(node):
            if _lists_live_objects(iterable) and _inspects_attributes(body, target):
                yield lines.make_finding(
                    "reaching", iterable, "inspects all live objects of the process, including the harness's"
                )


def _iter_loops(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, Sequence[ast.AST]]]:
    """Yield target, iterable and body of a loop or of each part of a comprehension."""
    if isinstance(node, ast.For):
        yield node.target, node.iter, node.body
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for one in node.generators:
            yield one.target, one.iter, [node]


def _private_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "lab" and node.attr.startswith("_"):
        return f"uses lab.{node.attr}, which is internal to the harness"
    if isinstance(node, ast.Attribute) and node.attr in FRAME_ATTRIBUTES:
        return "reads the stack frames of other functions"
    if isinstance(node, ast.ImportFrom) and (
        (node.module or "").startswith("lab.")
        or (node.module == "lab" and any(one.name.startswith("_") for one in node.names))
    ):
        return "imports internal names of the harness"
    if isinstance(node, ast.Import) and any(one.name.startswith("lab.") for one in node.names):
        return "imports an internal module of the harness"
    if not isinstance(node, ast.Call):
        return ""
    name = ast.unparse(node.func)
    if name in REFERENCE_CALLS:
        return "follows references between the objects of the process"
    if name in ("vars", "inspect.getmembers") and node.args and re.match(r"lab\b", ast.unparse(node.args[0])):
        return "iterates over the names of lab, including internal ones"
    own = isinstance(node.func, ast.Name) and name == "getattr" and len(node.args) > 1
    if (
        own
        and ast.unparse(node.args[0]) == "lab"
        and isinstance(node.args[1], ast.Constant)
        and (str(node.args[1].value).startswith("_"))
    ):
        return f"uses lab.{node.args[1].value}, which is internal to the harness"
    return ""


def _lists_live_objects(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Call) and ast.unparse(one.func).endswith("get_objects") for one in ast.walk(node))


def _inspects_attributes(body: Sequence[ast.AST], target: ast.expr) -> bool:
    """Return whether the loop inspects attributes of such an object."""
    names = {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    for part in body:
        for one in ast.walk(part):
            inspected = one.value if isinstance(one, ast.Attribute) and one.attr in INTERNAL_ATTRIBUTES else None
            if isinstance(one, ast.Call) and ast.unparse(one.func) in ("vars", "getattr", "dir") and one.args:
                inspected = one.args[0]
            if isinstance(inspected, ast.Name) and inspected.id in names:
                return True
    return False
