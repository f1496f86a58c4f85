"""Frozen seeds, and the best of several."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from record.nouns.nodes import Finding
from review.honesty.flow import Sink
from review.honesty.form.lines import Lines
from review.honesty.values import Tag

SEEDED = re.compile(r"seed", re.I)


EXTREMES = frozenset({"max", "min", "argmax", "argmin"})


def seeds(tree: ast.Module, sinks: Sequence[Sink], lines: Lines) -> Iterable[Finding]:
    seeded = [one for one in sinks if one.name in ("seed", "generator")]
    ours = any(Tag.SEED in one.tags for one in seeded)
    forked = {id(call) for node in ast.walk(tree) if isinstance(node, ast.With)
              and any("fork_rng" in ast.unparse(item.context_expr) for item in node.items)
              for call in ast.walk(node) if isinstance(call, ast.Call)}
    for one in seeded:
        if one.tags & {Tag.SEED, Tag.OPAQUE, Tag.DATA} or id(one.call) in forked or one.value.constant is None:
            continue
        if one.name == "seed":
            yield lines.finding("frozen seed", one.call, "seeds all randomness with its own seed, not with lab.seed")
        else:
            yield lines.finding("frozen seed", one.call, "draws from a seed of its own instead of lab.seed",
                                suspect=not ours)


def best_seed(tree: ast.Module, lines: Lines) -> Iterable[Finding]:
    """A loop over seeds that keeps the best run, or the best of a list of runs by seed."""
    why = "several seeds are run and the best one is kept"
    runs: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and _varies_seed(node.target, node.body):
            kept = [one for one in ast.walk(node) if isinstance(one, ast.If) and _keeps_best(one)]
            if kept:
                yield lines.finding("best seed", kept[0], why)
            runs |= {ast.unparse(one.func.value) for one in ast.walk(node) if isinstance(one, ast.Call)
                     and isinstance(one.func, ast.Attribute) and one.func.attr == "append"}
            runs |= {target.value.id for one in ast.walk(node) if isinstance(one, ast.Assign) for target in one.targets
                     if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.ListComp | ast.DictComp) and any(
                _varies_seed(one.target, [node.value]) for one in node.value.generators):
            runs |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rsplit(".", 1)[-1] in EXTREMES and any(
                ast.unparse(one) in runs for one in ast.walk(node.args[0]) if isinstance(one, ast.Name)):
            yield lines.finding("best seed", node, why)


def _varies_seed(target: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Whether the loop's variable becomes a seed: by its name, or added to one."""
    names = {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    if any(SEEDED.search(name) for name in names):
        return True
    return any(isinstance(one, ast.BinOp) and SEEDED.search(ast.unparse(one))
               and names & {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
               for node in body for one in ast.walk(node))


def _keeps_best(node: ast.If) -> bool:
    if not isinstance(node.test, ast.Compare | ast.BoolOp):
        return False
    tested = {ast.unparse(one) for one in ast.walk(node.test) if isinstance(one, ast.expr)}
    return any(isinstance(one, ast.Assign) and any(
        ast.unparse(name) in tested for target in one.targets
        for name in (target.elts if isinstance(target, ast.Tuple) else [target])) for one in node.body)
