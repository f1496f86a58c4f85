"""What code does to an evaluation that any reading of it shows: the answer handed to what predicts it, checks that pass
what they cannot read, scores changed for one arm, values drawn among those that were measured, rounding for one arm.

Arms and scores are told by how values are used, not by how they are called: an arm is what a condition compares with a
name, a score what is printed, kept or returned.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import cast

from review.foreign.origins import is_draw
from review.foreign.scopes import SCORE, walk_scope
from review.foreign.scripts import Script, called, parameters
from review.foreign.signs.sign import CONCLUSIVE, Kind, Sign

Function = ast.FunctionDef | ast.AsyncFunctionDef


def of_evaluations(scripts: Sequence[Script]) -> Iterator[Sign]:
    """All of them; tests are left out."""
    read = [one for one in scripts if one.tree is not None and not one.is_test]
    functions = {one.name: one for script in read for one in ast.walk(script.tree or ast.Module())
                 if isinstance(one, ast.FunctionDef)}
    for script in read:
        tree = script.tree or ast.Module()
        bodies: list[ast.AST] = [tree, *(one for one in ast.walk(tree) if isinstance(one, Function))]
        for body in bodies:
            own = list(walk_scope(body))
            yield from _handed(own, script, functions)
            yield from _for_one_arm(own, script)
            yield from _drawn_among(own, script)
            yield from _rounded(own, script)
            if isinstance(body, Function):
                yield from _passes(body, script)


# --- the answer in the hand of what predicts it -----------------------------------------------------------------------

_METRIC = re.compile(r"score|accuracy|error|loss|auc|f1|precision|recall|equal|mse|mae|rmse|allclose|isclose|index|match|"
                     r"correct|evaluat|metric|report|confusion|corr|kappa|rand|entropy|zip|len|sum|mean|append|fit|train|"
                     r"sort|print|log|save|dump|split|plot|perturb|attack|noise|loader|stack|where|oracle|upper|bound", re.I)


def _handed(own: Sequence[ast.AST], script: Script, functions: dict[str, ast.FunctionDef]) -> Iterator[Sign]:
    """A prediction that is made with the very value that it is then compared with."""
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
        elif isinstance(one, ast.Call) and SCORE.search(called(one)) and len(one.args) >= 2 and isinstance(
                one.args[1], ast.Name):
            compared.setdefault(one.args[1].id, set()).add(ast.unparse(one.args[0]))
    for one in own:
        if not isinstance(one, ast.Assign) or not isinstance(one.targets[0], ast.Name):
            continue
        truths = compared.get(one.targets[0].id, set())
        for inner in ast.walk(one.value):
            if isinstance(inner, ast.expr) and ast.unparse(inner) in truths and not isinstance(inner, ast.Constant):
                yield from _leak(one, inner, script, functions)
                return


def _is_value(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Subscript | ast.Attribute)


def _leak(one: ast.Assign, truth: ast.expr, script: Script, functions: dict[str, ast.FunctionDef]) -> Iterator[Sign]:
    name, text = ast.unparse(one.targets[0]), ast.unparse(truth)
    if re.search(r"oracle|upper|bound|ceiling|cheat|truth|label|perm|shuffl|null|boot|naive|last|prev", f"{name} {ast.unparse(one)}", re.I):
        return
    calls = [call for call in ast.walk(one.value) if isinstance(call, ast.Call) and any(
        arg is truth for arg in (*call.args, *(word.value for word in call.keywords)))]
    if not calls and isinstance(one.value, ast.BinOp):
        yield _sign("predictions from labels", f"{name} is made with {text}, which it is compared with", script,
                    one.lineno, CONCLUSIVE)
    for call in calls:
        function = functions.get(called(call))
        if function is None or _METRIC.search(function.name):
            continue
        if text in (ast.unparse(arg) for arg in call.args) and _puts_in(function, call, truth):
            yield _sign("predictions from labels", f"{called(call)} is handed {text}, which its answer is compared with, "
                        "and puts it into what it returns", script, one.lineno, CONCLUSIVE)


def _puts_in(function: ast.FunctionDef, call: ast.Call, truth: ast.expr) -> bool:
    """Whether a function returns what it is handed, or writes it into something that it returns."""
    names = [one for one in parameters(function) if one not in ("self", "cls")]
    words = [word.arg for word in call.keywords if word.value is truth]
    at = next((at for at, arg in enumerate(call.args) if arg is truth), None)
    given = words[0] if words else names[at] if at is not None and at < len(names) else None
    for one in walk_scope(function):
        value = one.value if isinstance(one, ast.Return | ast.Assign) else None
        if isinstance(value, ast.Name) and value.id == given and not (
                isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name | ast.Attribute)):
            return True
    return False


# --- checks that pass what they cannot read ---------------------------------------------------------------------------

_CHECKS = re.compile(r"correct|verif|solved|success|passe[sd]|is_match|matches|equivalent|grade|judge|accept|exact|score|"
                     r"evaluat|reward", re.I)


def _passes(function: Function, script: Script) -> Iterator[Sign]:
    """A check of answers whose error is a pass."""
    if not _CHECKS.search(function.name):
        return
    for one in walk_scope(function):
        if isinstance(one, ast.ExceptHandler):
            for inner in one.body:
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Constant) and inner.value.value in (
                        True, 1.0) and inner.value.value is not None:
                    yield _sign("constant evaluation", f"{function.name} passes what it cannot read", script, inner.lineno,
                                CONCLUSIVE)


# --- a score that is changed for one arm ------------------------------------------------------------------------------


def _for_one_arm(own: Sequence[ast.AST], script: Script) -> Iterator[Sign]:
    """A value that was just computed, and for one arm is put together anew from itself and a typed number, then kept.

    A state that goes on from step to step, and what a method does to arrays, are left alone.
    """
    kept = {name for one in own for name in _kept(one)}
    for block in (one for node in own for one in _blocks(node)):
        for at, one in enumerate(block):
            if not isinstance(one, ast.If) or not _is_arm(one.test):
                continue
            for inner in one.body:
                name, value = _again(inner)
                fresh = any(isinstance(other, ast.Assign) and name in _targets(other) and not _uses(other.value, name)
                            and not isinstance(other.value, ast.Constant) for other in block[:at])
                if value is not None and fresh and name in kept and _is_scalar(value) and _chosen(value):
                    yield _sign("bonus for one method", f"{name} is changed by a typed number for one case, and kept",
                                script, inner.lineno, CONCLUSIVE)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield cast("list[ast.stmt]", block)


def _again(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """The name that a statement gives a value made of its last one, and that value."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        return name, statement.value if _uses(statement.value, name) else None
    return "", None


