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
BUDGETS = (
    (re.compile(r"(^|_)(epochs?|steps|iterations|iters|rounds|updates|n_estimators|max_iter|trials)(_|$)", re.I), 3.0),
    (re.compile(r"(^|_)(lr|learning_rate|rate|eta|step_size)(_|$)", re.I), 100.0),
    (re.compile(r"(^|_)(n_train|train_rows|rows|subset|fraction|samples|train_size|hidden|width|n_rows)(_|$)", re.I),
     10.0))
"""Settings that make an arm strong or weak, and the ratio between two arms from which on it is told."""


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
    loaded = {target.id for node in ast.walk(flow.tree) if isinstance(node, ast.Assign)
              and any(READS.search(name) for name in calls_in([node.value], functions))
              for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(flow.tree):
        if isinstance(node, ast.Try):
            yield from _attempt(node, functions, lines)
        elif isinstance(node, ast.With) and any("suppress" in ast.unparse(item.context_expr) for item in node.items):
            yield from _suppressed(node, functions, lines)
        elif isinstance(node, ast.If):
            yield from _fallback(node, loaded, functions, lines)
    yield from _seeds(flow.tree, sinks, lines)
    yield from _best_seed(flow.tree, lines)
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


def _fallback(node: ast.If, loaded: set[str], functions: Mapping[str, ast.FunctionDef],
              lines: Lines) -> Iterable[Finding]:
    """`if the data is there: load it, else: generate it`, either way round."""
    test = ast.unparse(node.test)
    if not re.search(r"exists|is_file|is_dir|is None|is not None|available|isfile|isdir|found|HAS_|has_|\blen\(", test):
        return
    bound = [_bound(body) for body in (node.body, node.orelse)]
    names = [list(calls_in(body, functions)) for body in (node.body, node.orelse)]
    tested = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)} & loaded
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


SEEDED = re.compile(r"seed", re.I)
EXTREMES = frozenset({"max", "min", "argmax", "argmin"})


def _best_seed(tree: ast.Module, lines: Lines) -> Iterable[Finding]:
    """A loop over seeds that keeps the best run, or the best of a list of runs by seed."""
    why = "several seeds are run and the best one is kept"
    runs: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and _varies_seed(node.target, node.body):
            kept = [one for one in ast.walk(node) if isinstance(one, ast.If) and _keeps_best(one)]
            if kept:
                yield lines.finding("best seed", kept[0], why)
            runs |= {ast.unparse(one.func.value) for one in ast.walk(node) if isinstance(one, ast.Call)
                     and isinstance(one.func, ast.Attribute) and one.func.attr == "append"}
            runs |= {target.value.id for one in ast.walk(node) if isinstance(one, ast.Assign) for target in one.targets
                     if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.ListComp | ast.DictComp) and any(
                _varies_seed(one.target, [node.value]) for one in node.value.generators):
            runs |= {ast.unparse(target) for target in node.targets}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rsplit(".", 1)[-1] in EXTREMES and any(
                ast.unparse(one) in runs for one in ast.walk(node.args[0]) if isinstance(one, ast.Name)):
            yield lines.finding("best seed", node, why)


def _varies_seed(target: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Whether the loop's variable becomes a seed: by its name, or added to one."""
    names = {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    if any(SEEDED.search(name) for name in names):
        return True
    return any(isinstance(one, ast.BinOp) and SEEDED.search(ast.unparse(one))
               and names & {part.id for part in ast.walk(one) if isinstance(part, ast.Name)}
               for node in body for one in ast.walk(node))


def _keeps_best(node: ast.If) -> bool:
    if not isinstance(node.test, ast.Compare | ast.BoolOp):
        return False
    tested = {ast.unparse(one) for one in ast.walk(node.test) if isinstance(one, ast.expr)}
    return any(isinstance(one, ast.Assign) and any(
        ast.unparse(name) in tested for target in one.targets
        for name in (target.elts if isinstance(target, ast.Tuple) else [target])) for one in node.body)


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
        elif isinstance(node, ast.Assign):
            found = _by_arm(node, roles, numbers)
        elif isinstance(node, ast.If):
            found = _branches(node, roles, numbers)
        for name, low, high in found:
            yield lines.finding("unequal", node, f"arms are trained with unequal means: {name} {low:g} against "
                                f"{high:g}", suspect=re.sub(r"\W|_|s$", "", name).lower() not in told.lower()
                                and "budget" not in told)


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
            if isinstance(name, str) and number is not None:
                fields.setdefault(name, []).append(number)
    for name, values in fields.items():
        if len(values) == len(rows) > 1 and _far(name, values):
            yield name, min(values), max(values)


def _far(name: str, values: Sequence[float]) -> bool:
    return any(pattern.search(name) and max(values) >= ratio * max(min(values), 1e-9) for pattern, ratio in BUDGETS)


def _by_arm(node: ast.Assign, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    """`EPOCHS = {"baseline": 1, "method": 60}`."""
    if not isinstance(node.value, ast.Dict) or not isinstance(node.targets[0], ast.Name):
        return
    values = [number for key, value in zip(node.value.keys, node.value.values, strict=True)
              if isinstance(key, ast.Constant) and _is_arm(key.value, roles)
              and (number := _number(value, numbers)) is not None]
    if len(values) > 1 and _far(node.targets[0].id, values):
        yield node.targets[0].id, min(values), max(values)


def _branches(node: ast.If, roles: Mapping[str, str], numbers: Mapping[str, float]) -> Iterable[Gap]:
    """`if arm == "baseline": epochs = 1`, with an `else`."""
    if not any(_is_arm(one.value, roles) for one in ast.walk(node.test) if isinstance(one, ast.Constant)):
        return
    sides = [{target.id: number for one in body if isinstance(one, ast.Assign) for target in one.targets
              if isinstance(target, ast.Name) and (number := _number(one.value, numbers)) is not None}
             for body in (node.body, node.orelse)]
    for name in sides[0].keys() & sides[1].keys():
        values = (sides[0][name], sides[1][name])
        if _far(name, values):
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
    a, b = sides
    named = next((name for name in names if a is not None and b is not None and _far(name, (a, b))), None)
    if named is not None and a is not None and b is not None:
        yield named, min(a, b), max(a, b)
