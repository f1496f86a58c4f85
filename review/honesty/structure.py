"""What is read off the form of a program: swallowed errors, made-up fallbacks, frozen seeds, unequal budgets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from record.nouns import DataPlan, Finding
from review.honesty.flow import Flow, Sink
from review.honesty.values import Tag

BROAD = frozenset({"Exception", "BaseException", ""})
WORK = frozenset({"backward", "fit", "partial_fit", "fit_transform", "predict", "predict_proba", "submit", "result",
                  "data", "load_dataset", "score"})
"""Last names of calls that train, evaluate, load data or hand results in."""

DRAWS = re.compile(r"(^|\.)(random|rng|gen|generator|rs|torch)\.(normal|rand|randn|random|uniform|standard_normal|"
                   r"integers|randint|choice|multivariate_normal|permutation)$|(^|\.)make_(classification|blobs|moons|"
                   r"regression|circles|gaussian_quantiles)$|^default_rng$")
READS = re.compile(r"(^|\.)(lab\.data|load_dataset|read_csv|read_parquet|load|loadtxt|genfromtxt|open|fetch_\w+|"
                   r"load_\w+)$")
BUDGET = re.compile(r"(^|_)(epochs?|steps|iterations|iters|rounds|updates|n_estimators|max_iter|trials)(_|$)", re.I)
UNEQUAL = 3.0
"""Ratio of training budgets of two arms from which on it is told."""


class Lines:
    """The lines of a source, to cite them."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()

    def finding(self, kind: str, node: ast.AST, why: str, *, suspect: bool = True) -> Finding:
        line = int(getattr(node, "lineno", 0))
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        return Finding(kind=kind, why=why, suspect=suspect, line=line, text=text[:160])


