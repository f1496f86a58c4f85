"""Find swallowed errors, numbers that replace missing data, typed scores, noise added to scores, best of seeds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from labwright.record.schema.nodes import HonestyFinding
from labwright.review.honesty import check_patterns
from labwright.review.honesty.static_checks.source_lines import BROAD_EXCEPTIONS, SourceLines, find_calls

WORK_CALLS = frozenset(
    {
        "backward",
        "fit",
        "partial_fit",
        "fit_transform",
        "predict",
        "predict_proba",
        "submit",
        "result",
        "data",
        "load_dataset",
        "score",
    }
)
"""Last part of the names of calls that train, evaluate, load data or submit results."""


DRAW_CALL = re.compile(
    r"(^|\.)(random|rng|gen|generator|rs|torch)\.(normal|rand|randn|random|uniform|standard_normal|"
    r"integers|randint|choice|multivariate_normal|permutation)$|(^|\.)make_(classification|blobs|moons|"
    r"regression|circles|gaussian_quantiles)$|^default_rng$"
)


PRESENCE_TEST = re.compile(r"exists|is_file|is_dir|is None|is not None|available|isfile|isdir|found|HAS_|has_|\blen\(")
"""Tests of whether data exist."""
READ_CALL = re.compile(
    r"(^|\.)(lab\.data|load_dataset|read_csv|read_parquet|load|loadtxt|genfromtxt|open|fetch_\w+|"
    r"load_\w+)$"
)


def _does_work(body: Sequence[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(
        name.rsplit(".", 1)[-1] in WORK_CALLS or (name in functions and check_patterns.TRAINING_CALL.search(name))
        for name in find_calls(body, functions)
    )


def check_try(node: ast.Try, functions: Mapping[str, ast.FunctionDef], lines: SourceLines) -> Iterable[HonestyFinding]:
    reads = any(READ_CALL.search(name) for name in find_calls(node.body, functions))
    for handler in node.handlers:
        if _reraises(handler.body):
            continue
        if reads and any(DRAW_CALL.search(name) for name in find_calls(handler.body, functions)):
            yield lines.make_finding("fallback", handler, "generated numbers are used when the data cannot be loaded")
        elif _handler_types_score(node, handler):
            yield lines.make_finding("fallback", handler, "a typed number is used when a score cannot be computed")
        elif _is_broad(handler) and _does_work(node.body, functions) and not _retries(node, handler, functions):
            yield lines.make_finding("swallowed", handler, "an error in loading, training or evaluation is swallowed")


def _handler_types_score(node: ast.Try, handler: ast.ExceptHandler) -> bool:
    """Detect `except ValueError: score = 0.87`."""
    scored = any(check_patterns.SCORE_CALL.search(f".{name}") for name in find_calls(node.body, {}))
    values = [one.value for stmt in handler.body for one in ast.walk(stmt) if isinstance(one, ast.Assign | ast.Return)]
    return scored and any(
        isinstance(one, ast.Constant) and isinstance(one.value, float) and 0.01 < one.value < 1 for one in values
    )


def _retries(node: ast.Try, handler: ast.ExceptHandler, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Return whether the handler retries the same work (such as with a smaller batch) without making up a result."""
    again = set(find_calls(handler.body, functions)) & set(find_calls(node.body, functions))
    return any(name.rsplit(".", 1)[-1] in WORK_CALLS for name in again)


def _reraises(body: Sequence[ast.stmt]) -> bool:
    for one in body:
        for node in ast.walk(one):
            if isinstance(node, ast.Raise) or (
                isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "exit", "quit", "os._exit")
            ):
                return True
    return False


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(one) in BROAD_EXCEPTIONS for one in kinds)


def check_suppress(
    node: ast.With, functions: Mapping[str, ast.FunctionDef], lines: SourceLines
) -> Iterable[HonestyFinding]:
    broad = any(
        isinstance(item.context_expr, ast.Call)
        and any(ast.unparse(one) in BROAD_EXCEPTIONS for one in item.context_expr.args)
        for item in node.items
    )
    if broad and _does_work(node.body, functions):
        yield lines.make_finding("swallowed", node, "errors in loading, training or evaluation are suppressed")


