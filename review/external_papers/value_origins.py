"""Trace where the value of an expression comes from: typed numbers, random draws, a position, or a computation.

An expression is *shallow* if it is arithmetic on typed numbers, draws and positions: `0.85 + rng.normal(0, .01)`,
`table[name] * (1 - 0.5 ** epoch)`. Code that reads data, compares, fits or calls unknown functions is a computation,
from which nothing is concluded. Names are followed within a function, and parameters to the calls of the function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from enum import Flag, auto

from labwright.review.external_papers.name_scopes import (
    SCORE_NAME,
    NameScope,
    bind_loop_target,
    bind_names,
    list_parameters,
    walk_scope,
)
from labwright.review.external_papers.scripts import called_name

MAX_DEPTH = 24
"""Maximum chain of names and calls that is followed."""


class ValueOrigin(Flag):
    """Components of a value. `LEVEL` is a typed number that is more than a position, spread or scale."""

    NOTHING = 0
    TYPED = auto()
    DRAWN = auto()
    POSITION = auto()
    COMPUTED = auto()
    LEVEL = auto()


_DRAW_METHODS = frozenset(
    "normal uniform random rand randn gauss beta integers randint choice triangular lognormal exponential poisson "
    "standard_normal betavariate rvs random_sample laplace gamma standard_t normalvariate truncnorm binomial".split()
)
_RANDOM_SOURCE = re.compile(r"rand|rng|generator|stats|norm\b|prng|gen\b|rs\b", re.I)
_PURE_FUNCTIONS = frozenset(
    "min max round float int abs sum list tuple dict sorted zip enumerate pow set reversed clip exp "
    "log log1p log10 log2 "
    "sqrt tanh minimum maximum array asarray linspace arange mean std median power sin cos cumsum "
    "sort concatenate full "
    "geomspace logspace interp square fabs floor ceil expm1 sigmoid isclose range tolist item copy "
    "items values keys get "
    "astype format_float map Decimal defaultdict OrderedDict sample".split()
)
_SETTINGS_NAME = re.compile(r"(?:cfg|config|args|opts?|options|settings|params|hparams|flags)$", re.I)


class OriginTracer:
    """Traces the origins of expressions in a program. `functions` are those of all files, by name."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.functions: dict[str, list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, NameScope]]] = {}
        self.calls: dict[str, list[tuple[ast.Call, NameScope]]] = {}
        self.scopes: dict[str, list[NameScope]] = {}
        self.attributes: dict[str, list[tuple[ast.expr, NameScope]]] = {}
        self._open: set[tuple[int, str]] = set()
        for path, tree in trees.items():
            self.scopes[path] = []
            self._scan_scope(tree, NameScope(), path)

    def _scan_scope(self, node: ast.AST, scope: NameScope, path: str) -> None:
        self.scopes[path].append(scope)
        for one in walk_scope(node):
            bind_names(one, scope)
            if isinstance(one, ast.Call):
                self.calls.setdefault(called_name(one), []).append((one, scope))
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    if isinstance(target, ast.Attribute):
                        self.attributes.setdefault(target.attr, []).append((one.value, scope))
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = NameScope(function=one, outer=scope)
                self.functions.setdefault(one.name, []).append((one, inner))
                self._scan_scope(one, inner, path)
            elif isinstance(one, ast.ClassDef):
                self._scan_scope(one, NameScope(outer=scope), path)

    def trace(self, node: ast.expr, scope: NameScope, depth: int = 0) -> ValueOrigin:
        """Return the origins of an expression."""
        if depth > MAX_DEPTH:
            return ValueOrigin.COMPUTED
        match node:
            case ast.Constant():
                return _constant_origin(node)
            case ast.Name():
                return self._trace_name(node.id, scope, depth)
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self.trace(inner, scope, depth + 1)
            case ast.BinOp():
                return self._trace_arithmetic(node, scope, depth)
            case ast.IfExp():
                return self.trace(node.body, scope, depth + 1) | self.trace(node.orelse, scope, depth + 1)
            case ast.List() | ast.Tuple() | ast.Set():
                return self._trace_all(node.elts, scope, depth)
            case ast.Dict():
                return self._trace_all(node.values, scope, depth)
            case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)) if (
                _SETTINGS_NAME.match(name)
            ):
                return ValueOrigin.POSITION
            case ast.Subscript():
                return self.trace(node.value, scope, depth + 1)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self.trace(node.elt, self._enter_comprehension(node.generators, scope, depth), depth + 1)
            case ast.DictComp():
                return self.trace(node.value, self._enter_comprehension(node.generators, scope, depth), depth + 1)
            case ast.Call():
                return self._trace_call(node, scope, depth)
            case ast.JoinedStr():
                return ValueOrigin.NOTHING
            case _:
                return ValueOrigin.COMPUTED

    def _trace_all(self, nodes: list[ast.expr], scope: NameScope, depth: int) -> ValueOrigin:
        found = ValueOrigin.NOTHING
        for one in nodes:
            found |= self.trace(one, scope, depth + 1)
            if ValueOrigin.COMPUTED in found:
                break
        return found

    def _trace_name(self, name: str, scope: NameScope, depth: int) -> ValueOrigin:
        owner = scope.find_owner(name)
        if owner is None or name in owner.computed_names:
            return ValueOrigin.COMPUTED
        if (id(owner), name) in self._open:  # a value that depends on its previous one
            return ValueOrigin.NOTHING if SCORE_NAME.search(name) else ValueOrigin.COMPUTED
        self._open.add((id(owner), name))
        try:
            found = ValueOrigin.POSITION if name in owner.place_names else ValueOrigin.NOTHING
            found |= self._trace_all(owner.bindings.get(name, []), owner, depth)
            if name in list_parameters(owner.function) and ValueOrigin.COMPUTED not in found:
                found |= self._trace_parameter(name, owner, depth)
            return found
        finally:
            self._open.discard((id(owner), name))

    def _trace_parameter(self, name: str, scope: NameScope, depth: int) -> ValueOrigin:
        """Return the origins of the values that calls pass for a parameter; a computation if no call is found."""
        function = scope.function
        given = [
            (argument, where)
            for call, where in self.calls.get(function.name if function else "", [])
            if function is not None and (argument := _find_argument(call, function, name)) is not None
        ]
        found = ValueOrigin.NOTHING if given else ValueOrigin.COMPUTED
        for argument, where in given[:20]:
            found |= self.trace(argument, where, depth + 2)
        return found

    def _trace_arithmetic(self, node: ast.BinOp, scope: NameScope, depth: int) -> ValueOrigin:
        if isinstance(node.op, ast.MatMult):
            return ValueOrigin.COMPUTED
        return self.trace(node.left, scope, depth + 1) | self.trace(node.right, scope, depth + 1)

    def _enter_comprehension(self, generators: list[ast.comprehension], scope: NameScope, depth: int) -> NameScope:
        inner = NameScope(outer=scope)
        for one in generators:
            bind_loop_target(one.target, one.iter, inner)
        return inner

    def _trace_call(self, node: ast.Call, scope: NameScope, depth: int) -> ValueOrigin:
        name = called_name(node)
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg not in ("dtype", "key", "axis"))]
        if is_draw(node):
            sizes = [word.value for word in node.keywords if word.arg == "size"]
            if any(isinstance(size, ast.Tuple) and len(size.elts) > 1 for size in (*sizes, *node.args)):
                return ValueOrigin.COMPUTED  # data, not a score
            place = self._trace_all(node.args[:1], scope, depth)  # its spread is not a measurement
            spread = self._trace_all([one for one in arguments if one not in (*sizes, *node.args[:1])], scope, depth)
            found = place | (spread & ~ValueOrigin.COMPUTED)
            return (found & ~ValueOrigin.LEVEL) | ValueOrigin.DRAWN | _draw_level(node)
        if name == "len" or name == "time" or name == "perf_counter":
            return ValueOrigin.POSITION if name == "len" else ValueOrigin.COMPUTED
        if isinstance(node.func, ast.Attribute) and name in _PURE_FUNCTIONS and not _is_module_name(node.func.value):
            return self.trace(node.func.value, scope, depth + 1) | (
                self._trace_all(node.args[1:], scope, depth) if name == "get" else ValueOrigin.NOTHING
            )
        if name in _PURE_FUNCTIONS:
            return self._trace_all(arguments, scope, depth) or ValueOrigin.POSITION
        own = self.functions.get(name, [])
        if own and len(own) <= 3:
            found = ValueOrigin.NOTHING
            for function, inside in own:
                returned = [one.value for one in walk_scope(function) if isinstance(one, ast.Return) and one.value]
                found |= self._trace_all(returned, inside, depth + 1) if returned else ValueOrigin.COMPUTED
            return found
        return ValueOrigin.COMPUTED


