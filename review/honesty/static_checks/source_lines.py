"""The lines of a source, and the calls in it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from labwright.record.python_syntax import parse_python
from labwright.record.schema.nodes import HonestyFinding

FILE_ATTRIBUTE = "of_file"
"""Attribute of syntax tree nodes that names their file."""


def parse_sources(sources: Mapping[str, str]) -> dict[str, ast.Module]:
    """Return the syntax trees of the files that parse, by path; each node knows its file."""
    found: dict[str, ast.Module] = {}
    for path, source in sources.items():
        try:
            found[path] = parse_python(source)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(found[path]):
            setattr(node, FILE_ATTRIBUTE, path)
    return found


class SourceLines:
    """The lines of a program's files, for citing them.

    A node's line is looked up in the file that the node names, otherwise in the first file.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._lines = {path: source.splitlines() for path, source in sources.items()}

    def make_finding(self, kind: str, node: ast.AST, why: str, *, suspect: bool = True) -> HonestyFinding:
        file = str(getattr(node, FILE_ATTRIBUTE, next(iter(self._lines))))
        line, lines = int(getattr(node, "lineno", 0)), self._lines[file]
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return HonestyFinding(kind=kind, why=why, suspect=suspect, file=file, line=line, text=text[:160])


def find_calls(
    nodes: Iterable[ast.AST], functions: Mapping[str, ast.FunctionDef], visited: frozenset[str] = frozenset()
) -> Iterable[str]:
    """Yield the names of the calls below some nodes, and of those in the source's functions that these calls reach."""
    for node in nodes:
        for one in ast.walk(node):
            if not isinstance(one, ast.Call):
                continue
            name = ast.unparse(one.func)
            yield name
            if name in functions and name not in visited:
                yield from find_calls(functions[name].body, functions, visited | {name})


BROAD_EXCEPTIONS = frozenset({"Exception", "BaseException", ""})