def structural(flow: Flow, sinks: Sequence[Sink], lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """All of them."""
    functions = {node.name: node for node in ast.walk(flow.tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(flow.tree):
        if isinstance(node, ast.Try):
            yield from _attempt(node, functions, lines)
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            yield from _suppressed(node, functions, lines)
        elif isinstance(node, ast.If):
            yield from _fallback(node, functions, lines)
    yield from _seeds(flow.tree, sinks, lines)
    yield from _budgets(flow.tree, lines, plan)


# --- errors ---------------------------------------------------------------------------------------------------------


def calls_in(nodes: Iterable[ast.AST], functions: Mapping[str, ast.FunctionDef], seen: frozenset[str] = frozenset(),
             ) -> Iterable[str]:
    """Names of calls under some nodes, and in the functions of the source that they call."""
    for node in nodes:
        for one in ast.walk(node):
            if not isinstance(one, ast.Call):
                continue
            name = ast.unparse(one.func)
            yield name
            if name in functions and name not in seen:
                yield from calls_in(functions[name].body, functions, seen | {name})


def _works(body: Sequence[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(name.rsplit(".", 1)[-1] in WORK for name in calls_in(body, functions))


def _attempt(node: ast.Try, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    reads = any(READS.search(name) for name in calls_in(node.body, functions))
    for handler in node.handlers:
        if _raises(handler.body):
            continue
        if reads and any(DRAWS.search(name) for name in calls_in(handler.body, functions)):
            yield lines.finding("fallback", handler, "where the data cannot be loaded, generated numbers stand in")
        elif _broad(handler) and _works(node.body, functions) and not _again(node, handler, functions):
            yield lines.finding("swallowed", handler, "an error in loading, training or evaluation is swallowed")


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


def _suppressed(node: ast.With, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    broad = any(isinstance(item.context_expr, ast.Call) and any(ast.unparse(one) in BROAD
                for one in item.context_expr.args) for item in node.items)
    if broad and _works(node.body, functions):
        yield lines.finding("swallowed", node, "errors in loading, training or evaluation are suppressed")


def _fallback(node: ast.If, functions: Mapping[str, ast.FunctionDef], lines: Lines) -> Iterable[Finding]:
    """`if the data is there: load it, else: generate it`, either way round."""
    test = ast.unparse(node.test)
    if not re.search(r"exists|is_file|is_dir|is None|is not None|available|isfile|isdir|found|HAS_|has_|\blen\(", test):
        return
    bound = [_bound(body) for body in (node.body, node.orelse)]
    names = [list(calls_in(body, functions)) for body in (node.body, node.orelse)]
    tested = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
    for made, other in ((0, 1), (1, 0)):
        draws = any(DRAWS.search(name) for name in names[made])
        reads = any(READS.search(name) for name in names[other])
        if draws and ((reads and bound[made] & bound[other]) or (not node.orelse and bound[made] & tested)):
            yield lines.finding("fallback", node, "where the data is missing, generated numbers take its place")


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    found = {one.id for stmt in body for one in ast.walk(stmt)
             if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return found | {"return" for stmt in body for one in ast.walk(stmt) if isinstance(one, ast.Return)}


# --- seeds ----------------------------------------------------------------------------------------------------------


def _seeds(tree: ast.Module, sinks: Sequence[Sink], lines: Lines) -> Iterable[Finding]:
    seeded = [one for one in sinks if one.name in ("seed", "generator")]
    ours = any(Tag.SEED in one.tags for one in seeded)
    forked = {id(call) for node in ast.walk(tree) if isinstance(node, ast.With)
              and any("fork_rng" in ast.unparse(item.context_expr) for item in node.items)
              for call in ast.walk(node) if isinstance(call, ast.Call)}
    for one in seeded:
        if one.tags & {Tag.SEED, Tag.OPAQUE, Tag.DATA} or id(one.call) in forked or one.value.constant is None:
            continue
        if one.name == "seed":
            yield lines.finding("frozen seed", one.call, "seeds all randomness with its own seed, not with lab.seed")
        else:
            yield lines.finding("frozen seed", one.call, "draws from a seed of its own instead of lab.seed",
                                suspect=not ours)


# --- budgets --------------------------------------------------------------------------------------------------------


def _budgets(tree: ast.Module, lines: Lines, plan: DataPlan | None) -> Iterable[Finding]:
    """Arms whose training budgets, typed in one table or one choice by arm, differ by much."""
    roles = {arm.name: arm.role for arm in plan.arms} if plan else {}
    told = " ".join(f"{arm.title} {arm.description}" for arm in plan.arms) + plan.notes + plan.task if plan else ""
    numbers = _numbers(tree)
    for node in ast.walk(tree):
        found: Iterable[tuple[str, float, float]] = ()
        if isinstance(node, ast.Dict):
            found = _table(node, roles, numbers)
        elif isinstance(node, ast.IfExp):
            found = _choice(node, tree, roles, numbers)
        for name, low, high in found:
            yield lines.finding("unequal", node, f"arms are trained with unequal budgets: {name} {low:g} against "
                                f"{high:g}", suspect=not BUDGET.search(told) and "budget" not in told)


def _numbers(tree: ast.Module) -> dict[str, float]:
    return {target.id: float(node.value.value) for node in tree.body if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)
            for target in node.targets if isinstance(target, ast.Name)}


def _number(node: ast.expr, numbers: Mapping[str, float]) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return numbers.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
        a, b = _number(node.left, numbers), _number(node.right, numbers)
        if a is not None and b:
            return a * b if isinstance(node.op, ast.Mult) else a / b
    return None


def _is_arm(name: object, roles: Mapping[str, str]) -> bool:
    return isinstance(name, str) and (roles.get(name) in ("baseline", "method") if roles else
                                      name in ("baseline", "method", "ours", "proposed"))


Gap = tuple[str, float, float]
"""A budget's name, the least and the most that an arm has of it."""


def _table(node: ast.Dict, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    rows = [value for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and _is_arm(key.value, roles)]
    fields: dict[str, list[float]] = {}
    for row in rows:
        pairs: list[tuple[object, ast.expr]] = []
        if isinstance(row, ast.Dict):
            pairs = [(key.value if isinstance(key, ast.Constant) else None, value)
                     for key, value in zip(row.keys, row.values, strict=True)]
        elif isinstance(row, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in row.keywords]
        for name, value in pairs:
            number = _number(value, numbers)
            if isinstance(name, str) and BUDGET.search(name) and number is not None:
                fields.setdefault(name, []).append(number)
    for name, values in fields.items():
        if len(values) == len(rows) > 1 and max(values) >= UNEQUAL * max(min(values), 0.001):
            yield name, min(values), max(values)


def _choice(node: ast.IfExp, tree: ast.Module, roles: Mapping[str, str], numbers: Mapping[str, float],
            ) -> Iterable[Gap]:
    tested = [one.value for one in ast.walk(node.test) if isinstance(one, ast.Constant)]
    if not any(_is_arm(one, roles) for one in tested):
        return
    sides = [_number(side, numbers) for side in (node.body, node.orelse)]
    names = [target.id for one in ast.walk(tree) if isinstance(one, ast.Assign) and one.value is node
             for target in one.targets if isinstance(target, ast.Name)]
    names += [k.arg for one in ast.walk(tree) if isinstance(one, ast.Call) for k in one.keywords
              if k.value is node and k.arg]
    names += [ast.unparse(side) for side in (node.body, node.orelse)]
    named = next((name for name in names if BUDGET.search(name)), None)
    a, b = sides
    if named and a is not None and b is not None and max(a, b) >= UNEQUAL * max(min(a, b), 0.001):
        yield named, min(a, b), max(a, b)
