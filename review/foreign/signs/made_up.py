"""Scores that code makes up: typed, drawn, put in by a formula or where something failed, or raised for one method."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from review.foreign.origins import SCORE, Origin, Origins, Scope, is_draw, walk_scope
from review.foreign.scripts import Script, called
from review.foreign.signs.sign import Kind, Sign

_ASIDE = re.compile(
    r"thresh|target|(?:^|_)min(?:_|$)|(?:^|_)max(?:_|$)|toler|goal|prior|init|start|weight|(?:^|_)lr|rate$|learning|"
    r"epsilon|alpha|beta|gamma|noise|level|chance|bound|clip|lim|budget|decay|param|hyper|config|cfg|setting|default|"
    r"published|reported|literature|paper|reference|(?:^|_)ref|known|true_|human|annotator|worker|gold|grid|search|space|"
    r"arg|schema|dtype|colou?r|style|label|title|format|figsize|fmt|sort|key|expected|requirement|patience|margin|cost|"
    r"func|_fn$|class_|random_|rate_|fraction|ratio|prob|temperature|std|sigma|scale|delta|count|size|num|step|bench",
    re.I,
)
_RESULT = re.compile(
    r"result|score|metric|perform|accurac|evaluation|outcome|histor|curve|summary|(?:^|_)losses|table", re.I
)
_EVALUATES = re.compile(
    r"^_?(?:evaluate|eval|score|test|validate|compute|measure|get|calc\w*|run|assess|benchmark)", re.I
)
_CITED = re.compile(
    r"publish|report(?:ed)? (?:in|by)|literature|et al|from (?:the )?(?:original )?(?:paper|publication)|"
    r"as stated in|cited|"
    r"\(\d{4}\)|arxiv|leaderboard|reference value|threshold|acceptance|target|requirement",
    re.I,
)
_ERRORS = re.compile(r"available|exist|has_|is[_ ]?none|fail|missing|found|cuda|import|success", re.I)
EXEMPT = (0, 1, -1, 0.5, 100, 1e-8, 1e-6, 1e-12)


@dataclass(frozen=True)
class Sink:
    """A value that is given the name of a score or of results: what it is called, the expression, and its scope."""

    name: str
    value: ast.expr
    scope: Scope
    line: int
    adds: bool = False
    """Whether the value is added to what was there."""


def made_up(scripts: tuple[Script, ...]) -> Iterator[Sign]:
    """All signs of the code; tests are left out."""
    read = [one for one in scripts if one.tree is not None and not one.is_test]
    origins = Origins({one.path: one.tree for one in read if one.tree is not None})
    for script in read:
        for scope in origins.scopes[script.path]:
            body = scope.function or script.tree if scope.outer is None or scope.function else None
            if body is None or (
                scope.function is not None and re.match(r"test_|_?demo|_?example", scope.function.name)
            ):
                continue
            for sink in _sinks(body, scope):
                yield from _of_sink(sink, script, origins)
            yield from _handlers(body, scope, script, origins)
            yield from _bonuses(body, scope, script)
            yield from _from_labels(body, scope, script)
        yield from _constant_evaluations(script)
        yield from _printed(script)


# --- what is given the name of a score ------------------------------------------------------------------------------


_MEASURED = re.compile(rf"{SCORE.pattern}|coverage|regret|power|delay|reward|recall|return|gain|improvement", re.I)


def _heads(body: ast.AST) -> dict[int, list[str]]:
    """The names of the columns that a program writes, by how many there are."""
    rows = [[item.value for item in one.args[0].elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            for one in walk_scope(body) if isinstance(one, ast.Call) and called(one) == "writerow" and one.args
            and isinstance(one.args[0], ast.List | ast.Tuple)]
    return {len(row): row for row in rows if len(row) > 1}


def _sinks(body: ast.AST, scope: Scope) -> Iterator[Sink]:
    heads = _heads(body)
    for one in walk_scope(body):
        match one:
            case ast.Assign():
                for target in one.targets:
                    yield from _assigned(target, one.value, scope)
            case ast.AnnAssign(value=value) if value is not None:
                yield from _assigned(one.target, value, scope)
            case ast.AugAssign(op=ast.Add()) if (name := _name_of(one.target)) and SCORE.search(name):
                if any(is_draw(inner) for inner in ast.walk(one.value) if isinstance(inner, ast.expr)):
                    yield Sink(name, one.value, scope, one.lineno, adds=True)
            case ast.Dict():
                names = [key.value if isinstance(key, ast.Constant) else "" for key in one.keys]
                record = bool({"seed", "method", "model", "variant", "arm"} & set(map(str, names)))
                for name, value in zip(names, one.values, strict=True):
                    if isinstance(name, str) and (SCORE.search(name) or (record and name and isinstance(
                            value, ast.BinOp | ast.Call))):
                        yield Sink(name, value, scope, value.lineno)
            case ast.Call():
                for word in one.keywords:
                    if word.arg and SCORE.search(word.arg) and called(one) not in ("sort", "sorted"):
                        yield Sink(word.arg, word.value, scope, word.value.lineno)
                if called(one) == "writerow" and one.args and isinstance(one.args[0], ast.List | ast.Tuple):
                    names = heads.get(len(one.args[0].elts), [])
                    for name, value in zip(names, one.args[0].elts, strict=False):
                        if _MEASURED.search(name):
                            yield Sink(name, value, scope, value.lineno)
                if called(one) == "append" and one.args and isinstance(one.func, ast.Attribute):
                    name = _name_of(one.func.value) or ""
                    if SCORE.search(name) or _RESULT.search(name):
                        yield Sink(name, one.args[0], scope, one.lineno)
            case ast.Return(value=value) if value is not None and scope.function is not None:
                if SCORE.search(scope.function.name) or _RESULT.search(scope.function.name) or re.match(
                        r"_?(?:evaluate|score|measure)", scope.function.name):
                    yield Sink(scope.function.name, value, scope, one.lineno)
            case _:
                pass


def _assigned(target: ast.expr, value: ast.expr, scope: Scope) -> Iterator[Sink]:
    name = _name_of(target)
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, inner in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, inner, scope)
    elif name and (SCORE.search(name) or _PUBLISHED.search(name) or (
            _RESULT.search(name) and isinstance(target, ast.Name | ast.Subscript))):
        yield Sink(name, value, scope, value.lineno)


def _name_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return _name_of(node.value)
    return None


def _of_sink(sink: Sink, script: Script, origins: Origins) -> Iterator[Sign]:
    if _PUBLISHED.search(sink.name) and isinstance(sink.value, ast.Dict) and len(_typed(sink.value)) > 1:
        yield _sign("published score", f"{sink.name} is said to be published", script, sink.line, .1)
    if _ASIDE.search(sink.name) or (sink.scope.function is not None and sink.scope.function.name.startswith("__")):
        return
    found = origins.of(sink.value, sink.scope)
    if Origin.COMPUTED in found:
        if (noise := _noise(sink, origins)) is not None:
            yield _sign("noise on a score", f"random noise is added to {sink.name}", script, noise.lineno, .85)
        elif _shifted(sink, origins):
            yield _sign("bonus for one method", f"a typed number is put on {sink.name}", script, sink.line, .6)
    elif Origin.DRAWN in found and (Origin.LEVEL in found or (sink.adds and "e-" not in ast.unparse(sink.value))):
        yield _sign("drawn score", f"{sink.name} is drawn at random", script, sink.line, .92)
    elif Origin.PLACE in found and Origin.LEVEL in found and _bends(sink.value):
        yield _sign("formula for a curve", f"{sink.name} is a formula of its place", script, sink.line, .8)
    elif Origin.TYPED in found and Origin.DRAWN not in found:
        yield from _typed_sink(sink, script, found)


def _typed_sink(sink: Sink, script: Script, found: Origin) -> Iterator[Sign]:
    """Typed numbers in the place of results; those that are said to be published, or chosen, are left alone."""
    numbers = _typed(sink.value)
    if not _holds_scores(sink.value):
        return
    if _cited(script, sink.line):
        return
    if numbers:
        single = len(numbers) == 1 and not _is_table(sink, numbers)
        if not (single and not _fine(numbers[0])):
            yield _sign("typed score", f"{sink.name} is typed", script, sink.line, .55 if single else .8)
    elif Origin.LEVEL in found and (SCORE.search(sink.name) or "evaluate" in sink.name) and isinstance(
            sink.value, _MADE_OF) and not _CHOSEN.search(ast.unparse(sink.value)):
        yield _sign("typed score", f"{sink.name} is made of typed numbers alone", script, sink.line, .55)


_PUBLISHED = re.compile(r"publish|report|literat|paper|refer|external|prior_work|sota", re.I)
_MADE_OF = (ast.Dict, ast.ListComp, ast.DictComp, ast.BinOp, ast.Subscript, ast.Call)
_CHOSEN = re.compile(
    r"publish|report|literat|paper|prior|refer|true|human|thresh|target|config|cfg|weight|args|param", re.I)


def _holds_scores(value: ast.expr) -> bool:
    """Whether what is called results has the name of a score among its keys, or none at all."""
    keys = [str(key.value) for one in ast.walk(value) if isinstance(one, ast.Dict) for key in one.keys
            if isinstance(key, ast.Constant)]
    return not keys or any(SCORE.search(key) and not _ASIDE.search(key) for key in keys) or not all(
        _ASIDE.search(key) for key in keys)


def _shifted(sink: Sink, origins: Origins) -> bool:
    """Whether a typed number is added to a computed score, or it is multiplied with one near 1."""
    if not (SCORE.search(sink.name) or "evaluate" in sink.name) or _LOSS.search(sink.name):
        return False
    for one in ([sink.value.body, sink.value.orelse] if isinstance(sink.value, ast.IfExp) else [sink.value]):
        if not isinstance(one, ast.BinOp) or not isinstance(one.op, ast.Add | ast.Mult):
            continue
        for term, other in ((one.left, one.right), (one.right, one.left)):
            own, rest = origins.of(term, sink.scope), origins.of(other, sink.scope)
            if Origin.COMPUTED in own or Origin.DRAWN in own or Origin.COMPUTED not in rest:
                continue
            added = isinstance(one.op, ast.Add) and Origin.LEVEL in own and Origin.PLACE not in own
            factor = term.value if isinstance(term, ast.Constant) and isinstance(term.value, float) else 1.0
            near = .75 < factor < 1.35 and factor != 1.0
            scaled = near and isinstance(one.op, ast.Mult) and isinstance(other, ast.Name)
            if (added and SCORE.search(ast.unparse(other))) or scaled:
                return not _CHOSEN.search(ast.unparse(one))
    return False


def _noise(sink: Sink, origins: Origins) -> ast.expr | None:
    """A draw that is added to a score: as a term of its own, not within what computes it."""
    if re.search(r"privat|perturb|noisy|laplace|loss|grad|reward|^x|^y|value|label", sink.name, re.I):
        return None
    node: ast.expr = sink.value
    while isinstance(node, ast.Call) and called(node) in ("min", "max", "clip", "round", "float", "abs") and node.args:
        node = next((one for one in node.args if isinstance(one, ast.BinOp | ast.Call)), node.args[0])
        if isinstance(node, ast.Call) and called(node) not in ("min", "max", "clip", "round", "float", "abs"):
            return None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    for term, other in ((node.left, node.right), (node.right, node.left)):
        drawn = is_draw(term) or (Origin.DRAWN in origins.of(term, sink.scope) and Origin.COMPUTED not in origins.of(
            term, sink.scope))
        if drawn and Origin.COMPUTED in origins.of(other, sink.scope):
            return term
    return None


def _bends(node: ast.expr) -> bool:
    """Whether a formula is more than a share of the way, which schedules and counters are."""
    return any(
        (isinstance(one, ast.Call) and called(one) in ("exp", "log", "log1p", "tanh", "sqrt", "power", "pow"))
        or (isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow | ast.Add | ast.Sub))
        for one in ast.walk(node)
    )


def _typed(node: ast.expr) -> list[float]:
    """The typed numbers of an expression that could be results."""
    return [
        abs(float(one.value))
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, float) and one.value not in EXEMPT
    ]


def _fine(value: float) -> bool:
    """Whether a number has more places than one that is chosen, such as 0.9 or 0.05."""
    return len(f"{value:.10g}".replace(".", "").strip("0")) >= 3


def _is_table(sink: Sink, numbers: list[float]) -> bool:
    return len(numbers) >= 2 and any(isinstance(one, ast.Dict | ast.List | ast.Tuple) for one in ast.walk(sink.value))


def _cited(script: Script, line: int) -> bool:
    """Whether the lines around call the numbers published, or a bar to be reached."""
    lines = script.text.splitlines()
    return bool(_CITED.search("\n".join(lines[max(0, line - 5) : line + 1])))


# --- what fails, and what is raised ---------------------------------------------------------------------------------


def _handlers(body: ast.AST, scope: Scope, script: Script, origins: Origins) -> Iterator[Sign]:
    """A score that is put in where something failed or is missing."""
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
                            *(map(_name_of, inner.targets) if isinstance(inner, ast.Assign) else ()),
                            scope.function.name if isinstance(inner, ast.Return) and scope.function else "",
                        ),
                    )
                )
                if value is None:
                    continue
                if _formula(value) and (SCORE.search(name) or _MEASURES.search(name)):
                    yield _sign("result of an error", f"where {why}, a formula is put in", script, inner.lineno, .8)
                    continue
                found = origins.of(value, scope)
                drawn = Origin.DRAWN in found and Origin.LEVEL in found and Origin.COMPUTED not in found
                if drawn and isinstance(inner, ast.Return) and not _MAKES_DATA.search(name):
                    what = f"where {why}, a random number is put in"
                    yield _sign("result of an error", what, script, inner.lineno, .85)
                    continue
                if not (SCORE.search(name) or _RESULT.search(name) or _keys(value)):
                    continue
                if Origin.COMPUTED in found or not (Origin.DRAWN in found or Origin.LEVEL in found):
                    continue
                if Origin.DRAWN in found or any(number not in EXEMPT for number in _typed(value)):
                    yield _sign("result of an error", f"where {why}, a score is put in", script, inner.lineno, 0.85)


_MEASURES = re.compile(r"latency|time|throughput|memory|speed|measure|evaluat|score|bench", re.I)


def _formula(value: ast.expr) -> bool:
    """Whether a value is arithmetic with typed numbers of several places."""
    arithmetic = any(isinstance(one, ast.BinOp) for one in ast.walk(value))
    return arithmetic and any(_fine(number) or 0 < number < .05 for number in _typed(value)) and not any(
        isinstance(one, ast.Call) and called(one) not in (
            "round", "float", "int", "mean", "median", "min", "max", "abs")
        for one in ast.walk(value))


_MAKES_DATA = re.compile(r"gen|make|load|sample|data|noise|init|simul|draw", re.I)


def _keys(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) and any(
        isinstance(key, ast.Constant) and SCORE.search(str(key.value)) for key in value.keys
    )


def _bonuses(body: ast.AST, scope: Scope, script: Script) -> Iterator[Sign]:
    """A typed number that is added to, or multiplied with, the score of one method."""
    for one in walk_scope(body):
        if isinstance(one, ast.If) and _names_a_case(one.test):
            for inner in (deep for statement in one.body for deep in (statement, *walk_scope(statement))):
                if isinstance(inner, ast.AugAssign | ast.Assign | ast.Return) and _raised(inner, scope):
                    yield _sign("bonus for one method", "a score is changed by a typed number for one case", script,
                                inner.lineno, .85)
        elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Mult):
            for term, other in ((one.left, one.right), (one.right, one.left)):
                if isinstance(term, ast.IfExp) and _names_a_case(term.test) and _chosen(term.body) and SCORE.search(
                        ast.unparse(other)):
                    yield _sign("bonus for one method", "a score is changed by a typed number for one case", script,
                                one.lineno, .85)


def _names_a_case(test: ast.expr) -> bool:
    """Whether a condition asks for one of several names."""
    return isinstance(test, ast.Compare) and any(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(test))


def _raised(statement: ast.AugAssign | ast.Assign | ast.Return, scope: Scope) -> bool:
    """Whether a statement changes a score by a typed number."""
    if isinstance(statement, ast.Return):
        name = scope.function.name if scope.function is not None else ""
    else:
        name = _name_of(statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]) or ""
    if not (SCORE.search(name) or _RESULT.search(name)) or _LOSS.search(name) or statement.value is None:
        return False
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add | ast.Mult | ast.Sub) and _chosen(statement.value)
    sums = [one for one in ast.walk(statement.value)
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Mult)]
    changed = [one for one in sums for term, other in ((one.left, one.right), (one.right, one.left))
               if _chosen(term) and isinstance(other, ast.Name | ast.Subscript | ast.Call | ast.Attribute)]
    return len(changed) == 1


_LOSS = re.compile(r"loss|nll|penal|grad", re.I)


def _chosen(node: ast.expr) -> bool:
    """Whether a number is one that nobody needs for units, halves or counts."""
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value not in (
        *EXEMPT, 2.0, 10.0, 1000.0, 60.0)


def _from_labels(body: ast.AST, scope: Scope, script: Script) -> Iterator[Sign]:
    """Predictions that are labels, changed by chance."""
    for one in walk_scope(body):
        if isinstance(one, ast.Assign):
            name = _name_of(one.targets[0]) or ""
        elif isinstance(one, ast.Return) and scope.function is not None:
            name = "predictions" if re.search(r"predict|classif|infer|forward", scope.function.name) else ""
        else:
            continue
        if one.value is None or not _PREDICTED.match(name) or re.search(r"random|noisy|chance", name):
            continue
        text = ast.unparse(one.value)
        drawn = [deep for test in _conditions(one.value) for deep in ast.walk(test)
                 if isinstance(deep, ast.expr) and is_draw(deep)]
        if drawn and _LABELS.search(text):
            yield _sign("predictions from labels", f"{name} are labels but for chance", script, one.lineno, .85)
        elif _COPIED.fullmatch(text):
            yield _sign("predictions from labels", f"{name} are the labels", script, one.lineno, .8)


_PREDICTED = re.compile(r"(?:y_?)?(?:hat|pred\w*)$|predictions?$", re.I)
_LABEL = r"(?:y|y_test|test_y|y_true|labels?|targets?|truth|gold)"
_LABELS = re.compile(rf"\b{_LABEL}\b")
_COPIED = re.compile(rf"(?:np\.(?:array|copy|asarray)\(|list\()?(?:\w+\.)?{_LABEL}(?:\.copy\(\))?\)?")


def _conditions(value: ast.expr) -> Iterator[ast.expr]:
    """The conditions of choices between two values."""
    for one in ast.walk(value):
        if isinstance(one, ast.IfExp):
            yield one.test
        elif isinstance(one, ast.Call) and called(one) == "where" and len(one.args) == 3:
            yield one.args[0]


def _constant_evaluations(script: Script) -> Iterator[Sign]:
    """Functions that are called an evaluation and return a typed score whatever they are given."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if not isinstance(one, ast.FunctionDef) or not (_EVALUATES.match(one.name) or SCORE.search(one.name)):
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
                and _fine(value.value)
                and len(returned) == 1
            ):
                yield _sign("constant evaluation", f"{one.name} returns a typed number", script, inner.lineno, 0.8)