def check_fallback_branch(
    node: ast.If, loaded: set[str], functions: Mapping[str, ast.FunctionDef], lines: SourceLines
) -> Iterable[HonestyFinding]:
    """Find branches that load data if it exists and otherwise generate it, in either order."""
    test = ast.unparse(node.test)
    if not PRESENCE_TEST.search(test):
        return
    bound = [_bound_names(body) for body in (node.body, node.orelse)]
    names = [list(find_calls(body, functions)) for body in (node.body, node.orelse)]
    tested = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)} & loaded
    for made, other in ((0, 1), (1, 0)):
        draws = any(DRAW_CALL.search(name) for name in names[made])
        reads = any(READ_CALL.search(name) for name in names[other])
        stands_in = bound[made] & bound[other] if reads or tested else set[str]()
        if draws and (stands_in or (not node.orelse and bound[made] & tested)):
            yield lines.make_finding("fallback", node, "generated numbers are used when the data is missing")


def check_fallback_expression(
    node: ast.IfExp, functions: Mapping[str, ast.FunctionDef], lines: SourceLines
) -> Iterable[HonestyFinding]:
    """Find `data if exists else generated`, in either order; the existing value is read, or is the value that the
    condition tests.

    A value computed from the data itself, such as a row with noise, is not a replacement.
    """
    if not PRESENCE_TEST.search(ast.unparse(node.test)):
        return
    for made, other in ((node.body, node.orelse), (node.orelse, node.body)):
        reads = any(READ_CALL.search(name) for name in find_calls([other], functions))
        there = _value_names(other)
        if (
            _is_draw(made, functions)
            and not _is_draw(other, functions)
            and not (_value_names(made) & there)
            and (reads or there & _value_names(node.test))
        ):
            yield lines.make_finding("fallback", node, "generated numbers are used when the data is missing")


