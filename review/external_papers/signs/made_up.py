"""Find scores that code makes up: typed, random, from a formula, or with added noise or constants."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from labwright.review.external_papers.name_scopes import SCORE_NAME
from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.raised import constant_evaluations, printed, raised
from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, Sign
from labwright.review.external_papers.signs.sinks import (
    ASIDE,
    LOSS,
    PUBLISHED,
    ScoreSink,
    cited,
    fine,
    sign_at,
    sinks_of,
    typed_numbers,
)
from labwright.review.external_papers.value_origins import OriginTracer, ValueOrigin, is_draw


def made_up(scripts: tuple[AuditedScript, ...]) -> Iterator[Sign]:
    """Yield all signs of this kind in the code; tests are skipped."""
    read = [one for one in scripts if one.tree is not None and not one.is_test]
    origins = OriginTracer({one.path: one.tree for one in read if one.tree is not None})
    for script in read:
        for scope in origins.scopes[script.path]:
            body = scope.function or script.tree if scope.outer is None or scope.function else None
            if body is None or (
                scope.function is not None and re.match(r"test_|_?demo|_?example", scope.function.name)
            ):
                continue
            for sink in sinks_of(body, scope):
                yield from (replace(one, of=sink.name) for one in _of_sink(sink, script, origins))
            yield from raised(body, scope, script, origins)
        yield from constant_evaluations(script)
        yield from printed(script)


def _of_sink(sink: ScoreSink, script: AuditedScript, origins: OriginTracer) -> Iterator[Sign]:
    if PUBLISHED.search(sink.name) and isinstance(sink.value, ast.Dict) and len(typed_numbers(sink.value)) > 1:
        yield sign_at("published score", f"{sink.name} is declared as published", script, sink.line, 0.1)
    if ASIDE.search(sink.name) or (sink.scope.function is not None and sink.scope.function.name.startswith("__")):
        return
    found = origins.trace(sink.value, sink.scope)
    if ValueOrigin.COMPUTED in found:
        if (noise := _noise(sink, origins)) is not None:
            yield sign_at("noise on a score", f"random noise is added to {sink.name}", script, noise.lineno, 0.85)
        elif _shifted(sink, origins):
            yield sign_at("bonus for one method", f"a typed number is added to {sink.name}", script, sink.line, 0.6)
    elif ValueOrigin.DRAWN in found and (
        ValueOrigin.LEVEL in found or (sink.adds and "e-" not in ast.unparse(sink.value))
    ):
        yield sign_at("drawn score", f"{sink.name} is drawn at random", script, sink.line, 0.92)
    elif ValueOrigin.POSITION in found and ValueOrigin.LEVEL in found and _bends(sink.value):
        yield sign_at("formula for a curve", f"{sink.name} is a formula of its position", script, sink.line, 0.8)
    elif ValueOrigin.LEVEL in found and ValueOrigin.DRAWN not in found and _is_curve(sink.value):
        yield sign_at("formula for a curve", f"{sink.name} is a formula of typed numbers", script, sink.line, 0.8)
    elif ValueOrigin.TYPED in found and ValueOrigin.DRAWN not in found:
        yield from _typed_sink(sink, script, found)


def _typed_sink(sink: ScoreSink, script: AuditedScript, found: ValueOrigin) -> Iterator[Sign]:
    """Find typed numbers in place of results, except published or chosen numbers."""
    numbers = typed_numbers(sink.value)
    if not _holds_scores(sink.value):
        return
    if cited(script, sink.line):
        return
    if numbers:
        single = len(numbers) == 1 and not _is_table(sink, numbers)
        if not (single and not fine(numbers[0])):
            yield sign_at("typed score", f"{sink.name} is typed", script, sink.line, CIRCUMSTANTIAL if single else 0.8)
    elif (
        ValueOrigin.LEVEL in found
        and (SCORE_NAME.search(sink.name) or "evaluate" in sink.name)
        and isinstance(sink.value, _MADE_OF)
        and not _CHOSEN.search(ast.unparse(sink.value))
    ):
        yield sign_at("typed score", f"{sink.name} consists only of typed numbers", script, sink.line, 0.55)


_MADE_OF = (ast.Dict, ast.ListComp, ast.DictComp, ast.BinOp, ast.Subscript, ast.Call)
_CHOSEN = re.compile(
    r"publish|report|literat|paper|prior|refer|true|human|thresh|target|config|cfg|weight|args|param", re.I
)


def _holds_scores(value: ast.expr) -> bool:
    """Return whether the keys of results include the name of a score, or there are no keys."""
    keys = [
        str(key.value)
        for one in ast.walk(value)
        if isinstance(one, ast.Dict)
        for key in one.keys
        if isinstance(key, ast.Constant)
    ]
    return (
        not keys
        or any(SCORE_NAME.search(key) and not ASIDE.search(key) for key in keys)
        or not all(ASIDE.search(key) for key in keys)
    )


def _shifted(sink: ScoreSink, origins: OriginTracer) -> bool:
    """Return whether a typed number is added to a computed score, or multiplied as a factor near 1."""
    if not (SCORE_NAME.search(sink.name) or "evaluate" in sink.name) or LOSS.search(sink.name):
        return False
    for one in [sink.value.body, sink.value.orelse] if isinstance(sink.value, ast.IfExp) else [sink.value]:
        if not isinstance(one, ast.BinOp) or not isinstance(one.op, ast.Add | ast.Mult):
            continue
        for term, other in ((one.left, one.right), (one.right, one.left)):
            own, rest = origins.trace(term, sink.scope), origins.trace(other, sink.scope)
            if ValueOrigin.COMPUTED in own or ValueOrigin.DRAWN in own or ValueOrigin.COMPUTED not in rest:
                continue
            added = isinstance(one.op, ast.Add) and ValueOrigin.LEVEL in own and ValueOrigin.POSITION not in own
            factor = term.value if isinstance(term, ast.Constant) and isinstance(term.value, float) else 1.0
            near = 0.75 < factor < 1.35 and factor != 1.0
            scaled = near and isinstance(one.op, ast.Mult) and isinstance(other, ast.Name)
            if (added and SCORE_NAME.search(ast.unparse(other))) or scaled:
                return not _CHOSEN.search(ast.unparse(one))
    return False


def _noise(sink: ScoreSink, origins: OriginTracer) -> ast.expr | None:
    """Return a random draw that is added to a score as a separate term."""
    if re.search(r"privat|perturb|noisy|laplace|loss|grad|reward|^x|^y|value|label", sink.name, re.I):
        return None
    node: ast.expr = sink.value
    while (
        isinstance(node, ast.Call)
        and called_name(node) in ("min", "max", "clip", "round", "float", "abs")
        and node.args
    ):
        node = next((one for one in node.args if isinstance(one, ast.BinOp | ast.Call)), node.args[0])
        if isinstance(node, ast.Call) and called_name(node) not in ("min", "max", "clip", "round", "float", "abs"):
            return None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    for term, other in ((node.left, node.right), (node.right, node.left)):
        drawn = is_draw(term) or (
            ValueOrigin.DRAWN in origins.trace(term, sink.scope)
            and ValueOrigin.COMPUTED not in origins.trace(term, sink.scope)
        )
        if drawn and ValueOrigin.COMPUTED in origins.trace(other, sink.scope):
            return term
    return None


def _is_curve(node: ast.expr) -> bool:
    """Return whether names are arguments of a nonlinear function."""
    return any(
        isinstance(one, ast.Call)
        and called_name(one) in ("exp", "log", "log1p", "log10", "tanh", "sqrt", "sin")
        and any(
            isinstance(inner, ast.Name) and inner.id not in ("np", "math")
            for arg in one.args
            for inner in ast.walk(arg)
        )
        for one in ast.walk(node)
    )


def _bends(node: ast.expr) -> bool:
    """Return whether a formula is more than a fraction of progress, which schedules use."""
    return any(
        (isinstance(one, ast.Call) and called_name(one) in ("exp", "log", "log1p", "tanh", "sqrt", "power", "pow"))
        or (isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow | ast.Add | ast.Sub))
        for one in ast.walk(node)
    )


def _is_table(sink: ScoreSink, numbers: list[float]) -> bool:
    return len(numbers) >= 2 and any(isinstance(one, ast.Dict | ast.List | ast.Tuple) for one in ast.walk(sink.value))