def is_draw(node: ast.expr) -> bool:
    """Return whether an expression is a random draw."""
    return (
        isinstance(node, ast.Call)
        and called_name(node) in _DRAW_METHODS
        and isinstance(node.func, ast.Attribute)
        and bool(_RANDOM_SOURCE.search(ast.unparse(node.func.value)))
    )


def _constant_origin(node: ast.Constant) -> ValueOrigin:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return ValueOrigin.NOTHING
    return ValueOrigin.TYPED | (
        ValueOrigin.LEVEL if node.value not in (0, 1, -1, 2, 10, 100, 0.5) else ValueOrigin.NOTHING
    )


def _draw_level(node: ast.Call) -> ValueOrigin:
    """Return whether a draw has a typed location: uniform(.8, .9), normal(.85, .01)."""
    values = [
        one.value
        for one in (*node.args, *(word.value for word in node.keywords if word.arg in ("loc", "low", "a")))
        if isinstance(one, ast.Constant) and isinstance(one.value, int | float)
    ]
    name = called_name(node)
    if name in ("normal", "gauss", "normalvariate", "lognormal", "triangular", "laplace"):
        return ValueOrigin.LEVEL if values and values[0] not in (0, 1) else ValueOrigin.NOTHING
    if name == "rvs":
        return ValueOrigin.LEVEL if values and any(value not in (0, 1) for value in values) else ValueOrigin.NOTHING
    if name in ("beta", "betavariate"):
        return ValueOrigin.LEVEL if len(values) > 1 and set(values) != {1} else ValueOrigin.NOTHING
    if name == "uniform":
        return (
            ValueOrigin.LEVEL
            if values and values[0] not in (0, -1) and -values[0] not in values
            else ValueOrigin.NOTHING
        )
    return ValueOrigin.NOTHING


def _is_module_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in (
        "np",
        "numpy",
        "math",
        "torch",
        "statistics",
        "random",
        "builtins",
    )


def _find_argument(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """Return the value that a call passes for a parameter, or the parameter's default."""
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
