"""Trace a repository's run: it records which functions were called, by which callers and with which kinds of
values, and which lines ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from labwright.record.untrusted_files import BadFile, list_names, open_regular, raise_read_errors_as, write_file
from labwright.sandbox.job import SubmissionRefused
from labwright.sandbox.limited_process import call_limited

HOOK_FOLDER = Path(__file__).with_name("tracing")
"""Folder that a traced run imports from first."""
TRACE_FOLDER = ".scientist-trace"
"""Folder in the checkout for the trace files."""
TRACE_VARIABLES = {"SCIENTIST_TRACE": TRACE_FOLDER}
"""Environment variables that enable tracing."""
NO_TRAINING_VARIABLES = {"SCIENTIST_UNTAUGHT": "1"}
"""Environment variables that turn the steps of PyTorch optimizers into no-ops."""
_MAX_TRACE_BYTES, _MAX_TRACE_FILES = 64 * 2**20, 50
"""Maximum size of all trace files of a run together, and number of files."""


def _check_kind(kind: list[Any]) -> list[Any]:
    """Return the kind of a value as the hook describes it. Raises `ValueError` for anything else."""
    match kind:
        case ["array"]:  # a class of this name
            return ["object"]
        case ["array", [*sizes]] if all(isinstance(size, int) for size in sizes):
            return kind
        case ["list" | "dict" as name, int(count), [*inner]]:
            return [name, count, [_check_kind(one) for one in inner]]
        case [str()]:
            return kind
        case _:
            raise ValueError("not the kind of a value")


_Kind = Annotated[list[Any], AfterValidator(_check_kind)]


class RecordedCall(BaseModel):
    """One call: the kinds of its arguments by name, and the kind of its return value."""

    argument_kinds: dict[str, _Kind]
    return_kind: _Kind
    digests: dict[str, str] = Field(default_factory=dict[str, str])
    """Digests of the array arguments, by name."""


class CalledFunction(BaseModel):
    """A function that was called."""

    path: str
    name: str
    line: int
    calls: int
    callers: dict[str, int]
    """`path:line` of the calling functions in the checkout -> number of recorded calls."""
    recorded_calls: list[RecordedCall]

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}"


class _TraceFile(BaseModel):
    functions: list[CalledFunction]
    lines: dict[str, set[int]]


@dataclass(frozen=True)
class CallTrace:
    """The trace of all processes of a run. It was written by repository code, so it is a hint and not evidence."""

    functions: dict[str, CalledFunction] = field(default_factory=dict[str, CalledFunction])
    """Keyed by `path:line`, the line of the function's first decorator or `def`."""
    lines: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def was_executed(self, path: str, lines: Iterable[int]) -> bool:
        """Return whether any of these lines of a file was executed."""
        return bool(self.lines.get(path, frozenset()) & frozenset(lines))

    def is_scored_on_other_data(self, other: CallTrace) -> bool:
        """Return whether two runs score arrays of the same names but no equal array; False if unknown.

        A scoring function is recognised by its signature: it maps two or more arrays of one shape to a number.
        """
        own, others = self._hash_scored_arrays(), other._hash_scored_arrays()
        common = own.keys() & others.keys()
        return bool(common) and not any(own[name] & others[name] for name in common)

    def _hash_scored_arrays(self) -> dict[str, frozenset[str]]:
        """Return hashes of the arrays that functions score in their first calls, by path and name."""
        found: dict[str, frozenset[str]] = {}
        for function in self.functions.values():
            for call in function.recorded_calls[:1]:
                shapes = [tuple(kind[1]) for kind in call.argument_kinds.values() if kind[0] == "array"]
                if call.return_kind == ["number"] and len(shapes) > len(set(shapes)):
                    found[f"{function.path}:{function.name}"] = frozenset(call.digests.values())
        return found


def add_hook(env: Mapping[str, str]) -> dict[str, str]:
    """Put the hook first on PYTHONPATH if the variables require it; `HOOK_FOLDER` must be readable."""
    if not (TRACE_VARIABLES | NO_TRAINING_VARIABLES).keys() & env.keys():
        return dict(env)
    return {**env, "PYTHONPATH": ":".join(filter(None, (str(HOOK_FOLDER), env.get("PYTHONPATH", ""))))}


def copy_trace(checkout: Path, folder: Path) -> None:
    """Copy the trace files of a run from its checkout to a folder; regular files only."""
    for name, content in _iterate_files(checkout):
        with suppress(BadFile, OSError):
            write_file(folder, f"{TRACE_FOLDER}/{name}", content)


def read_trace(checkout: Path) -> CallTrace:
    """Read the trace of a run from its checkout; empty if there is no readable trace."""
    with suppress(SubmissionRefused):
        return call_limited(_parse_files, checkout, subject="the trace")
    return CallTrace()


def _iterate_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the readable trace files, up to `_MAX_TRACE_BYTES` in total."""
    names, left = list[str](), _MAX_TRACE_BYTES
    with suppress(BadFile):
        names = [name for name in list_names(folder, TRACE_FOLDER, ".json") if name.startswith("trace-")]
    for name in names[:_MAX_TRACE_FILES]:
        with suppress(BadFile, OSError), open_regular(folder, f"{TRACE_FOLDER}/{name}", left) as file:
            content = file.read(left)
            left -= len(content)
            yield name, content


def _parse_files(folder: Path) -> CallTrace:
    functions: dict[str, CalledFunction] = {}
    lines: dict[str, set[int]] = {}
    for name, content in _iterate_files(folder):
        with suppress(BadFile), raise_read_errors_as(name):
            trace = _TraceFile.model_validate_json(content)
            functions = {one.key: one for one in trace.functions} | functions
            for file_name, numbers in trace.lines.items():
                lines.setdefault(file_name, set()).update(numbers)
    return CallTrace(functions, {name: frozenset(numbers) for name, numbers in lines.items()})
