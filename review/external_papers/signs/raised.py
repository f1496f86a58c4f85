"""Find values inserted on failure, scores raised for one case, and labels presented as predictions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labwright.review.external_papers.name_scopes import SCORE_NAME, NameScope, walk_scope
from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.sign import Sign
from labwright.review.external_papers.signs.sinks import (
    ASIDE,
    CITED,
    EXEMPT,
    LOSS,
    RESULT,
    fine,
    name_of,
    sign_at,
    typed_numbers,
)
from labwright.review.external_papers.value_origins import OriginTracer, ValueOrigin, is_draw

_EVALUATES = re.compile(
    r"^_?(?:evaluate|eval|score|test|validate|compute|measure|get|calc\w*|run|assess|benchmark)", re.I
)
_ERRORS = re.compile(r"available|exist|has_|is[_ ]?none|fail|missing|found|cuda|import|success", re.I)


def raised(body: ast.AST, scope: NameScope, script: AuditedScript, origins: OriginTracer) -> Iterator[Sign]:
    """Yield all signs of this kind in one scope."""
    yield from _handlers(body, scope, script, origins)
    yield from _bonuses(body, scope, script)
    yield from _from_labels(body, scope, script)


def _handlers(body: ast.AST, scope: NameScope, script: AuditedScript, origins: OriginTracer) -> Iterator[Sign]:
    """Find a score inserted when a step failed or data are missing."""
    for one in walk_scope(body):
        places: list[tuple[list[ast.stmt], str]] = []
        if isinstance(one, ast.Try):
            places = [(handler.body, "an error is caught") for handler in one.handlers]
        elif isinstance(one, ast.If) and _ERRORS.search(ast.unparse(one.test)):
            places = [(part, "something is missing") for part in (one.body, one.orelse)]
        for part, why in places:
            for inner in (deep for statement in part for deep in (statement, *walk_scope(statement))):
                if not isinstance(inner, ast.Assign | ast.Return):
                    continue
                value = inner.value
                name = " ".join(
                    filter(
                        None,
                        (
                            *(map(name_of, inner.targets) if isinstance(inner, ast.Assign) else ()),
                            scope.function.name if isinstance(inner, ast.Return) and scope.function else "",
                        ),
                    )
                )
                if value is None:
                    continue
                if _formula(value) and (SCORE_NAME.search(name) or _MEASURES.search(name)):
                    yield sign_at("result of an error", f"when {why}, a formula is inserted", script, inner.lineno, 0.8)
                    continue
                found = origins.trace(value, scope)
                drawn = ValueOrigin.DRAWN in found and ValueOrigin.LEVEL in found and ValueOrigin.COMPUTED not in found
                if drawn and isinstance(inner, ast.Return) and not _MAKES_DATA.search(name):
                    what = f"when {why}, a random number is inserted"
                    yield sign_at("result of an error", what, script, inner.lineno, 0.85)
                    continue
                if not (SCORE_NAME.search(name) or RESULT.search(name) or _keys(value)):
                    continue
                if ValueOrigin.COMPUTED in found or not (ValueOrigin.DRAWN in found or ValueOrigin.LEVEL in found):
                    continue
                if ValueOrigin.DRAWN in found or any(number not in EXEMPT for number in typed_numbers(value)):
                    yield sign_at("result of an error", f"when {why}, a score is inserted", script, inner.lineno, 0.85)


_MEASURES = re.compile(r"latency|time|throughput|memory|speed|measure|evaluat|score|bench", re.I)


def _formula(value: ast.expr) -> bool:
    """Return whether a value is arithmetic with precise typed numbers."""
    arithmetic = any(isinstance(one, ast.BinOp) for one in ast.walk(value))
    return (
        arithmetic
        and any(fine(number) or 0 < number < 0.05 for number in typed_numbers(value))
        and not any(
            isinstance(one, ast.Call)
            and called_name(one) not in ("round", "float", "int", "mean", "median", "min", "max", "abs")
            for one in ast.walk(value)
        )
    )


_MAKES_DATA = re.compile(r"gen|make|load|sample|data|noise|init|simul|draw", re.I)


def _keys(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) and any(
        isinstance(key, ast.Constant) and SCORE_NAME.search(str(key.value)) for key in value.keys
    )


def _bonuses(body: ast.AST, scope: NameScope, script: AuditedScript) -> Iterator[Sign]:
    """Find typed numbers added to, or multiplied with, the score of one method."""
    for one in walk_scope(body):
        if isinstance(one, ast.If) and _names_a_case(one.test):
            for inner in (deep for statement in one.body for deep in (statement, *walk_scope(statement))):
                if isinstance(inner, ast.AugAssign | ast.Assign | ast.Return) and _raised(inner, scope):
                    yield sign_at(
                        "bonus for one method",
                        "a score is changed by a typed number for one case",
                        script,
                        inner.lineno,
                        0.85,
                    )
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Mult):
            for term, other in ((one.left, one.right), (one.right, one.left)):
                if (
                    isinstance(term, ast.IfExp)
                    and _names_a_case(term.test)
                    and _chosen(term.body)
                    and SCORE_NAME.search(ast.unparse(other))
                ):
                    yield sign_at(
                        "bonus for one method",
                        "a score is changed by a typed number for one case",
                        script,
                        one.lineno,
                        0.85,
                    )


def _names_a_case(test: ast.expr) -> bool:
    """Return whether a condition selects one of several names."""
    return isinstance(test, ast.Compare) and any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(test)
    )


def _raised(statement: ast.AugAssign | ast.Assign | ast.Return, scope: NameScope) -> bool:
    """Return whether a statement changes a score by a typed number."""
    if isinstance(statement, ast.Return):
        name = scope.function.name if scope.function is not None else ""
    else:
        name = name_of(statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]) or ""
    if not (SCORE_NAME.search(name) or RESULT.search(name)) or LOSS.search(name) or statement.value is None:
        return False
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add | ast.Mult | ast.Sub) and _chosen(statement.value)
    sums = [
        one
        for one in ast.walk(statement.value)
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Mult)
    ]
    changed = [
        one
        for one in sums
        for term, other in ((one.left, one.right), (one.right, one.left))
        if _chosen(term) and isinstance(other, ast.Name | ast.Subscript | ast.Call | ast.Attribute)
    ]
    return len(changed) == 1


def _chosen(node: ast.expr) -> bool:
    """Return whether a number is more than a unit factor, a half or a count."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, float)
        and node.value not in (*EXEMPT, 2.0, 10.0, 1000.0, 60.0)
    )


