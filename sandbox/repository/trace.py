"""Trace a repository's run: it records which functions were called, by which callers and with which kinds of
values, and which lines ran.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labwright.record.untrusted_files import BadFile, list_names, open_regular, write_file

HOOK_FOLDER = Path(__file__).with_name("tracing")
"""Folder that a traced run imports from first."""
TRACE_FOLDER = ".scientist-trace"
"""Folder in the checkout for the trace files."""
NO_TRAINING_VARIABLE = "SCIENTIST_UNTAUGHT"
_MAX_TRACE_BYTES = 64 * 2**20
_MAX_TRACE_FILES = 50


@dataclass(frozen=True)
class RecordedCall:
    """One call: the kinds of its arguments by name, and the kind of its return value."""

    argument_kinds: dict[str, Any]
    return_kind: Any
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the array arguments, by name."""
    whole_numbers: frozenset[str] = frozenset()
    """Arguments that are integers, and `return` if the return value is one."""


@dataclass(frozen=True)
class CalledFunction:
    """A function that was called."""

    path: str
    name: str
    line: int
    calls: int
    callers: tuple[str, ...]
    """`path:line` of the calling functions in the checkout."""
    recorded_calls: tuple[RecordedCall, ...]

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class CallTrace:
    """The trace of all processes of a run. It was written by repository code, so it is a hint and not evidence."""

    functions: dict[str, CalledFunction] = field(default_factory=dict[str, CalledFunction])
    """Keyed by `path:line`, the line of the function's first decorator or `def`."""
    lines: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def was_executed(self, path: str, lines: Iterable[int]) -> bool:
        """Return whether any of these lines of a file was executed."""
        return bool(self.lines.get(path, frozenset()) & frozenset(lines))

    def find_callees(self, key: str) -> frozenset[str]:
        """Return the functions that a function called, directly or indirectly."""
        found: set[str] = set()
        waiting = {key}
        while waiting:
            caller = waiting.pop()
            callees = {function.key for function in self.functions.values() if caller in function.callers}
            waiting |= callees - found - {key}
            found |= callees
        return frozenset(found)

    def is_scored_on_other_data(self, other: CallTrace) -> bool:
        """Return whether two runs score arrays of the same names but no equal array; False if unknown.

        A scoring function is recognised by its signature: it maps two or more arrays of one shape to a number.
        """
        known = self._hash_scored_arrays(), other._hash_scored_arrays()
        return bool(known[0].keys() & known[1].keys()) and not any(
            known[0][name] & known[1][name] for name in known[0].keys() & known[1].keys()
        )

    def _hash_scored_arrays(self) -> dict[str, frozenset[str]]:
        """Return hashes of the arrays that functions score in their first calls, by path and name."""
        found: dict[str, frozenset[str]] = {}
        for function in self.functions.values():
            for call in function.recorded_calls[:1]:
                shapes = [tuple(kind[1]) for kind in call.argument_kinds.values() if kind[0] == "array"]
                if call.return_kind == ["number"] and len(shapes) > len(set(shapes)):
                    found[f"{function.path}:{function.name}"] = frozenset(call.digests.values())
        return found


def build_trace_variables() -> dict[str, str]:
    """Return the environment variables that enable tracing."""
    return {"SCIENTIST_TRACE": TRACE_FOLDER}


def add_hook(env: Mapping[str, str]) -> dict[str, str]:
    """Put the hook first on PYTHONPATH if the variables require it; `HOOK_FOLDER` must be readable."""
    if not {NO_TRAINING_VARIABLE, *build_trace_variables()} & env.keys():
        return dict(env)
    return {**env, "PYTHONPATH": ":".join(filter(None, (str(HOOK_FOLDER), env.get("PYTHONPATH", ""))))}


def build_no_training_variables() -> dict[str, str]:
    """Return the environment variables that turn the steps of PyTorch optimizers into no-ops."""
    return {NO_TRAINING_VARIABLE: "1"}


def copy_trace(checkout: Path, folder: Path) -> None:
    """Copy the trace files of a run from its checkout to a folder; regular files only."""
    with suppress(BadFile):
        for name in list_names(checkout, TRACE_FOLDER, ".json")[:_MAX_TRACE_FILES]:
            with suppress(BadFile, OSError), open_regular(checkout, f"{TRACE_FOLDER}/{name}", _MAX_TRACE_BYTES) as file:
                write_file(folder, f"{TRACE_FOLDER}/{name}", file.read())


def read_trace(checkout: Path) -> CallTrace:
    """Read the trace of a run from its checkout; empty if there is no readable trace."""
    functions: dict[str, CalledFunction] = {}
    lines: dict[str, set[int]] = {}
    names = list[str]()
    with suppress(BadFile):
        names = [name for name in list_names(checkout, TRACE_FOLDER, ".json") if name.startswith("trace-")]
    for name in names[:_MAX_TRACE_FILES]:
        with (
            suppress(BadFile, OSError, ValueError, KeyError, TypeError, AttributeError),
            open_regular(checkout, f"{TRACE_FOLDER}/{name}", _MAX_TRACE_BYTES) as file,
        ):
            trace = json.load(file)
            for entry in trace["functions"]:
                called = CalledFunction(
                    str(entry["path"]),
                    str(entry["name"]),
                    int(entry["line"]),
                    int(entry["calls"]),
                    tuple(map(str, entry["callers"])),
                    tuple(
                        RecordedCall(
                            dict(call["in"]),
                            call["out"],
                            dict(call.get("digests", {})),
                            frozenset(call.get("whole", ())),
                        )
                        for call in entry["seen"]
                    ),
                )
                functions.setdefault(called.key, called)
            for file_name, numbers in trace["lines"].items():
                lines.setdefault(str(file_name), set()).update(map(int, numbers))
    return CallTrace(functions, {name: frozenset(numbers) for name, numbers in lines.items()})