def _is_draw(part: ast.expr, functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(DRAW_CALL.search(name) for name in find_calls([part], functions))


def _value_names(part: ast.expr) -> set[str]:
    """Return the names of values, without the names of called functions."""
    called = {id(one.func) for one in ast.walk(part) if isinstance(one, ast.Call)}
    heads = {
        id(inner)
        for one in ast.walk(part)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
        for inner in ast.walk(one.func)
    }
    return {one.id for one in ast.walk(part) if isinstance(one, ast.Name) and id(one) not in called | heads}


def _bound_names(body: Sequence[ast.stmt]) -> set[str]:
    found = {
        one.id
        for stmt in body
        for one in ast.walk(stmt)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    return found | {"return" for stmt in body for one in ast.walk(stmt) if isinstance(one, ast.Return)}


def find_typed_scores(tree: ast.Module, lines: SourceLines) -> Iterable[HonestyFinding]:
    """Return one finding per call that submits a fraction typed in the source as a result."""
    bound = _bound_expressions(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "lab.result"
            and node.args
            and _reports_quality(node)
        ):
            value = _reported_value(node)
            if isinstance(value, ast.Name) and len(bound.get(value.id, ())) == 1:
                value = bound[value.id][0]
            if (
                isinstance(value, ast.Constant)
                and isinstance(value.value, float)
                and not check_patterns.CHANCE_ARM_NAME.search(ast.unparse(node))
            ):
                yield lines.make_finding(
                    "constant",
                    node,
                    "the value depends on neither data nor model: it is computed from numbers in the source",
                )


def _reported_value(node: ast.Call) -> ast.expr | None:
    if len(node.args) > 1:
        return node.args[1]
    return next((one.value for one in node.keywords if one.arg == "value"), None)


PASS_THROUGH_CALLS = frozenset({"float", "round", "min", "max", "abs", "clip", "array", "asarray", "mean", "item"})
"""Functions whose result is still a score if their argument is one."""
MAX_HOPS = 3
"""Maximum names that are followed back to their bindings."""


def find_noised_scores(tree: ast.Module, lines: SourceLines) -> Iterable[HonestyFinding]:
    """Return one finding per call that submits a score with random numbers added or multiplied."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Module)]
    for function in functions:
        bound = _bound_expressions(function)
        for node in _own_nodes(function):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("lab.result", "lab.log")
                and _reports_quality(node)
            ):
                value = _reported_value(node)
                if value is not None and any(
                    _has_noise_term(one) for one in _resolve_expressions(value, bound, MAX_HOPS)
                ):
                    yield lines.make_finding("noised", node, "the value is a score with added random noise")


def _own_nodes(function: ast.FunctionDef | ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _bound_expressions(function: ast.FunctionDef | ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in _own_nodes(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.AugAssign):
            both = ast.BinOp(node.target, node.op, node.value)
            found.setdefault(ast.unparse(node.target), []).append(both)
    return found


def _reports_quality(node: ast.Call) -> bool:
    name = node.args[0] if node.args else None
    return not isinstance(name, ast.Constant) or check_patterns.QUALITY_NAME.search(str(name.value)) is not None


def _resolve_expressions(value: ast.expr, bound: dict[str, list[ast.expr]], hops: int) -> Iterator[ast.expr]:
    """Yield the expression, the arguments of its outer functions, and the value to which its name was bound."""
    yield value
    if isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in PASS_THROUGH_CALLS:
        for one in value.args:
            yield from _resolve_expressions(one, bound, hops)
    elif isinstance(value, ast.Name | ast.Subscript | ast.Attribute) and hops:
        for one in bound.get(ast.unparse(value), ()):
            yield from _resolve_expressions(one, bound, hops - 1)


def _has_noise_term(value: ast.expr) -> bool:
    """Return whether a random draw itself is a term, as in `score + rng.normal(...)`, not only a function argument."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult)):
        return False
    return any(_is_drawn_number(side) for side in (value.left, value.right)) or any(
        _has_noise_term(side) for side in (value.left, value.right)
    )


def _is_drawn_number(side: ast.expr) -> bool:
    if isinstance(side, ast.BinOp):
        return _is_drawn_number(side.left) or _is_drawn_number(side.right)
    if isinstance(side, ast.Call) and ast.unparse(side.func) in ("abs", "float", "np.abs", "round") and side.args:
        return _is_drawn_number(side.args[0])
    return isinstance(side, ast.Call) and DRAW_CALL.search(ast.unparse(side.func)) is not None


SEED_NAME = re.compile(r"seed", re.I)


EXTREME_CALLS = frozenset({"max", "min", "argmax", "argmin"})
COUNT_EXPRESSION = re.compile(r"^len\(.*\)$|\.(shape(\[-?\d\])?|size|ndim)$")
"""Expressions that count rows or axes."""


def find_best_of_seeds(tree: ast.Module, lines: SourceLines) -> Iterable[HonestyFinding]:
    """Find a loop over seeds that keeps the best run, or the best of a list of runs by seed."""
    why = "several seeds are run and only the best is kept"
    runs: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and _varies_seed(node.target, node.body):
            kept = [one for one in ast.walk(node) if isinstance(one, ast.If) and _keeps_best(one)]
            if kept:
                yield lines.make_finding("best seed", kept[0], why)
            runs |= {
                ast.unparse(one.func.value)
                for one in ast.walk(node)
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "append"
            }
            runs |= {
                target.value.id
                for one in ast.walk(node)
                if isinstance(one, ast.Assign)
                for target in one.targets
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
            }
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.ListComp | ast.DictComp)
            and any(_varies_seed(one.target, [node.value]) for one in node.value.generators)
        ):
            runs |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and node.args
            and ast.unparse(node.func).rsplit(".", 1)[-1] in EXTREME_CALLS
            and any(one in runs for one in _extreme_arguments(node.args[0]))
        ):
            yield lines.make_finding("best seed", node, why)


def _extreme_arguments(part: ast.expr) -> Iterator[str]:
    """Yield the names whose values the extreme is computed from.

    In a comprehension, these are its iterables and subscripts, not arguments of functions. A maximum number of rows is
    not a result.
    """
    if isinstance(part, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        if COUNT_EXPRESSION.search(ast.unparse(part.elt)):
            return
        yield from (one for over in part.generators for one in _extreme_arguments(over.iter))
        yield from (ast.unparse(one.value) for one in ast.walk(part.elt) if isinstance(one, ast.Subscript))
    else:
        yield from (one.id for one in ast.walk(part) if isinstance(one, ast.Name))


def _varies_seed(target: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Return whether the loop variable becomes a seed, either through its name or because it is added to a seed."""
    names = {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    if any(SEED_NAME.search(name) for name in names):
        return True
    return any(
        isinstance(one, ast.BinOp)
        and SEED_NAME.search(ast.unparse(one))
        and names & {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
        for node in body
        for one in ast.walk(node)
    )


def _keeps_best(node: ast.If) -> bool:
    if not isinstance(node.test, ast.Compare | ast.BoolOp):
        return False
    tested = {ast.unparse(one) for one in ast.walk(node.test) if isinstance(one, ast.expr)}
    return any(
        isinstance(one, ast.Assign)
        and any(
            ast.unparse(name) in tested
            for target in one.targets
            for name in (target.elts if isinstance(target, ast.Tuple) else [target])
        )
        for one in node.body
    )
