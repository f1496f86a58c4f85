"""Index the Python functions of a repository, and make minimal edits to its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.record.python_syntax import parse_plain
from labwright.record.schema.repository import RepositoryEdit

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
CALL_METHODS = ("forward", "__call__", "call")
"""Methods that run when an instance is called."""
HELPER_NAME = "_taken_out"
_HELPER_SOURCE = f"""def {HELPER_NAME}(value):
    if isinstance(value, (list, tuple)):
        kept = [{HELPER_NAME}(one) for one in value]
        return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)
    if isinstance(value, dict):
        return {{key: {HELPER_NAME}(one) for key, one in value.items()}}
    return value * 0 if hasattr(value, "__mul__") and not isinstance(value, (str, bool)) else value


"""


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

    @property
    def span(self) -> range:
        """The lines of the body."""
        return range(self.node.body[0].lineno, (self.node.end_lineno or self.node.lineno) + 1)

    def walk_own(self) -> Iterator[ast.AST]:
        """Yield the nodes of the body, without the contents of nested functions and classes."""
        return walk_within(self.node.body)

    @property
    def returns(self) -> list[ast.Return]:
        """Return statements with a value, in source order; empty for a generator."""
        own = list(self.walk_own())
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own):
            return []
        return sorted(
            (one for one in own if isinstance(one, ast.Return) and one.value is not None), key=lambda one: one.lineno
        )


@dataclass(frozen=True)
class CodeIndex:
    """The Python files of a repository."""

    texts: Mapping[str, str]
    trees: Mapping[str, ast.Module]
    definitions: tuple[FunctionDefinition, ...]

    def find_definitions(self, name: str) -> list[FunctionDefinition]:
        """Return the functions of that name, and the call methods of the class of that name."""
        return [one for one in self.definitions if one.name == name]


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


def walk_within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, without the contents of nested functions and classes."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


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


# --- edits ------------------------------------------------------------------------------------------------------------


def build_edit(path: str, before: str, after: str) -> RepositoryEdit:
    """Build the edit that turns one string into another: the lines that differ, with enough context to be unique."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    last = next(
        (at for at, pair in enumerate(zip(reversed(old), reversed(new), strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )
    last = min(last, len(old) - first, len(new) - first)
    while True:
        piece = "".join(old[first : len(old) - last])
        if piece and before.find(piece) == before.rfind(piece):  # overlapping matches included
            return RepositoryEdit(path=path, old=piece, new="".join(new[first : len(new) - last]))
        if not first and not last:
            return RepositoryEdit(path=path, old=before, new=after)
        first, last = max(0, first - 1), max(0, last - 1)


def replace_node(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """Return the text with a node's source replaced."""
    lines = text.splitlines(keepends=True)
    begins, ends = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[begins].encode()[: node.col_offset].decode()
    tail = lines[ends].encode()[node.end_col_offset or 0 :].decode()
    return "".join((*lines[:begins], head, new, tail, *lines[ends + 1 :]))


def return_zeros(definition: FunctionDefinition, text: str) -> str | None:
    """Return the file with everything that a function returns replaced by zeros of the same shape; None if it
    returns nothing.
    """
    if not definition.returns:
        return None
    top = _find_top_line(definition, ast.parse(text))
    for given in reversed(definition.returns):
        assert given.value is not None
        source = ast.get_source_segment(text, given.value)
        if source is None:
            return None
        bare = "\n" in source or isinstance(given.value, ast.Tuple)
        text = replace_node(text, given.value, f"{HELPER_NAME}(({source}))" if bare else f"{HELPER_NAME}({source})")
    lines = text.splitlines(keepends=True)
    return "".join((*lines[:top], _HELPER_SOURCE, *lines[top:]))


def return_argument(definition: FunctionDefinition, text: str, parameter: str) -> str:
    """Return the file in which a function returns one of its arguments unchanged."""
    body = definition.node.body
    has_docstring = (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
        and len(body) > 1
    )
    before = body[1] if has_docstring else body[0]
    lines = text.splitlines(keepends=True)
    if before.lineno == definition.node.lineno:  # the whole function is on one line
        return replace_node(text, before, f"return {parameter}")
    at = min((before.lineno, *(one.lineno for one in getattr(before, "decorator_list", ())))) - 1
    return "".join((*lines[:at], " " * before.col_offset + f"return {parameter}\n", *lines[at:]))


def remove_statement(text: str, node: ast.stmt) -> str:
    """Return the text with a statement replaced by `pass`."""
    return replace_node(text, node, "pass")


def _find_top_line(one: FunctionDefinition, tree: ast.Module) -> int:
    """Return the index of the line before the top-level statement that contains a function; a helper can be defined
    there."""
    holder = next(node for node in tree.body if node.lineno <= one.node.lineno <= (node.end_lineno or node.lineno))
    decorators: list[ast.expr] = getattr(holder, "decorator_list", [])
    return min((holder.lineno, *(each.lineno for each in decorators))) - 1
