"""The names of a program: what each function or file binds them to, and what is called a score."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from labwright.review.foreign.scripts import called, parameters

SCORE = re.compile(
    r"(?:^|_|\b)(?:acc|accuracy|accuracies|f1|f1score|precision|recall|auc|auroc|auprc|roc_auc|bleu|rouge\w*|mse|rmse|mae|"
    r"r2|ece|brier|mrr|ndcg|wer|cer|fid|psnr|ssim|iou|miou|dice|kappa|spearman|pearson|silhouette|ari|nmi|nll|ppl|"
    r"perplexity|losses|loss|error_rate|success_rate|win_rate|hit_rate|top1|top5|score|scores|metric|metrics|map)(?:$|_|\b|\d)",
    re.I,
)


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
        if name in self.bound or name in self.places or name in self.computed or name in parameters_of(self.function):
            return self
        return self.outer.owner(name) if self.outer is not None else None


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node, but for what stands within a function or class of its own."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from walk_scope(child)


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> tuple[str, ...]:
    return parameters(function) if function is not None else ()


def bind(node: ast.AST, scope: Scope) -> None:
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
            bind_loop(node.target, node.iter, scope)
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


def bind_loop(target: ast.expr, over: ast.expr, scope: Scope) -> None:
    """A loop over range or enumerate gives places; one over anything else what it goes over."""
    if isinstance(over, ast.Call) and called(over) in ("range", "trange", "count"):
        scope.places |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
        return
    if isinstance(over, ast.Call) and called(over) == "tqdm" and over.args:
        bind_loop(target, over.args[0], scope)
        return
    if isinstance(over, ast.Call) and called(over) == "enumerate" and over.args and isinstance(target, ast.Tuple):
        scope.places |= {one.id for one in ast.walk(target.elts[0]) if isinstance(one, ast.Name)}
        bind_loop(target.elts[-1], over.args[0], scope)
        return
    if (
        isinstance(over, ast.Call)
        and called(over) == "zip"
        and isinstance(target, ast.Tuple)
        and len(over.args) == len(target.elts)
    ):
        for one, argument in zip(target.elts, over.args, strict=True):
            bind_loop(one, argument, scope)
        return
    for one in ast.walk(target):
        if isinstance(one, ast.Name):
            scope.bound.setdefault(one.id, []).append(over)
