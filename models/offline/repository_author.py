"""The offline model as the author of a repository's parts: a plain reading of what ran, without names.

It reads the files of functions that ran, by the tool `read`, and hands in as parts

- what a switch turns off: options and keys of the configuration;
- functions whose result has the shape of an argument: they return the argument, or zeros if their result is added;
- functions that one caller calls with arguments of the same kinds, such as blocks whose columns are joined: zeros.

Functions that are given no array and return one make the data. A function that replaces its own argument in a loop
(`w = step(w, grad)`) is a training step. What is refused is left out, and the rest is handed in again. Limits: terms of
a loss, schedules, numbers whose zero turns something off, skip connections and layers of libraries are not found; a
language model finds them. Its other tasks need a language model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labwright.models.conversation import Conversation, ToolCall, ToolExchange
from labwright.models.errors import CatalogueError
from labwright.models.roles.experiment_code import CoderInputs
from labwright.models.roles.repository import FunctionFact, PartsInputs, ProposedParts
from labwright.record.events.run_events import HAND_IN
from labwright.record.python_syntax import FunctionNode, parse_plain, read_last_name
from labwright.record.schema.repository import PartWay, ProposedPart, build_edit

_KEPT_CALLS = 6
"""Calls that are not used to read files: hand-ins, the last of which may be refused."""
_MAX_PARTS, _MAX_IDENTITIES, _MAX_PLACES = 40, 2, 20
_FOUND = (
    "without a language model: switches, functions whose result has the shape of an argument, and alternatives of "
    "one caller. Terms of a loss, schedules, strengths and layers of libraries are missing."
)
_FOUND_NOTHING = (
    "the offline model found no part: no switch, no function whose result has the shape of an argument, and no "
    "alternatives of one caller; a language model (--model) also finds other parts"
)
_HEAD = re.compile(r".*, lines (\d+) to (\d+) of (\d+):\n")
"""The first line of what `read` returns."""


def answer_coder(inputs: CoderInputs, conversation: Conversation) -> ToolCall:
    """Return the next call of a tool. Raises `CatalogueError` for a task other than the parts."""
    if not isinstance(inputs, PartsInputs):
        raise CatalogueError("the offline model repairs no command and writes no code: name a model with --model")
    exchanges = conversation.exchanges
    handed_in = [one for one in exchanges if one.call.tool == HAND_IN]
    if handed_in:
        return ToolCall(tool=HAND_IN, arguments=_leave_out_refused(handed_in[-1]))
    texts = _Texts(exchanges)
    offered = any(one.name == "read" for one in conversation.tools) and len(exchanges) < inputs.steps - _KEPT_CALLS
    candidates = [one for one in inputs.functions if _is_candidate(one, inputs.functions)]
    wanted = dict.fromkeys(path for one in candidates for path in (one.path, *map(_get_path, one.callers)))
    if offered and (call := next(filter(None, map(texts.read_on, wanted)), None)) is not None:
        return call
    made = _PartReader(inputs.functions, texts.whole).propose(inputs, candidates)
    return ToolCall(tool=HAND_IN, arguments=made.model_dump(mode="json"))


class _Texts:
    """The files that were read so far."""

    def __init__(self, exchanges: Sequence[ToolExchange]) -> None:
        self._lines: dict[str, list[str]] = {}
        self._ended = set[str]()
        for one in exchanges:
            path = str(one.call.arguments.get("path"))
            head = _HEAD.match(one.result)
            if head is None:  # it is no text file
                self._ended.add(path)
                continue
            first, last, count = map(int, head.groups())
            lines = one.result[head.end() :].splitlines(keepends=True)[: last - first + 1]
            self._lines[path] = self._lines.get(path, []) + lines
            if last >= count or not lines:
                self._ended.add(path)

    def read_on(self, path: str) -> ToolCall | None:
        """Return the call that reads what is left of a file; None if nothing is."""
        if path in self._ended or not path.endswith(".py"):
            return None
        first = len(self._lines.get(path, ())) + 1
        return ToolCall(tool="read", arguments={"path": path, "first": first}, note=f"What does {path} do?")

    @property
    def whole(self) -> dict[str, str]:
        """The text of each file that was read to its end and is Python."""
        found: dict[str, str] = {}
        for path, lines in self._lines.items():
            text = "".join(lines)
            try:
                parse_plain(text)
            except SyntaxError:
                continue
            if path in self._ended:
                found[path] = text
        return found


def _is_candidate(one: FunctionFact, functions: Sequence[FunctionFact]) -> bool:
    """Return whether a function passes values on: it is given arrays and returns some."""
    return _has_arrays(one.result) and not _makes_data(one) and (bool(one.alike) or _has_alternatives(one, functions))


def _has_alternatives(one: FunctionFact, functions: Sequence[FunctionFact]) -> bool:
    """Return whether another function has the same caller, kinds of arguments and kind of result."""
    return any(
        other.place != one.place
        and set(other.callers) & set(one.callers)
        and [*other.arguments.values()] == [*one.arguments.values()]
        and _read_kind(other.result) == _read_kind(one.result)
        for other in functions
    )


def _makes_data(one: FunctionFact) -> bool:
    return _has_arrays(one.result) and not any(map(_has_arrays, one.arguments.values()))


def _has_arrays(kind: str) -> bool:
    return "array(" in kind


def _read_kind(kind: str) -> str:
    """Return the kind of a value without the lengths of lists."""
    return re.sub(r"\bof \d+", "of", kind)


def _get_path(place: str) -> str:
    return place.partition(":")[0]


class _PartReader:
    """Reads parts from the text of files."""

    def __init__(self, functions: Sequence[FunctionFact], texts: Mapping[str, str]) -> None:
        self._functions, self._texts = functions, texts
        self._nodes = [node for text in texts.values() for node in ast.walk(parse_plain(text))]
        self._classes = {
            node.targets[0].attr: read_last_name(node.value.func)
            for node in self._nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and isinstance(node.value, ast.Call)
        }
        """Attribute -> the name of the class of its value."""
        self._updates, self._added = set(self._list_updates()), set(self._list_added())

    def propose(self, inputs: PartsInputs, candidates: Sequence[FunctionFact]) -> ProposedParts:
        switches = {one.name[:60]: one for one in inputs.switches}
        parts = {
            name: ProposedPart(name=name, path=one.path, symbol=one.symbol, why="it is on", prior=0.5, ways=(one.way,))
            for name, one in switches.items()
        }
        used = [one for one in candidates if not self._is_update(one)]
        for one in used:
            switch = switches.pop(one.name[:60], None)
            name = one.place[-60:] if switch is None and one.name[:60] in parts else one.name[:60]
            if ways := (*([switch.way] if switch is not None else []), *self._build_ways(one))[:3]:
                why = "it returns arrays computed from its arguments"
                parts[name] = ProposedPart(name=name, path=one.path, symbol=one.symbol, why=why, prior=0.5, ways=ways)
        sources = tuple(one.place for one in self._functions if _makes_data(one))[:_MAX_PLACES]
        files = (f"{one.path}:<module>" for one in (*self._functions, *inputs.switches))
        metric = inputs.metric_places or (next(files, "<module>"),)
        return ProposedParts(
            reasons=_FOUND if parts else _FOUND_NOTHING,
            parts=tuple(parts.values())[:_MAX_PARTS],
            whole=self._find_whole(used),
            data=sources or metric,
            targets=sources or metric,
            metric=metric,
        )

    def _build_ways(self, one: FunctionFact) -> Iterator[PartWay]:
        text = self._texts.get(one.path, "")
        function = find_function(text, one.symbol)
        if function is None:
            return
        zeros = list(self._build_zeros(one, text, function))
        yield from zeros if one.name in self._added else ()
        for name in one.alike[:_MAX_IDENTITIES]:
            edit = build_edit(one.path, text, return_argument(text, function, name))
            yield PartWay(what=f"returns its argument {name} unchanged", edits=(edit,))
        yield from zeros if one.name not in self._added else ()

    def _build_zeros(self, one: FunctionFact, text: str, function: FunctionNode) -> Iterator[PartWay]:
        after = return_zeros(text, function)
        if after is not None:
            yield PartWay(what=f"{one.symbol} returns zeros"[:200], edits=(build_edit(one.path, text, after),))

    def _find_whole(self, parts: Sequence[FunctionFact]) -> PartWay | None:
        """Return zeros of the function through which most parts pass, otherwise a training step that changes
        nothing."""
        places = {one.place for one in parts}
        ranked = [
            (len(below & places), -len(below), one)
            for one in self._functions
            if one.place not in places and _has_arrays(one.result) and not _makes_data(one) and not self._is_update(one)
            for below in [self._list_below(one)]
        ]
        order = [one for count, _, one in sorted(ranked, key=lambda each: each[:2], reverse=True) if count]
        for one in order:
            if (function := find_function(text := self._texts.get(one.path, ""), one.symbol)) is not None:
                return next(self._build_zeros(one, text, function), None)
        for one in filter(self._is_update, self._functions):
            if (function := find_function(text := self._texts.get(one.path, ""), one.symbol)) is not None:
                edit = build_edit(one.path, text, return_argument(text, function, one.alike[0]))
                return PartWay(what=f"{one.symbol} changes nothing"[:200], edits=(edit,))
        return None

    def _list_below(self, one: FunctionFact) -> set[str]:
        """Return the places that a function called, directly or indirectly."""
        found, waiting = set[str](), {one.place}
        while waiting:
            place = waiting.pop()
            callees = {other.place for other in self._functions if place in other.callers} - found
            found |= callees
            waiting |= callees
        return found

    def _is_update(self, one: FunctionFact) -> bool:
        """Return whether a function replaces one of two arguments of the same shape in a loop."""
        return len(one.alike) > 1 and one.symbol.rpartition(".")[2] in self._updates

    def _list_updates(self) -> Iterator[str]:
        """Yield the names of functions that are called as `x = f(x, ...)` in a loop."""
        for loop in self._nodes:
            for node in ast.walk(loop) if isinstance(loop, ast.For | ast.While) else ():
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    targets = {one.id for one in node.targets if isinstance(one, ast.Name)}
                    if targets & {one.id for one in node.value.args if isinstance(one, ast.Name)}:
                        yield read_last_name(node.value.func)

    def _list_added(self) -> Iterator[str]:
        """Yield the names of functions and classes whose result is a term of a sum."""
        for node in self._nodes:
            terms = (node.left, node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ()
            for term in terms:
                if isinstance(term, ast.Call):
                    name = read_last_name(term.func)
                    yield from (name, self._classes.get(name, ""))


def _leave_out_refused(refused: ToolExchange) -> dict[str, Any]:
    """Return what was handed in without the ways of which the refusal complains; without any part if it names none."""
    ways = {(name, int(number)) for name, number in re.findall(r"^(.+), way (\d+): ", refused.result, re.MULTILINE)}
    before, parts = refused.call.arguments, list[dict[str, Any]]()
    if re.search("^whole: ", refused.result, re.MULTILINE):
        return {**before, "whole": None}
    for part in before["parts"] if ways else ():
        kept = [way for number, way in enumerate(part["ways"], 1) if (part["name"], number) not in ways]
        if kept:
            parts.append({**part, "ways": kept})
    return {**before, "parts": parts, "reasons": before["reasons"] if parts else _FOUND_NOTHING}


# Minimal changes of a Python function: it returns zeros of the same shape, or one of its arguments.

HELPER_NAME = "_taken_out"
_HELPER_SOURCE = f"""def {HELPER_NAME}(value):
    if isinstance(value, (list, tuple)):
        kept = [{HELPER_NAME}(one) for one in value]
        return type(value)(*kept) if hasattr(value, "_fields") else type(value)(kept)
    if isinstance(value, dict):
        return {{key: {HELPER_NAME}(one) for key, one in value.items()}}
    return value * 0 if hasattr(value, "__mul__") and not isinstance(value, (str, bool)) else value


