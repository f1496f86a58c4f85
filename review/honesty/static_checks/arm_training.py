"""Find training functions that are never called, and loops that one arm leaves early."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import HonestyFinding
from labwright.review.honesty.static_checks.source_lines import SourceLines


def is_arm_name(name: object, roles: Mapping[str, str]) -> bool:
    return isinstance(name, str) and (
        roles.get(name) in ("baseline", "method") if roles else name in ("baseline", "method", "ours", "proposed")
    )


LEARNING_CALLS = frozenset({"backward", "fit", "partial_fit", "fit_transform", "train_on_batch"})


def find_unused_training(tree: ast.Module, lines: SourceLines) -> Iterable[HonestyFinding]:
    """Find a training function that is never called in a program without any other training."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    unused = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name not in used and not node.name.startswith("__")
    ]
    within = {id(one) for node in unused for one in ast.walk(node)}
    if any(
        isinstance(one, ast.Attribute) and one.attr in {*LEARNING_CALLS, "y"} and id(one) not in within
        for one in ast.walk(tree)
    ):  # code that reads labels may train by hand
        return
    for node in unused:
        if any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in ast.walk(node)):
            yield lines.make_finding("inert", node, f"the training in {node.name} is never called")


def find_arms_cut_short(tree: ast.Module, lines: SourceLines, plan: DataPlan | None) -> Iterable[HonestyFinding]:
    """Find `if arm == "baseline" and step > 3: break` in a loop."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For | ast.While):
            continue
        for node in ast.walk(loop):
            if (
                isinstance(node, ast.If)
                and isinstance(node.body[-1], ast.Break)
                and any(is_arm_name(one.value, roles) for one in ast.walk(node.test) if isinstance(one, ast.Constant))
                and any(isinstance(one, ast.Lt | ast.Gt | ast.LtE | ast.GtE) for one in ast.walk(node.test))
            ):
                yield lines.make_finding(
                    "unequal", node, "only one arm leaves a loop early", suspect=not _is_method_only(node.test, roles)
                )


def _is_method_only(test: ast.expr, roles: Mapping[str, str]) -> bool:
    """Return whether only the method leaves early, which is early stopping and does not favour it."""
    return any(
        isinstance(one, ast.Compare)
        and isinstance(one.ops[0], ast.Eq)
        and any(
            isinstance(side, ast.Constant)
            and (side.value == "method" if not roles else roles.get(str(side.value)) == "method")
            for side in (one.left, *one.comparators)
        )
        for one in ast.walk(test)
    )
