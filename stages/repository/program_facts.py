"""What the program tells an author about a repository: documents, files, options, keys, and what a traced run called.

These are facts, not choices: nothing is left out because of its name, and nothing is proposed as a part.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from labwright.models.roles.experiment_code import CoderFact
from labwright.models.roles.repository import FunctionFact, ShownFile, SwitchFact
from labwright.record.float_compare import parse_whole_number
from labwright.record.schema.repository import PartWay, RepositoryCommand, build_edit, format_command_line
from labwright.sandbox.repository.metric import METRIC_FORMS, parse_metric
from labwright.sandbox.repository.trace import CallTrace
from labwright.stages.repository.command_discovery import (
    ConfigKey,
    find_keys,
    find_options,
    list_options,
    takes_overrides,
)
from labwright.stages.repository.patch_scope import (
    CodeIndex,
    FunctionDefinition,
    FunctionNode,
    find_script,
    index_code,
    list_reached_files,
    rank_path,
    read_last_name,
)

# Select what a model sees of a repository: a map of all files, the most relevant files, and more on request.
#
# Omissions are stated. Files are ranked by the number of imports between them and the command's script.

MAX_MAP_CHARS, MAX_SHOWN_CHARS, MAX_REQUESTED_CHARS = 14_000, 48_000, 24_000
"""Maximum characters of the map, of the files shown without a request, and of one request."""
MAX_FILE_CHARS = 12_000
"""Maximum characters of a file that is shown in full."""
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
    """Format the list of all files, with as many symbols of Python files as fit.

    Tests, documents, examples and scripts that the command does not reach have none.
    """
    detailed = {*list_reached_files(code, argv), *(path for path in code.trees if rank_path(path) < 2)}
    texts, lines, left = code.texts, list[str](), MAX_MAP_CHARS
    whole = [path for path in order if path in code.trees]
    for path in whole:
        symbols = _format_symbols(code.trees[path]) if path in detailed else []
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


def _format_symbols(tree: ast.Module) -> list[str]:
    lines: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, FunctionNode)]
            bases = ", ".join(filter(None, map(read_last_name, node.bases)))
            lines.append(f"  class {node.name}({bases}): {', '.join(methods)}")
        elif isinstance(node, FunctionNode):
            given = ", ".join(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
            lines.append(f"  {node.name}({given})")
    return lines


def _take_fitting(order: Sequence[str], texts: Mapping[str, str], most: int) -> tuple[ShownFile, ...]:
    shown: list[ShownFile] = []
    for path in order:
        if len(texts[path]) <= most and texts[path].strip() and (rank_path(path) < 2 or len(order) < 40):
            shown.append(ShownFile(path=path, text=texts[path]))
            most -= len(texts[path])
    return tuple(shown)


MAX_LISTED = 60
"""Maximum number of options, keys and commands that are listed."""


def list_documents(texts: Mapping[str, str]) -> Iterator[CoderFact]:
    """Yield the README and nearby documents, the first ones of the repository."""
    for path in find_documents(texts)[:2]:
        yield CoderFact(title=path, text=texts[path])


def list_files_fact(code: CodeIndex, command: RepositoryCommand) -> CoderFact:
    """Return the map of a repository: files, what they define, and who calls it."""
    return CoderFact(
        title="Files and what they define", text=format_map(code, command.argv, order_by_distance(code, command.argv))
    )


def list_command_facts(code: CodeIndex, command: RepositoryCommand) -> Iterator[CoderFact]:
    """Yield what the program knows about the commands of a repository."""
    yield from list_documents(code.texts)
    yield list_files_fact(code, command)
    yield CoderFact(title="Options of its parsers", text=_format_list(find_options(code)))
    yield CoderFact(title="Forms of a metric", text=METRIC_FORMS)


def list_method_facts(code: CodeIndex, command: RepositoryCommand) -> Iterator[CoderFact]:
    """Yield what the program knows about the method that a command runs."""
    yield from list_documents(code.texts)
    yield CoderFact(title="The command", text=format_command_line(command.argv))
    yield CoderFact(title="Its metric", text=f"{command.metric} ({command.direction} is better)")
    yield list_files_fact(code, command)
    for title, found in (("options", list_options(command.argv, code)), ("keys", find_keys(command.argv, code))):
        if found:
            yield CoderFact(title=f"Its {title}", text=_format_list(found))


def _format_list(lines: Sequence[object]) -> str:
    """Return the first lines, and how many there are besides; `none` if there are none."""
    more = [f"... and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else []
    return "\n".join([*map(str, lines[:MAX_LISTED]), *more]) or "none"


def list_switches(code: CodeIndex, command: RepositoryCommand) -> tuple[SwitchFact, ...]:
    """Return the options and keys that turn something off and that the command does not set."""
    found = [
        SwitchFact(
            name=one.dest.removeprefix("no_"),
            path=one.path,
            symbol=one.dest,
            way=PartWay(what=" ".join(one.off_args), words=one.off_args),
        )
        for one in list_options(command.argv, code)
        if one.off_args and not any(flag in command.argv for flag in one.flags)
    ]
    keys = find_keys(command.argv, code)
    counts = Counter(key.last for key in keys)
    for key in keys:
        is_set = any(word.startswith(f"{key.name}=") for word in command.argv)
        if key.value is True and not is_set and (way := _build_switch(key, code, command)) is not None:
            name = key.last if counts[key.last] == 1 else key.name
            found.append(SwitchFact(name=name, path=key.path, symbol=key.name, way=way))
    return tuple(found)


def _build_switch(key: ConfigKey, code: CodeIndex, command: RepositoryCommand) -> PartWay | None:
    """Return how a key is set to false: by a word if the command takes overrides, otherwise in its file."""
    what = f"{key.name}=false"
    if any(re.fullmatch(r"[A-Za-z_][\w.]*=.*", word) for word in command.argv) and takes_overrides(command.argv, code):
        return PartWay(what=what, words=(what,))
    text = code.texts[key.path]
    pattern = re.compile(rf'^(\s*"?{re.escape(key.last)}"?\s*:\s*)(true)\b', re.MULTILINE | re.IGNORECASE)
    if len(pattern.findall(text)) != 1:
        return None
    return PartWay(what=what, edits=(build_edit(key.path, text, pattern.sub(r"\1false", text)),))


# --- what a traced run called -----------------------------------------------------------------------------------------


def list_functions(code: CodeIndex, trace: CallTrace) -> tuple[FunctionFact, ...]:
    """Return the functions that ran, in the order of the code."""
    places = {one.key: f"{one.path}:{one.symbol}" for one in code.definitions}
    return tuple(
        _build_function(one, trace, places)
        for one in code.definitions
        if one.key in trace.functions and trace.functions[one.key].recorded_calls
    )


def _build_function(one: FunctionDefinition, trace: CallTrace, places: Mapping[str, str]) -> FunctionFact:
    called = trace.functions[one.key]
    seen = called.recorded_calls
    return FunctionFact(
        path=one.path,
        symbol=one.symbol,
        name=one.name,
        calls=called.calls,
        callers=tuple(dict.fromkeys(places.get(key, key.rpartition(":")[0]) for key in called.callers if key)),
        arguments={
            name: _format_kind(seen[0].argument_kinds[name])
            for name in one.parameters
            if name in seen[0].argument_kinds
        },
        result=_format_kind(seen[0].return_kind),
        alike=tuple(
            name
            for name in one.parameters
            if all(call.argument_kinds.get(name) == call.return_kind and _has_arrays(call.return_kind) for call in seen)
        ),
    )


def _has_arrays(kind: Sequence[Any]) -> bool:
    return kind[0] == "array" or (kind[0] in ("list", "dict") and len(kind) > 2 and any(map(_has_arrays, kind[2])))


def _format_kind(kind: Sequence[Any]) -> str:
    """Format the kind of a value: `array(32, 6)`, `list of 2: array(4)`, or the name of its class."""
    if kind[0] == "array":
        return f"array({', '.join(map(str, kind[1]))})"
    if len(kind) > 2:
        inner = dict.fromkeys(map(_format_kind, kind[2]))
        return f"{kind[0]} of {kind[1]}" + (f": {', '.join(inner)}" if inner else "")
    return str(kind[0])


def find_metric_lines(texts: Mapping[str, str], metric: str) -> list[tuple[str, int, str]]:
    """Return the lines of Python code that may write a metric, as (path, number, line): those with its last key or the
    name of its file as a string; for a printed metric, those with the text before its number. The first of these that
    occurs anywhere decides.
    """
    parsed = parse_metric(metric)
    is_printed = parsed.kind in ("stdout", "output", "text")
    words = [parsed.name.rpartition(".")[2], PurePosixPath(parsed.place).name]
    if is_printed:
        words = [re.split(r"[(\[\\]", parsed.name)[0].strip()]
    return find_lines(texts, words, quoted=not is_printed)


def find_lines(texts: Mapping[str, str], words: Sequence[str], *, quoted: bool) -> list[tuple[str, int, str]]:
    """Return the lines of Python code with the first of these words that occurs, as (path, number, line). `quoted`: at
    the beginning or end of a string."""
    for word in filter(None, words):
        found = [
            (path, number, line.strip())
            for path, text in texts.items()
            if path.endswith(".py")
            for number, line in enumerate(text.splitlines(), 1)
            if word in line and (not quoted or re.search(rf"[\"'/]{re.escape(word)}[\"']", line))
        ]
        if found:
            return found
    return []


def find_metric_places(code: CodeIndex, command: RepositoryCommand) -> tuple[str, ...]:
    """Return the functions of the command's script whose lines may write the metric, as `path:symbol`; if there is
    none, the script's code outside functions.
    """
    script = find_script(command.argv, code.texts)
    if script is None:
        return ()
    found = dict.fromkeys(
        f"{path}:{_find_symbol(code, path, number)}"
        for path, number, _ in find_metric_lines({script: code.texts[script]}, command.metric)
    )
    return tuple(found) or (f"{script}:<module>",)


def _find_symbol(code: CodeIndex, path: str, line: int) -> str:
    """Return the innermost function around a line; `<module>` if there is none."""
    around = [one for one in code.definitions if one.path == path and one.line <= line <= (one.node.end_lineno or line)]
    return max(around, key=lambda one: one.line).symbol if around else "<module>"
