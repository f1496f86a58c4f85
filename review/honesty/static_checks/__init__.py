"""Static checks of a program: swallowed errors, made-up fallbacks, typed scores, arms that stop early."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import HonestyFinding
from labwright.review.honesty.static_checks.arm_training import find_arms_cut_short, find_unused_training
from labwright.review.honesty.static_checks.harness_internals import find_internals_use
from labwright.review.honesty.static_checks.made_up_scores import (
    READ_CALL,
    check_fallback_branch,
    check_fallback_expression,
    check_suppress,
    check_try,
    find_best_of_seeds,
    find_noised_scores,
    find_typed_scores,
)
from labwright.review.honesty.static_checks.source_lines import SourceLines, find_calls


def check_form(trees: Mapping[str, ast.Module], lines: SourceLines, plan: DataPlan | None) -> Iterable[HonestyFinding]:
    """Run all static checks on all files."""
    tree = ast.Module([one for tree in trees.values() for one in tree.body], [])
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    loaded = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(READ_CALL.search(name) for name in find_calls([node.value], functions))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            yield from check_try(node, functions, lines)
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            yield from check_suppress(node, functions, lines)
        elif isinstance(node, ast.If):
            yield from check_fallback_branch(node, loaded, functions, lines)
        elif isinstance(node, ast.IfExp):
            yield from check_fallback_expression(node, functions, lines)
    yield from find_typed_scores(tree, lines)
    yield from find_noised_scores(tree, lines)
    yield from find_unused_training(tree, lines)
    yield from find_arms_cut_short(tree, lines, plan)
    yield from find_best_of_seeds(tree, lines)
    yield from find_internals_use(tree, lines)


__all__ = ["SourceLines", "check_form"]
