"""Determine what a patch of Python code changes, by symbol, and refuse what no patch may change.

Symbols are top-level functions and classes, methods as `Class.method`, `import` for imports, and `<module>` for the
code between them. Only syntax is compared, so layout and comments do not count. Only a run shows whether a change has
an effect.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.record.python_syntax import FunctionNode, parse_plain
from labwright.record.schema.repository import split_folder

METRIC_NAME = re.compile(r"metric|accurac|rmse|_mse|score|evaluat|(^|_)auc|(^|_)f1|(^|_)r2$", re.IGNORECASE)
"""Names of functions that compute a metric; neither a repair nor an ablation may change them."""
_PRINTED_DIGITS = re.compile(r"(?<=[:%'\"<>^])(\d*)\.\d+(?=[efgEFG%])")
"""Number of digits in a format of strings, which may change."""
_IMPORT_NODES = (ast.Import, ast.ImportFrom)


def find_tampering(path: str, before: str, after: str, metric_name: re.Pattern[str] = METRIC_NAME) -> str:
    """Return the reason why a change of a file is never allowed; empty if it may be allowed.

    Code that computes a metric is recognized by the names in the unpatched file.
    """
    if not path.endswith(".py"):
        return ""
    try:
        old, new = parse_plain(before), parse_plain(after)
    except SyntaxError as error:
        return f"{path} no longer parses: {error.msg}, line {error.lineno}"
    if ast.dump(old) == ast.dump(new):
        return f"{path}: the syntax tree is unchanged"
    if _count_swallowed_errors(new) > _count_swallowed_errors(old):
        return f"{path}: swallows an exception"
    known = _index_symbols(old)
    measuring = [name for name in list_changed_symbols(before, after) if name in known and metric_name.search(name)]
    return f"{path}: changes {measuring[0]}, which computes a metric" if measuring else ""


def _count_swallowed_errors(tree: ast.Module) -> int:
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    return sum(not any(isinstance(one, ast.Raise) for one in ast.walk(handler)) for handler in handlers)


def list_changed_symbols(before: str, after: str) -> tuple[str, ...]:
    """Return the symbols whose syntax differs, including added and removed ones."""
    old, new = (_index_symbols(parse_plain(text)) for text in (before, after))
    return tuple(name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name))


def _index_symbols(tree: ast.Module) -> dict[str, str]:
    """Map each symbol to its syntax, without numbers of printed digits."""
    found: dict[str, str] = {}
    for name, node in walk_named(tree):
        found[name] = found.get(name, "") + _PRINTED_DIGITS.sub(r"\1", ast.dump(node))
    return found


def walk_named(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the syntax of a file, each piece with its symbol."""
    for node in tree.body:
        if isinstance(node, FunctionNode):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *node.keywords):
                yield node.name, part
            for inner in node.body:
                yield f"{node.name}.{inner.name}" if isinstance(inner, FunctionNode) else node.name, inner
        else:
            yield "import" if isinstance(node, _IMPORT_NODES) else "<module>", node


# Index the Python functions of a repository.

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


def find_module_name(path: str) -> str:
    """Return a file's module name for `python -m`, without a leading `src`."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[1:] if parts[:1] == ("src",) else parts
    return ".".join(parts[:-1] if parts[-1:] in (("__init__",), ("__main__",)) else parts)


def find_script(argv: Sequence[str], texts: Mapping[str, str]) -> str | None:
    """Return the file that a command line runs; None if it is not in the repository."""
    folder, rest = split_folder(argv)
    words = list(rest)
    while words and (re.match(r"[A-Z_]+=", words[0]) or words[0] in ("uv", "poetry", "run", "accelerate", "launch")):
        words.pop(0)
    if words[1:2] == ["-m"] and len(words) > 2:
        stem = words[2].replace(".", "/")
        paths = [f"{top}{stem}{end}" for top in ("", "src/", "lib/") for end in (".py", "/__main__.py")]
    else:
        named = next((word for word in words[1:] if word.endswith(".py")), "")
        paths = [posixpath.normpath(posixpath.join(folder, named))]
    return next((path for path in paths if path in texts), None)


def list_imported_modules(code: CodeIndex) -> set[str]:
    """Return the top-level modules that Python files of a repository import by their full names."""
    nodes = [node for tree in code.trees.values() for node in ast.walk(tree)]
    names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names}


def list_reached_files(code: CodeIndex, argv: Sequence[str]) -> list[str]:
    """Return the files that a command runs, nearest first: its script, direct and indirect imports, then modules
    named by the configuration.
    """
    script, near = find_script(argv, code.texts), dict[str, None]()
    modules = {find_module_name(path): path for path in code.trees}
    waiting = [script] if script is not None else []
    for path in sorted(one for one in code.texts if not rank_path(one)):  # modules that a configuration names
        names = re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", code.texts[path])
        stems = (stem for name in names for stem in (name, name.rpartition(".")[0]))
        waiting += [modules[stem] for stem in stems if stem in modules]
    while waiting:
        path = waiting.pop(0)
        if path not in near:
            near[path] = None
            waiting += [one for one in _list_imports(path, code, modules) if one not in near]
    return list(near)


def walk_reached(code: CodeIndex, argv: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the syntax of the files that a command runs, each piece with its file."""
    for path in list_reached_files(code, argv):
        if path in code.trees:
            yield from ((path, node) for node in ast.walk(code.trees[path]))


def _list_imports(path: str, code: CodeIndex, modules: Mapping[str, str]) -> list[str]:
    """Return the repository's files that a file imports, in source order."""
    names: list[str] = []
    for node in ast.walk(code.trees[path]) if path in code.trees else ():
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = find_module_name(path).split(".")
            above = parts[: len(parts) - node.level + path.endswith("__init__.py")] if node.level else []
            stem = ".".join((*above, *filter(None, [node.module])))
            names += [stem, *(f"{stem}.{one.name}".lstrip(".") for one in node.names)]
    return [modules[name] for name in names if name in modules]


def rank_path(path: str) -> int:
    """Return how near to the method a file is by its name: configuration, code, other code, the rest."""
    if re.search(r"\.(ya?ml|toml|json|ini|cfg)$", path) and "lock" not in path:
        return 0
    if path.endswith(".py"):
        return 2 if re.search(r"(^|/)(tests?|docs?|examples?|scripts?)(/|$)", path) else 1
    return 3