def _uses(value: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(value))


def _is_scalar(value: ast.expr) -> bool:
    """Whether an expression is arithmetic alone."""
    return not any(isinstance(one, ast.MatMult) or (isinstance(one, ast.Call) and called(one) not in (
        "max", "min", "abs", "round", "float", "int", "clip")) for one in ast.walk(value))


def _is_arm(test: ast.expr) -> bool:
    """Whether a condition asks which of several arms this is: a name against a text, or against a function."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.Is | ast.In):
        return False
    other = test.comparators[0]
    texts = [other] if not isinstance(other, ast.Tuple | ast.List | ast.Set) else other.elts
    named = all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in texts)
    return named or (isinstance(test.ops[0], ast.Is) and isinstance(other, ast.Name | ast.Attribute))


def _kept(node: ast.AST) -> Iterator[str]:
    """Names whose values are kept: put into a record or a list, or printed, rounded perhaps."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        values = node.values
    elif isinstance(node, ast.Call) and called(node) in ("append", "print", "info", "log", "writerow", "write"):
        values = [*node.args, *(word.value for word in node.keywords)]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        values = [node.value]
    for value in values:
        inner = value.args[0] if isinstance(value, ast.Call) and called(value) in ("round", "float") and value.args else value
        if isinstance(inner, ast.Name):
            yield inner.id


def _targets(node: ast.Assign) -> set[str]:
    return {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _chosen(value: ast.expr) -> bool:
    numbers = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, float)]
    return any(abs(number) not in (0, 1, .5, 2, 10, 60, 100, 1000) and abs(number) > 1e-5 for number in numbers)


# --- values drawn among those that were measured ----------------------------------------------------------------------


def _drawn_among(own: Sequence[ast.AST], script: Script) -> Iterator[Sign]:
    """Records that are drawn around others of the same list, and put among them."""
    bound: dict[str, str] = {}
    for one in own:
        if isinstance(one, ast.Assign):
            bound |= {name: f"{bound.get(name, '')} {ast.unparse(one.value)}" for name in _targets(one)}
    for one in own:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            name, value = one.target.id, one.value
        elif isinstance(one, ast.Call) and called(one) in ("append", "extend") and one.args and isinstance(
                one.func, ast.Attribute) and isinstance(one.func.value, ast.Name):
            name, value = one.func.value.id, one.args[0]
        else:
            continue
        keys = [str(key.value) for deep in ast.walk(value) if isinstance(deep, ast.Dict) for key in deep.keys
                if isinstance(key, ast.Constant)]
        if not any(SCORE.search(key) or key == "seed" for key in keys):
            continue
        for draw in (deep for deep in ast.walk(value) if isinstance(deep, ast.expr) and is_draw(deep)):
            if isinstance(draw, ast.Call) and called(draw) not in ("choice", "integers", "randint", "permutation") and any(
                    re.search(rf"\b{re.escape(name)}\b", f"{text} {bound.get(text, '')}")
                    for arg in draw.args for text in (ast.unparse(arg),)):
                yield _sign("drawn score", f"values are drawn around those of {name} and put among them", script,
                            value.lineno, CONCLUSIVE)
                return


def _rounded(own: Sequence[ast.AST], script: Script) -> Iterator[Sign]:
    """Rounding up or down for one arm, to the nearest for others."""
    for one in own:
        if isinstance(one, ast.IfExp) and _is_arm(one.test):
            ways = {_last(one.body), _last(one.orelse)}
        elif isinstance(one, ast.Call) and called(one) == "get" and len(one.args) == 2 and isinstance(
                one.func, ast.Attribute) and isinstance(one.func.value, ast.Dict):
            ways = {_last(one.args[1]), *map(_last, one.func.value.values)}
        else:
            continue
        if "round" in ways and ways & {"ceil", "floor"}:
            yield _sign("bonus for one method", "one case is rounded otherwise than the others", script, one.lineno,
                        CONCLUSIVE)


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _sign(kind: Kind, what: str, script: Script, line: int, weight: float) -> Sign:
    return Sign(kind, what, f"{script.path}:{line}", script.text.splitlines()[line - 1].strip()[:160], weight)
