"""What a traced run says of a repository's code: what was called, by what, on what kinds of values; which lines ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labwright.sandbox.safe_io import BadFile, list_names, open_regular, write_file

HOOK_FOLDER = Path(__file__).with_name("tracing")
"""The folder that a traced run imports from first."""
TRACE_FOLDER = ".scientist-trace"
"""Where in its checkout it leaves what it saw."""
NO_TRAINING_VARIABLE = "SCIENTIST_UNTAUGHT"
_MAX_TRACE_BYTES = 64 * 2**20
_MAX_TRACE_FILES = 50


@dataclass(frozen=True)
class RecordedCall:
    """One call: the kinds of its arguments by name, and of what came back."""

    argument_kinds: dict[str, Any]
    return_kind: Any
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Of the arrays among its arguments, by their names."""
    whole_numbers: frozenset[str] = frozenset()
    """Arguments that are whole numbers, and `return` where what came back is one."""


@dataclass(frozen=True)
class CalledFunction:
    """A function that ran."""

    path: str
    name: str
    line: int
    calls: int
    callers: tuple[str, ...]
    """`path:line` of the functions of the checkout that called it."""
    recorded_calls: tuple[RecordedCall, ...]

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class CallTrace:
    """Of all processes of a run together. Code wrote it: it is a hint, and no fact."""

    functions: dict[str, CalledFunction] = field(default_factory=dict[str, CalledFunction])
    """By `path:line`, the line being that of the function's first line or decorator."""
    lines: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def was_executed(self, path: str, lines: Iterable[int]) -> bool:
        """Whether any of these lines of a file was executed."""
        return bool(self.lines.get(path, frozenset()) & frozenset(lines))

    def find_callees(self, key: str) -> frozenset[str]:
        """The functions that one called, themselves or by others."""
        found: set[str] = set()
        waiting = {key}
        while waiting:
            now = waiting.pop()
            waiting |= {one.key for one in self.functions.values() if now in one.callers} - found - {key}
            found |= {one.key for one in self.functions.values() if now in one.callers}
        return frozenset(found)

    def is_scored_on_other_data(self, other: CallTrace) -> bool:
        """Whether no array that is scored in this run is scored in another; False where nobody knows.

        What scores is known by its form: of two arrays of one shape at least it makes a number.
        """
        known = self._hash_scored_arrays(), other._hash_scored_arrays()
        return bool(known[0].keys() & known[1].keys()) and not any(
            known[0][name] & known[1][name] for name in known[0].keys() & known[1].keys()
        )

    def _hash_scored_arrays(self) -> dict[str, frozenset[str]]:
        """Hashes of the arrays that functions score in their first calls, by path and name."""
        found: dict[str, frozenset[str]] = {}
        for one in self.functions.values():
            for seen in one.recorded_calls[:1]:
                shapes = [tuple(kind[1]) for kind in seen.argument_kinds.values() if kind[0] == "array"]
                if seen.return_kind == ["number"] and len(shapes) > len(set(shapes)):
                    found[f"{one.path}:{one.name}"] = frozenset(seen.digests.values())
        return found


def build_trace_variables() -> dict[str, str]:
    """What a run needs to be traced."""
    return {"SCIENTIST_TRACE": TRACE_FOLDER}


def add_hook(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of a run with the hook before what it imports anyway, where it needs it; `HOOK` must be
    readable.
    """
    if not {NO_TRAINING_VARIABLE, *build_trace_variables()} & env.keys():
        return dict(env)
    return {**env, "PYTHONPATH": ":".join(filter(None, (str(HOOK_FOLDER), env.get("PYTHONPATH", ""))))}


def build_no_training_variables() -> dict[str, str]:
    """What a run needs in which no optimizer of PyTorch takes a step."""
    return {NO_TRAINING_VARIABLE: "1"}


def copy_trace(checkout: Path, folder: Path) -> None:
    """Copy what a traced run left in its checkout into a folder of ours: plain files alone."""
    with suppress(BadFile):
        for name in list_names(checkout, TRACE_FOLDER, ".json")[:_MAX_TRACE_FILES]:
            with suppress(BadFile, OSError), open_regular(checkout, f"{TRACE_FOLDER}/{name}", _MAX_TRACE_BYTES) as file:
                write_file(folder, f"{TRACE_FOLDER}/{name}", file.read())


def read_trace(checkout: Path) -> CallTrace:
    """What a traced run left in its checkout; empty where it left nothing that can be read."""
    functions: dict[str, CalledFunction] = {}
    lines: dict[str, set[int]] = {}
    for path in sorted((checkout / TRACE_FOLDER).glob("trace-*.json"))[:_MAX_TRACE_FILES]:
        with (
            suppress(BadFile, OSError, ValueError, KeyError, TypeError, AttributeError),
            open_regular(checkout, str(path.relative_to(checkout)), _MAX_TRACE_BYTES) as file,
        ):
            told = json.load(file)
            for one in told["functions"]:
                called = CalledFunction(
                    str(one["path"]),
                    str(one["name"]),
                    int(one["line"]),
                    int(one["calls"]),
                    tuple(map(str, one["callers"])),
                    tuple(
                        RecordedCall(
                            dict(seen["in"]),
                            seen["out"],
                            dict(seen.get("digests", {})),
                            frozenset(seen.get("whole", ())),
                        )
                        for seen in one["seen"]
                    ),
                )
                functions.setdefault(called.key, called)
            for name, numbers in told["lines"].items():
                lines.setdefault(str(name), set()).update(map(int, numbers))
    return CallTrace(functions, {name: frozenset(numbers) for name, numbers in lines.items()})
