"""Find manipulated evaluations: answers passed to the predictor, checks that always pass, fabricated values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.name_scopes import SCORE_NAME, walk_scope
from labwright.review.external_papers.scripts import AuditedScript, called_name, list_parameter_names
from labwright.review.external_papers.signs.arms import for_one_arm, targets_of
from labwright.review.external_papers.signs.sign import CONCLUSIVE, Kind, Sign
from labwright.review.external_papers.value_origins import is_draw

Function = ast.FunctionDef | ast.AsyncFunctionDef


def of_evaluations(scripts: Sequence[AuditedScript]) -> Iterator[Sign]:
    """Yield all signs of this kind; tests are skipped."""
    read = [one for one in scripts if one.tree is not None and not one.is_test]
    functions = {
        one.name: one
        for script in read
        if script.tree
        for one in ast.walk(script.tree)
        if isinstance(one, ast.FunctionDef)
    }
    for script in read:
        tree = script.tree or ast.Module([], [])
        bodies: list[ast.AST] = [tree, *(one for one in ast.walk(tree) if isinstance(one, Function))]
        for body in bodies:
            own = list(walk_scope(body))
            yield from _handed(own, script, functions)
            yield from for_one_arm(own, script)
            yield from _drawn_among(own, script)
            if isinstance(body, Function):
                yield from _passes(body, script)


# --- answers passed to the predictor
# ----------------------------------------------------------------------------------

_METRIC = re.compile(
    r"score|accuracy|error|loss|auc|f1|precision|recall|equal|mse|mae|rmse|allclose|isclose|index|match|"
    r"correct|evaluat|metric|report|confusion|corr|kappa|rand|entropy|zip|len|sum|mean|append|"
    r"fit|train|"
    r"sort|print|log|save|dump|split|plot|perturb|attack|noise|loader|stack|where|oracle|upper|"
    r"bound",
    re.I,
)


def _handed(own: Sequence[ast.AST], script: AuditedScript, functions: dict[str, ast.FunctionDef]) -> Iterator[Sign]:
    """Find predictions that are computed from the value that they are compared with."""
    compared: dict[str, set[str]] = {}
    for one in own:
        if isinstance(one, ast.Compare) and len(one.comparators) == 1 and isinstance(one.ops[0], ast.Eq | ast.In):
            sides = (one.left, one.comparators[0])
            if isinstance(one.ops[0], ast.In) or all(map(_is_value, sides)):
                for side, other in (sides, sides[::-1]):
                    if isinstance(side, ast.Name):
                        compared.setdefault(side.id, set()).add(ast.unparse(other))
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and isinstance(one.right, ast.Name):
            compared.setdefault(one.right.id, set()).add(ast.unparse(one.left))
        elif (
            isinstance(one, ast.Call)
            and SCORE_NAME.search(called_name(one))
            and len(one.args) >= 2
            and isinstance(one.args[1], ast.Name)
        ):
            compared.setdefault(one.args[1].id, set()).add(ast.unparse(one.args[0]))
    for one in own:
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            continue
        truths = compared.get(one.targets[0].id, set())
        for inner in ast.walk(one.value):
            if (
                isinstance(inner, ast.expr)
                and not isinstance(inner, ast.Constant)
                and (ast.unparse(inner) in truths and not _is_predicted(ast.unparse(inner), own))
            ):
                yield from _leak(one, inner, script, functions)
                return


_TOLD = re.compile(r"oracle|upper|bound|ceiling|cheat|truth|label|perm|shuffl|null|boot|naive|last|prev", re.I)


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Subscript | ast.Attribute)


def _is_predicted(truth: str, own: Sequence[ast.AST]) -> bool:
    """Return whether the compared value is itself a prediction; a target that mixes it in is then not a leak."""
    return any(
        isinstance(one, ast.Assign)
        and ast.unparse(one.targets[0]) == truth
        and any(
            isinstance(inner, ast.MatMult) or (isinstance(inner, ast.Call) and _PREDICTS.search(called_name(inner)))
            for inner in ast.walk(one.value)
        )
        for one in own
    )


_PREDICTS = re.compile(r"predict|softmax|sigmoid|forward|model|net\b|logit|proba", re.I)


def _leak(
    one: ast.Assign, truth: ast.expr, script: AuditedScript, functions: dict[str, ast.FunctionDef]
) -> Iterator[Sign]:
    name, text = ast.unparse(one.targets[0]), ast.unparse(truth)
    if _TOLD.search(ast.unparse(one)):
        return
    calls = [
        call
        for call in ast.walk(one.value)
        if isinstance(call, ast.Call)
        and any(arg is truth for arg in (*call.args, *(word.value for word in call.keywords)))
    ]
    if not calls and isinstance(one.value, ast.BinOp):
        yield _sign(
            "predictions from labels",
            f"{name} is computed from {text}, which it is compared with",
            script,
            one.lineno,
            CONCLUSIVE,
        )
    for call in calls:
        function = functions.get(called_name(call))
        if function is None or _METRIC.search(function.name):
            continue
        if text in (ast.unparse(arg) for arg in call.args) and _puts_in(function, call, truth):
            what = f"{called_name(call)} receives {text}, which its answer is compared with, and returns it"
            yield _sign("predictions from labels", what, script, one.lineno, CONCLUSIVE)


def _puts_in(function: ast.FunctionDef, call: ast.Call, truth: ast.expr) -> bool:
    """Return whether a function returns its argument, or writes it into its result."""
    names = [one for one in list_parameter_names(function) if one not in ("self", "cls")]
    words = [word.arg for word in call.keywords if word.value is truth]
    at = next((at for at, arg in enumerate(call.args) if arg is truth), None)
    given = words[0] if words else names[at] if at is not None and at < len(names) else None
    for one in walk_scope(function):
        value = one.value if isinstance(one, ast.Return | ast.Assign) else None
        if (
            isinstance(value, ast.Name)
            and value.id == given
            and not (isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name | ast.Attribute))
        ):
            return True
    return False


# --- checks that pass unreadable answers
# ------------------------------------------------------------------------------

_CHECKS = re.compile(
    r"correct|verif|solved|success|passe[sd]|is_match|matches|equivalent|grade|judge|accept|exact|score|"
    r"evaluat|reward",
    re.I,
)


def _passes(function: Function, script: AuditedScript) -> Iterator[Sign]:
    """Find checks of answers that pass on an error."""
    if not _CHECKS.search(function.name):
        return
    for one in walk_scope(function):
        if isinstance(one, ast.ExceptHandler):
            for inner in one.body:
                if (
                    isinstance(inner, ast.Return)
                    and isinstance(inner.value, ast.Constant)
                    and inner.value.value in (True, 1.0)
                ):
                    what = f"{function.name} passes answers that it cannot read"
                    yield _sign("constant evaluation", what, script, inner.lineno, CONCLUSIVE)


# --- values drawn among measured ones
# ---------------------------------------------------------------------------------


def _drawn_among(own: Sequence[ast.AST], script: AuditedScript) -> Iterator[Sign]:
    """Find random records that are drawn around existing records and added to the same list."""
    bound: dict[str, str] = {}
    for one in own:
        if isinstance(one, ast.Assign):
            bound |= {name: f"{bound.get(name, '')} {ast.unparse(one.value)}" for name in targets_of(one)}
    for one in own:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            name, value = one.target.id, one.value
        elif (
            isinstance(one, ast.Call)
            and called_name(one) in ("append", "extend")
            and one.args
            and isinstance(one.func, ast.Attribute)
            and isinstance(one.func.value, ast.Name)
        ):
            name, value = one.func.value.id, one.args[0]
        else:
            continue
        keys = [
            str(key.value)
            for deep in ast.walk(value)
            if isinstance(deep, ast.Dict)
            for key in deep.keys
            if isinstance(key, ast.Constant)
        ]
        if not any(SCORE_NAME.search(key) or key == "seed" for key in keys):
            continue
        for draw in (deep for deep in ast.walk(value) if isinstance(deep, ast.expr) and is_draw(deep)):
            if (
                isinstance(draw, ast.Call)
                and called_name(draw) not in ("choice", "integers", "randint")
                and any(
                    re.search(rf"\b{re.escape(name)}\b", f"{text} {bound.get(text, '')}")
                    for arg in draw.args
                    for text in (ast.unparse(arg),)
                )
            ):
                yield _sign(
                    "drawn score",
                    f"values are drawn around those of {name} and added to them",
                    script,
                    value.lineno,
                    CONCLUSIVE,
                )
                return


def _sign(kind: Kind, what: str, script: AuditedScript, line: int, weight: float) -> Sign:
    return Sign(kind, what, f"{script.path}:{line}", script.text.splitlines()[line - 1].strip()[:160], weight)
