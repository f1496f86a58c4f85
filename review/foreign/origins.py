"""Where the value of an expression comes from: typed numbers, random draws, a place in a sequence, or a computation.

An expression is *shallow* where it is made of typed numbers, draws and places alone, by arithmetic: `0.85 +
rng.normal(0, .01)`, `table[name] * (1 - 0.5 ** epoch)`. Whatever reads data, compares, fits or calls what is not known
is a computation, and nothing is said of it. Names are followed within a function, parameters to the calls of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto

from review.foreign.scripts import called, parameters

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
_ON_OWNER = frozenset(
    "mean std round tolist item copy items values keys get sum min max astype clip cumsum median".split()
)
SCORE = re.compile(
    r"(?:^|_|\b)(?:acc|accuracy|accuracies|f1|f1score|precision|recall|auc|auroc|auprc|roc_auc|bleu|rouge\w*|mse|rmse|mae|"
    r"r2|ece|brier|mrr|ndcg|wer|cer|fid|psnr|ssim|iou|miou|dice|kappa|spearman|pearson|silhouette|ari|nmi|nll|ppl|"
    r"perplexity|losses|loss|error_rate|success_rate|win_rate|hit_rate|top1|top5|score|scores|metric|metrics|map)(?:$|_|\b|\d)",
    re.I,
)


_SETTINGS = re.compile(r"(?:cfg|config|args|opts?|options|settings|params|hparams|flags)$", re.I)


@dataclass
class Scope:
    """The names of a function or of a file, with all that they are ever bound to."""

    bound: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])
    places: set[str] = field(default_factory=set[str])
    computed: set[str] = field(default_factory=set[str])
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    outer: Scope | None = None

    def owner(self, name: str) -> Scope | None:
        """The scope that binds a name."""
        if name in self.bound or name in self.places or name in self.computed or name in _parameters(self.function):
            return self
        return self.outer.owner(name) if self.outer is not None else None


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
            _bind(one, scope)
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
            case (ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name))) if (
                    _SETTINGS.match(name)):
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
            if name in _parameters(owner.function) and Origin.COMPUTED not in found:
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
            _bind_loop(one.target, one.iter, inner)
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
        if isinstance(node.func, ast.Attribute) and name in _ON_OWNER and not _is_module(node.func.value):
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


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node, but for what stands within a function or class of its own."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from walk_scope(child)


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


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> tuple[str, ...]:
    return parameters(function) if function is not None else ()


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


def _bind(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.Assign():
            for target in node.targets:
                _bind_target(target, node.value, scope)
        case ast.AnnAssign(value=value) if value is not None:
            _bind_target(node.target, value, scope)
        case ast.AugAssign():
            _bind_target(node.target, node.value, scope)
            if isinstance(node.target, ast.Name) and not SCORE.search(node.target.id):
                scope.computed.add(node.target.id)
        case ast.NamedExpr():
            _bind_target(node.target, node.value, scope)
        case ast.For() | ast.AsyncFor():
            _bind_loop(node.target, node.iter, scope)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name):
                    scope.computed.add(item.optional_vars.id)
        case ast.Import() | ast.ImportFrom():
            scope.computed |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        case ast.Call() if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and called(node) in ("append", "extend", "update", "insert", "setdefault")
        ):
            scope.bound.setdefault(node.func.value.id, []).extend(node.args[-1:])
        case _:
            pass


def _bind_target(target: ast.expr, value: ast.expr, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope.bound.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
        for at, one in enumerate(target.elts):
            _bind_target(one, parts[at] if parts else value, scope)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        scope.bound.setdefault(target.value.id, []).append(value)


def _bind_loop(target: ast.expr, over: ast.expr, scope: Scope) -> None:
    """A loop over range or enumerate gives places; one over anything else what it goes over."""
    if isinstance(over, ast.Call) and called(over) in ("range", "trange", "count"):
        scope.places |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
        return
    if isinstance(over, ast.Call) and called(over) == "tqdm" and over.args:
        _bind_loop(target, over.args[0], scope)
        return
    if isinstance(over, ast.Call) and called(over) == "enumerate" and over.args and isinstance(target, ast.Tuple):
        scope.places |= {one.id for one in ast.walk(target.elts[0]) if isinstance(one, ast.Name)}
        _bind_loop(target.elts[-1], over.args[0], scope)
        return
    if (
        isinstance(over, ast.Call)
        and called(over) == "zip"
        and isinstance(target, ast.Tuple)
        and len(over.args) == len(target.elts)
    ):
        for one, argument in zip(target.elts, over.args, strict=True):
            _bind_loop(one, argument, scope)
        return
    for one in ast.walk(target):
        if isinstance(one, ast.Name):
            scope.bound.setdefault(one.id, []).append(over)