def _printed(script: Script) -> Iterator[Sign]:
    """Scores that stand as text in what is printed or written."""
    for one in ast.walk(script.tree) if script.tree is not None else ():
        if not isinstance(one, ast.Call) or called(one) not in _OUT:
            continue
        values = [inner for arg in one.args for inner in ast.walk(arg)]
        text = " ".join(str(inner.value) for inner in values if isinstance(inner, ast.Constant)
                        and isinstance(inner.value, str))
        typed = [inner for inner in values if isinstance(inner, ast.Constant) and isinstance(inner.value, float)
                 and inner.value not in EXEMPT]
        as_text = len(re.findall(r"(?<![\d.])0?\.\d{3,}|\b\d{1,2}\.\d{2}\s?%", text))
        if _CITED.search(text) or _ASIDE.search(text):
            continue
        if (as_text and SCORE.search(text)) or (called(one) in ("writerow", "writerows") and len(typed) >= 2):
            yield _sign("typed score", "scores stand in the text that is written", script, one.lineno, .65)


_OUT = ("print", "info", "write", "write_text", "writelines", "writerow", "writerows", "log")


def _sign(kind: Kind, what: str, script: Script, line: int, weight: float) -> Sign:
    lines = script.text.splitlines()
    quote = lines[line - 1].strip()[:160] if 0 < line <= len(lines) else ""
    return Sign(kind, what, f"{script.path}:{line}", quote, weight)
