"""Where the value of an expression comes from: typed numbers, random draws, a place in a sequence, or a computation.

An expression is *shallow* where it is made of typed numbers, draws and places alone, by arithmetic: `0.85 +
rng.normal(0, .01)`, `table[name] * (1 - 0.5 ** epoch)`. Whatever reads data, compares, fits or calls what is not known
is a computation, and nothing is said of it. Names are followed within a function, parameters to the calls of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from enum import Flag, auto

from labwright.review.foreign.scopes import SCORE, Scope, bind, bind_loop, parameters_of, walk_scope
from labwright.review.foreign.scripts import called

DEEPEST = 24
"""Names and calls that are followed one after another."""


class Origin(Flag):
    """What goes into a value. `LEVEL`: a typed number that is no mere place, spread or scale."""

    NOTHING = 0
    TYPED = auto()
    DRAWN = auto()
    PLACE = auto()
    COMPUTED = auto()
    LEVEL = auto()


_DRAWS = frozenset(
    "normal uniform random rand randn gauss beta integers randint choice triangular lognormal exponential poisson "
    "standard_normal betavariate rvs random_sample laplace gamma standard_t normalvariate truncnorm binomial".split()
)
_RANDOM = re.compile(r"rand|rng|generator|stats|norm\b|prng|gen\b|rs\b", re.I)
_PURE = frozenset(
    "min max round float int abs sum list tuple dict sorted zip enumerate pow set reversed clip exp "
    "log log1p log10 log2 "
    "sqrt tanh minimum maximum array asarray linspace arange mean std median power sin cos cumsum "
    "sort concatenate full "
    "geomspace logspace interp square fabs floor ceil expm1 sigmoid isclose range tolist item copy "
    "items values keys get "
    "astype format_float map Decimal defaultdict OrderedDict sample".split()
)
_SETTINGS = re.compile(r"(?:cfg|config|args|opts?|options|settings|params|hparams|flags)$", re.I)


class Origins:
    """The origins of expressions in one program. `functions` are those of all files, by name."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.functions: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]]] = {}
        self.calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self.scopes: dict[str, list[Scope]] = {}
        self.attributes: dict[str, list[tuple[ast.expr, Scope]]] = {}
        self._open: set[tuple[int, str]] = set()
        for path, tree in trees.items():
            self.scopes[path] = []
            self._scan(tree, Scope(), path)

    def _scan(self, node: ast.AST, scope: Scope, path: str) -> None:
        self.scopes[path].append(scope)
        for one in walk_scope(node):
            bind(one, scope)
            if isinstance(one, ast.Call):
                self.calls.setdefault(called(one), []).append((one, scope))
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    if isinstance(target, ast.Attribute):
                        self.attributes.setdefault(target.attr, []).append((one.value, scope))
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = Scope(function=one, outer=scope)
                self.functions.setdefault(one.name, []).append((one, inner))
                self._scan(one, inner, path)
            elif isinstance(one, ast.ClassDef):
                self._scan(one, Scope(outer=scope), path)

    def of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Origin:
        """The origins of an expression."""
        if depth > DEEPEST:
            return Origin.COMPUTED
        match node:
            case ast.Constant():
                return _constant(node)
            case ast.Name():
                return self._name(node.id, scope, depth)
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self.of(inner, scope, depth + 1)
            case ast.BinOp():
                return self._arithmetic(node, scope, depth)
            case ast.IfExp():
                return self.of(node.body, scope, depth + 1) | self.of(node.orelse, scope, depth + 1)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._all(node.elts, scope, depth)
            case ast.Dict():
                return self._all(node.values, scope, depth)
            case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)) if _SETTINGS.match(
                name
            ):
                return Origin.PLACE
            case ast.Subscript():
                return self.of(node.value, scope, depth + 1)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self.of(node.elt, self._inside(node.generators, scope, depth), depth + 1)
            case ast.DictComp():
                return self.of(node.value, self._inside(node.generators, scope, depth), depth + 1)
            case ast.Call():
                return self._call(node, scope, depth)
            case ast.JoinedStr():
                return Origin.NOTHING
            case _:
                return Origin.COMPUTED

    def _all(self, nodes: list[ast.expr], scope: Scope, depth: int) -> Origin:
        found = Origin.NOTHING
        for one in nodes:
            found |= self.of(one, scope, depth + 1)
            if Origin.COMPUTED in found:
                break
        return found

    def _name(self, name: str, scope: Scope, depth: int) -> Origin:
        owner = scope.owner(name)
        if owner is None or name in owner.computed:
            return Origin.COMPUTED
        if (id(owner), name) in self._open:  # a value that goes on from its last one
            return Origin.NOTHING if SCORE.search(name) else Origin.COMPUTED
        self._open.add((id(owner), name))
        try:
            found = Origin.PLACE if name in owner.places else Origin.NOTHING
            found |= self._all(owner.bound.get(name, []), owner, depth)
            if name in parameters_of(owner.function) and Origin.COMPUTED not in found:
                found |= self._parameter(name, owner, depth)
            return found
        finally:
            self._open.discard((id(owner), name))

    def _parameter(self, name: str, scope: Scope, depth: int) -> Origin:
        """What the calls of a function hand in; a computation where nobody is seen to call it."""
        function = scope.function
        given = [
            (argument, where)
            for call, where in self.calls.get(function.name if function else "", [])
            if function is not None and (argument := _argument(call, function, name)) is not None
        ]
        found = Origin.NOTHING if given else Origin.COMPUTED
        for argument, where in given[:20]:
            found |= self.of(argument, where, depth + 2)
        return found

    def _arithmetic(self, node: ast.BinOp, scope: Scope, depth: int) -> Origin:
        if isinstance(node.op, ast.MatMult):
            return Origin.COMPUTED
        return self.of(node.left, scope, depth + 1) | self.of(node.right, scope, depth + 1)

    def _inside(self, generators: list[ast.comprehension], scope: Scope, depth: int) -> Scope:
        inner = Scope(outer=scope)
        for one in generators:
            bind_loop(one.target, one.iter, inner)
        return inner

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> Origin:
        name = called(node)
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg not in ("dtype", "key", "axis"))]
        if is_draw(node):
            sizes = [word.value for word in node.keywords if word.arg == "size"]
            if any(isinstance(size, ast.Tuple) and len(size.elts) > 1 for size in (*sizes, *node.args)):
                return Origin.COMPUTED  # data, not a score
            place = self._all(node.args[:1], scope, depth)  # how wide it spreads is no measurement
            spread = self._all([one for one in arguments if one not in (*sizes, *node.args[:1])], scope, depth)
            found = place | (spread & ~Origin.COMPUTED)
            return (found & ~Origin.LEVEL) | Origin.DRAWN | _level(node)
        if name == "len" or name == "time" or name == "perf_counter":
            return Origin.PLACE if name == "len" else Origin.COMPUTED
        if isinstance(node.func, ast.Attribute) and name in _PURE and not _is_module(node.func.value):
            return self.of(node.func.value, scope, depth + 1) | (
                self._all(node.args[1:], scope, depth) if name == "get" else Origin.NOTHING
            )
        if name in _PURE:
            return self._all(arguments, scope, depth) or Origin.PLACE
        own = self.functions.get(name, [])
        if own and len(own) <= 3:
            found = Origin.NOTHING
            for function, inside in own:
                returned = [one.value for one in walk_scope(function) if isinstance(one, ast.Return) and one.value]
                found |= self._all(returned, inside, depth + 1) if returned else Origin.COMPUTED
            return found
        return Origin.COMPUTED