def _from_labels(body: ast.AST, scope: NameScope, script: AuditedScript) -> Iterator[Sign]:
    """Find predictions that are labels, randomly changed."""
    for one in walk_scope(body):
        if isinstance(one, ast.Assign):
            name = name_of(one.targets[0]) or ""
        elif isinstance(one, ast.Return) and scope.function is not None:
            name = "predictions" if re.search(r"predict|classif|infer|forward", scope.function.name) else ""
        else:
            continue
        if one.value is None or not _PREDICTED.match(name) or re.search(r"random|noisy|chance", name):
            continue
        text = ast.unparse(one.value)
        drawn = [
            deep
            for test in _conditions(one.value)
            for deep in ast.walk(test)
            if isinstance(deep, ast.expr) and is_draw(deep)
        ]
        if drawn and _LABELS.search(text):
            yield sign_at("predictions from labels", f"{name} are randomly changed labels", script, one.lineno, 0.85)
        elif _COPIED.fullmatch(text):
            yield sign_at("predictions from labels", f"{name} are the labels", script, one.lineno, 0.8)


_PREDICTED = re.compile(r"(?:y_?)?(?:hat|pred\w*)$|predictions?$", re.I)
_LABEL = r"(?:y|y_test|test_y|y_true|labels?|targets?|truth|gold)"
_LABELS = re.compile(rf"\b{_LABEL}\b")
_COPIED = re.compile(rf"(?:np\.(?:array|copy|asarray)\(|list\()?(?:\w+\.)?{_LABEL}(?:\.copy\(\))?\)?")


def _conditions(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the conditions of choices between two values."""
    for one in ast.walk(value):
        if isinstance(one, ast.IfExp):
            yield one.test
        elif isinstance(one, ast.Call) and called_name(one) == "where" and len(one.args) == 3:
            yield one.args[0]


def constant_evaluations(script: AuditedScript) -> Iterator[Sign]:
    """Find evaluation functions that always return a typed score."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if not isinstance(one, ast.FunctionDef) or not (_EVALUATES.match(one.name) or SCORE_NAME.search(one.name)):
            continue
        returned = [inner for inner in walk_scope(one) if isinstance(inner, ast.Return) and inner.value is not None]
        abstract = any("abstract" in ast.unparse(mark) for mark in one.decorator_list)
        if not returned or abstract or not one.args.args:
            continue
        for inner in returned:
            value = inner.value
            if (
                isinstance(value, ast.Constant)
                and isinstance(value.value, float)
                and value.value not in EXEMPT
                and fine(value.value)
                and len(returned) == 1
            ):
                yield sign_at("constant evaluation", f"{one.name} returns a typed number", script, inner.lineno, 0.8)


def printed(script: AuditedScript) -> Iterator[Sign]:
    """Find scores typed into printed or written text."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if not isinstance(one, ast.Call) or called_name(one) not in _OUT:
            continue
        values = [inner for arg in one.args for inner in ast.walk(arg)]
        text = " ".join(
            str(inner.value) for inner in values if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        )
        typed = [
            inner
            for inner in values
            if isinstance(inner, ast.Constant) and isinstance(inner.value, float) and inner.value not in EXEMPT
        ]
        as_text = len(re.findall(r"(?<![\d.])0?\.\d{3,}|\b\d{1,2}\.\d{2}\s?%", text))
        if CITED.search(text) or ASIDE.search(text):
            continue
        if (as_text and SCORE_NAME.search(text)) or (called_name(one) in ("writerow", "writerows") and len(typed) >= 2):
            yield sign_at("typed score", "scores are typed into the written text", script, one.lineno, 0.65)


_OUT = ("print", "info", "write", "write_text", "writelines", "writerow", "writerows", "log")
