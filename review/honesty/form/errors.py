"""Swallowed errors, and made-up numbers where something is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from record.nouns.nodes import Finding
from review.honesty import library as lib
from review.honesty.form.lines import BROAD, Lines, calls_in

WORK = frozenset({"backward", "fit", "partial_fit", "fit_transform", "predict", "predict_proba", "submit", "result",
                  "data", "load_dataset", "score"})
"""Last names of calls that train, evaluate, load data or hand results in."""


DRAWS = re.compile(r"(^|\.)(random|rng|gen|generator|rs|torch)\.(normal|rand|randn|random|uniform|standard_normal|"
                   r"integers|randint|choice|multivariate_normal|permutation)$|(^|\.)make_(classification|blobs|moons|"
                   r"regression|circles|gaussian_quantiles)$|^default_rng$")


PRESENT = re.compile(r"exists|is_file|is_dir|is None|is not None|available|isfile|isdir|found|HAS_|has_|\blen\(")
"""Tests of whether something is there."""
READS = re.compile(r"(^|\.)(lab\.data|load_dataset|read_csv|read_parquet|load|loadtxt|genfromtxt|open|fetch_\w+|"
                   r"load_\w+)$")


def _works(body: Sequence[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(name.rsplit(".", 1)[-1] in WORK or (name in functions and lib.TRAINS.search(name))
               for name in calls_in(body, functions))


def attempt(node: ast.Try, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    reads = any(READS.search(name) for name in calls_in(node.body, functions))
    for handler in node.handlers:
        if _raises(handler.body):
            continue
        if reads and any(DRAWS.search(name) for name in calls_in(handler.body, functions)):
            yield lines.finding("fallback", handler, "where the data cannot be loaded, generated numbers stand in")
        elif _typed_score(node, handler):
            yield lines.finding("fallback", handler, "where a score cannot be computed, a typed number takes its place")
        elif _broad(handler) and _works(node.body, functions) and not _again(node, handler, functions):
            yield lines.finding("swallowed", handler, "an error in loading, training or evaluation is swallowed")


def _typed_score(node: ast.Try, handler: ast.ExceptHandler) -> bool:
    """`except ValueError: score = 0.87`."""
    scored = any(lib.SCORES.search(f".{name}") for name in calls_in(node.body, {}))
    values = [one.value for stmt in handler.body for one in ast.walk(stmt) if isinstance(one, ast.Assign | ast.Return)]
    return scored and any(isinstance(one, ast.Constant) and isinstance(one.value, float) and 0.01 < one.value < 1
                          for one in values)


def _again(node: ast.Try, handler: ast.ExceptHandler, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether the handler does the same work again (a retry with a smaller batch), and makes no result up."""
    again = set(calls_in(handler.body, functions)) & set(calls_in(node.body, functions))
    return any(name.rsplit(".", 1)[-1] in WORK for name in again)


def _raises(body: Sequence[ast.stmt]) -> bool:
    for one in body:
        for node in ast.walk(one):
            if isinstance(node, ast.Raise) or (
                    isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "exit", "quit", "os._exit")):
                return True
    return False


def _broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(one) in BROAD for one in kinds)


def suppressed(node: ast.With, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    broad = any(isinstance(item.context_expr, ast.Call) and any(ast.unparse(one) in BROAD
                for one in item.context_expr.args) for item in node.items)
    if broad and _works(node.body, functions):
        yield lines.finding("swallowed", node, "errors in loading, training or evaluation are suppressed")


def fallback(node: ast.If, loaded: set[str], functions: Mapping[str, ast.FunctionDef],
              lines: Lines) -> Iterable[Finding]:
    """`if the data is there: load it, else: generate it`, either way round."""
    test = ast.unparse(node.test)
    if not PRESENT.search(test):
        return
    bound = [_bound(body) for body in (node.body, node.orelse)]
    names = [list(calls_in(body, functions)) for body in (node.body, node.orelse)]
    tested = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)} & loaded
    for made, other in ((0, 1), (1, 0)):
        draws = any(DRAWS.search(name) for name in names[made])
        reads = any(READS.search(name) for name in names[other])
        stands_in = bound[made] & bound[other] if reads or tested else set[str]()
        if draws and (stands_in or (not node.orelse and bound[made] & tested)):
            yield lines.finding("fallback", node, "where the data is missing, generated numbers take its place")


def either_way(node: ast.IfExp, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    """`data if it is there else generated`, either way round."""
    if not PRESENT.search(ast.unparse(node.test)):
        return
    for made, other in ((node.body, node.orelse), (node.orelse, node.body)):
        draws = any(DRAWS.search(name) for name in calls_in([made], functions))
        if draws and not any(DRAWS.search(name) for name in calls_in([other], functions)):
            yield lines.finding("fallback", node, "where the data is missing, generated numbers take its place")


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    found = {one.id for stmt in body for one in ast.walk(stmt)
             if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return found | {"return" for stmt in body for one in ast.walk(stmt) if isinstance(one, ast.Return)}