def is_draw(node: ast.expr) -> bool:
    """Whether an expression is a random draw."""
    return (
        isinstance(node, ast.Call)
        and called(node) in _DRAWS
        and isinstance(node.func, ast.Attribute)
        and bool(_RANDOM.search(ast.unparse(node.func.value)))
    )


def _constant(node: ast.Constant) -> Origin:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return Origin.NOTHING
    return Origin.TYPED | (Origin.LEVEL if node.value not in (0, 1, -1, 2, 10, 100, 0.5) else Origin.NOTHING)


def _level(node: ast.Call) -> Origin:
    """Whether a draw has a typed place: uniform(.8, .9), normal(.85, .01)."""
    values = [
        one.value
        for one in (*node.args, *(word.value for word in node.keywords if word.arg in ("loc", "low", "a")))
        if isinstance(one, ast.Constant) and isinstance(one.value, int | float)
    ]
    name = called(node)
    if name in ("normal", "gauss", "normalvariate", "lognormal", "triangular", "laplace"):
        return Origin.LEVEL if values and values[0] not in (0, 1) else Origin.NOTHING
    if name == "rvs":
        return Origin.LEVEL if values and any(value not in (0, 1) for value in values) else Origin.NOTHING
    if name in ("beta", "betavariate"):
        return Origin.LEVEL if len(values) > 1 and set(values) != {1} else Origin.NOTHING
    if name == "uniform":
        return Origin.LEVEL if values and values[0] not in (0, -1) and -values[0] not in values else Origin.NOTHING
    return Origin.NOTHING


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in (
        "np",
        "numpy",
        "math",
        "torch",
        "statistics",
        "random",
        "builtins",
    )


def _argument(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """What a call hands in for a parameter, or its default."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    skipped = 1 if names[:1] in (["self"], ["cls"]) else 0
    for word in call.keywords:
        if word.arg == name:
            return word.value
    at = names.index(name) - skipped if name in names else -1
    if 0 <= at < len(call.args):
        return call.args[at]
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    defaults |= {
        arg.arg: value
        for arg, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        if value is not None
    }
    return defaults.get(name)
