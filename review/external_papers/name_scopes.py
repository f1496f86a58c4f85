"""Name bindings of a program by function and file, and names of scores."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from labwright.review.external_papers.scripts import called_name, list_parameter_names

SCORE_NAME = re.compile(
    r"(?:^|_|\b)(?:acc|accuracy|accuracies|f1|f1score|precision|recall|auc|auroc|auprc|roc_auc|bleu|rouge\w*|mse|rmse|mae|"
    r"r2|ece|brier|mrr|ndcg|wer|cer|fid|psnr|ssim|iou|miou|dice|kappa|spearman|pearson|silhouette|ari|nmi|nll|ppl|"
    r"perplexity|losses|loss|error_rate|success_rate|win_rate|hit_rate|top1|top5|score|scores|metric|metrics|map)(?:$|_|\b|\d)",
    re.I,
)


@dataclass
class NameScope:
    """The names of a function or file, with all values that they are ever bound to."""

    bindings: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])
    place_names: set[str] = field(default_factory=set[str])
    computed_names: set[str] = field(default_factory=set[str])
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    outer: NameScope | None = None

    def find_owner(self, name: str) -> NameScope | None:
        """Return the scope that binds a name."""
        if (
            name in self.bindings
            or name in self.place_names
            or name in self.computed_names
            or name in list_parameters(self.function)
        ):
            return self
        return self.outer.find_owner(name) if self.outer is not None else None


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below a node, except those within nested functions or classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from walk_scope(child)


def list_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> tuple[str, ...]:
    return list_parameter_names(function) if function is not None else ()


def bind_names(node: ast.AST, scope: NameScope) -> None:
    match node:
        case ast.Assign():
            for target in node.targets:
                _bind_target(target, node.value, scope)
        case ast.AnnAssign(value=value) if value is not None:
            _bind_target(node.target, value, scope)
        case ast.AugAssign():
            _bind_target(node.target, node.value, scope)
            if isinstance(node.target, ast.Name) and not SCORE_NAME.search(node.target.id):
                scope.computed_names.add(node.target.id)
        case ast.NamedExpr():
            _bind_target(node.target, node.value, scope)
        case ast.For() | ast.AsyncFor():
            bind_loop_target(node.target, node.iter, scope)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if isinstance(item.optional_vars, ast.Name):
                    scope.computed_names.add(item.optional_vars.id)
        case ast.Import() | ast.ImportFrom():
            scope.computed_names |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        case ast.Call() if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and called_name(node) in ("append", "extend", "update", "insert", "setdefault")
        ):
            scope.bindings.setdefault(node.func.value.id, []).extend(node.args[-1:])
        case _:
            pass


def _bind_target(target: ast.expr, value: ast.expr, scope: NameScope) -> None:
    if isinstance(target, ast.Name):
        scope.bindings.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
        for at, one in enumerate(target.elts):
            _bind_target(one, parts[at] if parts else value, scope)
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        scope.bindings.setdefault(target.value.id, []).append(value)


def bind_loop_target(target: ast.expr, iterable: ast.expr, scope: NameScope) -> None:
    """Bind the target of a loop: to positions for range or enumerate, otherwise to the iterable."""
    if isinstance(iterable, ast.Call) and called_name(iterable) in ("range", "trange", "count"):
        scope.place_names |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
        return
    if isinstance(iterable, ast.Call) and called_name(iterable) == "tqdm" and iterable.args:
        bind_loop_target(target, iterable.args[0], scope)
        return
    if (
        isinstance(iterable, ast.Call)
        and called_name(iterable) == "enumerate"
        and iterable.args
        and isinstance(target, ast.Tuple)
    ):
        scope.place_names |= {one.id for one in ast.walk(target.elts[0]) if isinstance(one, ast.Name)}
        bind_loop_target(target.elts[-1], iterable.args[0], scope)
        return
    if (
        isinstance(iterable, ast.Call)
        and called_name(iterable) == "zip"
        and isinstance(target, ast.Tuple)
        and len(iterable.args) == len(target.elts)
    ):
        for one, argument in zip(target.elts, iterable.args, strict=True):
            bind_loop_target(one, argument, scope)
        return
    for one in ast.walk(target):
        if isinstance(one, ast.Name):
            scope.bindings.setdefault(one.id, []).append(iterable)
