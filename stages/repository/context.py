"""What of a repository is shown to a model: a map of all of it, the files that matter, and more on request.

What is not shown is said. Files count the more the fewer imports lead to them from the script that the command runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labwright.models.roles.repository import Shown
from labwright.record.whole_numbers import parse_whole_number
from labwright.stages.repository.code import Code, Function, code_in, last_name, module_of
from labwright.stages.repository.commands import script_of
from labwright.stages.repository.options import options_in

MAP_CHARS, SHOWN_CHARS, ASKED_CHARS = 14_000, 48_000, 24_000
"""Characters of the map, of the files that are shown unasked, and of those that one request brings."""
LARGEST = 12_000
"""Characters of a file that is shown whole."""
CALLERS = 3
AROUND = 40
"""Lines around a place that are shown."""


@dataclass(frozen=True)
class Context:
    """A repository as a model sees it."""

    map: str
    shown: tuple[Shown, ...]
    left_out: int
    """How many text files are not shown whole."""


def context_of(texts: Mapping[str, str], argv: Sequence[str], first: Iterable[str] = ()) -> Context:
    """The map, and the files nearest to the command; those of `first` before all others."""
    code = code_in(texts)
    order = list(dict.fromkeys((*(path for path in first if path in texts), *by_distance(code, argv))))
    shown = _fitting([one for one in order if len(texts[one]) <= LARGEST], texts, SHOWN_CHARS)
    return Context(map_of(code, order), shown, len(texts) - len(shown))


def requested(wants: Sequence[str], texts: Mapping[str, str]) -> tuple[tuple[Shown, ...], tuple[str, ...]]:
    """The files (`path`) and places (`path:symbol`, `path:line`) that are asked for, and what cannot be shown."""
    code, found, missed, left = code_in(texts), list[Shown](), list[str](), ASKED_CHARS
    for want in dict.fromkeys(wants):
        path, _, place = want.partition(":")
        if path not in texts:
            missed.append(f"there is no text file {path}")
            continue
        lines = [one.node.lineno for one in code.definitions if one.path == path and place in (one.symbol, one.name)]
        named = parse_whole_number(place)
        line = named if named is not None else lines[0] if lines else 1
        one = (
            Shown(path=path, text=texts[path])
            if len(texts[path]) <= LARGEST and named is None
            else around(path, line, texts, lines=4 * AROUND)
        )
        if len(one.text) > left:
            missed.append(f"{want} is left out: too much at once, ask for it again")
            continue
        left -= len(one.text)
        found.append(one)
    return tuple(found), tuple(missed)


def around(path: str, line: int, texts: Mapping[str, str], *, lines: int = AROUND) -> Shown:
    """A file's lines around one of them."""
    every = texts.get(path, "").splitlines(keepends=True)
    first = max(0, line - 1 - lines)
    shown = every[first : line + lines]
    return Shown(path=path, text="".join(shown), first=first + 1, whole=len(shown) == len(every))


def configured(argv: Sequence[str], texts: Mapping[str, str], code: Code) -> list[str]:
    """Configuration files that a command names, or its parsers by default."""
    defaults = (str(one.value) for one in options_in(code))
    return [name for name in dict.fromkeys((*argv, *defaults)) if name in texts and not name.endswith(".py")]


def reached(code: Code, argv: Sequence[str]) -> list[str]:
    """The files that a command runs, the nearest first: its script, what that imports, and so on; then what its
    configuration names."""
    script, near = script_of(argv, code.texts), dict[str, None]()
    modules = {module_of(path): path for path in code.trees}
    waiting = [script] if script is not None else []
    waiting += [one for path in sorted(code.texts) if not _rank(path) for one in _named(code.texts[path], modules)]
    while waiting:
        path = waiting.pop(0)
        if path not in near:
            near[path] = None
            waiting += [one for one in _imported(path, code, modules) if one not in near]
    return list(near)