"""


def find_function(text: str, symbol: str) -> FunctionNode | None:
    """Return a top-level function (`name`) or a method (`Class.name`) of a file; None if there is none."""
    owner, _, name = symbol.rpartition(".")
    body = parse_plain(text).body
    if owner:
        body = next((one.body for one in body if isinstance(one, ast.ClassDef) and one.name == owner), list[ast.stmt]())
    return next((one for one in body if isinstance(one, FunctionNode) and one.name == name), None)


def return_zeros(text: str, function: FunctionNode) -> str | None:
    """Return the file with everything that a function returns replaced by zeros of the same shape; None if it returns
    nothing, or yields.
    """
    own = list(_walk_own(function))
    given = [one for one in own if isinstance(one, ast.Return) and one.value is not None]
    if not given or any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own):
        return None
    tree = parse_plain(text)
    holder = next(one for one in tree.body if one.lineno <= function.lineno <= (one.end_lineno or one.lineno))
    decorators: list[ast.expr] = getattr(holder, "decorator_list", [])
    top = min((holder.lineno, *(one.lineno for one in decorators))) - 1
    for one in sorted(given, key=lambda one: -one.lineno):
        assert one.value is not None
        source = ast.get_source_segment(text, one.value)
        if source is None:
            return None
        bare = "\n" in source or isinstance(one.value, ast.Tuple)
        text = _replace_node(text, one.value, f"{HELPER_NAME}(({source}))" if bare else f"{HELPER_NAME}({source})")
    lines = text.splitlines(keepends=True)
    return "".join((*lines[:top], _HELPER_SOURCE, *lines[top:]))


def return_argument(text: str, function: FunctionNode, parameter: str) -> str:
    """Return the file in which a function returns one of its arguments unchanged."""
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    if first.lineno == function.lineno:  # the whole function is on one line
        return _replace_node(text, first, f"return {parameter}")
    lines = text.splitlines(keepends=True)
    at = min((first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ())))) - 1
    return "".join((*lines[:at], " " * first.col_offset + f"return {parameter}\n", *lines[at:]))


def _walk_own(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of a body, without the contents of nested functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _replace_node(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    """Return the text with a node's source replaced."""
    lines = text.splitlines(keepends=True)
    begins, ends = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head = lines[begins].encode()[: node.col_offset].decode()
    tail = lines[ends].encode()[node.end_col_offset or 0 :].decode()
    return "".join((*lines[:begins], head, new, tail, *lines[ends + 1 :]))
