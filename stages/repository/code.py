"""The Python code of a repository as a tree of functions, and small edits of it that keep everything else as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.record.nouns.repository import Edit

Function = ast.FunctionDef | ast.AsyncFunctionDef
CALLED = ("forward", "__call__", "call")
"""Methods that run when an instance is called."""
HELPER = "_taken_out"
_HELPER = f"""def {HELPER}(value):
    if isinstance(value, (list, tuple)):
        kept = [{HELPER}(one) for one in value]
        return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)
    if isinstance(value, dict):
        return {{key: {HELPER}(one) for key, one in value.items()}}
    return value * 0 if hasattr(value, "__mul__") and not isinstance(value, (str, bool)) else value


"""


@dataclass(frozen=True)
class Definition:
    """A function or method of a file."""

    path: str
    node: Function
    owner: ast.ClassDef | None = None

    @property
    def name(self) -> str:
        """What people call it: of a method that runs when an instance is called, the class."""
        return self.owner.name if self.owner is not None and self.node.name in CALLED else self.symbol

    @property
    def symbol(self) -> str:
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name

    @property
    def line(self) -> int:
        """Of its first line, decorators included: as a code object tells it."""
        return min((one.lineno for one in self.node.decorator_list), default=self.node.lineno)

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def parameters(self) -> list[str]:
        """Names of its positional and keyword parameters, without `self`."""
        given = self.node.args
        names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        return names[1:] if self.owner is not None and names[:1] in (["self"], ["cls"]) else names

    @property
    def span(self) -> range:
        """The lines of its body."""
        return range(self.node.body[0].lineno, (self.node.end_lineno or self.node.lineno) + 1)

    def own(self) -> Iterator[ast.AST]:
        """All that is in its body, but for functions and classes within."""
        return within(self.node.body)

    @property
    def returns(self) -> list[ast.Return]:
        """Its returns that give something back, in the order of the text; none of a generator."""
        own = list(self.own())
        if any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own):
            return []
        return sorted(
            (one for one in own if isinstance(one, ast.Return) and one.value is not None), key=lambda one: one.lineno
        )


@dataclass(frozen=True)
class Code:
    """The files of a repository that Python reads."""

    texts: Mapping[str, str]
    trees: Mapping[str, ast.Module]
    definitions: tuple[Definition, ...]

    def named(self, name: str) -> list[Definition]:
        """The functions, or the methods that run when instances are called, that a name may mean."""
        return [one for one in self.definitions if one.name == name]


def code_in(texts: Mapping[str, str]) -> Code:
    """The code of these files; what does not parse is left out."""
    trees: dict[str, ast.Module] = {}
    for path, text in texts.items():
        if path.endswith(".py"):
            try:
                trees[path] = ast.parse(text.removeprefix("\ufeff"))  # a byte-order mark
            except (SyntaxError, ValueError, RecursionError):
                continue
    found: list[Definition] = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found += [Definition(path, one, node) for one in node.body if isinstance(one, Function)]
        inner = {id(one.node) for one in found if one.path == path}
        found += [
            Definition(path, node) for node in ast.walk(tree) if isinstance(node, Function) and id(node) not in inner
        ]
    return Code(texts, trees, tuple(found))


def within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """All that is in a body, but for functions and classes within."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def module_of(path: str) -> str:
    """How a file is named with `python -m`, below `src` or not."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[:1] == ("src",) else parts
    return ".".join(parts[:-1] if parts[-1:] in (("__init__",), ("__main__",)) else parts)


# --- edits ------------------------------------------------------------------------------------------------------------


def edit_between(path: str, before: str, after: str) -> Edit:
    """The one edit that makes a text of another: the lines that differ, and as many around as make them unique."""
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
        if piece and before.find(piece) == before.rfind(piece):  # overlapping ones too
            return Edit(path=path, old=piece, new="".join(new[first : len(new) - last]))
        if not first and not last:
            return Edit(path=path, old=before, new=after)
        first, last = max(0, first - 1), max(0, last - 1)


def replaced(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """The text with what a node spans replaced."""
    lines = text.splitlines(keepends=True)
    begins, ends = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[begins].encode()[: node.col_offset].decode()
    tail = lines[ends].encode()[node.end_col_offset or 0 :].decode()
    return "".join((*lines[:begins], head, new, tail, *lines[ends + 1 :]))


def zeroed(one: Definition, text: str) -> str | None:
    """The file with everything that a function gives back turned to zero, shapes kept; None where it gives nothing."""
    if not one.returns:
        return None
    top = _top(one, ast.parse(text))
    for given in reversed(one.returns):
        assert given.value is not None
        source = ast.get_source_segment(text, given.value)
        if source is None:
            return None
        bare = "\n" in source or isinstance(given.value, ast.Tuple)
        text = replaced(text, given.value, f"{HELPER}(({source}))" if bare else f"{HELPER}({source})")
    lines = text.splitlines(keepends=True)
    return "".join((*lines[:top], _HELPER, *lines[top:]))


def identity(one: Definition, text: str, parameter: str) -> str:
    """The file with a function that gives back one of its arguments, as it came."""
    body = one.node.body
    said = (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
        and len(body) > 1
    )
    before = body[1] if said else body[0]
    lines = text.splitlines(keepends=True)
    if before.lineno == one.node.lineno:  # all on one line
        return replaced(text, before, f"return {parameter}")
    at = min((before.lineno, *(one.lineno for one in getattr(before, "decorator_list", ())))) - 1
    return "".join((*lines[:at], " " * before.col_offset + f"return {parameter}\n", *lines[at:]))


def without(text: str, node: ast.stmt) -> str:
    """The file without a statement."""
    return replaced(text, node, "pass")


def _top(one: Definition, tree: ast.Module) -> int:
    """The index of the line before which something for a function can be defined: before what holds it at the top."""
    holder = next(node for node in tree.body if node.lineno <= one.node.lineno <= (node.end_lineno or node.lineno))
    decorators: list[ast.expr] = getattr(holder, "decorator_list", [])
    return min((holder.lineno, *(each.lineno for each in decorators))) - 1