def by_distance(code: Code, argv: Sequence[str]) -> list[str]:
    """All files: the script, what it imports, what that imports; then configuration, other code, and the rest."""
    rest = sorted(code.texts, key=lambda path: (_rank(path), path.count("/"), path))
    return list(dict.fromkeys((*reached(code, argv), *configured(argv, code.texts, code), *rest)))


def map_of(code: Code, order: Sequence[str]) -> str:
    """Every file, with the symbols of Python files and who calls them, as far as they fit."""
    callers = _callers(code)
    texts, lines, left = code.texts, list[str](), MAP_CHARS
    whole = [path for path in order if path in code.trees]
    for path in whole:
        symbols = _symbols(path, code, callers) if _rank(path) < 2 else []
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
    return text if len(text) <= 2 * MAP_CHARS else text[: 2 * MAP_CHARS] + "\n(the map is cut here)"


def _symbols(path: str, code: Code, callers: Mapping[str, list[str]]) -> list[str]:
    lines: list[str] = []
    for node in code.trees[path].body:
        if isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, Function)]
            bases = ", ".join(filter(None, map(last_name, node.bases)))
            lines.append(f"  class {node.name}({bases}): {', '.join(methods)}{_called(node.name, path, callers)}")
        elif isinstance(node, Function):
            given = ", ".join(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            lines.append(f"  {node.name}({given}){_called(node.name, path, callers)}")
    return lines


def _called(name: str, path: str, callers: Mapping[str, list[str]]) -> str:
    found = [one.removeprefix(f"{path}:") for one in callers.get(name, ())]
    more = f" and {len(found) - CALLERS} more" if len(found) > CALLERS else ""
    return f"  <- {', '.join(found[:CALLERS])}{more}" if found else ""


def _callers(code: Code) -> dict[str, list[str]]:
    """Name -> the places (path:symbol) that call it, or name it as an argument."""
    found: dict[str, dict[str, None]] = {}
    for path, tree in code.trees.items():
        for node in tree.body if _rank(path) < 2 else ():
            place = f"{path}:{node.name}" if isinstance(node, Function | ast.ClassDef) else path
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            named = {
                last_name(value)
                for one in calls
                for value in (one.func, *one.args, *(each.value for each in one.keywords))
            }
            for name in named - {"", getattr(node, "name", "")}:
                found.setdefault(name, {})[place] = None
    return {name: list(places) for name, places in found.items()}


def _imported(path: str, code: Code, modules: Mapping[str, str]) -> list[str]:
    """The repository's files that a file imports, in the order of the text."""
    found: list[str] = []
    for node in ast.walk(code.trees[path]) if path in code.trees else ():
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = (
                module_of(path).split(".")[
                    : len(module_of(path).split(".")) - node.level + (path.endswith("__init__.py"))
                ]
                if node.level
                else []
            )
            stem = ".".join((*above, *filter(None, [node.module])))
            names = [stem, *(f"{stem}.{one.name}".lstrip(".") for one in node.names)]
        else:
            continue
        found += [modules[name] for name in names if name in modules]
    return found


def _named(text: str, modules: Mapping[str, str]) -> list[str]:
    """The repository's files that a configuration names by their modules, as Hydra's `_target_` does."""
    found = re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", text)
    return [modules[stem] for name in found for stem in (name, name.rpartition(".")[0]) if stem in modules]


def _rank(path: str) -> int:
    if re.search(r"\.(ya?ml|toml|json|ini|cfg)$", path) and "lock" not in path:
        return 0
    if path.endswith(".py"):
        return 2 if re.search(r"(^|/)(tests?|docs?|examples?|scripts?)(/|$)", path) else 1
    return 3


def _fitting(order: Sequence[str], texts: Mapping[str, str], most: int) -> tuple[Shown, ...]:
    shown: list[Shown] = []
    for path in order:
        if len(texts[path]) <= most and texts[path].strip() and (_rank(path) < 2 or len(order) < 40):
            shown.append(Shown(path=path, text=texts[path]))
            most -= len(texts[path])
    return tuple(shown)
