"""What is read off the form of a program: swallowed errors, made-up fallbacks, typed scores, arms cut short."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.nodes import Finding
from labwright.review.honesty.form.arms import cut_short, unused_training
from labwright.review.honesty.form.failures import (
    READS,
    attempt,
    best_seed,
    either_way,
    fallback,
    noised_scores,
    suppressed,
    typed_scores,
)
from labwright.review.honesty.form.internals import uses_of_internals
from labwright.review.honesty.form.lines import Lines, calls_in


def of_form(trees: Mapping[str, ast.Module], lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """All of them, of all files together."""
    tree = ast.Module([one for tree in trees.values() for one in tree.body], [])
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    loaded = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(READS.search(name) for name in calls_in([node.value], functions))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            yield from attempt(node, functions, lines)
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            yield from suppressed(node, functions, lines)
        elif isinstance(node, ast.If):
            yield from fallback(node, loaded, functions, lines)
        elif isinstance(node, ast.IfExp):
            yield from either_way(node, functions, lines)
    yield from typed_scores(tree, lines)
    yield from noised_scores(tree, lines)
    yield from unused_training(tree, lines)
    yield from cut_short(tree, lines, plan)
    yield from best_seed(tree, lines)
    yield from uses_of_internals(tree, lines)


__all__ = ["Lines", "of_form"]
