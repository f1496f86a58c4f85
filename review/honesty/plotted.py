"""Figures that show typed or drawn numbers instead of recorded arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import pairwise

from record.nouns import DataPlan, Finding
from review.honesty.structure import Lines

FEWEST = 3
"""Typed fractions in one argument from which on they are no axis, limit or reference line."""

DRAWN = {"plot": 1, "bar": 1, "barh": 1, "errorbar": 1, "scatter": 1, "step": 1, "fill_between": 1, "hist": 0,
         "boxplot": 0, "violinplot": 0, "imshow": 0, "stem": 1}
"""Plotting method -> which positional argument holds the values."""


def typed_figures(source: str, plan: DataPlan | None = None) -> Iterable[Finding]:
    """One finding a call that draws values typed into the script, or random ones."""
    del plan
    tree, lines = ast.parse(source), Lines(source)
    held = {target.id: node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DRAWN):
            continue
        place = DRAWN[node.func.attr]
        values = node.args[place] if len(node.args) > place else None
        if values is None:
            continue
        values = held.get(values.id, values) if isinstance(values, ast.Name) else values
        if _typed(values) >= FEWEST:
            yield lines.finding("typed figure", node, "draws numbers that are typed into the script")
        elif _random(values):
            yield lines.finding("typed figure", node, "draws random numbers")


def _typed(node: ast.expr) -> int:
    """Different fractions in a list of numbers (also within np.array); 0 where anything else stands in it."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(("array", "asarray")):
        node = node.args[0]
    if not isinstance(node, ast.List | ast.Tuple):
        return 0
    parts = [part for one in node.elts for part in (one.elts if isinstance(one, ast.List | ast.Tuple) else [one])]
    numbers = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, float)]
    if len(numbers) < len(parts) - 1:
        return 0
    steps = {round(b - a, 9) for a, b in pairwise(numbers)}
    return len({one for one in numbers if not one.is_integer()}) if len(steps) > 1 else 0


def _random(node: ast.expr) -> bool:
    """Whether an argument is made of calls to a random generator, and of no name that may hold recorded arrays."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {"np", "numpy", "rng", "random"}
    calls = [ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    return not names and any(call.startswith(("np.random.", "numpy.random.", "rng.", "random.")) for call in calls)
