"""Find figures that draw typed or random numbers instead of recorded arrays.

The checks cover a node's own plots, plots that are redrawn or aggregated, and the script of the paper's figures.
Limits: values that pass through functions of the script, and annotations, are not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from labwright.record.python_syntax import parse_python
from labwright.record.schema.nodes import HonestyFinding

MIN_TYPED_VALUES = 3
"""Minimum number of distinct typed fractions that make an argument suspicious; fewer may be an axis, limit or reference
line.
"""
MIN_TYPED_BARS = 2
"""The same number for bars, which are never limits."""

DRAWN_ARGUMENTS: Mapping[str, tuple[int, str]] = {
    **dict.fromkeys("plot errorbar scatter step stem semilogy loglog semilogx barplot lineplot".split(), (1, "y")),
    **dict.fromkeys(("hist", "boxplot"), (0, "x")),
    "bar": (1, "height"),
    "barh": (1, "width"),
    "fill_between": (1, "y1"),
    "violinplot": (0, "dataset"),
    "imshow": (0, "X"),
    "pcolormesh": (2, "C"),
    "matshow": (0, "Z"),
    "heatmap": (0, "data"),
}
"""For each plotting method, the position and name of the argument with the values."""
BAR_METHODS = frozenset({"bar", "barh", "barplot", "errorbar"})
MAX_HOPS = 4
"""Maximum names and functions that are followed back from a drawn value."""
WRAPPER_CALLS = frozenset({"array", "asarray", "list", "tuple", "values", "sorted", "stack", "concatenate"})


def find_typed_figures(source: str) -> Iterator[HonestyFinding]:
    """Yield one finding per call that draws values typed into the script, or random ones; none if it does not parse."""
    try:
        tree, lines = parse_python(source), source.splitlines()
    except SyntaxError:
        return
    bindings = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        method = node.func.attr
        if method not in DRAWN_ARGUMENTS or (values := _drawn_values(node, method)) is None:
            continue
        least = MIN_TYPED_BARS if method in BAR_METHODS else MIN_TYPED_VALUES
        if _count_typed_values(values, bindings, MAX_HOPS) >= least:
            why = "draws numbers that are typed into the script"
        elif _is_random(values, bindings):
            why = "draws random numbers"
        else:
            continue
        text = lines[node.lineno - 1].strip()[:160]
        yield HonestyFinding(kind="typed figure", why=why, line=node.lineno, text=text)


def _drawn_values(node: ast.Call, method: str) -> ast.expr | None:
    """Return what a call draws; `plot(values)` has only one argument."""
    place, name = DRAWN_ARGUMENTS[method]
    named = next((one.value for one in node.keywords if one.arg == name), None)
    if named is not None:
        return named
    args = [one for one in node.args if not (isinstance(one, ast.Constant) and isinstance(one.value, str))]
    if len(args) > place:
        return args[place]
    return args[0] if args and method == "plot" else None


def _count_typed_values(node: ast.expr, bindings: Mapping[str, ast.expr], hops: int) -> int:
    """Count distinct fractions among literal numbers; 0 if the expression has any other part."""
    if hops == 0:
        return 0
    if isinstance(node, ast.Name) and node.id in bindings:
        return _count_typed_values(bindings[node.id], bindings, hops - 1)
    if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in WRAPPER_CALLS:
        inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
        return _count_typed_values(inner, bindings, hops - 1) if inner is not None else 0
    if isinstance(node, ast.ListComp) and isinstance(node.elt, ast.Subscript | ast.Name):
        inner = node.elt.value if isinstance(node.elt, ast.Subscript) else node.generators[0].iter
        return _count_typed_values(inner, bindings, hops - 1)
    if isinstance(node, ast.Dict):
        return _count_fractions(node.values)
    return _count_fractions(node.elts) if isinstance(node, ast.List | ast.Tuple) else 0


def _count_fractions(elements: Sequence[ast.expr]) -> int:
    parts = [part for one in elements for part in (one.elts if isinstance(one, ast.List | ast.Tuple) else [one])]
    numbers = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, float)]
    if len(numbers) < len(parts) - 1:
        return 0
    steps = {round(b - a, 9) for a, b in pairwise(numbers)}
    even = len(steps) == 1 and len(numbers) > 2
    return 0 if even else len({one for one in numbers if one % 1})


def _is_random(node: ast.expr, bindings: Mapping[str, ast.expr], hops: int = MAX_HOPS) -> bool:
    """Return whether an argument comes only from calls to a random generator, and not from names that may be recorded
    arrays.
    """
    if isinstance(node, ast.Name) and node.id in bindings and hops:
        return _is_random(bindings[node.id], bindings, hops - 1)
    makers = ("default_rng", "RandomState", "Random")
    generators = (
        name
        for name, value in bindings.items()
        if isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in makers
    )
    sources = {"np", "numpy", "rng", "random", *generators}
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - sources
    calls = [ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    first = tuple(f"{name}." for name in sources - {"np", "numpy"})
    return not names and any(call.startswith(("np.random.", "numpy.random.", *first)) for call in calls)
