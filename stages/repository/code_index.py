"""Index the Python functions of a repository."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.record.python_syntax import parse_plain

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
CALL_METHODS = ("forward", "__call__", "call")
"""Methods that run when an instance is called."""


@dataclass(frozen=True)
class FunctionDefinition:
    """A function or method of a file."""

    path: str
    node: FunctionNode
    owner: ast.ClassDef | None = None

    @property
    def name(self) -> str:
        """Display name: the class for a method that runs when an instance is called."""
        return self.owner.name if self.owner is not None and self.node.name in CALL_METHODS else self.symbol

    @property
    def symbol(self) -> str:
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name

    @property
    def line(self) -> int:
        """First line, decorators included, as in a code object."""
        return min((one.lineno for one in self.node.decorator_list), default=self.node.lineno)

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def parameters(self) -> list[str]:
        """Names of the positional and keyword parameters, without `self`."""
        given = self.node.args
        names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        return names[1:] if self.owner is not None and names[:1] in (["self"], ["cls"]) else names


@dataclass(frozen=True)
class CodeIndex:
    """The Python files of a repository."""

    texts: Mapping[str, str]
    trees: Mapping[str, ast.Module]
    definitions: tuple[FunctionDefinition, ...]


def index_code(texts: Mapping[str, str]) -> CodeIndex:
    """Index the code of these files; files that do not parse are skipped."""
    trees: dict[str, ast.Module] = {}
    for path, text in texts.items():
        if path.endswith(".py"):
            try:
                trees[path] = parse_plain(text.removeprefix("\ufeff"))  # a byte-order mark
            except SyntaxError:
                continue
    found: list[FunctionDefinition] = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found += [FunctionDefinition(path, one, node) for one in node.body if isinstance(one, FunctionNode)]
        inner = {id(one.node) for one in found if one.path == path}
        found += [
            FunctionDefinition(path, node)
            for node in ast.walk(tree)
            if isinstance(node, FunctionNode) and id(node) not in inner
        ]
    return CodeIndex(texts, trees, tuple(found))


def read_last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name; empty for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def find_module_name(path: str) -> str:
    """Return a file's module name for `python -m`, without a leading `src`."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[:1] == ("src",) else parts
    return ".".join(parts[:-1] if parts[-1:] in (("__init__",), ("__main__",)) else parts)


def list_calls_of_result(function: FunctionNode) -> set[str]:
    """Return the last names of the calls by which a function computes what it returns, yields or stores in attributes.

    Read from assignments alone, in any order, so a name that is used for two values counts as both.
    """
    assigned: list[tuple[set[str], list[ast.expr]]] = []
    results: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            results.append(node.value)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {name for one in targets for name in _list_names(one)}
            assigned.append((names, [node.value]))
            if any(isinstance(one, ast.Attribute) for one in targets):
                results.append(node.value)
        elif isinstance(node, ast.For):
            assigned.append((_list_names(node.target), [node.iter]))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # `rows.append(draw())`
            assigned.append((_list_names(node.func.value), [*node.args, *(one.value for one in node.keywords)]))
    known, calls = set[str](), set[str]()
    while results:
        value = results.pop()
        calls |= {read_last_name(one.func) for one in ast.walk(value) if isinstance(one, ast.Call)}
        new = _list_names(value) - known
        known |= new
        results += [one for names, values in assigned if names & new for one in values]
    return calls - {""}


def _list_names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {"self"}
