"""Select what a model sees of a repository: a map of all files, the most relevant files, and more on request.

Omissions are stated. Files are ranked by the number of imports between them and the command's script.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.models.roles.repository import ShownFile
from labwright.record.float_compare import parse_whole_number
from labwright.stages.repository.command_discovery import find_options
from labwright.stages.repository.patch_scope import (
    CodeIndex,
    FunctionNode,
    index_code,
    list_imports,
    list_reached_files,
    rank_path,
    read_last_name,
)

MAX_MAP_CHARS, MAX_SHOWN_CHARS, MAX_REQUESTED_CHARS = 14_000, 48_000, 24_000
"""Maximum characters of the map, of the files shown without a request, and of one request."""
MAX_FILE_CHARS = 12_000
"""Maximum characters of a file that is shown in full."""
MAX_CALLERS = 3
EXCERPT_LINES = 40
"""Lines shown around a place."""


@dataclass(frozen=True)
class RepositoryContext:
    """A repository as a model sees it."""

    map: str
    shown: tuple[ShownFile, ...]
    left_out: int
    """Number of text files not shown in full."""


def build_context(texts: Mapping[str, str], argv: Sequence[str], first_files: Iterable[str] = ()) -> RepositoryContext:
    """Build the map and select the files nearest to the command; those of `first_files` come first."""
    code = index_code(texts)
    order = list(dict.fromkeys((*(path for path in first_files if path in texts), *order_by_distance(code, argv))))
    shown = _take_fitting([one for one in order if len(texts[one]) <= MAX_FILE_CHARS], texts, MAX_SHOWN_CHARS)
    return RepositoryContext(format_map(code, argv, order), shown, len(texts) - len(shown))


def read_requested(wants: Sequence[str], texts: Mapping[str, str]) -> tuple[tuple[ShownFile, ...], tuple[str, ...]]:
    """Return the requested files (`path`) and places (`path:symbol`, `path:line`), and messages about those that cannot
    be shown."""
    code, found, missed, left = index_code(texts), list[ShownFile](), list[str](), MAX_REQUESTED_CHARS
    for want in dict.fromkeys(wants):
        path, _, place = want.partition(":")
        if path not in texts:
            missed.append(f"there is no text file {path}")
            continue
        lines = [one.node.lineno for one in code.definitions if one.path == path and place in (one.symbol, one.name)]
        named = parse_whole_number(place)
        line = named if named is not None else lines[0] if lines else 1
        one = (
            ShownFile(path=path, text=texts[path])
            if len(texts[path]) <= MAX_FILE_CHARS and named is None
            else excerpt_around(path, line, texts, lines=4 * EXCERPT_LINES)
        )
        if len(one.text) > left:
            missed.append(f"{want} is left out because the request is too large: ask for it again")
            continue
        left -= len(one.text)
        found.append(one)
    return tuple(found), tuple(missed)


def excerpt_around(path: str, line: int, texts: Mapping[str, str], *, lines: int = EXCERPT_LINES) -> ShownFile:
    """Return the lines of a file around one line."""
    every = texts.get(path, "").splitlines(keepends=True)
    first = max(0, line - 1 - lines)
    shown = every[first : line + lines]
    return ShownFile(path=path, text="".join(shown), first=first + 1, whole=len(shown) == len(every))


def find_documents(texts: Mapping[str, str]) -> list[str]:
    """Return the paths of the README and nearby documents, the nearest first."""
    names = (path for path in texts if re.search(r"(^|/)README|^docs?/.*\.(md|rst)$|^Makefile$", path))
    return sorted(names, key=lambda path: (path.count("/"), path))


def order_by_distance(code: CodeIndex, argv: Sequence[str]) -> list[str]:
    """Return all files: the script, its direct and indirect imports, then configuration, other code and the rest."""
    rest = sorted(code.texts, key=lambda path: (rank_path(path), path.count("/"), path))
    named = (*argv, *(str(one.value) for one in find_options(code)))  # configuration files
    configuration = (name for name in named if name in code.texts and not name.endswith(".py"))
    return list(dict.fromkeys((*list_reached_files(code, argv), *configuration, *rest)))


def format_map(code: CodeIndex, argv: Sequence[str], order: Sequence[str]) -> str:
    """Format the list of all files, with as many symbols of Python files and their callers as fit.

    Tests, documents, examples and scripts that the command does not reach have none.
    """
    detailed = {*list_reached_files(code, argv), *(path for path in code.trees if rank_path(path) < 2)}
    callers = _index_callers(code, detailed)
    texts, lines, left = code.texts, list[str](), MAX_MAP_CHARS
    whole = [path for path in order if path in code.trees]
    for path in whole:
        symbols = _format_symbols(path, code, callers) if path in detailed else []
        entry = [f"{path} ({texts[path].count(chr(10))} lines)", *symbols]
        size = sum(len(line) + 1 for line in entry)
        lines += entry if size <= left else entry[:1]
        left -= size if size <= left else len(entry[0])
    others = [path for path in order if path not in code.trees]
    folders = dict.fromkeys(str(PurePosixPath(path).parent) for path in others)
    for folder in folders:
        names = [PurePosixPath(path).name for path in others if str(PurePosixPath(path).parent) == folder]
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        lines.append(f"{'' if folder == '.' else folder + '/'}: {', '.join(names[:12])}{more}".lstrip(": "))
    text = "\n".join(lines)
    return text if len(text) <= 2 * MAX_MAP_CHARS else text[: 2 * MAX_MAP_CHARS] + "\n(the map is truncated)"


def _format_symbols(path: str, code: CodeIndex, callers: Mapping[str, Mapping[str, set[str]]]) -> list[str]:
    lines: list[str] = []
    for node in code.trees[path].body:
        if isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, FunctionNode)]
            bases = ", ".join(filter(None, map(read_last_name, node.bases)))
            lines.append(
                f"  class {node.name}({bases}): {', '.join(methods)}{_format_callers(node.name, path, callers)}"
            )
        elif isinstance(node, FunctionNode):
            given = ", ".join(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            lines.append(f"  {node.name}({given}){_format_callers(node.name, path, callers)}")
    return lines


def _format_callers(name: str, path: str, callers: Mapping[str, Mapping[str, set[str]]]) -> str:
    known = {path, PurePosixPath(path).stem, name, "*"}
    found = [one.removeprefix(f"{path}:") for one, near in callers.get(name, {}).items() if near & known]
    more = f" and {len(found) - MAX_CALLERS} more" if len(found) > MAX_CALLERS else ""
    return f"  <- {', '.join(found[:MAX_CALLERS])}{more}" if found else ""


def _index_callers(code: CodeIndex, files: Container[str]) -> dict[str, dict[str, set[str]]]:
    """Map each name to the places (path:symbol) of some files that call it or pass it as an argument, each with the
    path of its file and the names that this file imports."""
    found: dict[str, dict[str, set[str]]] = {}
    for path, tree in code.trees.items():
        near = {path, *(part for one in list_imports(tree) for part in one.split("."))}
        for node in tree.body if path in files else ():
            place = f"{path}:{node.name}" if isinstance(node, FunctionNode | ast.ClassDef) else path
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            named = {
                read_last_name(value)
                for one in calls
                for value in (one.func, *one.args, *(each.value for each in one.keywords))
            }
            for name in named - {"", getattr(node, "name", "")}:
                found.setdefault(name, {})[place] = near
    return found


def _take_fitting(order: Sequence[str], texts: Mapping[str, str], most: int) -> tuple[ShownFile, ...]:
    shown: list[ShownFile] = []
    for path in order:
        if len(texts[path]) <= most and texts[path].strip() and (rank_path(path) < 2 or len(order) < 40):
            shown.append(ShownFile(path=path, text=texts[path]))
            most -= len(texts[path])
    return tuple(shown)
