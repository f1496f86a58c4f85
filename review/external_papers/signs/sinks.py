"""Find values that code names as scores or results: assigned, stored, appended, returned, written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from labwright.review.external_papers.name_scopes import SCORE_NAME, NameScope, walk_scope
from labwright.review.external_papers.scripts import AuditedScript, called_name
from labwright.review.external_papers.signs.sign import Kind, Sign
from labwright.review.external_papers.value_origins import is_draw

ASIDE = re.compile(
    r"thresh|target|(?:^|_)min(?:_|$)|(?:^|_)max(?:_|$)|toler|goal|prior|init|start|weight|(?:^|_)lr|rate$|learning|"
    r"epsilon|alpha|beta|gamma|noise|level|chance|bound|clip|lim|budget|decay|param|hyper|config|cfg|setting|default|"
    r"published|reported|literature|paper|reference|(?:^|_)ref|known|true_|human|annotator|worker|gold|grid|"
    r"search|space|"
    r"arg|schema|dtype|colou?r|style|label|title|format|figsize|fmt|sort|key|expected|requirement|patience|margin|cost|"
    r"func|_fn$|class_|random_|rate_|fraction|ratio|prob|temperature|std|sigma|scale|delta|count|size|num|step|bench",
    re.I,
)
RESULT = re.compile(
    r"result|score|metric|perform|accurac|evaluation|outcome|histor|curve|summary|(?:^|_)losses|table", re.I
)
CITED = re.compile(
    r"publish|report(?:ed)? (?:in|by)|literature|et al|from (?:the )?(?:original )?(?:paper|publication)|"
    r"as stated in|cited|"
    r"\(\d{4}\)|arxiv|leaderboard|reference value|threshold|acceptance|target|requirement",
    re.I,
)
PUBLISHED = re.compile(r"publish|report|literat|paper|refer|external|prior_work|sota", re.I)
LOSS = re.compile(r"loss|nll|penal|grad", re.I)
EXEMPT = (0, 1, -1, 0.5, 100, 1e-8, 1e-6, 1e-12)


@dataclass(frozen=True)
class ScoreSink:
    """A value named as a score or result: its name, expression and scope."""

    name: str
    value: ast.expr
    scope: NameScope
    line: int
    adds: bool = False
    """Whether the value is added to the previous one."""


_MEASURED = re.compile(rf"{SCORE_NAME.pattern}|coverage|regret|power|delay|reward|recall|return|gain|improvement", re.I)


def _heads(body: ast.AST) -> dict[int, list[str]]:
    """Return the column names that a program writes, by their number."""
    rows = [
        [item.value for item in one.args[0].elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        for one in walk_scope(body)
        if isinstance(one, ast.Call)
        and called_name(one) == "writerow"
        and one.args
        and isinstance(one.args[0], ast.List | ast.Tuple)
    ]
    return {len(row): row for row in rows if len(row) > 1}


def sinks_of(body: ast.AST, scope: NameScope) -> Iterator[ScoreSink]:
    heads = _heads(body)
    for one in walk_scope(body):
        match one:
            case ast.Assign():
                for target in one.targets:
                    yield from _assigned(target, one.value, scope)
            case ast.AnnAssign(value=value) if value is not None:
                yield from _assigned(one.target, value, scope)
            case ast.AugAssign(op=ast.Add()) if (name := name_of(one.target)) and SCORE_NAME.search(name):
                if any(is_draw(inner) for inner in ast.walk(one.value) if isinstance(inner, ast.expr)):
                    yield ScoreSink(name, one.value, scope, one.lineno, adds=True)
            case ast.Dict():
                names = [key.value if isinstance(key, ast.Constant) else "" for key in one.keys]
                record = bool({"seed", "method", "model", "variant", "arm"} & set(map(str, names)))
                for name, value in zip(names, one.values, strict=True):
                    if isinstance(name, str) and (
                        SCORE_NAME.search(name) or (record and name and isinstance(value, ast.BinOp | ast.Call))
                    ):
                        yield ScoreSink(name, value, scope, value.lineno)
            case ast.Call():
                for word in one.keywords:
                    if word.arg and SCORE_NAME.search(word.arg) and called_name(one) not in ("sort", "sorted"):
                        yield ScoreSink(word.arg, word.value, scope, word.value.lineno)
                if called_name(one) == "writerow" and one.args and isinstance(one.args[0], ast.List | ast.Tuple):
                    names = heads.get(len(one.args[0].elts), [])
                    for name, value in zip(names, one.args[0].elts, strict=False):
                        if _MEASURED.search(name):
                            own = name if SCORE_NAME.search(name) else f"{name} score"
                            yield ScoreSink(own, value, scope, value.lineno)
                if called_name(one) == "append" and one.args and isinstance(one.func, ast.Attribute):
                    name = name_of(one.func.value) or ""
                    if SCORE_NAME.search(name) or RESULT.search(name):
                        yield ScoreSink(name, one.args[0], scope, one.lineno)
            case ast.Return(value=value) if value is not None and scope.function is not None:
                if (
                    SCORE_NAME.search(scope.function.name)
                    or RESULT.search(scope.function.name)
                    or re.match(r"_?(?:evaluate|score|measure)", scope.function.name)
                ):
                    yield ScoreSink(scope.function.name, value, scope, one.lineno)
            case _:
                pass


def _assigned(target: ast.expr, value: ast.expr, scope: NameScope) -> Iterator[ScoreSink]:
    name = name_of(target)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, inner in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, inner, scope)
    elif name and (
        SCORE_NAME.search(name)
        or PUBLISHED.search(name)
        or (RESULT.search(name) and isinstance(target, ast.Name | ast.Subscript))
    ):
        yield ScoreSink(name, value, scope, value.lineno)


def name_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return name_of(node.value)
    return None


def typed_numbers(node: ast.expr) -> list[float]:
    """Return the typed numbers of an expression that could be results."""
    return [
        abs(float(one.value))
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and one.value not in EXEMPT
    ]


def fine(value: float) -> bool:
    """Return whether a number is more precise than a chosen one such as 0.9 or 0.05."""
    return len(f"{value:.10g}".replace(".", "").strip("0")) >= 3


def cited(script: AuditedScript, line: int) -> bool:
    """Return whether nearby lines describe the numbers as published or as a target."""
    lines = script.text.splitlines()
    return bool(CITED.search("\n".join(lines[max(0, line - 5) : line + 1])))


def sign_at(kind: Kind, what: str, script: AuditedScript, line: int, weight: float) -> Sign:
    lines = script.text.splitlines()
    quote = lines[line - 1].strip()[:160] if 0 < line <= len(lines) else ""
    return Sign(kind, what, f"{script.path}:{line}", quote, weight)
