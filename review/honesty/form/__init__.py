"""What is read off the form of a program: swallowed errors, made-up fallbacks, frozen seeds, arms cut short."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from record.nouns.data import DataPlan
from record.nouns.nodes import Finding
from review.honesty.flow import Flow, Sink
from review.honesty.form.arms import cut_short, unread_switches, unused_training
from review.honesty.form.failures import (
    READS,
    attempt,
    best_seed,
    either_way,
    fallback,
    noised_scores,
    seeds,
    suppressed,
)
from review.honesty.form.lines import Lines, calls_in


def structural(flow: Flow, sinks: Sequence[Sink], lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """All of them."""
    functions = {node.name: node for node in ast.walk(flow.tree) if isinstance(node, ast.FunctionDef)}
    loaded = {target.id for node in ast.walk(flow.tree) if isinstance(node, ast.Assign)
              and any(READS.search(name) for name in calls_in([node.value], functions))
              for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(flow.tree):
        if isinstance(node, ast.Try):
            yield from attempt(node, functions, lines)
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            yield from suppressed(node, functions, lines)
        elif isinstance(node, ast.If):
            yield from fallback(node, loaded, functions, lines)
        elif isinstance(node, ast.IfExp):
            yield from either_way(node, functions, lines)
    yield from noised_scores(flow.tree, lines)
    yield from unused_training(flow.tree, sinks, lines)
    yield from cut_short(flow.tree, lines, plan)
    yield from seeds(flow.tree, sinks, lines)
    yield from best_seed(flow.tree, lines)
    yield from unread_switches(flow, lines, plan)


__all__ = ["Lines", "structural"]
