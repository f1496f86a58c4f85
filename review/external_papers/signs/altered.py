"""Find code that alters computed scores: clamps, copies or sorts them, or measures them on other rows than stated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from labwright.review.external_papers.name_scopes import SCORE_NAME, walk_scope
from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.sign import Kind, Sign

_RESULTS = re.compile(r"result|score|metric|perform|accurac|outcome|summary|^err|error|^acc|^out$|^res$", re.I)
_KEPT = re.compile(r"best|final|last|default|main|mean|avg|all|overall|selected|chosen|winner|latest", re.I)
_TRAIN = re.compile(r"[Xxy]_?tr(?:ain)?\b|train_[xyX]\b")
_LABELS = re.compile(r"^(?:y|y_test|test_y|y_true|labels?|targets?|truth|gold|y_te)$")
_PREDICTED = re.compile(r"^(?:y_?)?(?:hat|pred\w*)$|^predictions?$|^preds$", re.I)


def altered(scripts: Sequence[AuditedScript]) -> Iterator[Sign]:
    """Yield all signs of this kind; tests are skipped."""
    for script in scripts:
        if script.tree is None or script.is_test:
            continue
        for one in ast.walk(script.tree):
            if isinstance(one, ast.Assign):
                yield from _assigned(one, script)
            if isinstance(one, ast.Return | ast.Assign) and one.value is not None:
                yield from _held_up(one, script)
            if isinstance(one, ast.Call) and called_name(one) == "zip" and _sorts_scores(one):
                yield _sign("best of the seeds", "scores are sorted before they are assigned", script, one.lineno, 0.7)
            if isinstance(one, ast.IfExp) and any(map(_is_top, (one.body, one.orelse))):
                yield _sign(
                    "best of the seeds",
                    "the best runs are kept for one case, all runs for the others",
                    script,
                    one.lineno,
                    0.65,
                )
            if isinstance(one, ast.FunctionDef) and re.search(r"score|metric|evaluat|accuracy|f1", one.name, re.I):
                yield from _scores_of_itself(one, script)


def _assigned(statement: ast.Assign, script: AuditedScript) -> Iterator[Sign]:
    target, value = statement.targets[0], statement.value
    names = _names(target)
    if isinstance(target, ast.Subscript):
        root, own = _root(target)
        if _RESULTS.search(root) and own and not _KEPT.search(own):
            others = [
                key
                for one in ast.walk(value)
                if isinstance(one, ast.Subscript)
                for name, key in (_root(one),)
                if name == root and key not in ("", own) and not _KEPT.search(key)
            ]
            if others and _is_copy(value):
                yield _sign(
                    "copied results",
                    f"the results of {own} are computed from those of {others[0]}",
                    script,
                    statement.lineno,
                    0.8,
                )
        if any(_PREDICTED.match(name) for name in names[:1]) and any(
            isinstance(one, ast.Name) and _LABELS.match(one.id) for one in ast.walk(value)
        ):
            yield _sign(
                "predictions from labels", "predictions are overwritten with labels", script, statement.lineno, 0.7
            )
    said, text = " ".join(names), ast.unparse(value).replace("train_test_split", "")
    of_test = re.search(r"(?:^|_|\b)test(?:_|\b)", said) is not None and SCORE_NAME.search(said) is not None
    if of_test and _TRAIN.search(text) and not re.search(r"te(?:st)?\b|fit\(|cross_val|evaluate\(", text):
        yield _sign("other rows", "a test score is computed on training rows", script, statement.lineno, 0.65)


def _is_copy(value: ast.expr) -> bool:
    """Return whether a value is a copy of another, unchanged or changed only by typed numbers."""
    for one in ast.walk(value):
        if isinstance(one, ast.Call) and called_name(one) not in (
            "copy",
            "deepcopy",
            "dict",
            "list",
            "round",
            "min",
            "max",
            "items",
            "float",
            "clip",
        ):
            return False
        if (
            isinstance(one, ast.BinOp)
            and isinstance(one.op, ast.Sub | ast.Div | ast.Add)
            and all(
                any(
                    isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Constant)
                    for inner in ast.walk(side)
                )
                for side in (one.left, one.right)
            )
        ):
            return False
    return True


def _held_up(statement: ast.Return | ast.Assign, script: AuditedScript) -> Iterator[Sign]:
    """Find scores that cannot fall below, or are pulled towards, a typed number."""
    value = statement.value
    if not isinstance(value, ast.Call) or called_name(value) not in ("max", "clip", "maximum"):
        return
    names = " ".join(_names(statement.targets[0])) if isinstance(statement, ast.Assign) else ""
    floors = [one.value for one in value.args if isinstance(one, ast.Constant) and isinstance(one.value, float)]
    text = ast.unparse(value)
    if (
        not re.search(r"prob|proba|logit|p_|_p\b|eps|lr|rate", f"{names} {text}", re.I)
        and SCORE_NAME.search(f"{names} {text}")
        and any(0.5 < floor < 1 for floor in floors)
    ):
        yield _sign("bonus for one method", "a score is kept above a typed number", script, statement.lineno, 0.75)


def _sorts_scores(call: ast.Call) -> bool:
    """Return whether a zip pairs sorted scores with unsorted values."""
    ordered = [
        isinstance(one, ast.Call)
        and called_name(one) in ("sorted", "sort")
        and not one.keywords
        and bool(SCORE_NAME.search(ast.unparse(one)))
        for one in call.args
    ]
    return any(ordered) and not all(
        isinstance(one, ast.Call) and called_name(one) in ("sorted", "sort") for one in call.args
    )


def _is_top(node: ast.expr) -> bool:
    """Return whether an expression takes the first or last items of a sorted sequence."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.value, ast.Call):
        return called_name(node.value) in ("sorted", "sort")
    return isinstance(node, ast.Call) and called_name(node) in ("nlargest", "nsmallest")


def _scores_of_itself(function: ast.FunctionDef, script: AuditedScript) -> Iterator[Sign]:
    """Find metrics that receive the labels twice."""
    for one in walk_scope(function):
        if (
            isinstance(one, ast.Call)
            and SCORE_NAME.search(called_name(one))
            and len(one.args) >= 2
            and ast.unparse(one.args[0]) == ast.unparse(one.args[1])
        ):
            yield _sign("constant evaluation", "labels are scored against themselves", script, one.lineno, 0.8)


def _names(node: ast.expr) -> list[str]:
    """Return the names in a target, including keys."""
    return [
        one.id if isinstance(one, ast.Name) else one.attr if isinstance(one, ast.Attribute) else str(one.value)
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
    ]


def _root(node: ast.Subscript) -> tuple[str, str]:
    """Return the name that a subscript indexes, and its first key if it is a literal."""
    key = ""
    inner: ast.expr = node
    while isinstance(inner, ast.Subscript):
        key = inner.slice.value if isinstance(inner.slice, ast.Constant) and isinstance(inner.slice.value, str) else ""
        inner = inner.value
    return ast.unparse(inner), key


def _sign(kind: Kind, what: str, script: AuditedScript, line: int, weight: float) -> Sign:
    return Sign(kind, what, f"{script.path}:{line}", script.text.splitlines()[line - 1].strip()[:160], weight)
