"""Two rules that the worked cases of AblateCell check and that this program decides in another way.

The scope of a patch: an author names the places that no patch may touch (`stages.repository.authors`). The interaction
of components: a set whose joint effect exceeds the sum of the single effects gets fresh seeds, which decide.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from labwright.record.python_syntax import parse_plain
from labwright.stages.repository.ablation_stats import MIN_TWIN_ERRORS
from labwright.stages.repository.patch_scope import list_changed_symbols, walk_named

ScopeVerdict = Literal["in scope", "no change", "decoy", "out of scope"]


class PartInteraction(NamedTuple):
    """`value`: the joint effect minus the sum of the single effects; `is_joint`: whether it exceeds chance."""

    value: float
    bound: float
    is_joint: bool


def compute_interaction(singles: Iterable[float], joint: float, *, sigma: float, runs: int = 1) -> PartInteraction:
    """Compute the interaction of components that were ablated `runs` times each, and equally often together. `sigma`:
    standard deviation of one effect.
    """
    alone = list(singles)
    value, bound = joint - sum(alone), MIN_TWIN_ERRORS * sigma * math.sqrt((1 + len(alone)) / runs)
    return PartInteraction(value, bound, value > bound)


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


def list_callers(tree: ast.Module, target: str) -> set[str]:
    """Return the symbols that contain a call of the target's name."""
    return {name for name, node in walk_named(tree) for one in ast.walk(node) if _calls_target(one, target)}


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
    body = next((node for name, node in walk_named(tree) if name == target), None)
    return bool(calls) and len(calls) == len(dropped) and body is not None and not any(map(_may_write, ast.walk(body)))


def _may_write(node: ast.AST) -> bool:
    """Return whether a node may change state outside its function: attributes, items, globals."""
    return isinstance(node, ast.Global | ast.Nonlocal) or (
        isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    )
